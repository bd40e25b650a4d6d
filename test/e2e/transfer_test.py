#!/usr/bin/env python3
"""The same transfers over one kind of port: `transfer_test.py WORLD BUILD/app ...`.

Short verified runs of metaroce-perf and a copied tree, judged by the JSON of both ends and by the
daemons' own counters.
"""
import hashlib
import os
import random
import sys

import harness
import worlds

WORLDS = {
    "memif": worlds.memif,
    "memif6": lambda run: worlds.memif(run, planes=2, v6=True),
    "ring": worlds.ring,
    "af_packet": worlds.af_packet,
    "tap": worlds.tap,
}
NEEDS_ROOT = ("af_packet", "tap")
MTU = {"tap": 1408}


class Transfer(harness.TestCase):
    kind = None

    @classmethod
    def start_world(cls):
        cls.world = WORLDS[cls.kind](cls.run_)
        cls.base = cls.world.objects()

    def setUp(self):
        self.before = [self.world.side(s)[0].host(s) for s in "ab"]

    def tearDown(self):
        self.daemons_alive()

    @classmethod
    def end_world(cls):
        cls.world.wait_empty(cls.base)  # once: closed streams linger for seconds

    def counted(self, side, *path):
        """What a counter of the host grew by in this case."""
        i = "ab".index(side)
        now = self.world.side(side)[0].host(side)
        was = self.before[i]
        for p in path:
            now, was = now[p], was[p]
        return now - was

    def perf(self, test, *args):
        """Client on a, server on b: their two documents."""
        server = self.world.listening("b", self.world.start("b", "metaroce-perf", test, "--once"))
        client = self.world.start("a", "metaroce-perf", test, self.world.address_b, "--verify", "--paths", *args)
        self.assertEqual(client.wait(), 0, client.tail())
        self.assertEqual(server.wait(), 0, server.tail())
        documents = client.json(), server.json()
        for d in documents:
            self.assertEqual((d["result"], d["exit_code"]), ("ok", 0), d)
            self.assertTrue(d["rounds"], d)
            for r in d["rounds"]:
                self.assertIs(r["verified"], True, d)
        return documents

    def bandwidth(self, test, size, messages, streams):
        client, server = self.perf(test, "-s", size, "-n", messages, "-q", streams)
        total = size * messages * streams
        for d, direction in ((client, "sent"), (server, "received")):
            moved = d["rounds"][0][direction]
            self.assertEqual((moved["messages"], moved["bytes"]), (messages * streams, total), d)
        self.assertEqual(sorted(p["plane"] for p in client["planes"] if p["tx_packets"]), list(range(self.world.planes)))
        self.assertEqual(sorted(p["plane"] for p in server["planes"] if p["rx_packets"]), list(range(self.world.planes)))
        for p in client["planes"]:
            self.assertGreaterEqual(p["paths"], 2, f"a plane with one path only: {client['planes']}")
        packets = total // MTU.get(self.kind, 4096)
        self.assertGreaterEqual(self.counted("a", "tx", "data_packets"), packets)
        self.assertGreaterEqual(self.counted("b", "rx", "data_packets"), packets)
        self.assertGreaterEqual(self.counted("b", "rx", "placed_bytes"), total)
        self.assertGreaterEqual(client["packets"]["tx_bytes"], total)

    def test_write_bw(self):
        self.bandwidth("write_bw", 65536, 200, 2)

    def test_send_bw(self):
        self.bandwidth("send_bw", 65536, 200, 2)

    def test_odd_sizes(self):
        for size in (0, 1, 4095, 4097, 12345):
            for test in ("write_bw", "send_bw"):
                with self.subTest(test=test, size=size):
                    client, server = self.perf(test, "-s", size, "-n", 50)
                    self.assertEqual(client["rounds"][0]["sent"]["bytes"], 50 * size)
                    self.assertEqual(server["rounds"][0]["received"]["bytes"], 50 * size)

    def test_both_ways(self):
        client, server = self.perf("write_bw", "-s", 16384, "-n", 100, "-b")
        for d in (client, server):
            for direction in ("sent", "received"):
                self.assertEqual(d["rounds"][0][direction]["bytes"], 16384 * 100, d)

    def latency(self, test):
        client, _ = self.perf(test, "-s", 64, "-n", 200)
        h = client["rounds"][0]["half_round_trip"]
        self.assertEqual(h["samples"], 200)
        self.assertGreater(h["min_us"], 0)
        self.assertLessEqual(h["min_us"], h["p50_us"])
        self.assertLessEqual(h["p50_us"], h["max_us"])

    def test_write_lat(self):
        self.latency("write_lat")

    def test_send_lat(self):
        self.latency("send_lat")

    def test_copy(self):
        source, target = (self.run_.path / n for n in ("source", "target"))
        files = make_tree(source, seed=1)
        target.mkdir()
        server = self.world.listening("b", self.world.start("b", "metaroce-copy", "--serve", target, "--once"))
        client = self.world.start("a", "metaroce-copy", source, f"{bracket(self.world.address_b)}:into")
        self.assertEqual(client.wait(), 0, client.tail())
        self.assertEqual(server.wait(), 0, server.tail())
        for d in (client.json(), server.json()):
            self.assertEqual((d["result"], d["failed"], d["mismatched"]), ("ok", 0, 0), d)
            self.assertEqual(d["files"], len(files), d)
        self.assertEqual(hashes(target / "into" / "source"), files)


def bracket(address):
    return f"[{address}]" if ":" in address else address


def make_tree(root, seed):
    """Files of awkward sizes; {relative path: SHA-256}."""
    rng = random.Random(seed)
    for i, size in enumerate((0, 1, 4095, 4096, 4097, 100_000, 3 << 20)):
        path = root / ("deep/" * (i % 3)) / f"file {i}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(rng.randbytes(size))
    return hashes(root)


def hashes(root):
    found = {}
    for folder, _, names in os.walk(root):
        for n in names:
            path = os.path.join(folder, n)
            with open(path, "rb") as f:
                found[os.path.relpath(path, root)] = hashlib.sha256(f.read()).hexdigest()
    return found


if __name__ == "__main__":
    Transfer.kind = sys.argv.pop(1)
    harness.main(needs_root=Transfer.kind in NEEDS_ROOT)
