#!/usr/bin/env python3
"""Benchmarks that need a reference beside them, over memif between two processes of one poller each.

bandwidth  4 KiB Writes (generator embedded in each process) against dpdk-testpmd txonly -> rxonly with
           frames of the same size, the same memory mode, one queue, the same pinning: five pairs in turn.
latency    8-byte Writes, embedded at both ends, against a raw 64-byte ping on the same kind of pair.
Both print the figure through daemons and clients too, without a bound.

Rates are payload: 4,096 bytes per packet on both sides. Ends with one line `ratio R (ours X Gb/s,
testpmd Y Gb/s)` for bandwidth. Exit codes: 0 done, 1 a bound was missed or a run failed, 2 usage.
"""
import argparse
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAYLOAD, HEADERS = 4096, 42 + 44
FRAME = PAYLOAD + HEADERS
LIMIT = 60  # seconds for any one program


class Failed(Exception):
    pass


class Processes:
    """Starts programs in sessions of their own and ends them by process id, whatever happens."""

    def __init__(self):
        self.running = []

    def start(self, command, log, cpu=None, own_session=True):
        """`own_session` False: pollers that share a CPU; yielding works within one session only."""
        def prepare():
            if not own_session:
                return
            os.setsid()
            try:  # between sessions the scheduler knows groups, not nice values
                with open("/proc/self/autogroup", "w") as f:
                    f.write("-20")
            except OSError:
                pass

        def place():
            prepare()
            if cpu is not None:
                os.sched_setaffinity(0, {cpu})
        with open(log, "w") as out:
            p = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT if not log.endswith(".json") else
                                 open(log + ".err", "w"), stdin=subprocess.DEVNULL, preexec_fn=place)
        self.running.append(p)
        return p

    def stop(self, p, sig=signal.SIGTERM):
        if p.poll() is None:
            p.send_signal(sig)
            try:
                p.wait(5)
            except subprocess.TimeoutExpired:
                p.kill()
                p.wait()
        self.running.remove(p)

    def stop_all(self):
        for p in list(self.running):
            self.stop(p)


class Bench:
    def __init__(self, args):
        self.args, self.procs = args, Processes()
        self.dir = tempfile.mkdtemp(prefix="metaroce-bench-")
        self.build = args.build
        self.run = 0
        cpus = sorted(os.sched_getaffinity(0))
        if len(cpus) < 2:
            raise Failed("needs two CPUs, this process may use %s" % cpus)
        self.cpu = cpus[:2]

    def path(self, name):
        return os.path.join(self.dir, name)

    def program(self, *parts):
        p = os.path.join(self.build, *parts)
        if not os.path.exists(p):
            raise Failed("%s is missing: ninja -C %s" % (p, self.build))
        return p

    def config(self, name, role, address, inline, cpu):
        path = self.path(name + ".yaml")
        progress = "progress: inline" if inline else "progress: lcore"
        group = "{idle: poll}" if inline else "{rx: %d, idle: yield}" % cpu
        with open(path, "w") as f:
            f.write("eal: {memory: %s, memory_size: 512MiB, %s, file_prefix: %s}\n" % (self.args.memory, progress, name))
            f.write("control: {socket: %s}\n" % self.path(name + ".sock"))
            f.write("hosts:\n  - name: %s\n    ports:\n      - {kind: memif, role: %s, socket: mrb%d-%d, id: 0, "
                    "plane: 0, address: %s/24, ring_size: 512}\n    groups:\n      - %s\n"
                    % (name[0], role, os.getpid(), self.run, address, group))
        return path

    def wait(self, p, log, limit=LIMIT):
        try:
            code = p.wait(limit)
        except subprocess.TimeoutExpired:
            self.procs.stop(p)
            raise Failed("no end after %d s: %s" % (limit, log))
        self.procs.running.remove(p)
        return code

    def perf_pair(self, test, options, inline, show=False):
        """Result document of the client."""
        self.run += 1
        programs = []
        if inline:
            exe = self.program("app", "metaroce-perf", "metaroce-perf-embed")
            a, b = (self.config("a", "server", "10.0.0.1", True, None), self.config("b", "client", "10.0.0.2", True, None))
            server = [exe, test, "--embed", a, "--no-verify", "--spin", "--json"]
            client = [exe, test, "10.0.0.1", "--embed", b, "--no-verify", "--spin", "--json"] + options
        else:
            exe, daemon = self.program("app", "metaroce-perf", "metaroce-perf"), self.program("app", "metaroced", "metaroced")
            for i, (n, role, ip) in enumerate((("da", "server", "10.0.0.1"), ("db", "client", "10.0.0.2"))):
                log = self.path(n + ".log")
                programs.append(self.procs.start([daemon, "--config", self.config(n, role, ip, False, self.cpu[i])], log, own_session=False))
                self.wait_for(log, "ready on")
            server = [exe, test, "--socket", self.path("da.sock"), "--no-verify", "--json"]
            client = [exe, test, "10.0.0.1", "--socket", self.path("db.sock"), "--no-verify", "--json"] + options
        if show:
            print("  server: taskset -c %d %s" % (self.cpu[1], " ".join(server)))
            print("  client: taskset -c %d %s" % (self.cpu[0], " ".join(client)))
        slog, clog = self.path("server.json"), self.path("client.json")
        cpus = (self.cpu[1], self.cpu[0]) if inline else (self.cpu[0], self.cpu[1])  # beside its daemon
        s = self.procs.start(server, slog, cpus[0], own_session=inline)
        time.sleep(1.5)
        c = self.procs.start(client, clog, cpus[1], own_session=inline)
        code = self.wait(c, clog)
        self.wait(s, slog)
        for p in programs:
            self.procs.stop(p)
        with open(clog) as f:
            text = f.read()
        try:
            doc = json.loads(text)
        except ValueError:
            raise Failed("no JSON from %s: %s" % (" ".join(client), text[:200] or open(clog + ".err").read()[-300:]))
        if code != 0:
            raise Failed("%s: exit %d: %s" % (test, code, doc.get("error", text[:200])))
        return doc

    @staticmethod
    def wait_for(log, text, limit=15):
        end = time.monotonic() + limit
        while time.monotonic() < end:
            with open(log) as f:
                if text in f.read():
                    return
            time.sleep(0.05)
        raise Failed("'%s' does not appear in %s within %d s" % (text, log, limit))

    # ---- bandwidth --------------------------------------------------------------------------------
    def testpmd(self, show):
        exe = shutil.which("dpdk-testpmd")
        if exe is None:
            raise Failed("dpdk-testpmd is missing: scripts/setup.sh")
        self.run += 1
        memory = "--no-huge --no-shconf -m 512" if self.args.memory == "no_huge" else "--in-memory -m 512"
        commands = []
        for role, cpu in (("server", self.cpu[1]), ("client", self.cpu[0])):
            mode = "rxonly" if role == "server" else "txonly --txpkts=%d" % FRAME
            commands.append("%s --no-telemetry --no-pci %s --lcores 0@%d,1@%d --vdev=net_memif0,role=%s,id=0,socket=mrt%d-%d,"
                            "bsize=8448,rsize=9 -- --mbuf-size=8448 --total-num-mbufs=4096 --stats-period 1 --forward-mode=%s"
                            % (exe, memory, cpu, cpu, role, os.getpid(), self.run, mode))
        if show:
            print("  testpmd: %s\n  testpmd: %s" % tuple(commands))
        log = self.path("testpmd.log")
        rx = self.procs.start(commands[0].split(), log)
        time.sleep(1)
        tx = self.procs.start(commands[1].split(), self.path("testpmd-tx.log"))
        time.sleep(2 + self.args.seconds)
        self.procs.stop(tx)
        self.procs.stop(rx)
        with open(log) as f:
            rates = [int(x) for x in re.findall(r"Rx-pps:\s+(\d+)", f.read()) if int(x) > 0]
        if len(rates) < 3:
            raise Failed("testpmd moved nothing: %s" % log)
        return statistics.median(rates[1:-1] or rates) / 1e6

    def bandwidth(self):
        ours, theirs = [], []
        options = ["-s", str(PAYLOAD), "-D", str(self.args.seconds), "--region", "1M"]
        print("bandwidth: frames of %d bytes, memory %s, one queue, CPUs %s" % (FRAME, self.args.memory, self.cpu))
        for i in range(self.args.pairs):
            theirs.append(self.testpmd(i == 0))
            ours.append(self.gbps(self.perf_pair("write_bw", options, True, i == 0)))
            print("  pair %d: testpmd %.3f Mpps %.1f Gb/s, ours %.1f Gb/s" % (i + 1, theirs[-1], self.payload(theirs[-1]), ours[-1]), flush=True)
        big = self.gbps(self.perf_pair("write_bw", options[:-1] + ["256M"], True))
        print("256 MiB region (placed in DRAM): %.1f Gb/s" % big)
        daemons = self.gbps(self.perf_pair("write_bw", options, False))
        print("through daemons and clients: %.1f Gb/s" % daemons)
        mpps, reference = statistics.median(theirs), self.payload(statistics.median(theirs))
        mine = statistics.median(ours)
        ok = True
        if mpps < 2.0:
            print("testpmd reached %.2f Mpps, below 2.0: this machine is too busy for a comparison" % mpps)
            ok = False
        if mine / reference < self.args.bound:
            print("below the bound of %.2f" % self.args.bound)
            ok = False
        print("ratio %.2f (ours %.1f Gb/s, testpmd %.1f Gb/s)" % (mine / reference, mine, reference))
        return ok

    @staticmethod
    def payload(mpps):
        return mpps * PAYLOAD * 8 / 1000

    @staticmethod
    def gbps(doc):
        return doc["rounds"][0]["sent"]["gbit_per_s"]

    # ---- latency ------------------------------------------------------------------------------------
    def raw_ping(self, show):
        exe = self.program("test", "bench", "raw_ping")
        self.run += 1
        base = [exe, "--socket", "mrp%d-%d" % (os.getpid(), self.run), "--memory", self.args.memory]
        log = self.path("ping.json")
        server, client = base + ["--server"], base + ["--count", "200000"]
        if show:
            print("  raw ping: taskset -c %d %s\n  raw ping: taskset -c %d %s"
                  % (self.cpu[1], " ".join(server), self.cpu[0], " ".join(client)))
        s = self.procs.start(server, self.path("ping-server.log"), self.cpu[1])
        time.sleep(1)
        c = self.procs.start(client, log, self.cpu[0])
        if self.wait(c, log) != 0:
            raise Failed("raw ping failed: %s" % open(log).read()[-300:])
        self.procs.stop(s)
        with open(log) as f:
            return json.load(f)["half_rtt_us"]["p50"]

    def latency(self):
        ours, raw = [], []
        options = ["-s", "8", "-n", "100000"]
        print("latency: 8-byte Writes against a raw 64-byte ping, half round trips, medians")
        for i in range(self.args.pairs):
            raw.append(self.raw_ping(i == 0))
            ours.append(self.p50(self.perf_pair("write_lat", options, True, i == 0)))
            print("  pair %d: raw %.2f us, ours %.2f us" % (i + 1, raw[-1], ours[-1]), flush=True)
        print("through daemons and clients: %.2f us" % self.p50(self.perf_pair("write_lat", ["-s", "8", "-n", "2000"], False)))
        times = statistics.median(ours) / statistics.median(raw)
        print("latency ratio %.2f (ours %.2f us, raw ping %.2f us)" % (times, statistics.median(ours), statistics.median(raw)))
        if times > 4.0:
            print("above the bound of 4.00")
        return times <= 4.0

    @staticmethod
    def p50(doc):
        return doc["rounds"][0]["half_round_trip"]["p50_us"]

    def close(self):
        self.procs.stop_all()
        if self.args.keep:
            print("logs: %s" % self.dir)
        else:
            shutil.rmtree(self.dir, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), help="build directory")
    parser.add_argument("--memory", choices=["no_huge", "in_memory"], default="no_huge", help="DPDK memory of every process")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=3, help="per bandwidth run")
    parser.add_argument("--bound", type=float, default=0.5, help="smallest bandwidth ratio that passes")
    parser.add_argument("--only", choices=["latency", "bandwidth"])
    parser.add_argument("--keep", action="store_true", help="keep the logs")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    bench = None
    try:
        bench = Bench(args)
        ok = True
        if args.only != "bandwidth":
            ok &= bench.latency()
        if args.only != "latency":
            ok &= bench.bandwidth()
        return 0 if ok else 1
    except Failed as e:
        print("bench-vs-testpmd: %s" % e, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 1
    finally:
        if bench is not None:
            bench.close()


if __name__ == "__main__":
    sys.exit(main())
