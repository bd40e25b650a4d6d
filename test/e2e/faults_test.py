#!/usr/bin/env python3
"""Faults on purpose (`faults:` of the configuration): loss is repaired; a changed byte is found by
who compares the data, and repaired below where packets carry a CRC."""
import re

import harness
import worlds

# Of host a's DATA packets the 60th is one of the middle of a transfer; byte 1000 is payload.
FLIP = "faults:\n  corrupt:\n    - {packet: 60, offset: 1000}\n"
HEADER_WRITE_IMM, HEADER_SEND = 52, 40  # bytes before the payload


class Loss(harness.TestCase):
    @classmethod
    def start_world(cls):
        loss = "faults: {loss_ppm: 10000, seed: %d}\n"
        cls.world = worlds.memif(cls.run_, more_a=loss % 7, more_b=loss % 8)

    def run_with_loss(self, test):
        codes, client, server = self.world.served(test, "-s", 65536, "-n", 400)
        self.assertEqual(codes, (0, 0), client.tail() + server.tail())
        for d in (client.json(), server.json()):
            self.assertIs(d["rounds"][0]["verified"], True)
        # 6,400 packets: 64 lost are expected, fewer than 20 never happen.
        self.assertGreater(client.json()["packets"]["retransmitted_packets"], 20)

    # [MR-2.2.5] [MR-6.2.2]
    def test_write_bw(self):
        self.run_with_loss("write_bw")

    # [MR-2.2.5] [MR-6.2.3]
    def test_send_bw(self):
        self.run_with_loss("send_bw")

    def test_send_lat(self):
        codes, client, server = self.world.served("send_lat", "-s", 64, "-n", 300)
        self.assertEqual(codes, (0, 0), client.tail() + server.tail())

    def tearDown(self):
        self.daemons_alive()
        self.assertGreater(self.world.a.host("a")["faults"]["lost"], 0)


class Corruption(harness.TestCase):
    """A fresh pair of daemons for each case: the fault strikes once."""

    def run_perf(self, test, more):
        world = worlds.memif(self.run_, planes=2, more_a=more + FLIP, more_b=more)
        codes, client, server = world.served(test, "-s", 65536, "-n", 50)
        flipped = world.a.host("a")["faults"]["flipped"]
        self.assertEqual(flipped, 1, "the fault was not put in")
        return world, codes, client, server

    def tearDown(self):
        self.daemons_alive()
        for d in self.run_.daemons:
            self.assertEqual(d.stop(), 0, d.tail())
        self.run_.daemons.clear()

    def mismatch(self, test, header):
        _, codes, client, server = self.run_perf(test, "")
        self.assertEqual(codes, (3, 3), client.tail() + server.tail())
        for p in (client, server):
            d = p.json()
            self.assertEqual((d["result"], d["exit_code"]), ("failed", 3))
            self.assertRegex(p.err(), r"(byte|offset) \d+")
        # The flip lies 1000 - header bytes into a packet of 4096 of some message.
        offset = int(re.search(r"(?:byte|offset) (\d+)", server.json()["error"]).group(1))
        self.assertIn(offset % 4096, [1000 - h for h in (header, header - 8, header + 4)], server.err())

    def test_perf_write_finds_it(self):
        self.mismatch("write_bw", HEADER_WRITE_IMM)

    def test_perf_send_finds_it(self):
        self.mismatch("send_bw", HEADER_SEND)

    # [MR-3.2.1] [MR-3.2.2]
    def test_crc_repairs_it(self):
        world, codes, client, server = self.run_perf("write_bw", "transport: {crc: true}\n")
        self.assertEqual(codes, (0, 0), client.tail() + server.tail())
        drops = world.b.host("b")["drops"]
        self.assertEqual([v for k, v in drops.items() if "crc" in k], [1], drops)
        self.assertGreater(client.json()["packets"]["retransmitted_packets"], 0)

    def copy(self, more):
        world = worlds.memif(self.run_, planes=2, more_a=more + FLIP, more_b=more)
        source = self.run_.path / f"source{len(more)}"
        target = self.run_.path / f"target{len(more)}"
        target.mkdir()
        source.write_bytes(bytes(range(256)) * 4096)
        server = world.listening("b", world.start("b", "metaroce-copy", "--serve", target, "--once"))
        client = world.start("a", "metaroce-copy", source, f"{world.address_b}:")
        codes = client.wait(), server.wait()
        self.assertEqual(world.a.host("a")["faults"]["flipped"], 1, "the fault was not put in")
        return codes, client, server, source, target

    def test_copy_finds_it(self):
        codes, client, server, _, target = self.copy("")
        self.assertEqual(codes, (3, 3), client.tail() + server.tail())
        self.assertEqual(client.json()["mismatched"], 1, client.tail())
        self.assertEqual(list(target.iterdir()), [], "something was left behind")

    def test_copy_crc_repairs_it(self):
        codes, client, server, source, target = self.copy("transport: {crc: true}\n")
        self.assertEqual(codes, (0, 0), client.tail() + server.tail())
        self.assertEqual((target / source.name).read_bytes(), source.read_bytes())


if __name__ == "__main__":
    harness.main()
