#!/bin/sh
# The coordinator dies and another one takes its place, while the job goes on:
# under the launcher and by hand, to the bits of a job in which nobody dies.
# Prints TAP.
. "${GW_SRCDIR:-..}/tests/run/lib.sh"
make_data
kills=${GW_KILLS:-5}
build=$(cd "${GW_BUILDDIR:-.}" && pwd)
linear=$build/tests/run/linear
ck=$scratch/ck
always="--set train.eval_every=never --set log.every=50"
keep="--set checkpoint.dir=$ck --set checkpoint.every=1000"
endless="$always $keep --set train.steps=100000000"
many='--set cluster.restarts=100'

fail() {
  echo "# $1"
  sed 's/^/# /' "$scratch/l.out" "$scratch/l.err"
  return 1
}

# begin ARGUMENTS...: a job that has made steps, in an empty directory.
begin() {
  end_all
  rm -rf "$ck"
  start l "$@"
  launched=$started
  await 20 grep -qs '^step [1-9]' "$scratch/l.out"
}

# outlived: the list of members is there.
outlived() { await 5 test -e "$ck/.gradweir-members"; }

# tells COUNT PATTERN: so many lines on standard error.
tells() { [ "$(grep -c "$2" "$scratch/l.err")" -eq "$1" ] || fail "expected $1 times: $2"; }

# says_only PATTERN: nothing else is on standard error.
says_only() { ! grep -qv "$1" "$scratch/l.err" || fail "expected nothing but: $1"; }

last_step() { sed -n 's/^step \([0-9]*\)\/.*/\1/p' "$scratch/l.out" | tail -n 1; }

# moves_on STEPS: the job comes that much further than it is.
moves_on() {
  from=$(last_step)
  await 20 eval "[ \"\$(last_step)\" -ge $((${from:-0} + $1)) ]"
}

# takes N: another one has taken the place of the one before so often.
takes() { await 20 eval "[ \"\$(grep -sc '^this coordinator takes the place of the one before, .*: step [0-9]* is made' '$scratch/l.out')\" = $1 ]"; }

# kill_coordinator N: it is killed for the Nth time, and replaced; the time to
# the next line of a step is added to $scratch/times.
kill_coordinator() {
  victim=$(pid_of coordinator) && killed=$(now_ms) && kill -9 "$victim" && from=$(last_step) && takes "$1" &&
    await 20 eval "[ \"\$(last_step)\" -gt $from ]" && echo $(($(now_ms) - killed)) >>"$scratch/times"
}

replaced='^gradweir: the coordinator (pid [0-9]*) died at step [0-9]*: killed by signal 9 (Killed); another one takes its place$'

# whole FILE: each line is an object, no step comes twice, the last is the end.
whole() {
  python3 - "$1" <<'PYTHON'
import json, sys
objects = [json.loads(line) for line in open(sys.argv[1])]
steps = [one["step"] for one in objects if "step" in one]
assert steps and len(set(steps)) == len(steps), "steps twice: %s" % steps
assert steps == sorted(steps), "out of order: %s" % steps
assert objects[-1].get("final") and sum("final" in one for one in objects) == 1
times = [one["wall_s"] for one in objects if "step" in one]
assert times == sorted(times) and objects[-1]["wall_s"] >= times[-1], "times: %s" % times
PYTHON
}

# shellcheck disable=SC2086
{
# --- kills under the launcher ---
for way in 'shm --set cluster.transport=shm' 'tcp --set cluster.transport=tcp' \
  'whole --set train.clip=1 --set train.weights=bf16'; do
  how=${way%% *}
  long="$always --set train.steps=$((15000 + 5000 * kills)) $many ${way#* }"
  rm -f "$scratch/times" "$scratch/record"
  run 0 train "$job" $long && calm=$(digest) && [ "$calm" ] &&
    begin train "$job" $long $keep --json "$scratch/record" && outlived
  i=0
  while [ $i -lt "$kills" ] && moves_on 300 && kill_coordinator $((i + 1)); do
    i=$((i + 1))
  done
  [ $i -eq "$kills" ] && ends 0 && [ "$(digest "$scratch/l.out")" = "$calm" ] &&
    tells "$kills" "$replaced" && says_only "$replaced" &&
    [ "$(grep -c '^job .*: this coordinator takes the place of the one before$' "$scratch/l.out")" -eq "$kills" ]
  ok "$how: $kills coordinators are killed, the bits are the same"
  echo "# ms from the kill to the next line of a step: $(sort -n "$scratch/times" | tr '\n' ' ')"
  whole "$scratch/record"
  ok "$how: every step is recorded at most once, and the end"
  [ ! -e "$ck/.gradweir-members" ] && gradweir eval "$ck" >"$scratch/out" 2>&1 &&
    run 0 train "$job" $long $keep --resume --set train.steps=$((15100 + 5000 * kills))
  ok "$how: the newest checkpoint is whole, and --resume goes on from it"
done

# --- others die meanwhile ---
long="$always --set train.steps=20000 $many"
run 0 train "$job" $long && calm=$(digest)
begin train "$job" $long $keep && outlived &&
  kill -9 "$(pid_of coordinator)" "$(pid_of worker 2)" && ends 0 &&
  [ "$(digest "$scratch/l.out")" = "$calm" ] && tells 1 "$replaced" && says_only "$replaced" &&
  grep -q '^worker [01] .* died while the job had no coordinator; waiting 30 s for another one$' "$scratch/l.out" &&
  grep -q '^worker [01] .* takes its place' "$scratch/l.out"
ok 'a worker is killed together with the coordinator: both are replaced'
begin train "$job" $long $keep && outlived && kill -STOP "$launched" &&
  kill -9 "$(pid_of coordinator)" && sleep 0.3 && kill -9 "$(pid_of worker)" && sleep 1.5 &&
  kill -CONT "$launched" && ends 0 && [ "$(digest "$scratch/l.out")" = "$calm" ]
ok 'a worker dies while there is none, for longer than a silence'
begin train "$job" $endless --set cluster.restarts=1 && outlived && moves_on 1000 &&
  kill -9 "$(pid_of coordinator)" "$(pid_of server)" && await 20 grep -q 'the job begins again from step [1-9]' "$scratch/l.err" &&
  tells 1 'gradweir: server [01] .* died while the job had no coordinator; --resume goes on from step [0-9]*$' &&
  await 20 eval "[ \$(grep -c '^workers compute' '$scratch/l.out') -eq 2 ]" && moves_on 50 &&
  kill -INT "$launched" && ends 3
ok 'a server is killed with it: the job begins again from its checkpoint'
begin train "$job" $endless --set cluster.restarts=1 && outlived && kill_coordinator 1 &&
  kill -9 "$(pid_of coordinator)" && await 20 grep -q 'the job begins again from step' "$scratch/l.err" &&
  tells 1 "$replaced" && tells 1 'died at step [0-9]*: killed by signal 9 (Killed)$' &&
  kill -INT "$launched" && ends 3
ok 'no more than cluster.restarts says: the whole job begins again'
begin train "$job" $endless --set cluster.restarts=0 && kill -9 "$(pid_of coordinator)" && ends 3 && tells 0 'takes its place'
ok 'cluster.restarts = 0: a death is the end'
begin train "$job" $always --set train.steps=100000000 && kill -9 "$(pid_of coordinator)" && ends 1 && tells 0 'takes its place'
ok 'without checkpoint.dir it is, too'
begin train "$job" $endless && outlived && kill -STOP "$launched" && kill -9 "$(pid_of coordinator)" &&
  sleep 0.2 && kill -9 "$launched" && wait "$launched"
[ $? -eq 137 ] && await 5 nobody_left
ok 'the launcher is killed meanwhile: all go'

# --- signals, orders ---
begin train "$job" $endless && outlived && kill -STOP "$launched" && kill -9 "$(pid_of coordinator)" &&
  kill -INT "$launched" && kill -CONT "$launched" && ends 3 && tells 1 "$replaced" &&
  tells 1 'gradweir: stopped at step [0-9]*; --resume goes on from there$'
ok 'a signal while there is none: the job is stopped in order'
begin train "$job" $endless && outlived && kill -9 "$(pid_of coordinator)" && kill -TERM "$launched" && ends 3 &&
  tells 1 'gradweir: stopped at step [0-9]*; --resume goes on from there$'
ok 'a signal at once'
begin train "$job" $endless && outlived && kill_coordinator 1 && gradweir ctl --job "$launched" status >"$scratch/out" &&
  [ "$(grep -c '^worker ' "$scratch/out")" -eq 2 ] && gradweir ctl --job "$launched" checkpoint >"$scratch/out" &&
  gradweir ctl --job "$launched" stop >"$scratch/out" && ends 3
ok 'gradweir ctl finds the new one'

# --- programs as workers ---
cd "$scratch" || exit 1
program=$build/gradweir
begin run --workers 2 $always $keep --set train.steps=20000 -- "$linear" && outlived && kill_coordinator 1 &&
  kill_coordinator 2 && ends 0 && tells 2 "$replaced" && digest "$scratch/l.out" | grep -q .
ok 'gradweir run: programs go on'
begin run --workers 2 $endless -- "$linear" && outlived && kill -9 "$(pid_of coordinator)" "$(pid_of program)" &&
  await 20 grep -q 'the job begins again from step' "$scratch/l.err" &&
  tells 1 '^gradweir: worker [01] .*\(while the job had no coordinator\|ended at step [0-9]*, before\).*; --resume goes on from step' &&
  kill -INT "$launched" && ends 3
ok 'a program dies meanwhile: the job begins again'
begin run --workers 2 $endless --set cluster.restarts=1 -- sh -c '"$0" & child=$!; trap "kill -9 \$child; exit 7" USR1; while kill -0 $child; do sleep 0.1; done' "$linear" &&
  outlived && kill -STOP "$launched" && kill -9 "$(pid_of coordinator)" && pkill -USR1 -g "$(pid_of program)" -x sh &&
  sleep 0.5 && kill -CONT "$launched" && ends 7 && tells 1 '^gradweir: worker [01] ended while the job had no coordinator: exit code 7'
ok 'a program fails meanwhile: the job ends with its code'

# --- by hand ---
join_address() { sed -n 's/^members join at .*--join //p' "$scratch/l.out" 2>/dev/null; }
begin_by_hand() {
  end_all
  rm -rf "$ck"
  start l coordinator "$job" "$@"
  launched=$started
  await 10 eval '[ "$(join_address)" ]'
  address=$(join_address)
  for member in server.0 server.1 worker.0 worker.1; do
    rank=
    [ "${member%.*}" = server ] || rank="--rank ${member#*.}"
    start $member ${member%.*} --join "$address" $rank
    eval "pid_${member%.*}_${member#*.}=$started"
  done
  await 20 grep -qs '^step [1-9]' "$scratch/l.out" && outlived
}
hand="$always $keep --set train.steps=60000"
run 0 train "$job" $always --set train.steps=60000 && calm=$(digest)
record=$scratch/by_hand
begin_by_hand $hand --rejoin --json "$record" && kill -9 "$launched" && sleep 3 && printf '{"step": 7, "ep' >>"$record"
start l coordinator "$job" $hand --rejoin --json "$record"
launched=$started
ends 0 && [ "$(digest "$scratch/l.out")" = "$calm" ] && takes 1 && ! grep -q '^model ' "$scratch/l.out"
ok 'by hand: --rejoin 3 s later, on the port that it had'
whole "$record" && ! grep -q '"step": 7' "$record"
ok 'an object of which a part was written is cut off'
begin_by_hand $endless && kill -9 "$launched" && run 1 coordinator "$job" $endless &&
  says 'checkpoint.dir .* holds a checkpoint of step [0-9]* already; go on from it with --resume, or, where only its coordinator has died, with gradweir coordinator --rejoin, or choose another directory$' &&
  run 1 coordinator "$job" $endless --set train.batch=20 --rejoin &&
  says 'a job that was begun with another job file runs with checkpoint.dir: give this coordinator the same file and --set, or leave --rejoin out$'
ok 'without it, or with another job, it is refused with a line'
start l coordinator "$job" $endless --rejoin
launched=$started
takes 1 && run 1 coordinator "$job" $endless --rejoin && says '.*another job runs with' && kill -INT "$launched" && ends 3
ok 'no two at once'
begin_by_hand $endless --set cluster.patience=1 --set cluster.abort_after=2 && kill -9 "$(pid_of server)" "$launched"
code=0
for pid in $pid_worker_0 $pid_worker_1; do
  wait $pid
  [ $? -eq 1 ] || code=1
done
for member in worker.0 worker.1; do
  [ "$(grep -c '^gradweir: ' "$scratch/$member.err")" -eq 1 ] || code=1
  grep -q '^gradweir: the coordinator (.*) died at step [0-9]*: silent for [0-9.]* s; --resume goes on from the newest checkpoint in ' "$scratch/$member.err" || code=1
done
[ $code -eq 0 ] || sed 's/^/# /' "$scratch"/worker.?.err "$scratch"/server.?.err
[ $code -eq 0 ] && await 10 nobody_left
ok 'nobody comes, and nothing comes on: members end with a line'
begin_by_hand $endless && moves_on 1500 && end_all && run 3 coordinator "$job" $endless --rejoin &&
  grep -q '^gradweir: nobody is left of the job that lost its coordinator; --resume goes on from step [0-9]*$' "$scratch/err" &&
  [ ! -e "$ck/.gradweir-members" ]
ok 'all are dead: --rejoin says where --resume goes on'
rm -rf "$ck"
start l coordinator "$job" $endless --rejoin
launched=$started
await 10 grep -qs '^members join at' "$scratch/l.out" && grep -q '^model ' "$scratch/l.out" && kill -INT "$launched" && ends 3
ok 'no job to rejoin: it begins'
run 1 coordinator "$job" $always --set checkpoint.dir="$ck" --rejoin --resume && says '.*no checkpoint to resume from'
ok 'or goes on with --resume, where it can'
} 2>&1
end_all
await 3 nobody_left
ok 'nobody is left'
echo "1..$tests"
