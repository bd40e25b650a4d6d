#!/bin/bash
# Random fabrics, faults, workloads and parameters against the simulator's checks.
#   scripts/property.sh [FIRST [COUNT]]     seeds FIRST.. (1), 2000 of them
# Prints a line per failing seed that replays it; exit 1 when there is one.
set -eu -o pipefail
cd "$(dirname "$0")/.."

first=${1:-1} count=${2:-2000}
build=${BUILD:-build}
test=$build/test/unit/sim/sim_property_test
[ -x "$test" ] || ninja -C "$build" test/unit/sim/sim_property_test >/dev/null

# Slices of 50 seeds, one process per CPU: a crash takes one slice with it.
slice() {
  local from=$1 n=$2
  if METAROCE_SEED=$from METAROCE_SEEDS=$n "$test" --gtest_brief=1 >"$out/$from" 2>&1; then return; fi
  grep -q '^replay: ' "$out/$from" || echo "replay: METAROCE_SEED=$from METAROCE_SEEDS=$n $test" >>"$out/$from"
}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
for ((from = first; from < first + count; from += 50)); do
  n=$((first + count - from < 50 ? first + count - from : 50))
  while (($(jobs -rp | wc -l) >= $(nproc))); do wait -n; done
  slice "$from" "$n" &
done
wait
if grep -h -A1 -E '^seed [0-9]+: |^replay: ' "$out"/* | sort -u; then
  echo "property: failures among seeds $first..$((first + count - 1))" >&2
  exit 1
fi
echo "property: $count seeds from $first on, no violation"
