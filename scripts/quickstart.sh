#!/bin/bash
# From a fresh clone on Debian 12 to packets on four planes: installs what is missing, builds the
# daemon and two tools, and lets them work. See --help of scripts/quickstart.py, which does the rest.
#   scripts/quickstart.sh                all of it; root only to install packages
#   scripts/quickstart.sh --no-setup     do not look for packages
#   scripts/quickstart.sh --keep-logs    keep configurations and logs, and say where
set -eu
cd "$(dirname "$0")/.."

setup=1 options=()
for arg in "$@"; do
  case "$arg" in
    --no-setup) setup= ;;
    --keep-logs) options+=("$arg") ;;
    -h | --help) sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "quickstart: unknown option '$arg'" >&2; sed -n '2,6s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
  esac
done
if [ -n "$setup" ]; then scripts/setup.sh; fi
if ! command -v python3 >/dev/null; then
  echo "quickstart: python3 is missing; run scripts/quickstart.sh without --no-setup" >&2
  exit 1
fi
exec python3 -B scripts/quickstart.py "${options[@]}"
