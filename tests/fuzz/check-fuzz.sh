#!/bin/sh
# make check-fuzz: runs one fuzz target under libFuzzer and prints a line. What
# it finds or learns stays under tests/fuzz of the build directory, where this
# is run.
#
#   check-fuzz.sh SECONDS SOURCE-DIRECTORY TARGET
set -u
seconds=$1
source=$2
target=$3
name=${target##*/fuzz_}
learnt=tests/fuzz/learnt/$name
findings=tests/fuzz/findings/$name
log=$findings/log

rm -rf "$findings"
mkdir -p "$learnt" "$findings"
"./$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 \
    -print_final_stats=1 -artifact_prefix="$findings/" \
    "$learnt" "$source/tests/fuzz/corpus/$name" >"$log" 2>&1
code=$?
crashes=$(find "$findings" -type f ! -name log | wc -l)
executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
rate=$(sed -n 's/^stat::average_exec_per_sec: *//p' "$log")
echo "fuzz $name: ${executions:-0} executions in $seconds s" \
    "(${rate:-0}/s), $crashes findings"
[ "$code" -eq 0 ] && [ "$crashes" -eq 0 ] && exit 0
grep -E '^(SUMMARY|broken promise)|ERROR' "$log" | head -n 5
echo "  exit code $code, see $(pwd)/$findings"
exit 1
