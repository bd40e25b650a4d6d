#!/usr/bin/env python3
"""Relative links of all *.md files lead to a file, and their #anchors to a heading. Exit code 1
and one line per dead link. Also proves that it finds one."""
import re
import sys

import tree

LINK = re.compile(r"\[[^\]\[]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*$", re.MULTILINE)


def anchors(text):
    """As GitHub makes them: lower case, punctuation dropped, blanks become dashes."""
    titles = (re.sub(r"[^\w\- ]", "", t.lower()) for t in HEADING.findall(FENCE.sub("", text)))
    return {t.replace(" ", "-") for t in titles}


def dead(path, text, read):
    """Links of one page that lead nowhere; read(path) gives the text of another, or None."""
    for target in LINK.findall(FENCE.sub("", text)):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        other = (path.parent / name) if name else path
        content = text if not name else read(other)
        if content is None:
            yield f"{path}: ({target}) leads to no file"
        elif anchor and anchor not in anchors(content):
            yield f"{path}: ({target}) leads to no heading"


def read_tree(path):
    full = tree.ROOT / path
    if full.is_dir():
        return ""
    return full.read_text(encoding="utf-8", errors="replace") if full.is_file() else None


def main():
    page = "# A b\n[1](#a-b) [2](#no) [3](x.md) [4](y.md#c) [5](https://e.org/#z)\n```\n[6](none)\n```\n"
    here = tree.pathlib.Path("p.md")
    found = list(dead(here, page, lambda p: "# D\n" if p.name == "y.md" else None))
    if len(found) != 3:
        sys.exit(f"the test itself is broken: {found}")
    pages = tree.files(".md")
    wrong = [line for p in pages for line in dead(p, read_tree(p), read_tree)]
    print("\n".join(wrong + [f"{len(pages)} pages, {len(wrong)} dead links"]))
    sys.exit(1 if wrong or not pages else 0)


if __name__ == "__main__":
    main()
