#!/bin/bash
# Sets up, builds, tests, and ends with one line `N passed, N failed`: the number of test cases,
# summed over all builds asked for. Exit code 0 only when something passed and nothing failed.
#
#   scripts/test.sh               optimized build with assertions (build/); as root, the tests
#                                 that need root run too
#   scripts/test.sh --sanitize    address and undefined-behaviour sanitizer (build-sanitize/)
#   scripts/test.sh --core-sanitize   the same, of the protocol core and the clients' library only
#   scripts/test.sh --tsan        thread sanitizer (build-tsan/)
#   scripts/test.sh --clang       clang instead of gcc (build-clang/)
#   scripts/test.sh --scoreboard  no tests: scripts/scoreboard.sh --quick over the build in build/;
#                                 fails for a run that is not complete and sound, not for short rows
#   scripts/test.sh --release --sanitize ...     several, one after the other
#   --no-root                     leave out what needs root
#   --within SECONDS              start no further build after that time, and say so
#
# One program or one case: see CONTRIBUTING.md.
set -u -o pipefail
cd "$(dirname "$0")/.." || exit 1
exec </dev/null

usage() { sed -n '5,16s/^# \{0,1\}//p' "$0"; }

flavours=() with_root=1 within=
while [ $# -gt 0 ]; do
  case "$1" in
    --release | --sanitize | --core-sanitize | --tsan | --clang | --scoreboard) flavours+=("${1#--}") ;;
    --no-root) with_root= ;;
    --within)
      within=${2:-}
      if ! [[ $within =~ ^[0-9]+$ ]]; then echo "test: --within needs a number of seconds" >&2; exit 2; fi
      shift
      ;;
    -h | --help) usage; exit 0 ;;
    *) echo "test: unknown option '$1'" >&2; usage >&2; exit 2 ;;
  esac
  shift
done
[ ${#flavours[@]} -gt 0 ] || flavours=(release)
[ "$(id -u)" = 0 ] || with_root=

# Debian's meson, not another one that happens to be first in PATH.
meson=/usr/bin/meson
passed=0 failed=0 skipped=0

# Each step runs as a process group of its own, so that an interrupt ends all of it. meson takes
# SIGTERM as the order to stop its tests; what still lives after five seconds is killed.
set -m
child=
stop() {
  trap '' INT TERM HUP
  if [ -n "$child" ]; then
    kill -TERM -- "-$child" 2>/dev/null
    for _ in {1..50}; do kill -0 -- "-$child" 2>/dev/null || break; sleep 0.1; done
    kill -KILL -- "-$child" 2>/dev/null
  fi
  echo "test: interrupted" >&2
  exit 130
}
trap stop INT TERM HUP
run() {
  "$@" &
  child=$!
  wait "$child"
  local rc=$?
  child=
  return $rc
}

say() { printf '== %s (%d s)\n' "$*" "$SECONDS"; }

# A step that is not a test case failed: it counts as one.
step_failed() {
  echo "FAILED $*" >&2
  failed=$((failed + 1))
}

configure() {  # DIR OPTION...
  local dir=$1
  [ ! -f "$dir/build.ninja" ] || return 0
  rm -rf "$dir/meson-private"  # of a set-up that was interrupted
  run "$meson" setup "$dir" "${@:2}"
}

# Appends the cases of one meson run to the sums.
add_up() {  # DIR LOGBASE MESON-EXIT-CODE
  local counts p f s
  if ! counts=$(python3 scripts/test_summary.py "$1" "$1/meson-logs/$2.json"); then
    step_failed "$1: no result of the suite $2"
    return
  fi
  read -r p f s <<<"$counts"
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
  # meson saw a failure that the count does not show: never hide it.
  if [ "$3" != 0 ] && [ "$f" = 0 ]; then step_failed "$1: meson test, exit code $3"; fi
}

run_suite() {  # DIR LOGBASE MESON-TEST-OPTION...
  local dir=$1 base=$2
  rm -f "$dir"/*.xml "$dir/meson-logs/$base.json"  # results of earlier runs are not results
  run "$meson" test -C "$dir" --no-rebuild --logbase "$base" --print-errorlogs "${@:3}"
  add_up "$dir" "$base" $?
}

has_root_tests() { "$meson" test -C "$1" --no-rebuild --list --suite root 2>/dev/null | grep -q .; }

scoreboard() {
  say "scoreboard: configure and build in build/"
  if ! configure build; then step_failed "scoreboard: configuration"; return; fi
  if ! run ninja -C build app/metaroce-sim/metaroce-sim test/oracle/metaroce-oracle; then
    step_failed "scoreboard: build"
    return
  fi
  say "scoreboard: run"
  if run scripts/scoreboard.sh --quick; then passed=$((passed + 1)); else step_failed "scoreboard"; fi
}

one_flavour() {  # NAME
  local dir=build-$1 options=() test_options=() targets=()
  # What looks at the tree sees the same in every build: once is enough.
  local not_the_tree=(--no-suite house --no-suite spec)
  case "$1" in
    release) dir=build ;;
    sanitize | core-sanitize)
      dir=build-sanitize
      options=('-Db_sanitize=address,undefined' -Db_lundef=false -Doptimization=1 -Ddebug=true)
      test_options=("${not_the_tree[@]}" --timeout-multiplier 4)
      ;;
    tsan)
      options=(-Db_sanitize=thread -Db_lundef=false -Doptimization=1 -Ddebug=true)
      test_options=("${not_the_tree[@]}" --timeout-multiplier 6)
      ;;
    clang)
      export CC=clang-14 CXX=clang++-14
      test_options=("${not_the_tree[@]}")
      ;;
  esac
  if [ "$1" = core-sanitize ]; then
    test_options=(--timeout-multiplier 4 base wire wire_net control transport_parts transport api
      packet_fuzz ring_fuzz roles_fuzz)
    targets=(test/unit/base/base_test test/unit/wire/wire_test test/unit/wire/wire_net_test
      test/unit/transport/control_test test/unit/transport/transport_parts_test
      test/unit/transport/transport_test test/unit/api/api_test
      test/fuzz/packet_fuzz_test test/fuzz/ring_fuzz_test test/fuzz/roles_fuzz_test)
  fi
  say "$1: configure and build in $dir/"
  if ! configure "$dir" "${options[@]}"; then step_failed "$1: configuration"; return; fi
  if ! run ninja -C "$dir" "${targets[@]}"; then step_failed "$1: build"; return; fi
  unset CC CXX
  say "$1: tests"
  # Half of the simulated runs where each costs ten times as much.
  [ "$1" != core-sanitize ] || export METAROCE_SEEDS=100
  run_suite "$dir" default "${test_options[@]}"
  unset METAROCE_SEEDS
  if [ "$1" != core-sanitize ] && has_root_tests "$dir"; then
    if [ -n "$with_root" ]; then
      say "$1: tests that need root"
      run_suite "$dir" root --suite root "${test_options[@]}"
    else
      echo "note: the suite 'root' was not run ($1)"
    fi
  fi
}

if ! run scripts/setup.sh; then
  step_failed "setup: packages are missing"
else
  for flavour in "${flavours[@]}"; do
    if [ -n "$within" ] && [ "$SECONDS" -ge "$within" ]; then
      echo "note: $flavour not started: $SECONDS s of --within $within s are over"
      continue
    fi
    if [ "$flavour" = scoreboard ]; then scoreboard; else one_flavour "$flavour"; fi
  done
fi

[ "$skipped" = 0 ] || echo "note: $skipped test cases were skipped"
if [ $((passed + failed)) = 0 ]; then step_failed "no test ran"; fi
say "done"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
