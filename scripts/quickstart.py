#!/usr/bin/env python3
"""Builds the daemon and two tools, joins two daemons by four memif planes, lets them move data,
and prints one table of what happened. Started by scripts/quickstart.sh.

Exit code 0 only when every byte was compared, each plane carried its part of the Writes, and the
copy over a lossy link repaired its losses. 1: one of these is not so, or a program failed; the last
line says which. 130: interrupted. Whatever happens, all processes are ended by their process id
and the temporary directory is removed.

Needs no root, no NIC and no huge pages. Everything that could meet something else on the machine
(sockets, memif names, EAL prefixes) carries the name of the temporary directory, so that several
runs, or the tests, may go on at the same time.
"""
import argparse
import hashlib
import json
import os
import pathlib
import platform
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
PROGRAMS = {name: BUILD / "app" / name / name for name in ("metaroced", "metaroce-perf", "metaroce-copy")}
PLANES = 4
LEAST_SHARE = 20.0       # per cent of the Writes' bytes that each of the four planes must carry
LOSS_PPM = 10000
MIB = 1 << 20
BUILD_LIMIT, RUN_LIMIT, START_LIMIT, STOP_LIMIT = 1800, 120, 20, 10  # seconds
BEGIN = time.monotonic()


class Failed(Exception):
    """One line for the reader: what went wrong and what to do."""


class Interrupted(BaseException):
    pass


def say(text):
    print(f"== {text} ({time.monotonic() - BEGIN:.0f} s)", flush=True)


class Processes:
    """Everything that was started; each in a session of its own, so that Ctrl-C reaches only us."""

    def __init__(self):
        self.running = []

    def start(self, command, **more):
        command = [str(c) for c in command]
        if shutil.which("setpriv"):  # the kernel ends it when we are killed without a chance to
            command = ["setpriv", "--pdeathsig", "TERM"] + command
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True, **more)
        self.running.append(process)
        return process

    def stop(self, process, limit=STOP_LIMIT):
        """SIGTERM, a limit, SIGKILL. True when it ended by itself in time."""
        in_time = True
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(limit)
            except subprocess.TimeoutExpired:
                in_time = False
                process.kill()
                process.wait()
        if process in self.running:
            self.running.remove(process)
        return in_time

    def stop_all(self):
        for process in self.running:
            if process.poll() is None:
                process.terminate()
        for process in reversed(list(self.running)):
            self.stop(process)


class Tool:
    """A program that prints one JSON document on stdout; its stderr is its log."""

    def __init__(self, processes, work, name, program, arguments):
        self.processes, self.name = processes, name
        self.out, self.log = work / f"{name}.json", work / f"{name}.log"
        with open(self.out, "wb") as out, open(self.log, "wb") as log:
            self.process = processes.start([PROGRAMS[program], *arguments], stdout=out, stderr=log)

    def alive(self):
        return self.process.poll() is None

    def log_end(self):
        lines = self.log.read_text(errors="replace").splitlines()[-8:]
        return "".join(f"\n    {line}" for line in lines)

    def result(self, limit=RUN_LIMIT):
        """(exit code, document) once it has ended."""
        try:
            self.process.wait(limit)
        except subprocess.TimeoutExpired:
            raise Failed(f"{self.name} did not end within {limit} s{self.log_end()}") from None
        self.processes.stop(self.process)
        try:
            return self.process.returncode, json.loads(self.out.read_text())
        except ValueError:
            raise Failed(f"{self.name} ended with code {self.process.returncode} and without a result"
                         f"{self.log_end()}") from None

    def good_result(self):
        code, document = self.result()
        if code != 0 or document.get("result") != "ok":
            raise Failed(f"{self.name}: exit code {code}: {document.get('error', 'no reason given')}{self.log_end()}")
        return document


def build(processes, work):
    log = work / "build.log"

    def run(*command):
        with open(log, "ab") as out:
            process = processes.start(command, stdout=out, stderr=subprocess.STDOUT, cwd=ROOT)
        try:
            code = process.wait(BUILD_LIMIT)
        except subprocess.TimeoutExpired:
            code = "none: out of time"
        processes.stop(process)
        if code != 0:
            tail = "\n    ".join(log.read_text(errors="replace").splitlines()[-15:])
            raise Failed(f"'{' '.join(map(str, command))}' failed, exit code {code}:\n    {tail}")

    # Debian's meson, not another one that happens to be first in PATH.
    meson = next((m for m in ("/usr/bin/meson", shutil.which("meson")) if m and os.access(m, os.X_OK)), None)
    if meson is None or shutil.which("ninja") is None:
        raise Failed("meson or ninja is missing: run scripts/setup.sh")
    if not (BUILD / "build.ninja").exists():
        say("configure build/")
        shutil.rmtree(BUILD / "meson-private", ignore_errors=True)  # of a set-up that was interrupted
        run(meson, "setup", BUILD, "-Dbuildtype=release")
    say("build metaroced, metaroce-perf and metaroce-copy in build/ (some minutes the first time)")
    run("ninja", "-C", BUILD, *(p.relative_to(BUILD) for p in PROGRAMS.values()))


class Pair:
    """Two daemons on this machine, hosts a and b, joined by PLANES planes of shared memory."""

    count = 0

    def __init__(self, processes, work, loss_ppm=0):
        Pair.count += 1
        self.processes, self.work = processes, work
        self.name = f"{work.name}-{Pair.count}"
        self.loss_ppm = loss_ppm
        self.sockets = {h: work / f"{h}{Pair.count}.sock" for h in "ab"}
        self.daemons = {}
        cpus = sorted(os.sched_getaffinity(0))
        # One after the other: both look for free huge pages first.
        for host, cpu, role, last in (("a", cpus[0], "server", 1), ("b", cpus[1 % len(cpus)], "client", 2)):
            self.start(host, cpu, role, last)

    def start(self, host, cpu, role, last):
        ports = [{"kind": "memif", "role": role, "socket": self.name, "id": i, "plane": i,
                  "address": f"10.0.{i}.{last}/24"} for i in range(PLANES)]
        config = {
            "eal": {"file_prefix": f"{self.name}{host}"},
            "control": {"socket": str(self.sockets[host]), "mode": "0600"},
            "hosts": [{"name": host, "ports": ports, "groups": [{"rx": cpu, "idle": "yield"}]}],
        }
        if self.loss_ppm:
            config["faults"] = {"loss_ppm": self.loss_ppm}
        file = self.work / f"{host}{Pair.count}.yaml"
        file.write_text(json.dumps(config, indent=2) + "\n")  # JSON is YAML
        daemon = Tool(self.processes, self.work, f"metaroced-{host}{Pair.count}", "metaroced",
                      ["--json", "--config", file])
        self.daemons[host] = daemon
        deadline = time.monotonic() + START_LIMIT
        while not self.sockets[host].exists():
            if not daemon.alive():
                raise Failed(f"{daemon.name} ended while starting{daemon.log_end()}")
            if time.monotonic() > deadline:
                raise Failed(f"{daemon.name} is not ready after {START_LIMIT} s{daemon.log_end()}")
            time.sleep(0.05)

    def stop(self):
        """Ends both daemons; their counters by host name."""
        counters = {}
        for host, daemon in reversed(self.daemons.items()):
            if not daemon.alive():
                raise Failed(f"{daemon.name} ended on its own, exit code {daemon.process.returncode}{daemon.log_end()}")
            if not self.processes.stop(daemon.process):
                raise Failed(f"{daemon.name} had to be killed{daemon.log_end()}")
            code, document = daemon.result()
            if code != 0:
                raise Failed(f"{daemon.name}: exit code {code}{daemon.log_end()}")
            counters[host] = document["hosts"][0]
        return counters

    def run(self, name, program, server_arguments, client_arguments):
        """Server on host a, client on host b; both results."""
        server = Tool(self.processes, self.work, f"{name}-server", program,
                      [*server_arguments, "--json", "--once", "--socket", self.sockets["a"]])
        deadline = time.monotonic() + 5
        while True:
            client = Tool(self.processes, self.work, f"{name}-client", program,
                          [*client_arguments, "--json", "--socket", self.sockets["b"]])
            code, document = client.result()
            # 4: peer lost, which is also what refuses us until the server listens.
            if code == 4 and server.alive() and time.monotonic() < deadline:
                time.sleep(0.1)
                continue
            if code != 0:
                raise Failed(f"{client.name}: exit code {code}: {document.get('error', 'no reason given')}"
                             f"{client.log_end()}")
            return server.good_result(), document


class Row:
    def __init__(self, run, count="", share="", speed="", again="", order="", checked="", paths=""):
        self.cells = [run, paths, count, share, speed, again, order, checked]

    HEAD = ["", "paths", "bytes", "share", "Gb/s or latency", "sent again", "out of order", "compared"]


def perf(pair, test, *options):
    server, client = pair.run(test, "metaroce-perf", [test], [test, *options, "--verify", "10.0.0.1"])
    rounds = client["rounds"] + server["rounds"]
    if not rounds or not all(r["verified"] for r in rounds):
        raise Failed(f"{test}: not all data was verified")
    round_ = client["rounds"][0]
    if test.endswith("_bw"):
        count = round_["sent"]["bytes"]
        speed = f"{round_['sent']['gbit_per_s']:.2f} Gb/s"
    else:
        latency = round_["half_round_trip"]
        count = latency["samples"] * 2 * round_["size_bytes"]
        speed = f"median {latency['p50_us']:.1f} us"
    # Arrivals are counted where they arrive: at the server.
    arrived = {p["plane"]: p for p in server["planes"]}
    total = sum(p["tx_bytes"] for p in client["planes"])
    rows = [Row(test, f"{count:,}", "", speed, client["packets"]["retransmitted_packets"],
                server["packets"]["rx_out_of_order_packets"], "every byte", client["paths_used"])]
    shares = dict.fromkeys(range(PLANES), 0.0)
    for p in client["planes"]:
        share = shares[p["plane"]] = 100 * p["tx_bytes"] / total if total else 0.0
        rows.append(Row(f"  plane {p['plane']}", f"{p['tx_bytes']:,}", f"{share:.1f} %", "", p["retransmitted_packets"],
                        arrived.get(p["plane"], {}).get("rx_out_of_order_packets", 0), "", p["paths"]))
    return rows, shares


def tree_size(tree, limit):
    """Bytes of the files of a tree; stops counting at the limit."""
    total = 0
    for folder, _, names in os.walk(tree):
        for name in names:
            try:
                info = os.lstat(os.path.join(folder, name))
            except OSError:
                continue
            total += info.st_size if stat.S_ISREG(info.st_mode) else 0
        if total > limit:
            break
    return total


def choose_tree(candidates, least, most):
    """The first tree between the sizes, else the largest one below `most`."""
    best, best_size = None, 0
    for tree in map(pathlib.Path, candidates):
        if not tree.is_dir() or tree.is_symlink():
            continue
        size = tree_size(tree, most)
        if size > most:
            continue
        if size >= least:
            return tree
        if size > best_size:
            best, best_size = tree, size
    if best is None:
        raise Failed("found no directory tree to copy")
    return best


def compare_trees(source, target):
    """Kind, mode, content and link targets; the number of files that were compared."""
    def entries(tree):
        return sorted(str(p.relative_to(tree)) for p in tree.rglob("*"))

    def digest(path):
        h = hashlib.sha256()
        with open(path, "rb") as f:
            while block := f.read(MIB):
                h.update(block)
        return h.digest()

    names = entries(source)
    if names != entries(target):
        raise Failed(f"the copy of {source} does not have the same entries")
    files = 0
    for name in names:
        a, b = source / name, target / name
        one, two = os.lstat(a), os.lstat(b)
        same = one.st_mode == two.st_mode
        if same and stat.S_ISLNK(one.st_mode):
            same = os.readlink(a) == os.readlink(b)
        elif same and stat.S_ISREG(one.st_mode):
            same = one.st_size == two.st_size and digest(a) == digest(b)
            files += 1
        if not same:
            raise Failed(f"the copy of {a} differs")
    return files


def copy(pair, name, tree):
    target = pair.work / f"{name}-target"
    target.mkdir()
    _, client = pair.run(name, "metaroce-copy", ["--serve", target], ["--quiet", tree, "10.0.0.1:"])
    if client["mismatched"] or client["failed"]:
        raise Failed(f"{name}: {client['mismatched']} files damaged, {client['failed']} not copied")
    files = compare_trees(tree, target / tree.name)
    counters = pair.stop()  # of this copy alone: the pair has done nothing else
    shutil.rmtree(target)
    again = counters["b"]["tx"]["resent_packets"]
    speed = f"{client['bytes'] * 8 / client['elapsed_s'] / 1e9:.2f} Gb/s"
    lost = sum(c.get("faults", {}).get("lost", 0) for c in counters.values())
    title = f"copy {tree}" + (f", {LOSS_PPM / 10000:g} % lost" if pair.loss_ppm else "")
    return Row(title, f"{client['bytes']:,}", "", speed, again, counters["a"]["rx"]["out_of_order"],
               f"{files} files", ""), again, lost


def print_table(rows):
    table = [Row.HEAD] + [[str(c) for c in r.cells] for r in rows]
    widths = [max(len(line[i]) for line in table) for i in range(len(Row.HEAD))]
    print()
    for number, line in enumerate(table):
        print("  ".join(c.ljust(w) if i == 0 else c.rjust(w)
                        for i, (c, w) in enumerate(zip(line, widths))).rstrip())
        if number == 0:
            print("-" * (sum(widths) + 2 * (len(widths) - 1)))
    print(flush=True)


def machine():
    model = "unknown CPU"
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        model = next((line.split(":", 1)[1].strip() for line in f if line.startswith("model name")), model)
    return f"{len(os.sched_getaffinity(0))} CPUs, {model}, Linux {platform.release()}"


def demonstrate(processes, work):
    most = min(1024 * MIB, shutil.disk_usage(work).free // 2)
    large = choose_tree(["/usr/share/doc", "/usr/include", "/usr/share/perl", "/usr/lib/python3", ROOT / "lib"],
                        16 * MIB, most)
    small = choose_tree(["/usr/include/c++", "/usr/share/perl", "/usr/include/dpdk", "/usr/lib/python3",
                         "/usr/include", ROOT / "lib"], 8 * MIB, min(most, 64 * MIB))
    reasons = []

    say(f"start two daemons, joined by {PLANES} planes of shared memory (memif)")
    pair = Pair(processes, work)
    say("write_bw: Writes of 64 KiB, every byte compared")
    rows, shares = perf(pair, "write_bw", "-s", "65536", "-n", "8000")
    for plane, share in shares.items():
        if share < LEAST_SHARE:
            reasons.append(f"plane {plane} carried {share:.1f} % of the bytes of write_bw, less than {LEAST_SHARE:g} %")
    say("send_bw: Sends of 64 KiB, every byte compared")
    rows += perf(pair, "send_bw", "-s", "65536", "-n", "4000")[0]
    say("write_lat: ping-pong of Writes of 64 bytes")
    rows += perf(pair, "write_lat", "-s", "64", "-n", "5000")[0][:1]
    pair.stop()

    say(f"copy {large}, then compare the trees")
    pair = Pair(processes, work)
    rows.append(copy(pair, "copy", large)[0])

    say(f"copy {small} while both daemons throw away {LOSS_PPM / 10000:g} % of all packets, then compare")
    pair = Pair(processes, work, LOSS_PPM)
    row, again, lost = copy(pair, "copy-lossy", small)
    rows.append(row)
    if lost == 0:
        reasons.append("the lossy copy lost nothing, so that it shows nothing")
    elif again == 0:
        reasons.append(f"nothing was sent again in the lossy copy, although {lost} packets were thrown away")
    say("done")
    print_table(rows)
    print(f"{machine()}; both ends and the tools share these CPUs: this says that it works,\n"
          "not how fast a network is.", flush=True)
    if reasons:
        raise Failed("; ".join(reasons))


def interrupt(_number, _frame):
    raise Interrupted


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep-logs", action="store_true", help="keep configurations, results and logs; say where")
    options = parser.parse_args()

    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    base = tempfile.gettempdir()
    if len(base) > 40:  # a Unix socket's path has at most 107 bytes
        base = "/tmp"
    processes, work = Processes(), pathlib.Path(tempfile.mkdtemp(prefix="metaroce-quickstart-", dir=base))
    code, last = 0, "quickstart: everything arrived"
    try:
        for s in signals:
            signal.signal(s, interrupt)
        build(processes, work)
        demonstrate(processes, work)
    except Failed as e:
        code, last = 1, f"quickstart: FAILED: {e}"
    except Interrupted:
        code, last = 130, "quickstart: interrupted"
    finally:
        for s in signals:
            signal.signal(s, signal.SIG_IGN)
        processes.stop_all()
        if options.keep_logs:
            for target in work.glob("*-target"):
                shutil.rmtree(target, ignore_errors=True)
            print(f"logs and configurations are in {work}", file=sys.stderr)
        else:
            shutil.rmtree(work, ignore_errors=True)
    print(last, file=sys.stderr if code else sys.stdout, flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
