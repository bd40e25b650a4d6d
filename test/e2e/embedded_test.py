#!/usr/bin/env python3
"""The dataplane inside the applications: no daemon, the same API, memif between two processes."""
import harness

PORTS = 2


def config(run, name, role, host, progress, cpu):
    group = "idle: yield" if progress == "inline" else f"rx: {cpu}, idle: yield"
    ports = "".join(
        f"      - {{kind: memif, role: {role}, socket: {run.tag}, id: {i}, plane: {i}, address: 10.0.{i}.{host}/24}}\n"
        for i in range(PORTS)
    )
    path = run.path / f"{name}.yaml"
    path.write_text(
        f"eal: {{memory: no_huge, memory_size: 256MiB, file_prefix: {run.tag}-{name}, progress: {progress}}}\n"
        f"control: {{socket: {run.path}/{name}.sock}}\n"
        f"hosts:\n  - name: h\n    ports:\n{ports}    groups:\n      - {{{group}}}\n"
    )
    return str(path)


class Embedded(harness.TestCase):
    def pair(self, progress, test, *args):
        tool = str(harness._programs / "metaroce-perf" / "metaroce-perf-embed")
        a = config(self.run_, f"a-{progress}", "server", 1, progress, self.run_.cpus[0])
        b = config(self.run_, f"b-{progress}", "client", 2, progress, self.run_.cpus[1])
        server = self.run_.start("server", [tool, test, "--embed", a, "--once", "--json"])
        client = self.run_.start(
            "client", [tool, test, "10.0.0.1", "--embed", b, "--verify", "--timeout", "30", "--json", *map(str, args)]
        )
        codes = (client.wait(), server.wait())
        self.assertEqual(codes, (0, 0), client.tail() + server.tail())
        for p in (client, server):
            self.assertIs(p.json()["rounds"][0]["verified"], True)
        return client.json()

    def test_inline(self):
        d = self.pair("inline", "write_bw", "-s", 65536, "-n", 300)
        planes = [p["plane"] for p in d["planes"] if p["tx_packets"] > 0]
        self.assertEqual(sorted(planes), list(range(PORTS)))

    def test_inline_latency(self):
        self.pair("inline", "write_lat", "-s", 8, "-n", 300)

    def test_lcores(self):
        self.pair("lcore", "send_bw", "-s", 65536, "-n", 300)


if __name__ == "__main__":
    harness.main()
