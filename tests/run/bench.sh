#!/bin/sh
# gradweir bench: every row, right values, no process left, wrong usage refused.
build=${GW_BUILDDIR:-$PWD}
gradweir=$build/gradweir
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
tests=0

# check NAME COMMAND...
check() {
  name=$1
  shift
  tests=$((tests + 1))
  if "$@" >"$scratch/log" 2>&1; then
    echo "ok $tests - $name"
  else
    sed 's/^/# /' "$scratch/log"
    echo "not ok $tests - $name"
  fi
}

# A refused option: exit code 2 and one line.
refused() {
  "$gradweir" bench "$@" >"$scratch/out" 2>"$scratch/err"
  code=$?
  cat "$scratch/err"
  [ $code -eq 2 ] && [ "$(wc -l <"$scratch/err")" -eq 1 ] &&
    [ ! -s "$scratch/out" ]
}

run() {
  timeout 120 "$gradweir" bench network --sizes 1KiB,256KiB --workers 2 \
    --servers 2 --connections 2 --rounds 2 --json "$scratch/rows" \
    >"$scratch/table" 2>"$scratch/run.err"
}

# For several groups of processes, begun and ended.
silent() {
  cat "$scratch/run.err"
  timeout 120 "$gradweir" bench network --sizes 4,1KiB,2KiB,4KiB,8KiB \
    --workers 2 --rounds 1 2>&1 >"$scratch/table2" | tee "$scratch/err"
  [ ! -s "$scratch/run.err" ] && [ ! -s "$scratch/err" ]
}

# 1 KiB has the ping-pong: 3 operations on 5 paths, less the push of training
rows() {
  cat "$scratch/rows"
  [ "$(grep -c '"errors":0[,}]' "$scratch/rows")" -eq 25 ] &&
    [ "$(wc -l <"$scratch/rows")" -eq 25 ] &&
    [ "$(grep -c '^ ' "$scratch/table")" -eq 26 ]
}

every_path() {
  for path in 'limit A' 'limit B' ping-pong transport training; do
    grep -q "\"path\":\"$path\"" "$scratch/rows" || return 1
  done
}

puts() {
  timeout 120 "$gradweir" bench put --busy --sizes 64,256KiB --rounds 1 \
    --json - >"$scratch/put" &&
    [ "$(wc -l <"$scratch/put")" -eq 6 ] &&
    [ "$(grep -c '"path":"transport".*"ratio":null,"errors":0' "$scratch/put")" -eq 6 ]
}
check 'put: the transport alone, without a limit' puts

one_operation() {
  timeout 120 "$gradweir" bench put --op pull --sizes 64,4KiB --rounds 1 \
    --json - >"$scratch/one" &&
    [ "$(wc -l <"$scratch/one")" -eq 2 ] &&
    [ "$(grep -c '"op":"pull"' "$scratch/one")" -eq 2 ]
}
check 'op: that one, and no other' one_operation

# each row of the first transport, then that of the second, and a line
beside() {
  timeout 120 "$gradweir" bench network --transport shm,tcp --op push+pull --sizes 64KiB \
    --rounds 1 --json "$scratch/beside" >"$scratch/table4" || return 1
  cat "$scratch/table4" "$scratch/beside"
  [ "$(sed -n 's/.*"transport":"\([a-z]*\)".*/\1/p' "$scratch/beside" | tr '\n' ' ')" = \
    'sockets sockets shm tcp shm tcp ' ] &&
    [ "$(grep -c '"errors":0[,}]' "$scratch/beside")" -eq 6 ] &&
    grep -q ', transport shm, tcp, host memory' "$scratch/table4" &&
    [ "$(grep -c '^# 65536 bytes, push+pull, t[a-z]*: shm is [0-9.]* times as fast as tcp, by medians$' \
      "$scratch/table4")" -eq 2 ]
}
check 'several transports stand beside each other' beside

update() {
  "$gradweir" bench update --rounds 1 --json - >"$scratch/update" &&
    [ "$(grep -c '"op":"reduce+update"' "$scratch/update")" -eq 8 ]
}

# 256 KiB has chunks of 64 KiB, 4 bytes leave all but one without any
sums() {
  timeout 120 "$gradweir" bench sum --sizes 4,256KiB,4MiB --rounds 2 \
    --json "$scratch/sums" >"$scratch/table3" &&
    timeout 120 "$gradweir" bench sum --workers 16 --sizes 256KiB --rounds 1 \
      --json - >>"$scratch/sums" || return 1
  cat "$scratch/sums"
  [ "$(wc -l <"$scratch/sums")" -eq 4 ] &&
    [ "$(grep -c '^ *[0-9]' "$scratch/table3")" -eq 3 ] &&
    [ "$(grep -c '"op":"reduce-scatter".*"errors":0}' "$scratch/sums")" -eq 4 ] &&
    [ "$(grep -c '"workers":4,"cores":[1-9].*"iterations":32,' "$scratch/sums")" -eq 3 ] &&
    [ "$(grep -c '"workers":16,' "$scratch/sums")" -eq 1 ] &&
    ! grep -q '"ratio":0\.0*[,}]' "$scratch/sums"
}

# begin N ARGUMENTS..: a run with that many children, all in it: $parent,
# $children
begin() {
  wanted=$1
  shift
  "$gradweir" bench "$@" >"$scratch/out" 2>"$scratch/err" &
  parent=$!
  until children=$(ps -o pid= --ppid $parent) &&
    [ "$(echo "$children" | wc -w)" -ge "$wanted" ]; do
    kill -0 $parent || return 1
  done
}

gone() {
  deadline=$(($(date +%s) + 10))
  for child in $children; do
    while kill -0 "$child" 2>/dev/null; do
      [ "$(date +%s)" -lt $deadline ] && continue
      kill -9 $children
      return 1
    done
  done
}

# The others wait for it in a barrier.
one_dies() {
  begin 4 sum --sizes 4MiB --rounds 1000 || return 1
  kill -9 "$(echo $children | cut -d ' ' -f 3)"
  wait $parent
  code=$?
  cat "$scratch/err"
  [ $code -eq 1 ] && [ "$(wc -l <"$scratch/err")" -eq 1 ] &&
    grep -q 'the worker [0-3] is gone' "$scratch/err" && gone
}

# a shell has its background jobs ignore ^C: that of a terminal is for all. One
# stands still, so that the others wait for it and notice nothing themselves.
interrupted() {
  begin 4 sum --sizes 4MiB --rounds 1000 || return 1
  kill -STOP "$(echo $children | cut -d ' ' -f 3)"
  kill -TERM $parent
  wait $parent 2>"$scratch/killed"
  code=$?
  [ $code -eq 143 ] && [ ! -s "$scratch/err" ] && gone
}

# Children end with the parent, even when it cannot tell them to.
killed() {
  begin 7 network --sizes 4MiB --rounds 1000 || return 1
  kill -9 $parent
  wait $parent 2>"$scratch/killed"
  gone
}

check 'a run with two workers and two servers' run
check 'says nothing beside its table' silent
check 'has every row, and no wrong value' rows
check 'has every path' every_path
check 'measures reduce and update' update
check 'measures the sum inside a node, to the bit' sums
check 'ends when a process of a sum dies, and says which' one_dies
check 'leaves no process behind when a sum is ended' interrupted
check 'leaves no process behind when it is killed' killed
check 'refuses a transport of several that is none' refused --transport shm,
check 'refuses to measure a transport beside itself' refused --transport shm,shm
check 'refuses a size that is not one' refused --sizes 5
check 'refuses no workers' refused --workers 0
check 'refuses workers that are no group' refused sum --workers 3
check 'refuses to sum one gradient' refused sum --workers 1
check 'refuses an optimizer of two phases' refused --optimizer lamb
check 'refuses a word that it does not know' refused latency
echo "1..$tests"
