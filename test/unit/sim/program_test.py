#!/usr/bin/env python3
"""metaroce-sim itself: real scenarios, exit codes, equal bytes, a signal.

    program_test.py PROGRAM ORACLE
"""
import json
import pathlib
import signal
import struct
import subprocess
import sys
import tempfile
import time

SCENARIOS = pathlib.Path(__file__).resolve().parents[3] / "config" / "scenarios"
PROGRAM, ORACLE = sys.argv[1:3]


def run(*arguments):
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=100)


def test_every_scenario_is_right():
    files = sorted(f for f in SCENARIOS.glob("*.yaml") if f.name != "targets.yaml")
    done = run("check", *files)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(": ok, ") == len(files) > 25
    assert "incast" in run("list", SCENARIOS).stdout


def test_equal_seeds_equal_bytes():
    scenario = SCENARIOS / "ls64-incast-8.yaml"
    first, second = run("run", scenario, "--json", "--seed", 5), run("run", scenario, "--json", "--seed", 5)
    assert first.returncode == 0, first.stderr
    assert first.stdout == second.stdout
    document = json.loads(first.stdout)
    assert document["runs"][0]["totals"]["delivered_bytes"] == 8 << 20
    assert run("run", scenario, "--json", "--seed", 6).stdout != first.stdout


def test_series_show_windows_hints_queues_and_rates():
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "series.csv"
        assert run("run", SCENARIOS / "ls64-incast-8.yaml", "--series", file).returncode == 0
        lines = file.read_text().splitlines()
        assert lines[0] == "time_ns,name,value"
        most = {}
        for at, name, value in (line.split(",") for line in lines[1:]):
            most[name] = max(most.get(name, 0), int(value))
        senders = {name.split(".")[0] for name in most if name.endswith(".hint_mbps") and most[name] != 0}
        assert len(senders) == 8, senders
        for host in senders:  # 0.99 of the line for one, a share of it once all have come
            assert most[host + ".hint_mbps"] <= 400_000 and most[host + ".window_bytes"] > 8192, host
            assert most[host + ".allowed_mbps"] > 40_000, host
        assert max(value for name, value in most.items() if name.endswith(".queue_bytes")) > 300_000


def test_canaries_are_found():
    for canary in ("double_placement", "wrong_address", "lost_completion"):
        done = run("run", SCENARIOS / "canary.yaml", "--set", f"canary={canary}")
        assert done.returncode == 3 and "violation: " in done.stdout, (canary, done.returncode, done.stdout)
    assert run("run", SCENARIOS / "canary.yaml", "--set", "canary=none").returncode == 0


def test_limit_is_a_failure():
    done = run("run", SCENARIOS / "ls64-permutation-2m.yaml", "--json", "--set", "limits.time=1us")
    assert done.returncode == 1, done.returncode
    assert json.loads(done.stdout)["runs"][0]["outcome"] == "time_limit"


def frames(file):
    """(time in ns, bytes) of each frame of a pcap file."""
    data = file.read_bytes()
    magic, major, minor, *_, link_type = struct.unpack_from("<IHHiIII", data)
    assert (magic, major, minor, link_type) == (0xA1B23C4D, 2, 4, 1)
    at = 24
    while at < len(data):
        seconds, nanos, captured, length = struct.unpack_from("<IIII", data, at)
        assert captured == length
        yield seconds * 10**9 + nanos, data[at + 16:at + 16 + captured]
        at += 16 + captured
    assert at == len(data)


def ones_sum(data):
    data += bytes(len(data) % 2)
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def test_capture_is_what_a_wire_carries():
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "run.pcap"
        done = run("run", SCENARIOS / "canary.yaml", "--set", "canary=none", "--pcap", file, "--json")
        assert done.returncode == 0, done.stderr
        document = json.loads(done.stdout)["runs"][0]
        last, data = 0, 0
        for at, frame in frames(file):
            assert last <= at <= document["virtual_time_ns"]
            last = at
            ip, udp = frame[14:34], frame[34:]
            assert frame[12:14] == b"\x08\0" and ip[0] == 0x45 and ip[9] == 17
            assert struct.unpack_from(">H", ip, 2)[0] == len(frame) - 14
            assert ones_sum(ip) == 0xFFFF
            assert ones_sum(ip[12:] + struct.pack(">HH", 17, len(udp)) + udp) == 0xFFFF
            data += udp[8] == 0x11
        assert data >= document["totals"]["delivered_packets"] > 0


def test_oracle_with_the_losses_of_a_run():
    ring = [SCENARIOS / "ring-whole.yaml", "--seed", 2, "--set", "workload.bytes=128KiB", "--set", "fabric.leaves=2"]
    loss = [*ring, "--set", "loss=2%"]
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "losses.csv"
        document = json.loads(run("run", *loss, "--json", "--losses", file).stdout)["runs"][0]
        oracle = [json.loads(subprocess.run([ORACLE, *map(str, a)], capture_output=True, check=True, timeout=100).stdout)
                  for a in (loss + ["--losses", file], ring)]
        file.write_text(file.read_text(encoding="utf-8") + "1,1,5,1,random\n", encoding="utf-8")
        bad = subprocess.run([ORACLE, *map(str, loss), "--losses", file], capture_output=True, text=True, timeout=100)
    told, free = oracle
    # The fabric has losses of ACKs as well; of packets with payload the list has all.
    assert told["losses_of_the_run"] == document["totals"]["data_lost"] > 100
    assert 0 < told["lost"] <= told["losses_of_the_run"]
    assert told["sent"] == free["sent"] + told["lost"] and free["lost"] == 0
    assert free["run_us"] < told["run_us"] < document["metrics"]["run_us"], (oracle, document["metrics"])
    assert abs(free["run_us"] / document["metrics"]["run_ideal_us"] - 1) < 1e-4, free
    assert bad.returncode == 2 and "not of this workload" in bad.stderr, bad


def test_signal_ends_with_a_summary():
    command = [PROGRAM, "run", SCENARIOS / "long-streams.yaml", "--json", "--seeds", "9"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 1, process.returncode
    document = json.loads(out)
    assert [r["outcome"] for r in document["runs"]] == ["stopped"], document["runs"]


def main():
    for name, test in sorted(globals().items()):
        if name.startswith("test_"):
            test()
            print(f"ok {name}")


if __name__ == "__main__":
    main()
