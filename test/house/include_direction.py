#!/usr/bin/env python3
"""Who may include whom. Exit code 1 and one line per violation.

The table is the architecture: `lib/X` includes headers of its own folder and of those listed.
Only what stands in DPDK may include DPDK's headers. A new folder needs a row first.
"""
import re
import sys

import tree

# lib/<folder>: the other folders of lib/ that it may include.
LIB = {
    "base": set(),
    "wire": {"base"},
    "transport": {"base", "wire"},
    "rocev2": {"base", "transport"},
    "fabric": {"base"},
    "sim": {"base", "wire", "transport", "rocev2", "fabric"},
    "telemetry": {"base", "wire", "transport"},
    "config": {"base", "wire", "transport", "fabric"},
    # From a scenario file to what lib/sim runs.
    "scenario": {"base", "wire", "transport", "fabric", "sim", "config"},
    "api": {"base", "wire", "transport"},
    "dataplane": {"base", "wire", "transport", "rocev2", "fabric", "telemetry", "config", "api"},
    # Above drivers/: from a configuration to a running dataplane, and that inside an application.
    "runtime": {"base", "config", "dataplane", "fabric"},
    "embed": {"base", "api", "config", "runtime"},
    "verbs": {"base", "api"},
}
ANY = set(LIB)
# lib/runtime opens ports, and runs the fabric between them.
RUNTIME_DRIVERS = ("drivers/registry.h", "drivers/fabric/emulated_fabric.h", "drivers/fabric/fabric_admin.h")
# Longest prefix wins; None: lib/ does not restrict it.
DPDK = ("lib/dataplane/", "lib/runtime/", "drivers/", "app/", "test/unit/dataplane/", "test/unit/drivers/",
        "test/dpdk/", "test/e2e/", "test/bench/")

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]')


def check(path, lines):
    """Violations of one file: (line number, text)."""
    parts = path.parts
    name = path.as_posix()
    in_lib = parts[0] == "lib" and len(parts) > 2
    allowed = ANY
    if in_lib:
        if parts[1] not in LIB:
            yield 1, f"lib/{parts[1]} has no row in the table of test/house/include_direction.py"
            return
        allowed = LIB[parts[1]] | {parts[1]}
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        header = match.group(1)
        base = header.rsplit("/", 1)[-1]
        if base.startswith("rte_") and not name.startswith(DPDK):
            yield number, f"includes <{header}>: DPDK is for {', '.join(DPDK)} only"
        folder = header.split("/", 1)[0]
        if "/" in header and folder in LIB and folder not in allowed:
            yield number, f'includes "{header}": lib/{parts[1]} may only use {sorted(allowed)}'
        opens_ports = header in RUNTIME_DRIVERS and parts[1] == "runtime"
        if in_lib and not opens_ports and header.startswith(("../", "lib/", "app/", "drivers/", "test/")):
            yield number, f'includes "{header}": write it relative to lib/'


def self_test():
    """The checker must be able to fail."""
    from pathlib import PurePosixPath as P

    bad = [
        ("lib/base/x.h", '#include "wire/packet.h"'),
        ("lib/wire/x.h", '#include "transport/work.h"'),
        ("lib/transport/rx/x.cpp", "#include <rte_mbuf.h>"),
        ("lib/config/x.cpp", '#  include "dataplane/port.h"'),
        ("lib/api/x.cpp", "#include <dpdk/rte_config.h>"),
        ("lib/wire/x.h", '#include "../base/serial.h"'),
        ("lib/unheard_of/x.h", ""),
    ]
    good = [
        ("lib/dataplane/x.cpp", "#include <rte_mbuf.h>"),
        ("lib/transport/x.h", '#include "wire/packet.h"'),
        ("lib/base/x.h", "#include <cstdint>"),
        ("test/unit/base/x.cpp", '#include "transport/work.h"'),
    ]
    for name, line in bad:
        assert list(check(P(name), [line])), f"not noticed: {name}: {line}"
    for name, line in good:
        assert not list(check(P(name), [line])), f"wrongly refused: {name}: {line}"


def main():
    self_test()
    seen = wrong = 0
    for path in tree.files(*tree.CXX):
        seen += 1
        text = (tree.ROOT / path).read_text(encoding="utf-8", errors="replace")
        for number, message in check(path, text.splitlines()):
            print(f"{path}:{number}: {message}")
            wrong += 1
    print(f"{seen} files, {wrong} violations")
    sys.exit(1 if wrong or not seen else 0)


if __name__ == "__main__":
    main()
