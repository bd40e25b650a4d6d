#!/usr/bin/env python3
"""Counts test cases of finished meson test runs and prints `passed failed skipped`.

    test_summary.py BUILD_DIR LOG.json...

LOG.json is meson's log (one JSON object a line, one line a test program). A test with
`protocol: 'gtest'` leaves BUILD_DIR/<name>.xml with its cases; any other counts as one case.
What meson calls a failure is at least one failed case, whatever the XML says: a program can
crash, or leak, after its last case passed. Names of failed cases go to standard error.
"""
import json
import pathlib
import sys
import xml.etree.ElementTree as ElementTree

GOOD = {"OK", "EXPECTEDFAIL"}


def cases_of(xml_file):
    """(passed, names of failed, skipped) of one GoogleTest XML file."""
    passed, failed, skipped = 0, [], 0
    for case in ElementTree.parse(xml_file).iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            failed.append(f"{case.get('classname')}.{case.get('name')}")
        elif case.get("status") == "notrun" or case.get("result") in ("skipped", "suppressed"):
            skipped += 1
        else:
            passed += 1
    return passed, failed, skipped


def count(build_dir, logs):
    passed, failed, skipped = 0, [], 0
    for log in logs:
        for line in pathlib.Path(log).read_text(encoding="utf-8").splitlines():
            test = json.loads(line)
            name, result = test["name"].split(" / ")[-1], test["result"]
            xml_file = pathlib.Path(build_dir) / f"{name}.xml"
            p, f, s = 0, [], 0
            if xml_file.exists():
                try:
                    p, f, s = cases_of(xml_file)
                except ElementTree.ParseError:
                    f = ["unreadable result file"]
                if result in GOOD and p + len(f) + s == 0:
                    f.append("ran no test case")
            elif result in GOOD:
                p = 1
            elif result == "SKIP":
                s = 1
            if result not in GOOD and result != "SKIP" and not f:
                f.append(result)
            passed, skipped = passed + p, skipped + s
            failed += [f"{name}: {x}" for x in f]
    return passed, failed, skipped


def main():
    passed, failed, skipped = count(sys.argv[1], sys.argv[2:])
    for name in failed:
        print(f"FAILED {name}", file=sys.stderr)
    print(passed, len(failed), skipped)


if __name__ == "__main__":
    main()
