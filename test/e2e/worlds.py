"""Pairs of hosts, a and b, joined by some kind of port: what the same tests run over."""
import ctypes
import os
import subprocess
import time

import harness

CLONE_NEWNET = 0x40000000


class World:
    """`a` and `b`: daemons (the same one for a ring); host_a, host_b: names of their hosts."""

    def __init__(self, run, a, b, planes, v6=False):
        self.run, self.a, self.b, self.planes = run, a, b, planes
        self.host_a, self.host_b = "a", "b"
        self.address_a, self.address_b = (address(0, 1, v6), address(0, 2, v6))

    def side(self, side):
        """(daemon, host, address) of "a" or "b"."""
        return (self.a, "a", self.address_a) if side == "a" else (self.b, "b", self.address_b)

    def served(self, test="write_bw", *args, limit=harness.PATIENCE):
        """One verified run of metaroce-perf, client on a: both ends' exit codes and documents."""
        server = self.listening("b", self.start("b", "metaroce-perf", test, "--once"))
        client = self.start("a", "metaroce-perf", test, self.address_b, "--verify", *args)
        code = client.wait(limit)
        # A client that failed may have left the server waiting.
        if code != 0 and not client.json()["rounds"]:
            server.kill()
        return (code, server.wait(limit)), client, server

    def start(self, side, tool, *args, json=True):
        daemon, host, _ = self.side(side)
        where = ["--socket", daemon.socket, "--host", host]
        command = [harness.program(tool), *map(str, args), *where, *(["--json"] if json else [])]
        return self.run.start(f"{side}-{tool.removeprefix('metaroce-')}", command)

    def listening(self, side, process, before=0):
        """Waits until the process has its listener; `before`: listeners of others."""
        daemon, host, _ = self.side(side)

        def check():
            if not process.running():
                raise AssertionError(f"{process.name} ended before it listened; {process.tail()}")
            return daemon.host(host)["objects"]["listeners"] > before

        harness.wait_until(check, f"{process.name} listens")
        return process

    def objects(self):
        return [d.objects() for d in dict.fromkeys((self.a, self.b))]

    def wait_empty(self, base, limit=harness.PATIENCE):
        for d, o in zip(dict.fromkeys((self.a, self.b)), base):
            d.wait_empty(o, limit)


def address(plane, host, v6):
    return f"fd00:0:0:{plane:x}::{host}" if v6 else f"10.0.{plane}.{host}"


def _prefixed(plane, host, v6):
    return f'"{address(plane, host, v6)}/64"' if v6 else f"{address(plane, host, v6)}/24"


def _host(name, ports, cpu):
    lines = "".join(f"      - {{{p}}}\n" for p in ports)
    return f"  - name: {name}\n    ports:\n{lines}    groups:\n      - {{rx: {cpu}, idle: yield}}\n"


def config(hosts, more=""):
    """YAML of a daemon; `more`: further sections."""
    head = "eal: {file_prefix: @PREFIX@, memory: no_huge, memory_size: 256MiB}\ncontrol: {socket: @SOCKET@}\n"
    return f"{head}hosts:\n{''.join(hosts)}{more}"


def memif_configs(run, planes=4, v6=False, more_a="", more_b=""):
    """Host a is the memifs' server."""
    configs = []
    for host, name, role, more, cpu in ((1, "a", "server", more_a, run.cpus[0]), (2, "b", "client", more_b, run.cpus[1])):
        ports = [
            f"kind: memif, role: {role}, socket: {run.tag}-{len(run.daemons)}, id: {k}, plane: {k}, address: {_prefixed(k, host, v6)}"
            for k in range(planes)
        ]
        configs.append(config([_host(name, ports, cpu)], more))
    return configs


def memif(run, planes=4, v6=False, more_a="", more_b=""):
    config_a, config_b = memif_configs(run, planes, v6, more_a, more_b)
    a = harness.Daemon(run, "a", config_a)
    b = harness.Daemon(run, "b", config_b)
    return World(run, a.ready(), b.ready(), planes, v6)


def ring(run, planes=2):
    hosts = []
    for host, name, cpu in ((1, "a", run.cpus[0]), (2, "b", run.cpus[1])):
        ports = [f"kind: ring, pair: plane{k}, plane: {k}, address: {_prefixed(k, host, False)}" for k in range(planes)]
        hosts.append(_host(name, ports, cpu))
    d = harness.Daemon(run, "d", config(hosts)).ready()
    return World(run, d, d, planes)


def fabric(run, planes=4, more=""):
    """One daemon whose hosts are joined by an emulated fabric; `more`: further keys of it."""
    hosts = []
    for host, name, cpu in ((1, "a", run.cpus[0]), (2, "b", run.cpus[1])):
        ports = [f"kind: fabric, plane: {k}, address: {_prefixed(k, host, False)}" for k in range(planes)]
        hosts.append(_host(name, ports, cpu))
    section = (
        f"fabric:\n  planes: {planes}\n  host_rate: 10Gb/s\n  host_propagation: 5us\n"
        "  nic_queue_packets: 64\n  queue: 1MiB\n  ecn_min: 64KiB\n  ecn_max: 256KiB\n"
    )
    d = harness.Daemon(run, "d", config(hosts, section + more)).ready()
    return World(run, d, d, planes)


def _ip(*args):
    subprocess.run(["ip", *args], check=True, timeout=harness.PATIENCE)


def own_network_namespace():
    """For the rest of this process and its children: what they make vanishes with them."""
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "no network namespace")


def af_packet(run, planes=2):
    """Each host in a network namespace of its own, joined by veth pairs."""
    own_network_namespace()
    other = run.start("namespace", ["unshare", "--net", "sleep", "infinity"])
    here = os.stat("/proc/self/ns/net").st_ino
    harness.wait_until(lambda: os.stat(f"/proc/{other.pid}/ns/net").st_ino != here, "second network namespace")
    inside = ["nsenter", f"--net=/proc/{other.pid}/ns/net"]
    configs = []
    for k in range(planes):
        _ip("link", "add", f"va{k}", "mtu", "9000", "type", "veth", "peer", "name", f"vb{k}", "mtu", "9000", "netns", str(other.pid))
        _ip("link", "set", f"va{k}", "up")
        subprocess.run([*inside, "ip", "link", "set", f"vb{k}", "up"], check=True, timeout=harness.PATIENCE)
    for host, name, cpu in ((1, "a", run.cpus[0]), (2, "b", run.cpus[1])):
        ports = [
            f"kind: af_packet, interface: v{name}{k}, mtu: 9000, line_rate: 10Gb/s, plane: {k}, address: {_prefixed(k, host, False)}"
            for k in range(planes)
        ]
        configs.append(config([_host(name, ports, cpu)]))
    a = harness.Daemon(run, "a", configs[0])
    b = harness.Daemon(run, "b", configs[1], prefix=inside)
    return World(run, a.ready(), b.ready(), planes)


def tap(run):
    """One tap per host, joined by a bridge of the kernel."""
    own_network_namespace()
    daemons = []
    for host, name, cpu in ((1, "a", run.cpus[0]), (2, "b", run.cpus[1])):
        port = f"kind: tap, interface: mr-{name}, line_rate: 1Gb/s, address: {_prefixed(0, host, False)}"
        daemons.append(harness.Daemon(run, name, config([_host(name, [port], cpu)], "transport: {payload_mtu: 1408B}\n")))
    for d in daemons:
        d.ready()
    _ip("link", "add", "mr-bridge", "type", "bridge", "forward_delay", "0", "mcast_snooping", "0")
    for n, name in enumerate(("mr-a", "mr-b")):
        # The kernel's end has the port's MAC address, which a bridge would take for its own.
        _ip("link", "set", name, "address", f"02:00:00:00:ff:0{n}")
        _ip("link", "set", name, "master", "mr-bridge", "up")
    _ip("link", "set", "mr-bridge", "up")
    return World(run, *daemons, 1)
