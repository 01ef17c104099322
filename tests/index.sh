#!/bin/sh
# tests/INDEX.md, on standard output: for each source of the program the tests
# that name a function or table of it, and for sources that none names, those of
# its callers. Of names in the text alone, so it needs no build. `make
# tests-index` writes it; tests/check_style.sh compares.
export LC_ALL=C
cd "$(dirname "$0")/.." || exit 1
rooms='proto transport kernels server worker cli'
if git ls-files --error-unmatch configure.ac >/dev/null 2>&1; then
  git ls-files
else
  # shellcheck disable=SC2086
  find $rooms tests -type f
fi | grep -E "^(proto|transport|kernels|server|worker|cli|tests)/.*\.(c|cu|h|sh)$" |
  grep -vE '\.pb-c\.[ch]$|^tests/([a-z_]*\.sh$|perf/|reference/)' | sort |
  while read -r file; do
    [ -e "$file" ] && echo "$file"
  done | xargs awk -f tests/index.awk
