#!/usr/bin/env python3
"""metaroce-sim itself: real scenarios, exit codes, equal bytes, a signal.

    program_test.py PROGRAM
"""
import json
import pathlib
import signal
import subprocess
import sys
import time

SCENARIOS = pathlib.Path(__file__).resolve().parents[3] / "config" / "scenarios"
PROGRAM = sys.argv[1]


def run(*arguments):
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=100)


def test_every_scenario_is_right():
    files = sorted(f for f in SCENARIOS.glob("*.yaml") if f.name != "targets.yaml")
    done = run("check", *files)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(": ok, ") == len(files) > 25
    assert "incast" in run("list", SCENARIOS).stdout


def test_equal_seeds_equal_bytes():
    scenario = SCENARIOS / "ls64-incast-8.yaml"
    first, second = run("run", scenario, "--json", "--seed", 5), run("run", scenario, "--json", "--seed", 5)
    assert first.returncode == 0, first.stderr
    assert first.stdout == second.stdout
    document = json.loads(first.stdout)
    assert document["runs"][0]["totals"]["delivered_bytes"] == 8 << 20
    assert run("run", scenario, "--json", "--seed", 6).stdout != first.stdout


def test_canaries_are_found():
    for canary in ("double_placement", "wrong_address", "lost_completion"):
        done = run("run", SCENARIOS / "canary.yaml", "--set", f"canary={canary}")
        assert done.returncode == 3 and "violation: " in done.stdout, (canary, done.returncode, done.stdout)
    assert run("run", SCENARIOS / "canary.yaml", "--set", "canary=none").returncode == 0


def test_limit_is_a_failure():
    done = run("run", SCENARIOS / "ls64-permutation-2m.yaml", "--json", "--set", "limits.time=1us")
    assert done.returncode == 1, done.returncode
    assert json.loads(done.stdout)["runs"][0]["outcome"] == "time_limit"


def test_signal_ends_with_a_summary():
    command = [PROGRAM, "run", SCENARIOS / "long-streams.yaml", "--json", "--seeds", "9"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 1, process.returncode
    document = json.loads(out)
    assert [r["outcome"] for r in document["runs"]] == ["stopped"], document["runs"]


def main():
    for name, test in sorted(globals().items()):
        if name.startswith("test_"):
            test()
            print(f"ok {name}")


if __name__ == "__main__":
    main()
