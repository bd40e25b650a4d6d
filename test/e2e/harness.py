"""Runs the real programs: daemons and applications as child processes of one test program.

Who owns what: `Run` owns a temporary directory and every process started in it. Processes are ended
by their process id only, and by the kernel (PR_SET_PDEATHSIG) when the test program itself dies, so
nothing survives a failure, Ctrl-C or kill -9. All names (sockets, memif, EAL prefixes) carry the
directory's random name: any number of test programs run at one time, and twice.

Every wait has a limit. A limit that a requirement states is written in the test; PATIENCE is only
what a loaded machine may need for something that normally takes milliseconds.
"""
import argparse
import ctypes
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import xml.sax.saxutils

PATIENCE = 60.0  # seconds
SKIPPED = 77
PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)
_programs = None  # build/app


def program(name):
    folder = "metaroced" if name == "metaroced" else name
    return str(_programs / folder / name)


def _die_with_parent():
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def wait_until(condition, what, limit=PATIENCE):
    """The first true value of condition()."""
    deadline = time.monotonic() + limit
    pause = 0.002
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {limit:.0f} s: {what}")
        time.sleep(pause)
        pause = min(2 * pause, 0.05)


class Process:
    """A child; stdout and stderr go to files of the run's directory."""

    def __init__(self, run, name, command, **popen):
        self.name = name
        self.command = command
        self.out_path = run.path / f"{name}.out"
        self.err_path = run.path / f"{name}.err"
        with open(self.out_path, "wb") as out, open(self.err_path, "wb") as err:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, preexec_fn=_die_with_parent, **popen
            )
        self.started = time.monotonic()

    @property
    def pid(self):
        return self.process.pid

    def out(self):
        return self.out_path.read_text(errors="replace")

    def err(self):
        return self.err_path.read_text(errors="replace")

    def running(self):
        return self.process.poll() is None

    def wait(self, limit=PATIENCE):
        """Its exit code (negative: signal). A process that hangs is a failed test."""
        try:
            return self.process.wait(limit)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} did not end within {limit:.0f} s; {self.tail()}") from None

    def signal(self, number):
        if self.running():
            self.process.send_signal(number)

    def kill(self):
        self.signal(signal.SIGKILL)
        self.process.wait()

    def json(self):
        """stdout as one JSON document, whatever the exit code."""
        try:
            return json.loads(self.out())
        except ValueError as error:
            raise AssertionError(f"{self.name}: stdout is not one JSON document ({error}); {self.tail()}") from None

    def tail(self):
        return f"{' '.join(self.command)}\n--- stdout\n{self.out()[-1500:]}\n--- stderr\n{self.err()[-3000:]}"


class Daemon(Process):
    """metaroced with a configuration; ready when the constructor's caller has called ready()."""

    def __init__(self, run, name, config, prefix=(), options=()):
        name = f"{name}{len(run.daemons)}"
        self.socket = str(run.path / f"{name}.sock")
        self.config = run.path / f"{name}.yaml"
        self.config.write_text(config.replace("@SOCKET@", self.socket).replace("@PREFIX@", f"{run.tag}-{name}"))
        self.prefix = list(prefix)
        self.run = run
        self.generation = 0
        super().__init__(run, name, [*prefix, program("metaroced"), "--config", str(self.config), *options])
        run.daemons.append(self)

    def ready(self, limit=PATIENCE):
        def check():
            if not self.running():
                raise AssertionError(f"daemon {self.name} ended at start; {self.tail()}")
            return f"ready on {self.socket}" in self.err()

        wait_until(check, f"daemon {self.name} ready", limit)
        return self

    def restarted(self):
        """A new daemon from the same configuration; nothing is cleaned up in between."""
        return Daemon._again(self)

    @staticmethod
    def _again(old):
        new = Daemon.__new__(Daemon)
        new.__dict__.update(socket=old.socket, config=old.config, prefix=old.prefix, run=old.run)
        new.generation = old.generation + 1
        name = f"{old.name.split('.')[0]}.{new.generation}"
        Process.__init__(new, old.run, name, old.command)
        old.run.daemons.append(new)
        return new

    def state(self):
        """All counters and objects (SIGUSR1)."""
        before = self.err().count("metaroced: state ")
        self.signal(signal.SIGUSR1)

        def answered():
            lines = [x for x in self.err().splitlines(keepends=True) if x.startswith("metaroced: state ")]
            return lines[-1] if len(lines) > before and lines[-1].endswith("\n") else None

        line = wait_until(answered, f"state of daemon {self.name}")
        return json.loads(line.removeprefix("metaroced: state "))

    def host(self, name):
        return next(h for h in self.state()["hosts"] if h["name"] == name)

    def objects(self):
        """What applications hold here: all zero when none is left."""
        s = self.state()
        held = {k: s[k] for k in ("clients", "regions", "cqs", "streams", "listeners", "requests", "client_memory_bytes")}
        for h in s["hosts"]:
            o = h["objects"]
            held.update({f"{h['name']}.{k}": o[k] for k in o if k not in ("connections", "half_open")})
        return held

    def wait_empty(self, base, limit=PATIENCE):
        """Back to `base`, an earlier objects()."""
        last = {}

        def check():
            last.update(self.objects())
            return last == base

        try:
            wait_until(check, "", limit)
        except AssertionError:
            more = {k: (base.get(k), v) for k, v in last.items() if base.get(k) != v}
            raise AssertionError(f"{self.name} still holds, (base, now): {more}; {self.tail()}") from None

    def stop(self, limit=PATIENCE):
        self.signal(signal.SIGTERM)
        return self.wait(limit)


class Run:
    """A temporary directory and what runs in it. With a failure the directory is kept."""

    def __init__(self):
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="mr-e2e-"))
        self.tag = self.path.name
        self.processes = []
        self.daemons = []
        self.count = 0
        cpus = sorted(os.sched_getaffinity(0))
        self.cpus = (cpus[0], cpus[-1])

    def start(self, name, command, **popen):
        self.count += 1
        p = Process(self, f"{self.count:03d}-{name}", command, **popen)
        self.processes.append(p)
        return p

    def close(self, keep):
        alive = [p for p in self.processes + self.daemons if p.running()]
        for p in alive:
            p.kill()
        if not keep:
            shutil.rmtree(self.path, ignore_errors=True)


class TestCase(unittest.TestCase):
    """One Run per class; daemons started in setUpClass serve all its cases."""

    @classmethod
    def setUpClass(cls):
        cls.run_ = Run()
        cls.addClassCleanup(lambda: cls.run_.close(cls.run_.path in _keep))
        try:
            cls.start_world()
        except BaseException:
            _keep.add(cls.run_.path)
            raise

    @classmethod
    def tearDownClass(cls):
        try:
            cls.end_world()
        except BaseException:
            _keep.add(cls.run_.path)
            raise

    @classmethod
    def start_world(cls):
        pass

    @classmethod
    def end_world(cls):
        pass

    def daemons_alive(self):
        for d in self.run_.daemons:
            if not d.running() and d.process.returncode not in (0, -signal.SIGKILL):
                self.fail(f"daemon {d.name} died (exit {d.process.returncode}); {d.tail()}")


_keep = set()  # directories of failed runs


class _Result(unittest.TextTestResult):
    def startTest(self, test):
        self.began = time.monotonic()
        super().startTest(test)

    def stopTest(self, test):
        self.stream.writeln(f"   {time.monotonic() - self.began:.2f} s")
        super().stopTest(test)

    def _failed(self, test):
        run = getattr(test, "run_", None)
        if run is not None:
            _keep.add(run.path)

    def addFailure(self, test, err):
        self._failed(test)
        super().addFailure(test, err)

    def addError(self, test, err):
        self._failed(test)
        super().addError(test, err)


def _cases(suite):
    for t in suite:
        if isinstance(t, unittest.TestSuite):
            yield from _cases(t)
        else:
            yield t


def _write_xml(path, cases, result):
    """What GoogleTest would write, so that cases are counted one by one."""
    bad = {}
    for test, text in result.failures + result.errors:
        bad[test.id()] = text
    known = {t.id() for t in cases}
    rows = [(t.id().split(".")[-2:], bad.get(t.id())) for t in cases]
    rows += [(("set_up", i), text) for i, text in bad.items() if i not in known]
    with open(path, "w", encoding="utf-8") as f:
        f.write("<testsuites>\n")
        for (suite, name), text in rows:
            quote = xml.sax.saxutils.quoteattr
            f.write(f'<testsuite name={quote(suite)}><testcase classname={quote(suite)} name={quote(name)} status="run">')
            if text is not None:
                f.write(f"<failure>{xml.sax.saxutils.escape(text)}</failure>")
            f.write("</testcase></testsuite>\n")
        f.write("</testsuites>\n")


def _interrupted(number, _frame):
    raise SystemExit(128 + number)


def main(needs_root=False):
    """Runs the cases of the calling program. Arguments: directory of the built programs; GoogleTest's
    --gtest_output=xml:FILE, as meson gives it; -k PATTERN as unittest has it."""
    global _programs
    p = argparse.ArgumentParser()
    p.add_argument("programs", type=pathlib.Path)
    p.add_argument("--gtest_output", default="")
    p.add_argument("-k", action="append", default=None)
    a = p.parse_args()
    _programs = a.programs.resolve()
    if needs_root and os.geteuid() != 0:
        print("skipped: needs root")
        sys.exit(SKIPPED)
    signal.signal(signal.SIGTERM, _interrupted)
    signal.signal(signal.SIGHUP, _interrupted)
    loader = unittest.TestLoader()
    if a.k:
        loader.testNamePatterns = [f"*{k}*" for k in a.k]
    suite = loader.loadTestsFromModule(sys.modules["__main__"])
    cases = list(_cases(suite))
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2, resultclass=_Result).run(suite)
    if a.gtest_output.startswith("xml:"):
        _write_xml(a.gtest_output[4:], cases, result)
    for path in sorted(_keep):
        print(f"logs kept in {path}")
    if not cases:
        print("no case was selected")
    sys.exit(0 if result.wasSuccessful() and cases else 1)
