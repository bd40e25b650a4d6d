#!/usr/bin/env python3
"""Two hosts of one daemon over the emulated fabric: it passes data, loses, marks and is changed while
traffic runs. Nothing here asks how fast: the machine is shared."""
import re
import signal
import time
import unittest

import harness
import worlds


class Fabric(harness.TestCase):
    @classmethod
    def start_world(cls):
        cls.world = worlds.fabric(cls.run_)
        cls.count = 0

    @classmethod
    def end_world(cls):
        d = cls.world.a
        code = d.stop()
        if code != 0:
            raise AssertionError(f"daemon ended with {code}; {d.tail()}")

    def tearDown(self):
        self.daemons_alive()
        self.ctl("loss", "0%")

    def ctl(self, *words, code=0):
        command = [harness.program("metaroce-ctl"), "fabric", *words, "--socket", self.world.a.socket, "--json"]
        p = self.run_.start("ctl", command)
        self.assertEqual(p.wait(), code, p.tail())
        return p.json()

    def show(self):
        return self.ctl("show")["fabric"]

    def passes(self, *args):
        codes, client, server = self.world.served(*args)
        self.assertEqual(codes, (0, 0), client.tail() + server.tail())
        for p in (client, server):
            self.assertIs(p.json()["rounds"][0]["verified"], True)
        return client.json()

    def test_all_planes_carry_verified_data(self):
        before = self.show()
        d = self.passes("write_bw", "-s", 65536, "-n", 300)
        self.assertEqual(sorted(p["plane"] for p in d["planes"] if p["tx_packets"] > 0), list(range(4)))
        for old, new in zip(before["planes"], self.show()["planes"]):
            self.assertGreater(new["packets"], old["packets"])

    def test_loss_is_repaired(self):
        self.ctl("loss", "1%")
        lost = self.show()["lost"].get("random", 0)
        d = self.passes("write_bw", "-s", 65536, "-n", 400)
        # 6,400 packets: 64 lost are expected, fewer than 20 never happen.
        self.assertGreater(self.show()["lost"]["random"] - lost, 20)
        self.assertGreater(d["packets"]["retransmitted_packets"], 20)

    def test_marks_where_a_queue_grows(self):
        def marks():
            return sum(p["ce_marks"] for p in self.show()["planes"])

        before = marks()
        # 400 Mb/s in all is less than any machine sends.
        for plane in range(4):
            self.ctl("rate", "100Mb/s", "switch0->host1", "plane", str(plane))
        d = self.passes("write_bw", "-s", 65536, "-n", 300)
        for plane in range(4):
            self.ctl("rate", "0Mb/s", "switch0->host1", "plane", str(plane))
        self.assertGreater(marks(), before)
        self.assertEqual(len(d["planes"]), 4)

    # Damage is found by the UDP checksum, and resent like a loss. [MR-3.1.9]
    def test_damage_is_repaired(self):
        self.ctl("corrupt", "1%")
        self.passes("write_bw", "-s", 65536, "-n", 300)
        self.ctl("corrupt", "0%")
        self.assertGreater(self.show()["frames"]["corrupted"], 10)

    def test_duplicates_and_disorder_do_no_harm(self):
        self.ctl("duplicate", "5%", "20us")
        self.ctl("reorder", "5%", "100us")
        self.passes("send_bw", "-s", 65536, "-n", 200)
        self.ctl("duplicate", "0%")
        self.ctl("reorder", "0%")
        self.assertGreater(self.show()["frames"]["duplicated"], 10)

    def test_plane_dies_and_returns(self):
        """No application sees it, and the plane has its share again."""

        def packets(plane):
            return self.show()["planes"][plane]["packets"]

        server = self.world.listening("b", self.world.start("b", "metaroce-perf", "write_bw", "--once"))
        client = self.world.start(
            "a", "metaroce-perf", "write_bw", self.world.address_b, "--verify", "-s", "65536", "--run_infinitely", "--timeout", "30"
        )
        base = packets(2)
        harness.wait_until(lambda: packets(2) > base + 500, "traffic on plane 2")
        self.ctl("down", "plane", "2")
        self.assertEqual(self.show()["planes"][2]["links_down"], 4)
        time.sleep(0.2)
        self.ctl("up", "plane", "2")
        back = self.show()
        self.assertEqual(back["planes"][2]["links_down"], 0)
        self.assertGreater(back["lost"]["link_down"], 0)
        self.wait_for_share(2, client)
        client.signal(signal.SIGINT)
        self.assertEqual((client.wait(), server.wait()), (0, 0), client.tail() + server.tail())
        self.assertIs(client.json()["rounds"][0]["verified"], True)

    def wait_for_share(self, plane, client):
        """Until some stretch of 4,000 packets had 15 % of them on `plane`, of 25 % that are its due."""
        last, share = back = [p["packets"] for p in self.show()["planes"]], 0.0

        def has_it():
            nonlocal last, share
            self.assertTrue(client.running(), f"ended with {share:.3f} on plane {plane}; {client.tail()}")
            now = [p["packets"] for p in self.show()["planes"]]
            if sum(now) - sum(last) < 4000:
                return False
            share = (now[plane] - last[plane]) / (sum(now) - sum(last))
            last = now
            return share > 0.15

        harness.wait_until(has_it, f"share of plane {plane} since {back}")

    def test_copy(self):
        source, target = self.run_.path / "source", self.run_.path / "target"
        target.mkdir()
        source.write_bytes(bytes(range(256)) * 16384)
        server = self.world.listening("b", self.world.start("b", "metaroce-copy", "--serve", target, "--once"))
        client = self.world.start("a", "metaroce-copy", source, f"{self.world.address_b}:")
        self.assertEqual((client.wait(), server.wait()), (0, 0), client.tail() + server.tail())
        self.assertEqual((target / source.name).read_bytes(), source.read_bytes())

    def test_refusals_change_nothing(self):
        for words in (["dwn"], ["down", "plane", "9"], ["loss", "101%"], ["down", "host7"], ["rate", "1Gb/s", "2Gb/s"]):
            answer = self.ctl(*words, code=2)
            self.assertFalse(answer["ok"])
            self.assertNotIn("\n", answer["error"])
        self.assertEqual([p["links_down"] for p in self.show()["planes"]], [0] * 4)

    def test_state_of_the_daemon_has_it(self):
        f = self.world.a.state()["fabric"]
        self.assertEqual((f["hosts"], len(f["planes"])), (2, 4))


class TimeLine(harness.TestCase):
    """Faults of the configuration, on the daemon's clock."""

    def test_a_plane_that_is_down_from_the_start_comes_up(self):
        more = "  faults:\n    - {kind: down, plane: 1}\n    - {kind: up, plane: 1, at: 1s}\n"
        world = worlds.fabric(self.run_, planes=2, more=more)

        def down():
            p = self.run_.start("ctl", [harness.program("metaroce-ctl"), "fabric", "show", "--socket", world.a.socket, "--json"])
            self.assertEqual(p.wait(), 0, p.tail())
            return p.json()["fabric"]["planes"][1]["links_down"]

        harness.wait_until(lambda: down() == 0, "plane 1 up")
        codes, client, server = world.served("write_bw", "-s", 65536, "-n", 100)
        self.assertEqual(codes, (0, 0), client.tail() + server.tail())
        self.assertEqual(world.a.stop(), 0, world.a.tail())

    def test_the_shipped_configuration_is_sound(self):
        path = harness._programs.parent.parent / "config" / "fabric-4-planes.yaml"
        if not path.exists():  # built elsewhere
            raise unittest.SkipTest(f"no {path}")
        p = self.run_.start("check", [harness.program("metaroced"), "--check", "--config", str(path)])
        self.assertEqual(p.wait(), 0, p.tail())
        self.assertTrue(re.search(r"ok$", p.out().strip()))


class NoFabric(harness.TestCase):
    def test_says_so(self):
        p = self.run_.start("ctl", [harness.program("metaroce-ctl"), "fabric", "show", "--socket", str(self.run_.path / "none")])
        self.assertEqual(p.wait(), 1, p.tail())
        self.assertIn("no fabric answers", p.err())


if __name__ == "__main__":
    harness.main()
