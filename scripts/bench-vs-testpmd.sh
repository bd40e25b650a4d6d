#!/usr/bin/env bash
# 4 KiB Writes against dpdk-testpmd over the same kind of memif pair, and 8-byte latency against a
# raw ping. Side by side, alternating, medians. See scripts/bench_vs_testpmd.py --help.
set -euo pipefail
exec python3 "$(dirname "$(readlink -f "$0")")/bench_vs_testpmd.py" "$@"
