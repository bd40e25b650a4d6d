#!/usr/bin/env python3
"""Daemons that die: kill -9 in the middle of transfers. Their own applications are told at once, those
of the other daemon within the time in which a silent peer is given up; the daemon starts again without
any cleaning up, the other one finds it, and serves."""
import os
import time

import harness
import worlds

ROUNDS = int(os.environ.get("METAROCE_E2E_DAEMON_KILLS", "2"))
DEAD_PEER, KEEPALIVE = 1.0, 0.5  # seconds, as configured here
MARGIN = 5.0                     # of a loaded machine
TRANSPORT = "transport: {dead_peer_timeout: 1s, keepalive: 500ms}\n"


class DaemonDeath(harness.TestCase):
    @classmethod
    def start_world(cls):
        cls.world = worlds.memif(cls.run_, planes=2, more_a=TRANSPORT, more_b=TRANSPORT)

    def tearDown(self):
        self.daemons_alive()

    def transfers(self):
        """Two running pairs, one in each direction: {side: its applications}."""
        apps = {"a": [], "b": []}
        for n, (server_side, client_side, test) in enumerate((("b", "a", "write_bw"), ("a", "b", "send_bw"))):
            service = 100 + n
            server = self.world.start(server_side, "metaroce-perf", test, "-p", service, "--timeout", 60)
            self.world.listening(server_side, server)
            address = self.world.side(server_side)[2]
            client = self.world.start(client_side, "metaroce-perf", test, f"{address}:{service}", "--run_infinitely", "--timeout", 60)
            apps[server_side].append(server)
            apps[client_side].append(client)
            placed = lambda: self.world.side(server_side)[0].host(server_side)["rx"]["placed_bytes"]
            before = placed()
            harness.wait_until(lambda: placed() > before + (1 << 20), "data flows")
        return apps

    # [MR-7.5.3]
    def killed(self, side):
        other_side = "ab".replace(side, "")
        daemon, survivor = self.world.side(side)[0], self.world.side(other_side)[0]
        apps = self.transfers()
        daemon.kill()
        killed_at = time.monotonic()
        for p in apps[side]:
            self.assertIn(p.wait(MARGIN), (1, 4), p.tail())
            self.assertIn("metaroced", p.json()["error"])
        for p in apps[other_side]:
            left = killed_at + DEAD_PEER + KEEPALIVE + MARGIN - time.monotonic()
            self.assertEqual(p.wait(max(left, 0.1)), 4, p.tail())
            self.assertEqual(p.json()["exit_code"], 4)
        told = time.monotonic() - killed_at
        new = daemon.restarted().ready()
        setattr(self.world, side, new)
        began = time.monotonic()
        codes, client, server = self.world.served("write_bw", "-s", 65536, "-n", 100)
        self.assertEqual(codes, (0, 0), client.tail() + server.tail())
        print(f"all told {told:.2f} s after the kill, served {time.monotonic() - began:.2f} s after the restart")
        self.assertTrue(survivor.running(), survivor.tail())

    def test_memif_client_side_daemon(self):
        for _ in range(ROUNDS):
            self.killed("b")

    def test_memif_server_side_daemon(self):
        for _ in range(ROUNDS):
            self.killed("a")


if __name__ == "__main__":
    harness.main()
