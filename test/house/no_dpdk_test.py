#!/usr/bin/env python3
"""The libraries below lib/dataplane build with no DPDK header in reach.

A second build of the tree, with -Ddpdk=disabled and a folder in front of the include path in
which each DPDK header is an #error. The poison is proven first: two files that include a DPDK
header must not compile. The build stays in WORK_DIR, so that the next run compiles only what
changed.

    no_dpdk_test.py MESON WORK_DIR
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import tree

# Used when DPDK's own headers are not there to be listed.
SOME_HEADERS = ["rte_common.h", "rte_config.h", "rte_eal.h", "rte_ethdev.h", "rte_mbuf.h", "rte_ring.h"]
LIBRARIES = ["base", "wire", "transport", "config", "api"]
CXX = os.environ.get("CXX", "c++").split()


def dpdk_headers():
    names = set(SOME_HEADERS)
    for folder in ("/usr/include/dpdk", "/usr/include/x86_64-linux-gnu/dpdk"):
        names.update(p.name for p in pathlib.Path(folder).glob("rte_*.h"))
    include = re.compile(r'#\s*include\s*[<"](?:dpdk/)?(rte_\w+\.h)[>"]')
    for path in tree.files(*tree.CXX):
        names.update(include.findall((tree.ROOT / path).read_text(encoding="utf-8", errors="replace")))
    return sorted(names)


def poison(folder):
    (folder / "dpdk").mkdir(parents=True, exist_ok=True)
    for name in dpdk_headers():
        text = f"#error {name} is out of reach for this library\n"
        for path in (folder / name, folder / "dpdk" / name):
            if not path.exists():
                path.write_text(text)


def run(command, **more):
    return subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          stdin=subprocess.DEVNULL, timeout=900, **more)


def prove_poison(folder):
    for header in ("rte_mbuf.h", "dpdk/rte_ethdev.h"):
        result = run(CXX + [f"-I{folder}", "-fsyntax-only", "-include", header, "-x", "c++", "/dev/null"])
        if result.returncode == 0 or "out of reach" not in result.stdout:
            sys.exit(f"the poison does not work for <{header}>:\n{result.stdout}")


def check_headers(poisoned, work):
    """Headers that no source includes yet are looked at too: one unit includes all of them."""
    headers = [h for x in LIBRARIES for h in tree.files(".h", under=f"lib/{x}")]
    unit = work / "all_headers.cpp"
    unit.write_text("".join(f'#include "{tree.ROOT / h}"\n' for h in headers))
    lib = tree.ROOT / "lib"
    result = run(CXX + ["-std=c++20", "-fsyntax-only", f"-I{poisoned}", f"-I{lib}", f"-I{lib}/api/include", str(unit)])
    if result.returncode != 0:
        sys.exit(f"a header needs DPDK, or does not compile:\n{result.stdout[-6000:]}")
    return len(headers)


def main():
    meson, work = sys.argv[1], pathlib.Path(sys.argv[2])
    poisoned, build = work / "poison", work / "build"
    poison(poisoned)
    prove_poison(poisoned)
    if not (build / "build.ninja").exists():
        shutil.rmtree(build, ignore_errors=True)
        result = run([meson, "setup", str(build), str(tree.ROOT), "-Ddpdk=disabled", "-Doptimization=0",
                      f"-Dcpp_args=-I{poisoned}", f"-Dc_args=-I{poisoned}"])
        if result.returncode != 0:
            sys.exit(f"-Ddpdk=disabled cannot be configured:\n{result.stdout[-3000:]}")
    else:  # declarations of targets may have changed
        result = run(["ninja", "-C", str(build), "build.ninja"])
        if result.returncode != 0:
            sys.exit(f"-Ddpdk=disabled cannot be configured again:\n{result.stdout[-3000:]}")
    targets = json.loads(run([meson, "introspect", str(build), "--targets"]).stdout)
    files, libraries = [], set()
    for target in targets:
        where = pathlib.Path(target["defined_in"]).parent.relative_to(tree.ROOT).parts
        if where == ("app", "metaroce-sim"):
            continue  # the simulator is for machines without DPDK too
        if where[0] in ("drivers", "app") or where[:2] == ("lib", "dataplane"):
            sys.exit(f"-Ddpdk=disabled still builds {target['name']} of {'/'.join(where)}")
        if where[0] == "lib" and target["build_by_default"]:
            libraries.add(where[1])
            files += [os.path.relpath(f, build) for f in target["filename"]]
    expected = {x for x in LIBRARIES
                if any(p.suffix == ".cpp" for p in tree.files(".cpp", under=f"lib/{x}"))}
    if not expected <= libraries:
        sys.exit(f"no build target for lib/{sorted(expected - libraries)}")
    dependencies = json.loads(run([meson, "introspect", str(build), "--dependencies"]).stdout)
    if any("dpdk" in d["name"] for d in dependencies):
        sys.exit("-Ddpdk=disabled still looks for libdpdk")
    result = run(["ninja", "-C", str(build)] + sorted(set(files)))
    if result.returncode != 0:
        sys.exit(f"a library needs DPDK, or does not build:\n{result.stdout[-6000:]}")
    headers = check_headers(poisoned, work)
    print(f"{headers} headers compile; built without DPDK: {len(files)} targets of lib/{{{','.join(sorted(libraries))}}}; "
          f"{len(dpdk_headers())} headers poisoned")


if __name__ == "__main__":
    main()
