#!/bin/sh
# examples/c against the library of the build: each compiles without a warning,
# and finds its line under each policy that is set here. Prints TAP.
. "${GW_SRCDIR:-..}/tests/run/lib.sh"
source=$(cd "${GW_SRCDIR:-..}" && pwd)
build=$(cd "${GW_BUILDDIR:-.}" && pwd)
cc=${GW_CC:-cc}
cxx=${GW_CXX:-c++}
# a library with sanitizers wants them in the program, too
sanitizers=$(echo "${GW_CFLAGS-}" | grep -o -e '-fsanitize=[^ ]*' | xargs)
OMP_NUM_THREADS=1
export OMP_NUM_THREADS

# compile COMPILER SOURCE: to $scratch/line
compile() {
  # several words
  # shellcheck disable=SC2086
  $1 -Wall -Wextra -Wpedantic -Werror $sanitizers -I"$source/include" \
    -o "$scratch/line" "$source/examples/c/$2" -L"$build" -lgradweir \
    -Wl,-rpath,"$build"
}

# finds POLICY SETTING..: both numbers within 0.05 of y = 3 x - 1, and nobody is
# left.
finds() {
  settings="--set cluster.policy=$1"
  shift
  for setting in "$@"; do settings="$settings --set $setting"; done
  # several words
  # shellcheck disable=SC2086
  run 0 run --workers 2 $settings -- "$scratch/line" && await 3 nobody_left &&
    awk '/^\[0\] y = / {
      found++
      slope = $4 - 3
      offset = $6 + 1
      good = slope * slope < 0.0025 && offset * offset < 0.0025
    }
    END { exit !(found == 1 && good) }' "$scratch/out" && return 0
  sed 's/^/# /' "$scratch/out" "$scratch/err"
  return 1
}

# try_all SOURCE
try_all() {
  finds sync optimizer.lr=0.2
  ok "$1: sync"
  finds ssp:2 optimizer.lr=0.05
  ok "$1: ssp:2"
  finds local:4 optimizer.lr=0.05
  ok "$1: local:4"
  finds diloco:4 optimizer.kind=sgd optimizer.lr=0.3 policy.outer_momentum=0.5
  ok "$1: diloco:4"
  finds async optimizer.lr=0.05
  ok "$1: async"
}

compile "$cc -std=c99" line.c
ok 'line.c compiles'
try_all line.c
if echo | $cxx -fsyntax-only -x c++ - 2>/dev/null; then
  compile "$cxx -std=c++17" line.cpp
  ok 'line.cpp compiles'
  try_all line.cpp
else
  skip 'line.cpp' 'no C++ compiler'
fi
echo "1..$tests"
