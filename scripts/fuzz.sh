#!/bin/bash
# Fuzzes with libFuzzer (clang, address and undefined-behaviour sanitizer) in build-fuzz/.
#   scripts/fuzz.sh                 every target for 60 seconds
#   scripts/fuzz.sh TARGET [SECONDS] [libFuzzer option...]
# Inputs that were found interesting stay in build-fuzz/corpus/TARGET. A crash prints its input
# and leaves it in build-fuzz/crash-TARGET-*; `build-fuzz/test/fuzz/TARGET FILE` replays it. Fix
# it, and add the input to seeds() of test/fuzz/TARGET.cpp: the default suite then keeps it.
set -eu -o pipefail
cd "$(dirname "$0")/.."

dir=build-fuzz
if [ ! -f $dir/build.ninja ]; then
  rm -rf $dir/meson-private
  CC=clang-14 CXX=clang++-14 /usr/bin/meson setup $dir -Dfuzz=true \
    -Db_sanitize=address,undefined -Db_lundef=false -Doptimization=1 -Ddebug=true
fi

mapfile -t targets < <(
  /usr/bin/meson introspect $dir --targets |
    python3 -c 'import json, sys
for t in json.load(sys.stdin):
    if t["type"] == "executable" and "/test/fuzz/" in t["defined_in"] and t["name"].endswith("_fuzz"):
        print(t["name"])'
)
[ ${#targets[@]} -gt 0 ] || { echo "fuzz: no target found in test/fuzz" >&2; exit 1; }

seconds=60
if [ $# -gt 0 ]; then
  if [[ " ${targets[*]} " != *" $1 "* ]]; then
    echo "fuzz: unknown target '$1'; there are: ${targets[*]}" >&2
    exit 2
  fi
  targets=("$1")
  shift
  if [ $# -gt 0 ]; then seconds=$1; shift; fi
fi

for t in "${targets[@]}"; do
  echo "== $t, $seconds s"
  ninja -C $dir "test/fuzz/$t" "test/fuzz/${t}_test"
  mkdir -p "$dir/corpus/$t"
  METAROCE_FUZZ_CORPUS="$dir/corpus/$t" "$dir/test/fuzz/${t}_test" --gtest_filter=Fuzz.seeds >/dev/null
  "$dir/test/fuzz/$t" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
    -artifact_prefix="$dir/crash-$t-" "$@" "$dir/corpus/$t"
done
