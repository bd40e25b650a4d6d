#!/usr/bin/env python3
"""scripts/spec-coverage.py: the tree is clean, and each kind of error is found."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SCRIPT = ROOT / "scripts" / "spec-coverage.py"

GOOD = """# 2 Numbers

## 2.1 One

**[MR-2.1.1]** A sender MUST count.

**[MR-2.1.2]** *(scheduled)* A sender SHOULD count
well, see MR-2.1.1.

Explanation.
"""


def run(root, *options):
    r = subprocess.run([sys.executable, SCRIPT, "--root", root, "--strict-known", "--json", *options],
                       capture_output=True, text=True, timeout=60, check=False)
    return r.returncode, json.loads(r.stdout) if r.stdout else None, r.stderr


class TemporaryTree(unittest.TestCase):
    def setUp(self):
        self.tmp = tempfile.TemporaryDirectory()
        self.addCleanup(self.tmp.cleanup)
        self.root = pathlib.Path(self.tmp.name)
        self.write("doc/spec/02-numbers.md", GOOD)

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def expect_error(self, *parts):
        code, result, _ = run(self.root)
        self.assertEqual(code, 1)
        self.assertEqual(len(result["errors"]), 1, result["errors"])
        for part in parts:
            self.assertIn(part, result["errors"][0])

    def test_clean__counts_code_and_tests_apart(self):
        self.write("lib/a.h", "// [MR-2.1.1]\n")
        code, result, _ = run(self.root)
        self.assertEqual((code, result["errors"]), (0, []))
        self.assertEqual((result["statements"], result["scheduled"]), (2, 1))
        self.assertEqual((result["not_in_code"], result["not_in_tests"]), ([], ["MR-2.1.1"]))

    def test_section__is_known_and_covers_nothing(self):
        self.write("lib/a.h", "// [MR-2.1] [MR-2]\n")
        code, result, _ = run(self.root)
        self.assertEqual(code, 0)
        self.assertEqual(result["not_in_code"], ["MR-2.1.1"])

    def test_scheduled__cited_is_reported(self):
        self.write("test/a.cpp", "// MR-2.1.2\n")
        code, result, _ = run(self.root)
        self.assertEqual((code, result["scheduled_but_cited"]), (0, ["MR-2.1.2"]))

    def test_unknown__in_code(self):
        self.write("app/a.cpp", "\n// [MR-2.1.9]\n")
        self.expect_error("app/a.cpp:2", "MR-2.1.9", "does not exist")

    def test_unknown__in_tests(self):
        self.write("test/unit/a_test.cpp", "// MR-7.1.1\n")
        self.expect_error("test/unit/a_test.cpp:1", "MR-7.1.1")

    def test_unknown__section(self):
        self.write("lib/a.h", "// [MR-2.4]\n")
        self.expect_error("MR-2.4 does not exist")

    def test_unknown__longer_than_a_statement(self):
        self.write("lib/a.h", "// [MR-2.1.1.1]\n")
        self.expect_error("MR-2.1.1.1 does not exist")

    def test_unknown__within_the_specification(self):
        self.write("doc/spec/02-numbers.md", GOOD + "\nSee MR-2.1.8.\n")
        self.expect_error("doc/spec/02-numbers.md:12", "MR-2.1.8")

    def test_duplicate(self):
        self.write("doc/spec/02-numbers.md", GOOD + "\n**[MR-2.1.1]** A sender MUST stop.\n")
        self.expect_error("MR-2.1.1 is defined twice", "02-numbers.md:5")

    def test_chapter__wrong(self):
        self.write("doc/spec/02-numbers.md", GOOD + "\n**[MR-3.1.1]** A sender MUST stop.\n")
        self.expect_error("MR-3.1.1 stands in chapter 2")

    def test_key_word__missing(self):
        self.write("doc/spec/02-numbers.md", GOOD + "\n**[MR-2.1.3]** A sender stops.\n")
        self.expect_error("MR-2.1.3 has 0 key words")

    def test_key_word__two_in_one_statement(self):
        self.write("doc/spec/02-numbers.md", GOOD + "\n**[MR-2.1.3]** It MUST run and MAY rest.\n")
        self.expect_error("MR-2.1.3 has 2 key words")

    def test_key_word__outside_a_statement(self):
        self.write("doc/spec/02-numbers.md", GOOD + "\nIt MUST be so.\n")
        self.expect_error("02-numbers.md:12", "MUST outside a statement")

    def test_specification__absent(self):
        (self.root / "doc/spec/02-numbers.md").unlink()
        self.expect_error("no specification found")

    def test_lenient__errors_are_printed_with_exit_code_0(self):
        self.write("lib/a.h", "// [MR-9.9.9]\n")
        r = subprocess.run([sys.executable, SCRIPT, "--root", self.root], capture_output=True,
                           text=True, timeout=60, check=False)
        self.assertEqual(r.returncode, 0)
        self.assertIn("MR-9.9.9 does not exist", r.stdout)


class ThisTree(unittest.TestCase):
    def test_tree__no_errors(self):
        code, result, _ = run(ROOT)
        self.assertEqual(result["errors"], [])
        self.assertEqual(code, 0)
        self.assertGreater(result["statements"], 200)

    def test_usage__missing_root(self):
        r = subprocess.run([sys.executable, SCRIPT, "--root", "/nonexistent"], capture_output=True,
                           text=True, timeout=60, check=False)
        self.assertEqual(r.returncode, 2)
        self.assertIn("/nonexistent is not a directory", r.stderr)


if __name__ == "__main__":
    unittest.main()
