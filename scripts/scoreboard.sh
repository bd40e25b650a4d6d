#!/bin/sh
# Runs every scenario of config/scenarios/targets.yaml and prints one line per row, ending in ok or
# short; see scripts/scoreboard.py --help.
#   scripts/scoreboard.sh            everything, five seeds; writes doc/performance/simulation.md
#   scripts/scoreboard.sh --quick    one seed, without the long rows
set -eu
cd "$(dirname "$0")/.."
exec python3 -B scripts/scoreboard.py "$@"
