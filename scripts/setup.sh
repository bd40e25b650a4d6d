#!/bin/sh
# Installs what building and testing need on Debian 12. Asks nothing, may be run again at any
# time, and neither needs the network nor changes anything when all is there.
#   scripts/setup.sh           install what is missing
#   scripts/setup.sh --check   only say what is missing (exit 1 when something is)
#   scripts/setup.sh --plots   also what scripts/plot-run.py needs
set -eu

packages='
  ccache clang-14 clang-format-14 dpdk g++ iproute2 libbenchmark-dev libclang-rt-14-dev
  libcli11-dev libdpdk-dev libfmt-dev libgmock-dev libgtest-dev libnuma-dev libssl-dev
  libyaml-cpp-dev meson ninja-build nlohmann-json3-dev pkg-config python3 python3-yaml shellcheck'

check_only=
case "${1:-}" in
  '') ;;
  --check) check_only=1 ;;
  --plots) packages="$packages python3-matplotlib" ;;
  *) echo "usage: scripts/setup.sh [--check | --plots]" >&2; exit 2 ;;
esac

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  echo "setup: this is not Debian or Ubuntu; install the equivalents of:$packages" >&2
  exit 1
fi

missing=
for p in $packages; do
  # 'installed' at the end: not 'deinstall ok config-files', not half-configured.
  status=$(dpkg-query -W -f='${db:Status-Status}' "$p" 2>/dev/null) || status=none
  [ "$status" = installed ] || missing="$missing $p"
done
if [ -z "$missing" ]; then
  echo "setup: everything is installed"
  exit 0
fi
echo "setup: missing:$missing"
[ -z "$check_only" ] || exit 1

as_root=
if [ "$(id -u)" != 0 ]; then
  if ! command -v sudo >/dev/null || ! sudo -n true 2>/dev/null; then
    echo "setup: needs root; run: sudo apt-get install --no-install-recommends$missing" >&2
    exit 1
  fi
  as_root='sudo -n'
fi

export DEBIAN_FRONTEND=noninteractive
# A fresh machine may still be busy with its own first update: wait for the lock, with a limit.
apt="$as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3"
$apt update </dev/null
# shellcheck disable=SC2086  # words on purpose
$apt install -y --no-install-recommends $missing </dev/null
echo "setup: installed:$missing"
