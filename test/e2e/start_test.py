#!/usr/bin/env python3
"""Starting and stopping metaroced: one clear line for each mistake, and an orderly end."""
import os
import pathlib
import signal
import subprocess
import time

import harness
import worlds

EXAMPLES = sorted((pathlib.Path(__file__).resolve().parents[2] / "config").glob("*.yaml"))
END_LIMIT = 3.0  # seconds that a daemon takes to end, drained or not


class Configuration(harness.TestCase):
    def metaroced(self, *args):
        return subprocess.run(
            [harness.program("metaroced"), *map(str, args)], capture_output=True, text=True, timeout=harness.PATIENCE
        )

    def test_examples_are_good(self):
        self.assertGreater(len(EXAMPLES), 3)
        for path in EXAMPLES:
            with self.subTest(config=path.name):
                r = self.metaroced("--config", path, "--check")
                if "is not one on which this process may run" in r.stderr and len(os.sched_getaffinity(0)) < 6:
                    continue  # written for a larger machine; all that precedes the CPUs was good
                self.assertEqual(r.returncode, 0, r.stderr)

    def test_printed_defaults_are_good(self):
        path = self.run_.path / "defaults.yaml"
        path.write_text(self.metaroced("--print-defaults").stdout)
        self.assertEqual(self.metaroced("--config", path, "--check").returncode, 0)

    def refused(self, text, line, *options):
        path = self.run_.path / "bad.yaml"
        path.write_text(text)
        r = self.metaroced("--config", path, *options)
        self.assertEqual(r.returncode, 2, r.stderr)
        lines = r.stderr.splitlines()
        self.assertEqual(len(lines), 1, r.stderr)
        self.assertTrue(lines[0].startswith(f"{path}:{line}: "), r.stderr)
        self.assertEqual(r.stdout, "")
        return lines[0]

    def test_bad_configuration(self):
        good = "hosts:\n  - name: a\n    ports:\n      - {kind: ring, pair: x, address: 10.0.0.1/24}\n"
        for options in ((), ("--check",)):
            self.assertIn("payload_mtu", self.refused(good + "transport:\n  payload_mut: 4096B\n", 6, *options))
            self.refused(good.replace("10.0.0.1/24", "10.0.0.1/33"), 4, *options)
            self.refused(good + "hosts: []\n", 5, *options)
            self.refused("hosts: [\n", 2, *options)

    def test_no_file(self):
        r = self.metaroced("--config", self.run_.path / "nowhere.yaml")
        self.assertEqual((r.returncode, len(r.stderr.splitlines())), (2, 1), r.stderr)

    def test_usage(self):
        r = self.metaroced("--confg", "x")
        self.assertEqual(r.returncode, 2, r.stderr)


class Start(harness.TestCase):
    def ends_at_start(self, name, config):
        d = harness.Daemon(self.run_, name, config)
        self.assertEqual(d.wait(), 1, d.tail())
        lines = d.err().splitlines()
        self.assertEqual(len(lines), 1, d.tail())
        self.assertEqual(d.out(), "")
        self.assertTrue(lines[0].startswith("metaroced: "), d.tail())
        return lines[0]

    def test_second_instance(self):
        config = worlds.memif_configs(self.run_, planes=2)[0].replace("@SOCKET@", str(self.run_.path / "shared.sock"))
        first = harness.Daemon(self.run_, "first", config)
        first.socket = str(self.run_.path / "shared.sock")
        first.ready()
        # The very same configuration, and another one that shares nothing but the socket.
        other = worlds.config(["  - name: a\n    ports:\n      - {kind: \"null\", address: 10.9.0.1/24}\n"])
        for name, text in (("second", config), ("third", other.replace("@SOCKET@", first.socket))):
            with self.subTest(name=name):
                line = self.ends_at_start(name, text)
                self.assertIn(f"another daemon serves {first.socket}", line)
        self.assertTrue(first.state())  # undisturbed
        self.assertEqual(first.stop(), 0, first.tail())

    def test_missing_interface(self):
        host = "  - name: a\n    ports:\n      - {kind: af_packet, interface: mr-nowhere, mtu: 9000, address: 10.0.0.1/24}\n"
        self.assertIn("mr-nowhere", self.ends_at_start("missing", worlds.config([host])))

    def test_unreachable_socket_path(self):
        host = "  - name: a\n    ports:\n      - {kind: \"null\", address: 10.0.0.1/24}\n"
        config = worlds.config([host]).replace("@SOCKET@", "/proc/nowhere/metaroced.sock")
        self.assertIn("/proc/nowhere/metaroced.sock", self.ends_at_start("socket", config))


class Stop(harness.TestCase):
    def idle(self, number):
        d = worlds.ring(self.run_).a
        began = time.monotonic()
        d.signal(number)
        self.assertEqual(d.wait(), 0, d.tail())
        self.assertLess(time.monotonic() - began, END_LIMIT)
        self.assertFalse(pathlib.Path(d.socket).exists())

    def test_idle(self):
        self.idle(signal.SIGTERM)
        self.idle(signal.SIGINT)

    def stopped_daemon(self, side):
        """SIGTERM to one daemon under transfer: it ends in time, and so do all applications."""
        world = worlds.memif(self.run_, planes=2)
        server = world.listening("b", world.start("b", "metaroce-perf", "write_bw", "--timeout", 30))
        client = world.start("a", "metaroce-perf", "write_bw", world.address_b, "--run_infinitely", "--timeout", 30)
        harness.wait_until(lambda: world.b.host("b")["rx"]["placed_bytes"] > 1 << 20, "data flows")
        daemon, other = world.side(side)[0], world.side("ab".replace(side, ""))[0]
        began = time.monotonic()
        daemon.signal(signal.SIGTERM)
        self.assertEqual(daemon.wait(), 0, daemon.tail())
        self.assertLess(time.monotonic() - began, END_LIMIT)
        for p in (client, server):
            self.assertIn(p.wait(10), (1, 4), p.tail())
            self.assertEqual(p.json()["result"], "failed")
            self.assertEqual(len(p.err().splitlines()), 1, p.tail())
        self.daemons_alive()
        self.assertTrue(other.running(), other.tail())
        self.assertEqual(other.stop(), 0)

    def test_transferring_client_side(self):
        self.stopped_daemon("a")

    def test_transferring_server_side(self):
        self.stopped_daemon("b")

    def test_json_at_the_end(self):
        d = harness.Daemon(self.run_, "json", worlds.config(["  - name: a\n    ports:\n      - {kind: \"null\", address: 10.0.0.1/24}\n"]), options=["--json"]).ready()
        self.assertEqual(d.stop(), 0)
        self.assertEqual(d.json()["clients"], 0)


if __name__ == "__main__":
    harness.main()
