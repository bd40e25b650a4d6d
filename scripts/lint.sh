#!/bin/bash
# Looks at the tree without building it. Exit code 1 when something must be changed.
#   scripts/lint.sh             every file
#   scripts/lint.sh --changed   format only files that differ from the branch main
#   scripts/lint.sh --fix       let clang-format rewrite them
# shellcheck disable=SC2317  # the checks are called by report()
set -u
cd "$(dirname "$0")/.." || exit 1

changed='' fix=''
for arg in "$@"; do
  case "$arg" in
    --changed) changed=1 ;;
    --fix) fix=1 ;;
    *) sed -n '3,5s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
  esac
done

wrong=0
report() {  # TITLE COMMAND...: runs it; shows its output when it fails
  local out
  if out=$("${@:2}" 2>&1); then
    echo "ok      $1"
  else
    echo "WRONG   $1"
    printf '%s\n' "$out" | sed 's/^/        /'
    wrong=1
  fi
}

# Tracked and new files, without ignored ones.
mapfile -t all < <(git ls-files --cached --others --exclude-standard | while read -r f; do
  [ -f "$f" ] && echo "$f"; done)
cxx=() python=() shell=()
for f in "${all[@]}"; do
  case "$f" in
    *.h | *.c | *.cpp) cxx+=("$f") ;;
    *.py) python+=("$f") ;;
    *.sh | .ci/run) shell+=("$f") ;;
  esac
done
format=("${cxx[@]}")
if [ -n "$changed" ]; then
  base=$(git merge-base HEAD main 2>/dev/null || git rev-parse HEAD)
  mapfile -t format < <({ git diff --name-only "$base"; git ls-files --others --exclude-standard; } |
    sort -u | grep -E '\.(h|c|cpp)$' | while read -r f; do [ -f "$f" ] && echo "$f"; done)
fi

check_format() {
  [ ${#format[@]} -gt 0 ] || return 0
  # One line per file is enough: --fix mends them all.
  ! clang-format-14 --dry-run "${format[@]}" 2>&1 |
    sed -n 's/^\(.*\):\([0-9]*\):[0-9]*: warning: code should be clang-formatted.*/\1:\2 is not formatted; scripts\/lint.sh --fix/p' |
    sort -u -t: -k1,1 | grep .
}
[ -z "$fix" ] || [ ${#format[@]} = 0 ] || clang-format-14 -i "${format[@]}"
report "format of ${#format[@]} C and C++ files" check_format

report "shellcheck of ${#shell[@]} scripts" shellcheck "${shell[@]}"

check_python() {
  python3 - "${python[@]}" <<'EOF'
import ast, sys
for name in sys.argv[1:]:
    with open(name, encoding="utf-8") as f:
        ast.parse(f.read(), name)
EOF
}
report "syntax of ${#python[@]} Python files" check_python

report "include direction" python3 -B test/house/include_direction.py

# The words are put together here so that this file passes its own check.
unfinished="$(printf 'TO%s|FIX%s|X%s' DO ME XX)"
check_unfinished() { ! printf '%s\0' "${all[@]}" | xargs -0 grep -nIwE "$unfinished"; }
report "nothing left to be done later" check_unfinished

check_white() { ! printf '%s\0' "${cxx[@]}" "${python[@]}" "${shell[@]}" | xargs -0 grep -nIE '[[:space:]]+$'; }
report "no white space at ends of lines" check_white

# For information: 250 lines are the soft limit of a file, 400 a reason to think again.
for f in "${cxx[@]}" "${python[@]}" "${shell[@]}"; do
  n=$(wc -l <"$f")
  if [ "$n" -gt 400 ]; then
    echo "size    $n lines: $f (think again)"
  elif [ "$n" -gt 250 ]; then
    echo "size    $n lines: $f"
  fi
done
exit $wrong
