#!/usr/bin/env python3
"""Compares the identifiers of doc/spec with their citations in code and tests.

A statement is defined by a line of doc/spec/*.md that begins with **[MR-c.s.n]**, optionally
followed by *(scheduled)*. It is cited by MR-c.s.n anywhere in lib/, drivers/ and app/ (code) and
in test/ (tests). MR-c.s points to a section and covers no statement.

Errors: a citation of a statement or section that does not exist (in code, tests or the
specification itself), a statement defined twice, one in the wrong chapter, one without
exactly one key word (MUST, SHOULD, MAY), a key word outside a statement. Not errors, but listed: statements that
no code or no test cites, and scheduled ones that are cited already.

Exit code: 0; with --strict-known 1 when there is an error; 2 for wrong usage.
"""

import argparse
import json
import pathlib
import re
import sys

DEFINITION = re.compile(r"^\*\*\[(MR-(\d+)\.(\d+)\.\d+)\]\*\*(\s+\*\(scheduled\)\*)?")
CITATION = re.compile(r"\bMR-\d+(?:\.\d+)+")
SECTION = re.compile(r"^#{1,2} (\d+(?:\.\d+)?) ")
KEY_WORD = re.compile(r"\b(?:MUST|SHOULD|SHALL|MAY|REQUIRED|RECOMMENDED|OPTIONAL)\b")
CODE_DIRS = ("lib", "drivers", "app")
TEST_DIRS = ("test",)
SUFFIXES = {".h", ".c", ".cpp", ".py", ".sh", ".lua", ".yaml", ".build", ".md", ".in"}
# The test of this script writes wrong citations on purpose.
SKIP = {"spec_coverage_test.py"}


def natural(identifier):
    return [int(n) for n in re.findall(r"\d+", identifier)]


class Spec:
    """Statements and sections of doc/spec, with what is wrong in them."""

    def __init__(self, root):
        self.root = root
        self.scheduled = {}  # identifier -> bool, in order of definition
        self.where = {}
        self.sections = set()
        self.errors = []
        self.references = []  # (identifier, place)
        files = sorted((root / "doc" / "spec").glob("*.md"))
        if not files:
            self.errors.append(f"{root / 'doc' / 'spec'}: no specification found")
        for path in files:
            self._read(path)

    def _read(self, path):
        chapter = re.match(r"(\d+)-", path.name)
        chapter = int(chapter.group(1)) if chapter else None
        text = path.read_text(encoding="utf-8")
        line_no = 1
        # A statement ends with its paragraph.
        for paragraph in re.split(r"(\n\s*\n)", text):
            place = f"{path.relative_to(self.root)}:{line_no}"
            self._paragraph(paragraph, chapter, place)
            line_no += paragraph.count("\n")

    def _paragraph(self, text, chapter, place):
        section = SECTION.match(text)
        if section:
            self.sections.add("MR-" + section.group(1))
        definition = DEFINITION.match(text)
        if definition:
            self._define(definition, text, chapter, place)
        elif chapter is not None and chapter != 1 and KEY_WORD.search(text):
            word = KEY_WORD.search(text).group(0)
            self.errors.append(f"{place}: {word} outside a statement: "
                               "give it an identifier or lower case")
        own = definition.group(1) if definition else None
        for cited in CITATION.findall(text):
            if cited != own:
                self.references.append((cited, place))

    def _define(self, m, text, chapter, place):
        name = m.group(1)
        if name in self.where:
            self.errors.append(f"{place}: {name} is defined twice, first in {self.where[name]}")
            return
        self.where[name] = place
        self.scheduled[name] = m.group(4) is not None
        if int(m.group(2)) != chapter:
            self.errors.append(f"{place}: {name} stands in chapter {chapter}")
        words = len(KEY_WORD.findall(text))
        if words != 1:
            self.errors.append(f"{place}: {name} has {words} key words (MUST, SHOULD, MAY), not one")

    def known(self, cited):
        return cited in self.where or cited in self.sections


def citations(root, dirs):
    """(identifier, place) for every citation below the given folders."""
    found = []
    for d in dirs:
        for path in sorted((root / d).rglob("*")):
            if path.suffix not in SUFFIXES or path.name in SKIP or not path.is_file():
                continue
            text = path.read_text(encoding="utf-8", errors="replace")
            for no, line in enumerate(text.splitlines(), 1):
                found += [(c, f"{path.relative_to(root)}:{no}") for c in CITATION.findall(line)]
    return found


def examine(root):
    spec = Spec(root)
    code, tests = citations(root, CODE_DIRS), citations(root, TEST_DIRS)
    errors = list(spec.errors)
    for cited, place in spec.references + code + tests:
        if not spec.known(cited):
            errors.append(f"{place}: {cited} does not exist in doc/spec")
    in_code, in_tests = {c for c, _ in code}, {c for c, _ in tests}
    due = [i for i, scheduled in spec.scheduled.items() if not scheduled]
    return {
        "statements": len(spec.scheduled),
        "scheduled": len(spec.scheduled) - len(due),
        "cited_in_code": sum(i in in_code for i in due),
        "cited_in_tests": sum(i in in_tests for i in due),
        "not_in_code": sorted((i for i in due if i not in in_code), key=natural),
        "not_in_tests": sorted((i for i in due if i not in in_tests), key=natural),
        "scheduled_but_cited": sorted(
            (i for i, s in spec.scheduled.items() if s and i in in_code | in_tests), key=natural),
        "errors": errors,
    }


def print_text(r):
    due = r["statements"] - r["scheduled"]
    print(f"{r['statements']} statements, {r['scheduled']} of them scheduled for later; of the other "
          f"{due}: {r['cited_in_code']} cited in code, {r['cited_in_tests']} in tests")
    for key, title in (("not_in_code", "not cited in lib/, drivers/, app/"),
                       ("not_in_tests", "not cited in test/"),
                       ("scheduled_but_cited", "scheduled, but cited: remove the mark?")):
        if r[key]:
            print(f"\n{title} ({len(r[key])}):")
            for at in range(0, len(r[key]), 8):
                print("  " + " ".join(r[key][at:at + 8]))
    if r["errors"]:
        print(f"\nerrors ({len(r['errors'])}):")
        for e in r["errors"]:
            print("  " + e)


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    here = pathlib.Path(__file__).resolve().parent.parent
    p.add_argument("--root", type=pathlib.Path, default=here,
                   help="top of the source tree (default: the one of this script)")
    p.add_argument("--strict-known", action="store_true", help="exit 1 when there is an error")
    p.add_argument("--json", action="store_true", help="print one JSON document")
    args = p.parse_args()
    if not args.root.is_dir():
        p.error(f"{args.root} is not a directory")
    result = examine(args.root)
    if args.json:
        print(json.dumps(result, indent=2))
    else:
        print_text(result)
    return 1 if args.strict_known and result["errors"] else 0


if __name__ == "__main__":
    sys.exit(main())
