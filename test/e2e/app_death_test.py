#!/usr/bin/env python3
"""Applications that die: kill -9 at random moments of a transfer. The other end ends with an error in
bounded time, the daemons give back all that the dead one held, and serve on. Also strangers at the
control socket."""
import os
import random
import signal
import socket
import time

import harness
import worlds

KILLS = int(os.environ.get("METAROCE_E2E_KILLS", "100"))
SEED = int(os.environ.get("METAROCE_E2E_SEED", "1"))
PAIRS = 4           # at one time, each on a service of its own
SURVIVOR = 10.0     # seconds in which the other end must have ended
TESTS = ("write_bw", "send_bw", "write_lat", "send_lat")


class Pair:
    """A server on b and a client on a; one of them is killed `after` seconds."""

    def __init__(self, world, rng, service):
        self.world, self.service = world, service
        self.test = rng.choice(TESTS)
        self.victim = rng.choice(("client", "server"))
        self.after = rng.choice((0.0, 0.02, 0.05, 0.1, 0.3)) * rng.random()
        self.verify = rng.choice(("--verify", "--no-verify"))
        size = rng.choice((64, 4096, 65536)) if self.test.endswith("_bw") else 64
        self.streams = rng.choice((1, 3)) if self.test.endswith("_bw") else 1
        self.args = ["-s", size, "-q", self.streams, "--run_infinitely", self.verify]
        self.server = world.start("b", "metaroce-perf", self.test, "-p", service, "--timeout", 30, json=False)
        self.client, self.kill_at, self.killed_at = None, None, None

    def __str__(self):
        return f"{self.test} {self.args}, {self.victim} killed after {self.after:.3f} s (seed {SEED})"

    def step(self):
        """Moves on without waiting; True when both have ended."""
        now = time.monotonic()
        if self.client is None:
            if "waiting for a client" not in self.server.out():
                if not self.server.running() or now - self.server.started > harness.PATIENCE:
                    raise AssertionError(f"{self}: no server; {self.server.tail()}")
                return False
            self.client = self.world.start("a", "metaroce-perf", self.test, f"{self.world.address_b}:{self.service}",
                                           *self.args, "--timeout", 30)
            self.kill_at = now + self.after
            return False
        dead, other = (self.client, self.server) if self.victim == "client" else (self.server, self.client)
        if self.killed_at is None:
            if now >= self.kill_at:
                dead.kill()
                self.killed_at = now
            return False
        if other.running():
            # A client that died before it reached the server leaves it waiting: that is no transfer.
            if other is self.server and self.test + " with " not in self.server.out():
                if now - self.killed_at > 1.5:
                    other.kill()
                    return True
                return False
            if now - self.killed_at > SURVIVOR:
                raise AssertionError(f"{self}: the survivor hangs; {other.tail()}")
            return False
        if other.process.returncode not in (1, 4):
            raise AssertionError(f"{self}: the survivor's exit code is {other.process.returncode}; {other.tail()}")
        if other is self.client:
            assert other.json()["result"] == "failed", other.tail()
        return True


class Kills(harness.TestCase):
    @classmethod
    def start_world(cls):
        cls.world = worlds.memif(cls.run_, planes=2)
        cls.base = cls.world.objects()

    def tearDown(self):
        self.daemons_alive()

    def test_kills_at_random_moments(self):
        rng = random.Random(SEED)
        started, running, service = 0, [], 1000
        while started < KILLS or running:
            while started < KILLS and len(running) < PAIRS:
                service += 1
                started += 1
                running.append(Pair(self.world, rng, service))
            running = [p for p in running if not p.step()]
            time.sleep(0.002)
            self.daemons_alive()
        self.world.wait_empty(self.base)
        codes, client, server = self.world.served("write_bw", "-s", 65536, "-n", 100)
        self.assertEqual(codes, (0, 0), client.tail() + server.tail())

    def test_copy_killed(self):
        source, target = self.run_.path / "big", self.run_.path / "target"
        source.write_bytes(os.urandom(1 << 20) * 64)
        target.mkdir()
        for victim in ("client", "server"):
            with self.subTest(victim=victim):
                server = self.world.listening("b", self.world.start("b", "metaroce-copy", "--serve", target, "--once"))
                placed = self.world.b.host("b")["rx"]["placed_bytes"]
                client = self.world.start("a", "metaroce-copy", source, f"{self.world.address_b}:{victim}")
                harness.wait_until(lambda: self.world.b.host("b")["rx"]["placed_bytes"] > placed + (1 << 20), "data flows")
                dead, other = (client, server) if victim == "client" else (server, client)
                dead.kill()
                self.assertIn(other.wait(SURVIVOR), (1, 4), other.tail())
                self.assertEqual(other.json()["result"], "failed")
                self.assertFalse((target / victim / "big").exists(), "an incomplete file has its final name")

    def strangers(self, daemon):
        """Garbage, silence and half a message, each on a connection of its own."""
        rng = random.Random(SEED)
        held = []
        for i in range(60):
            s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            s.settimeout(5)
            s.connect(daemon.socket)
            try:
                if i % 3 == 0:
                    s.send(rng.randbytes(rng.randrange(1, 2000)))
                elif i % 3 == 1:
                    for _ in range(20):
                        s.send(b"")
                if i % 2:
                    held.append(s)
                else:
                    s.close()
            except (BrokenPipeError, ConnectionResetError):
                s.close()  # shown the door
        return held

    def test_strangers_disturb_nobody(self):
        server = self.world.listening("b", self.world.start("b", "metaroce-perf", "write_bw"))
        client = self.world.start("a", "metaroce-perf", "write_bw", self.world.address_b, "-s", 65536, "-D", 2, "--verify")
        placed = lambda: self.world.b.host("b")["rx"]["placed_bytes"]
        before = placed()
        harness.wait_until(lambda: placed() > before, "data flows")
        held = self.strangers(self.world.a) + self.strangers(self.world.b)
        self.assertEqual((client.wait(), server.wait()), (0, 0), client.tail() + server.tail())
        self.assertIs(client.json()["rounds"][0]["verified"], True)
        for s in held:
            s.close()
        self.world.wait_empty(self.base)

    def test_json_of_failures(self):
        """One valid document, whatever went wrong."""
        address, socket_a = self.world.address_b, self.world.a.socket
        for code, args in (
            (2, ["nonsense"]),
            (2, ["write_bw", address, "--size", "3G"]),
            (2, ["write_bw", address, "--no-such-option"]),
            (1, ["write_bw", address, "--socket", str(self.run_.path / "nobody.sock"), "--timeout", "1"]),
            (1, ["write_bw", address, "--socket", socket_a, "--host", "nobody"]),
            (4, ["write_bw", address, "--socket", socket_a, "-p", "99"]),
            (4, ["send_bw", "10.0.0.77", "--socket", socket_a, "--timeout", "1"]),
            (4, ["send_bw", "192.0.2.1", "--socket", socket_a, "--timeout", "1"]),
        ):
            with self.subTest(args=args):
                p = self.run_.start("perf", [harness.program("metaroce-perf"), *args, "--json"])
                self.assertEqual(p.wait(15), code, p.tail())
                d = p.json()
                self.assertEqual((d["result"], d["exit_code"]), ("failed", code))
                self.assertEqual(p.err(), f"metaroce-perf: {d['error']}\n")

    def test_interrupted_client(self):
        server = self.world.listening("b", self.world.start("b", "metaroce-perf", "send_bw"))
        client = self.world.start("a", "metaroce-perf", "send_bw", self.world.address_b, "--run_infinitely")
        before = self.world.b.host("b")["rx"]["placed_bytes"]
        # The two tools exchange some hundred bytes before the first round.
        harness.wait_until(lambda: self.world.b.host("b")["rx"]["placed_bytes"] > before + (1 << 20), "data flows")
        client.signal(signal.SIGINT)
        self.assertEqual((client.wait(10), server.wait(10)), (0, 0), client.tail() + server.tail())
        self.assertIs(client.json()["interrupted"], True)
        self.assertIs(server.json()["interrupted"], True)


if __name__ == "__main__":
    harness.main()
