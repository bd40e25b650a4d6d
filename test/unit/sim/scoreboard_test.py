#!/usr/bin/env python3
"""scripts/scoreboard.py over a made-up simulator: rows, ratios, refusals, exit status."""
import contextlib
import importlib.util
import io
import pathlib
import sys
import tempfile
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[3]

# Answers by the scenario's name; the seed is the goodput's last digit.
FAKE = '''#!{python} -IS
import json, sys
if sys.argv[1] == "check":
    print("transport.yaml: ok, 2 hosts, 2 flows, transport 0123456789abcdef")
    sys.exit(0)
if "--losses" in sys.argv and sys.argv[1] != "run":
    print(json.dumps({{"run_us": 100.0, "lost": len(open(sys.argv[-1]).readlines())}}))
    sys.exit(0)
if "--losses" in sys.argv:
    open(sys.argv[sys.argv.index("--losses") + 1], "w").write("header\\n")
name = sys.argv[2].rsplit("/", 1)[-1][:-5]
seed = int(sys.argv[sys.argv.index("--seed") + 1])
loss = "loss=1%" in sys.argv
run = {{"seed": seed, "outcome": "stalled" if name == "stuck" else "complete", "violations": ["twice"],
       "violation_count": int(name in ("broken", "canary")),
       "timing": {{"packets_per_user_s": 1e6}},
       "metrics": {{"slowdown_mean": 1 + seed / 10, "goodput_gbps": 90.0 if loss else 100.0,
                   "efficiency": 0.5 if name == "slow" else 0.99, "run_us": 100 + 10.0 * seed}}}}
code = 3 if run["violation_count"] else 0
print(json.dumps({{"exit_code": code, "runs": [run], "transport": {{
    "hash": "ffff" if name == "other" else "0123456789abcdef", "differs_from_defaults": []}}}}))
sys.exit(code)
'''

TARGETS = """
peers:
  - workload: "permutation"
    scenario: good
    columns: ["1", "2", "3", "4", "5"]
    metrics:
      - {metric: slowdown_mean, at_most: 1.2}
rows:
  - {row: short, scenario: good, metric: slowdown_mean, at_most: 1.19, source: ours}
  - {row: ratio, scenario: good, set: ["loss=1%"], metric: goodput_gbps, at_least: 0.9, baseline: {scenario: good, efficiency: 0.95}, source: ours}
  - {row: void, scenario: slow, set: ["loss=1%"], metric: goodput_gbps, at_least: 0.9, baseline: {scenario: slow, efficiency: 0.95}, source: ours}
  - {row: absent, scenario: good, metric: outage_rtt, at_most: 5, source: ours}
  - {row: needs, scenario: good, metric: slowdown_mean, at_most: 9, requires: {metric: efficiency, at_least: 0.999}, source: ours}
  - {row: told, scenario: good, set: ["loss=1%"], metric: over_oracle, at_most: 1.2, source: ours}
  - {row: speed, scenario: good, metric: packets_per_user_s, at_least: 500000, source: ours}
canaries:
  - {scenario: canary}
"""


def load():
    spec = importlib.util.spec_from_file_location("scoreboard", ROOT / "scripts" / "scoreboard.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(targets, *arguments):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        program = folder / "fake"
        program.write_text(FAKE.format(python=sys.executable), encoding="utf-8")
        program.chmod(0o755)
        (folder / "targets.yaml").write_text(textwrap.dedent(targets), encoding="utf-8")
        board = load()
        board.SCENARIOS = folder
        out, err = io.StringIO(), io.StringIO()
        page = folder / "page.md"
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = board.main(["--sim", str(program), "--oracle", str(program), "--output", str(page), "--seeds", "3", *arguments])
        text = page.read_text(encoding="utf-8") if page.exists() else ""
        return code, out.getvalue(), err.getvalue(), text


def line_of(out, row):
    return next(line for line in out.splitlines() if line.startswith(row))


def verdict(out, row):
    return line_of(out, row).split()[-1]


def test_rows():
    code, out, _, page = run(TARGETS)
    assert code == 0, out
    assert verdict(out, "permutation") == "ok", out  # median of seeds 1 to 3 is 1.2
    assert verdict(out, "short") == "short", out
    assert verdict(out, "ratio") == "ok" and "0.900" in line_of(out, "ratio"), out
    assert verdict(out, "void") == "short" and "does not count" in line_of(out, "void"), out
    assert verdict(out, "absent") == "short" and "does not occur" in line_of(out, "absent"), out
    assert verdict(out, "needs") == "short" and "does not count" in line_of(out, "needs"), out
    assert verdict(out, "told") == "ok" and "1.200" in line_of(out, "told"), out
    assert verdict(out, "speed") == "ok", out
    assert "3 of those do not count" in out, out
    assert verdict(out, "canary") == "ok", out
    assert out.startswith("transport block 0123456789abcdef"), out
    assert "| permutation | 1 | 2 | 3 | 4 | 5 | 1.2 | 1.200 | ok |" in page, page
    assert "**short**" in page, page


def test_a_run_serves_all_rows_that_want_it():
    _, out, _, _ = run(TARGETS, "--times")
    times = [line.split(" s for ")[1] for line in out.splitlines() if " s for " in line]
    assert sorted(t.strip() for t in times) == [
        "1 of canary", "3 of good loss=1%", "3 of slow", "3 of slow loss=1%", "8 of good"], times  # 5 are of the speed


def test_strict_and_quick():
    assert run(one_row("good", ", seeds: 1").replace("at_most: 9", "at_most: 1"), "--strict")[0] == 1
    assert verdict(run(TARGETS, "--quick")[1], "short") == "ok"  # seed 1 only: 1.1


def one_row(scenario, extra=""):
    return f"peers: []\nrows:\n  - {{row: r, scenario: {scenario}, metric: slowdown_mean, at_most: 9, source: ours{extra}}}\n"


def test_failures():
    for scenario in ("broken", "stuck", "other"):
        code, out, _, _ = run(one_row(scenario))
        assert code == 1 and verdict(out, "r") == "short", out
    code, out, _, _ = run(one_row("other", ", own_transport: because"))
    assert code == 0 and verdict(out, "r") == "ok", out
    code, _, err, _ = run(one_row("good", ', set: ["transport.crc=true"]'))
    assert code == 1 and "transport block" in err, err
    code, out, _, _ = run("peers: []\nrows: []\ncanaries:\n  - {scenario: good}\n")
    assert code == 1 and "NOT FOUND" in out, out


def test_shipped_targets():
    board = load()
    peers, rows, canaries = board.load_targets()
    for name in [r["scenario"] for r in rows + peers + canaries] + [r["baseline"]["scenario"] for r in rows if "baseline" in r]:
        assert (board.SCENARIOS / f"{name}.yaml").is_file(), name
    assert all(r["source"] in ("peers", "issue", "ours") for r in rows)
    assert len({r["row"] for r in rows}) == len(rows), "two rows of one name"
    used = {r["scenario"] for r in rows}
    assert len(used) > 25, used


def main():
    for name, test in sorted(globals().items()):
        if name.startswith("test_"):
            test()
            print(f"ok {name}")


if __name__ == "__main__":
    main()
