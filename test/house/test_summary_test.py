#!/usr/bin/env python3
"""scripts/test_summary.py counts what happened and hides nothing."""
import json
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
sys.dont_write_bytecode = True
import test_summary  # noqa: E402

CASE = {
    "pass": '<testcase name="p" status="run" result="completed" classname="S"/>',
    "fail": '<testcase name="f" status="run" result="completed" classname="S"><failure/></testcase>',
    "skip": '<testcase name="s" status="run" result="skipped" classname="S"><skipped/></testcase>',
    "off": '<testcase name="o" status="notrun" result="suppressed" classname="S"/>',
}


class Summary(unittest.TestCase):
    def setUp(self):
        self.tmp = tempfile.TemporaryDirectory()
        self.addCleanup(self.tmp.cleanup)
        self.lines = []

    def ran(self, name, result, cases=None):
        self.lines.append(json.dumps({"name": name, "result": result}))
        if cases is not None:
            body = "".join(CASE[c] for c in cases)
            text = f'<testsuites><testsuite name="S">{body}</testsuite></testsuites>'
            pathlib.Path(self.tmp.name, f"{name}.xml").write_text(text)

    def count(self):
        log = pathlib.Path(self.tmp.name, "log.json")
        log.write_text("\n".join(self.lines))
        passed, failed, skipped = test_summary.count(self.tmp.name, [log])
        return passed, len(failed), skipped

    def test_cases_are_counted(self):
        self.ran("a", "OK", ["pass", "pass", "skip", "off"])
        self.ran("b", "FAIL", ["pass", "fail", "fail"])
        self.assertEqual(self.count(), (3, 2, 2))

    def test_a_program_without_cases_is_one(self):
        self.ran("a", "OK")
        self.ran("b", "FAIL")
        self.ran("c", "SKIP")
        self.ran("d", "EXPECTEDFAIL")
        self.assertEqual(self.count(), (2, 1, 1))

    def test_crash_or_leak_after_the_last_case(self):
        self.ran("a", "FAIL", ["pass"])
        self.assertEqual(self.count(), (1, 1, 0))

    def test_crash_before_the_result_file(self):
        self.ran("a", "FAIL")
        self.assertEqual(self.count(), (0, 1, 0))

    def test_every_bad_result_is_a_failure(self):
        for result in ("FAIL", "ERROR", "TIMEOUT", "INTERRUPT", "UNEXPECTEDPASS", "never heard of"):
            self.lines = []
            self.ran("a", result)
            self.assertEqual(self.count(), (0, 1, 0), result)

    def test_gtest_program_that_ran_nothing(self):
        self.ran("a", "OK", [])
        self.assertEqual(self.count(), (0, 1, 0))

    def test_unreadable_result_file(self):
        self.ran("a", "OK")
        pathlib.Path(self.tmp.name, "a.xml").write_text("<testsuites><test")
        self.assertEqual(self.count(), (0, 1, 0))

    def test_suite_prefix_of_the_name(self):
        self.ran("a", "OK", ["pass", "pass"])
        self.lines = [json.dumps({"name": "metaroce:unit / a", "result": "OK"})]
        self.assertEqual(self.count(), (2, 0, 0))


if __name__ == "__main__":
    unittest.main()
