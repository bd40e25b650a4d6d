#!/usr/bin/env python3
"""Measures every row of config/scenarios/targets.yaml with metaroce-sim.

One process per core, each run once, medians over seeds. A line per row: name, target, measured,
the run that a ratio was taken from, `ok` or `short`. A row counts only with the one transport block
of config/scenarios/transport.yaml, whose hash is printed, only when every run was complete and
sound, and a ratio only when its reference run is near enough to the ideal; what does not count is
short and says why. Exit status: 0 measured, short rows or not; 1 a run failed, a check failed, a
canary was not found or a row ran another transport block; with --strict also for short rows.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import platform
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import yaml

ROOT = pathlib.Path(__file__).resolve().parent.parent
SCENARIOS = ROOT / "config" / "scenarios"
PAGE = ROOT / "doc" / "performance" / "simulation.md"
SPEED = "packets_per_user_s"
# A run's time over that of a model with the same losses: test/oracle.
ORACLE = "over_oracle"


class Problem(Exception):
    pass


def load_targets():
    with open(SCENARIOS / "targets.yaml", encoding="utf-8") as f:
        targets = yaml.safe_load(f)
    rows = []
    for peer in targets["peers"]:
        for m in peer["metrics"]:
            label = {"slowdown_mean": ", mean", "slowdown_max": ", max", "slowdown_mean_tag1": ": same leaf",
                     "slowdown_mean_tag2": ": same NIC"}.get(m["metric"], "")
            rows.append({**m, "row": peer["workload"] + label, "scenario": peer["scenario"], "source": "peers",
                         "quick": peer.get("quick", True), "peer": peer["workload"]})
    rows += targets["rows"]
    for row in rows:
        for runs in [row, row.get("baseline", {})]:
            changed = [s for s in runs.get("set", []) if s.startswith(("transport", "include"))]
            if changed:
                raise Problem(f'{row["row"]}: {changed[0]} leaves the one transport block')
        if ("at_most" in row) == ("at_least" in row):
            raise Problem(f'{row["row"]}: one of at_most and at_least is wanted')
    return targets["peers"], rows, targets.get("canaries", [])


class Simulator:
    """Runs scenarios, each (scenario, overrides, seed) once, in the order of start()."""

    def __init__(self, program, oracle, jobs, timeout):
        self.program, self.oracle, self.timeout = program, oracle, timeout
        self.pool = concurrent.futures.ThreadPoolExecutor(jobs)
        self.runs = {}
        self.told = set()  # (scenario, overrides) whose runs are compared with the oracle
        self.seconds = {}  # by scenario and overrides: of each seed
        self.processes = set()

    def stop(self):
        """No run outlives the scoreboard."""
        self.pool.shutdown(wait=False, cancel_futures=True)
        for process in list(self.processes):
            process.kill()

    def start(self, scenario, overrides, seed):
        key = (scenario, tuple(overrides), seed)
        if key not in self.runs:
            self.runs[key] = self.pool.submit(self.run_with_oracle if key[:2] in self.told else self.run, *key)
        return self.runs[key]

    def run(self, scenario, overrides, seed, *options):
        began = time.monotonic()
        document = self.document_of(self.program, "run", *self.arguments(scenario, overrides, seed), "--json", "--quiet",
                                    *options)
        self.seconds.setdefault((scenario, tuple(overrides)), []).append(time.monotonic() - began)
        return document

    def run_with_oracle(self, scenario, overrides, seed):
        """The run, and how much longer it took than a sender that is told of each loss."""
        with tempfile.TemporaryDirectory(prefix="scoreboard-") as folder:
            losses = ["--losses", pathlib.Path(folder) / "losses.csv"]
            document = self.run(scenario, overrides, seed, *losses)
            if failure_of(document):
                return document
            best = self.document_of(self.oracle, *self.arguments(scenario, overrides, seed), *losses)
        if "error" in best:
            return best
        metrics = document["runs"][0]["metrics"]
        metrics[ORACLE] = metrics["run_us"] / best["run_us"]
        return document

    @staticmethod
    def arguments(scenario, overrides, seed):
        return [SCENARIOS / f"{scenario}.yaml", "--seed", str(seed), *(x for text in overrides for x in ("--set", text))]

    def document_of(self, *command):
        """What a program prints as JSON."""
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            self.processes.add(process)
            try:
                out, err = process.communicate(timeout=self.timeout)
            except subprocess.TimeoutExpired:
                process.kill()
                return {"error": f"no end after {self.timeout:.0f} s", "exit_code": None}
            finally:
                self.processes.discard(process)
        try:
            return json.loads(out)
        except json.JSONDecodeError:
            return {"error": f"exit status {process.returncode}: {err.strip()[-200:]}", "exit_code": process.returncode}

    def transport_hash(self):
        done = subprocess.run([self.program, "check", SCENARIOS / "transport.yaml"], capture_output=True, text=True,
                              timeout=60)
        found = re.search(r"transport ([0-9a-f]{16})", done.stdout)
        if not found:
            raise Problem(f"{self.program} check transport.yaml: {done.stderr.strip()}")
        return found.group(1)


def failure_of(document):
    """Why the run does not count, or None."""
    if document.get("error"):
        return document["error"]
    run = document["runs"][0]
    if run["violation_count"]:
        return f'VIOLATION, seed {run["seed"]}: {run["violations"][0]}'
    if run["outcome"] != "complete":
        return f'{run["outcome"]}, seed {run["seed"]}'
    return None


def median(documents, metric):
    values = []
    for document in documents:
        run = document["runs"][0]
        source = run.get("timing", {}) if metric == SPEED else run["metrics"]
        if source.get(metric) is None:
            return None
        values.append(source[metric])
    return max(values) if metric == SPEED else statistics.median(values)


class Scoreboard:
    def __init__(self, simulator, options, rows):
        self.sim, self.options, self.rows = simulator, options, rows
        self.hash = simulator.transport_hash()
        self.broken = 0
        self.differs = []

    def seeds(self, row):
        count = 1 if self.options.quick else self.options.seeds or row.get("seeds", 5)
        return range(1, count + 1)

    def start(self):
        self.sim.told = {(r["scenario"], tuple(r.get("set", []))) for r in self.rows if r["metric"] == ORACLE}
        for row in self.rows:
            if row["metric"] == SPEED:
                continue
            row["futures"] = [self.sim.start(row["scenario"], row.get("set", []), s) for s in self.seeds(row)]
            if "baseline" in row:
                base = row["baseline"]
                row["base_futures"] = [self.sim.start(base["scenario"], base.get("set", []), s) for s in self.seeds(row)]

    def documents(self, futures):
        return [f.result() for f in futures]

    def measure_speed(self, row):
        """Best of five, one after the other, when nothing else runs."""
        tries = 1 if self.options.quick else 5
        return [self.sim.run(row["scenario"], row.get("set", []), 1, "--timing") for _ in range(tries)]

    def evaluate(self, row):
        documents = self.measure_speed(row) if row["metric"] == SPEED else self.documents(row["futures"])
        base = self.documents(row.get("base_futures", []))
        row["value"], row["note"], row["ok"], row["counts"] = None, "", False, False
        for document in documents + base:
            why = failure_of(document)
            if why is None and not row.get("own_transport") and document["transport"]["hash"] != self.hash:
                why = f'ran the transport block {document["transport"]["hash"]}'
            if why is not None:
                self.broken += 1
                row["note"] = why
                return
        if not row.get("own_transport"):
            self.differs = documents[0]["transport"]["differs_from_defaults"]
        value = median(documents, row["metric"])
        if value is None:
            row["note"] = "does not occur in the run"
            return
        row["counts"] = True
        if base:
            reference = median(base, row["metric"])
            value /= reference * row["baseline"].get("factor", 1)
            share = median(base, "efficiency")
            row["note"] = f"from {share:.3f} of the ideal"
            row["counts"] = share >= row["baseline"]["efficiency"]
        if "requires" in row:
            needed = median(documents, row["requires"]["metric"])
            row["note"] = f'{row["requires"]["metric"]} {number(needed)}'
            row["counts"] = needed is not None and needed >= row["requires"]["at_least"]
        if not row["counts"]:
            row["note"] += ": does not count"
        row["value"] = value
        row["ok"] = row["counts"] and (value <= row["at_most"] if "at_most" in row else value >= row["at_least"])


def number(value):
    if value is None:
        return "-"
    if value == 0 or 0.001 <= abs(value) < 1000:
        return f"{value:.3f}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.2e}"


def target(row):
    return f'<= {row["at_most"]}' if "at_most" in row else f'>= {row["at_least"]}'


def line(row):
    return (f'{row["row"]:<62} {target(row):>10} {number(row["value"]):>10}  {row["note"]:<34} '
            f'{"ok" if row["ok"] else "short"}')


def run_canaries(simulator, canaries):
    failed = 0
    for canary in canaries:
        document = simulator.run(canary["scenario"], canary.get("set", []), 1)
        good = document.get("exit_code") == 3 and not document.get("error")
        failed += not good
        name = "canary " + ", ".join(canary.get("set", []))
        print(f'{name:<62} {"violation":>10} {"found" if good else "NOT FOUND":>10}  {"":<34} {"ok" if good else "short"}')
    return failed


def cpu_name():
    try:
        for text in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if text.startswith("model name"):
                return text.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.machine()


def page(board, peers, rows, quick=False):
    out = [
        "# Simulation: measured against targets and peers\n",
        "<!-- Written by scripts/scoreboard.sh; do not edit. Targets: config/scenarios/targets.yaml. -->\n",
        "The transport's own code on every host, over the emulated fabric, in virtual time. "
        + ("Every figure is of one seed (`--quick`: without the long rows), " if quick else "Every figure is a median over seeds, ")
        + "and the same on every machine, except the simulator's speed "
        f"({cpu_name()}, one core, best of five). Again: `scripts/scoreboard.sh`; one row: "
        "`metaroce-sim run config/scenarios/NAME.yaml --seeds 5`.\n",
        f"One transport block for all rows, hash `{board.hash}`: the defaults of the configuration reference, except "
        f"`{'`, `'.join(board.differs) or 'nothing'}`. A row that had to leave it says so.\n",
        "## The published comparison\n",
        "Packet simulators of the Ultra Ethernet and NDP/EQDS authors on the same fabric and flows; slowdown mean / max "
        "unless the row says otherwise. Ours runs without trimming, with one ACK stream of real size, and charges its "
        "real frames of 4,182 bytes and more; ideals stay at 4,160 bytes.\n",
        "| Workload | UEC NSCC, trimming | UEC RCCC, trimming | UEC NSCC | best seen | RoCEv2 + PFC, ECMP | target | ours | |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for peer in peers:
        mine = [r for r in rows if r.get("peer") == peer["workload"] and "ok" in r]
        if not mine:
            continue
        out.append("| " + " | ".join(
            [peer["workload"], *peer["columns"], " / ".join(target(r).lstrip("<>= ") for r in mine),
             " / ".join(number(r["value"]) for r in mine), "ok" if all(r["ok"] for r in mine) else "**short**"]) + " |")
    out += ["\n## Our own targets\n", "| Row | Scenario | Target | Measured | Reference run | |", "|---|---|---|---|---|---|"]
    for r in rows:
        if "peer" in r or "ok" not in r:
            continue
        name = r["row"] + (f' (own transport block: {r["own_transport"]})' if r.get("own_transport") else "")
        changed = "".join(f" `{s}`" for s in r.get("set", []))
        out.append(f'| {name} | {r["scenario"]}{changed} | {target(r)} | {number(r["value"])} | {r["note"]} | '
                   f'{"ok" if r["ok"] else "**short**"} |')
    out.append("\nA ratio counts when its reference run reaches the share of the ideal that "
               "`config/scenarios/targets.yaml` asks for, 0.95 unless it says otherwise. "
               "What is known of the rows that are short: [short-rows.md](short-rows.md).")
    return "\n".join(out) + "\n"


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one seed, without the long rows; writes no page")
    parser.add_argument("--only", metavar="REGEX", help="rows whose name matches; writes no page")
    parser.add_argument("--seeds", type=int, help="instead of five, or of what the row says")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="default: one per core")
    parser.add_argument("--timeout", type=float, default=900, help="seconds of one run")
    parser.add_argument("--times", action="store_true", help="print what each run took as well, longest first")
    parser.add_argument("--sim", default=ROOT / "build" / "app" / "metaroce-sim" / "metaroce-sim", help="the program")
    parser.add_argument("--oracle", default=ROOT / "build" / "test" / "oracle" / "metaroce-oracle", help="its yardstick")
    parser.add_argument("--output", type=pathlib.Path, help=f"where the page goes, default {PAGE.relative_to(ROOT)}")
    parser.add_argument("--strict", action="store_true", help="exit status 1 for short rows too")
    return parser.parse_args(arguments)


def main(arguments=None):
    options = parse(arguments)
    try:
        peers, rows, canaries = load_targets()
        every = len(rows)
        if options.quick:
            rows = [r for r in rows if r.get("quick", True)]
        if options.only:
            rows = [r for r in rows if re.search(options.only, r["row"])]
        programs = [options.sim] + [options.oracle] * any(r["metric"] == ORACLE for r in rows)
        for program in programs:
            if not os.access(program, os.X_OK):
                raise Problem(f"{program} is not there; run: ninja -C build app/metaroce-sim/metaroce-sim "
                              "test/oracle/metaroce-oracle")
        began = time.monotonic()
        board = Scoreboard(Simulator(options.sim, options.oracle, options.jobs, options.timeout), options, rows)
    except (Problem, OSError, yaml.YAMLError) as error:
        print(f"scoreboard: {error}", file=sys.stderr)
        return 1
    seeds = "1 seed" if options.quick else f"{options.seeds} seeds" if options.seeds else "5 seeds"
    print(f"transport block {board.hash}, {options.jobs} processes, {seeds}, {len(rows)} of {every} rows", flush=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        return measure(board, peers, rows, canaries, options, began)
    finally:
        board.sim.stop()


def print_times(seconds):
    for (scenario, overrides), runs in sorted(seconds.items(), key=lambda item: -sum(item[1])):
        print(f"{sum(runs):8.1f} s for {len(runs)} of {scenario} {' '.join(overrides)}")


def measure(board, peers, rows, canaries, options, began):
    board.start()
    for row in sorted(rows, key=lambda r: r["metric"] == SPEED):  # its CPU time wants an idle machine
        board.evaluate(row)
        print(line(row), flush=True)
    missed = run_canaries(board.sim, canaries) if not options.only else 0
    short = sum(not r["ok"] for r in rows)
    if options.times:
        print_times(board.sim.seconds)
    print(f"{len(rows) - short} of {len(rows)} rows ok, {short} short, {sum(not r['counts'] for r in rows)} of those do "
          f"not count, {board.broken} with a run that failed; {time.monotonic() - began:.0f} s")
    if options.output or not (options.quick or options.only):
        where = options.output or PAGE
        where.parent.mkdir(parents=True, exist_ok=True)
        where.write_text(page(board, peers, rows, options.quick), encoding="utf-8")
    return 1 if board.broken or missed or (options.strict and short) else 0


if __name__ == "__main__":
    sys.exit(main())
