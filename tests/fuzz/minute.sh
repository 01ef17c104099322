#!/bin/sh
# Every fuzz target under libFuzzer, one on each core, for a minute of a core in
# all or as many seconds as GW_FUZZ_SECONDS says. Needs clang, and builds the
# archives once more with it, in build-fuzz of the build directory. Prints TAP.
seconds=${GW_FUZZ_SECONDS:-60}
source=${GW_SRCDIR:-..}
build=${GW_BUILDDIR:-.}/build-fuzz
jobs=$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)
unset MAKEFLAGS MFLAGS MAKELEVEL CFLAGS

skip() {
  echo "1..0 # SKIP $1"
  exit 0
}
fail() {
  sed 's/^/# /' log | tail -n 25
  echo "not ok 1 - $1"
  exit 1
}

[ "$seconds" -gt 0 ] || skip 'GW_FUZZ_SECONDS is 0'
command -v clang >/dev/null ||
  skip 'there is no clang: apt-get install clang libclang-rt-dev'
mkdir -p "$build" && cd "$build" || exit 1
echo 1..1
if [ ! -e config.status ] &&
  ! "$source"/configure --enable-fuzz CC=clang >log 2>&1; then
  grep -q 'enable-fuzz needs clang' log || fail 'configure --enable-fuzz'
  echo 'ok 1 - fuzzing # SKIP no libFuzzer: apt-get install libclang-rt-dev'
  exit 0
fi
make -j "$jobs" fuzz-programs >log 2>&1 || fail 'make fuzz-programs with clang'
targets=$(find "$source/tests/fuzz/corpus" -mindepth 1 -maxdepth 1 | wc -l)
make -k -j "$jobs" check-fuzz FUZZ_SECONDS=$((seconds / targets + 1)) >log 2>&1
result=$?
ran=$(grep -c '^fuzz [a-z]*: [1-9]' log)
if [ $result -ne 0 ] || [ "$ran" -ne "$targets" ]; then
  fail "$ran of $targets targets ran; see $build/tests/fuzz/findings"
fi
sed -n 's/^fuzz /# /p' log
echo "ok 1 - $targets fuzz targets find nothing"
