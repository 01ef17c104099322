#!/bin/sh
# make check-fuzz: runs every fuzz target for an equal share of the seconds and
# prints one line for each. What a target finds or learns stays under tests/fuzz
# of the build directory, where this is run.
#
#   check-fuzz.sh SECONDS SOURCE-DIRECTORY TARGET...
set -u
seconds=$1
source=$2
shift 2
each=$((seconds / $#))
test "$each" -gt 0 || each=1
worst=0

for target; do
    name=${target##*/fuzz_}
    learnt=tests/fuzz/learnt/$name
    findings=tests/fuzz/findings/$name
    log=$findings/log
    rm -rf "$findings"
    mkdir -p "$learnt" "$findings"
    "./$target" -max_total_time="$each" -timeout=10 -rss_limit_mb=1024 \
        -print_final_stats=1 -artifact_prefix="$findings/" \
        "$learnt" "$source/tests/fuzz/corpus/$name" >"$log" 2>&1
    code=$?
    crashes=$(find "$findings" -type f ! -name log | wc -l)
    executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    rate=$(sed -n 's/^stat::average_exec_per_sec: *//p' "$log")
    echo "fuzz $name: ${executions:-0} executions in $each s" \
        "(${rate:-0}/s), $crashes crashes"
    if test "$code" -ne 0 || test "$crashes" -ne 0; then
        worst=1
        grep -E '^(SUMMARY|broken promise)|ERROR' "$log" | head -n 5
        echo "  exit code $code, see $(pwd)/$findings"
    fi
done
exit $worst
