#!/usr/bin/env python3
"""Every test program that links GoogleTest is declared with `protocol: 'gtest'`.

Otherwise all its cases count as one in the summary, and a program without cases passes.
"""
import json
import pathlib
import subprocess
import sys


def introspect(meson, build, what):
    out = subprocess.run([meson, "introspect", build, what], check=True, capture_output=True, text=True)
    return json.loads(out.stdout)


def main():
    meson, build = sys.argv[1:]
    gtest = set()
    for target in introspect(meson, build, "--targets"):
        if target["type"] == "executable" and any(
            "-DGTEST_HAS_PTHREAD=1" in source.get("parameters", []) for source in target["target_sources"]
        ):
            gtest.update(target["filename"])
    tests = introspect(meson, build, "--tests")
    wrong = [t["name"] for t in tests if t["cmd"] and t["cmd"][0] in gtest and t["protocol"] != "gtest"]
    names = [t["name"] for t in tests if t["protocol"] == "gtest"]
    for name in wrong:
        print(f"test '{name}' needs protocol: 'gtest'")
    for name in sorted({n for n in names if names.count(n) > 1 or "/" in n}):
        print(f"test name '{name}' is used twice or has a slash: result files would overwrite each other")
        wrong.append(name)
    listed = {t["cmd"][0] for t in tests if t["cmd"]}
    for program in sorted(gtest - listed):
        print(f"{pathlib.Path(program).name} is built but no test runs it")
        wrong.append(program)
    if not gtest:
        sys.exit("found no program that links GoogleTest: this check has gone blind")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
