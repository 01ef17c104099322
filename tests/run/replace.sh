#!/bin/sh
# A worker dies and another one takes its place, while the job goes on: under
# the launcher and by hand, over each transport, to the bits of a job in which
# nobody dies. Prints TAP.
. "${GW_SRCDIR:-..}/tests/run/lib.sh"
make_data
kills=${GW_KILLS:-5}
steps='--set train.eval_every=never --set log.every=500'
endless="$steps --set train.steps=100000000"

# begin ARGUMENTS...: a job that has passed a step behind the first one.
begin() {
  end_all
  start l "$@"
  launched=$started
  await 20 grep -qs '^step [1-9]' "$scratch/l.out"
}

# tells COUNT PATTERN: so many lines of the job.
tells() {
  [ "$(grep -c "$2" "$scratch/l.out")" -eq "$1" ] && return 0
  echo "# expected $1 times: $2"
  sed 's/^/# /' "$scratch/l.out" "$scratch/l.err"
  return 1
}

# worker_of RANK: its process.
worker_of() {
  for pid in $(left); do
    tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline" | grep -q "gradweir worker .*--rank $1 " && echo "$pid"
  done | grep .
}

# replaced N: so many have taken a place.
replaced() { await 20 eval "[ \$(grep -c 'takes its place' '$scratch/l.out') -eq $1 ]"; }

# shellcheck disable=SC2086
{
# --- kills under the launcher ---
for way in 'shm --set cluster.transport=shm' 'tcp --set cluster.transport=tcp' \
  'whole --set train.clip=1 --set train.weights=bf16'; do
  how=${way%% *}
  long="$steps --set train.steps=20000 --set cluster.restarts=100 ${way#* }"
  run 0 train "$job" $long && calm=$(digest) && [ "$calm" ] && begin train "$job" $long
  i=0
  while [ $i -lt "$kills" ] && kill -9 "$(worker_of $((i % 2)))" && replaced $((i + 1)); do
    i=$((i + 1))
  done
  [ $i -eq "$kills" ] && ends 0 && [ "$(digest "$scratch/l.out")" = "$calm" ] &&
    tells "$kills" 'worker [01] .* died at step .*: killed by signal 9 (Killed); waiting 30 s for another one$' &&
    [ ! -s "$scratch/l.err" ]
  ok "$how: $kills workers are killed, the bits are the same"
done

# --- one that is silent ---
begin train "$job" $endless
victim=$(pid_of worker)
kill -STOP "$victim" && replaced 1 && ! kill -0 "$victim" 2>/dev/null &&
  gradweir ctl status >"$scratch/out" && [ "$(grep -c '^worker ' "$scratch/out")" -eq 2 ] &&
  kill -INT "$launched" && ends 3 &&
  tells 1 'died at step .*: silent for [0-9.]* s; waiting 30 s'
ok 'a silent one is ended, and replaced'

# The launcher is late: the worker is heard again before its end.
begin train "$job" $endless
victim=$(worker_of 1)
kill -STOP "$launched" "$victim" && sleep 2 && kill -CONT "$victim" && sleep 0.5 && kill -CONT "$launched" &&
  replaced 1 && ! kill -0 "$victim" 2>/dev/null && kill -INT "$launched" && ends 3 &&
  tells 1 'died at step' && tells 0 'is back after'
ok 'a silent one that the launcher ends is not taken back'

# --- no more ---
begin train "$job" $endless --set cluster.restarts=1
kill -9 "$(worker_of 1)" && replaced 1 && kill -9 "$(worker_of 1)" && ends 1 &&
  grep -q '^gradweir: worker [01] .* died at step .*; no other one is started, vacant for [0-9.]* s$' "$scratch/l.err"
ok 'as often as cluster.restarts says'
begin train "$job" $endless --set cluster.patience=0
kill -9 "$(pid_of worker)" && ends 1 && tells 0 'takes its place'
ok 'cluster.patience = 0: a death is the end'

# --- by hand ---
join_address() { sed -n 's/^members join at .*--join //p' "$scratch/l.out"; }
begin_by_hand() {
  end_all
  start l coordinator "$job" "$@"
  launched=$started
  await 10 eval '[ "$(join_address)" ]'
  for member in server.0 server.1 worker.0 worker.1; do
    rank=
    [ "${member%.*}" = server ] || rank="--rank ${member#*.}"
    start $member ${member%.*} --join "$(join_address)" $rank
  done
  last=$started
  await 20 grep -qs '^step [1-9]' "$scratch/l.out"
}
run 0 train "$job" $steps --set train.steps=6000 && calm=$(digest)
begin_by_hand $steps --set train.steps=6000 && kill -9 "$last" && start again worker --join "$(join_address)" --rank 1
again=$started
wait "$again" && ends 0 && [ "$(digest "$scratch/l.out")" = "$calm" ] && tells 1 'takes its place'
ok 'one that is started by hand, before the death is known'
begin_by_hand $endless --set cluster.patience=2 && kill -9 "$last" && ends 1 &&
  grep -q '^gradweir: worker 1 .* died at step .*; nobody has taken its place for 2.0 s$' "$scratch/l.err"
ok 'nobody comes: the job ends'
begin_by_hand $endless && start again worker --join "$(join_address)" --rank 1
wait "$started"
[ $? -eq 1 ] && grep -q '^gradweir: .*the job has all its members' "$scratch/again.err"
ok 'a rank that is taken stays so'
begin_by_hand $endless && kill -STOP "$last" && sleep 1.5 && start again worker --join "$(join_address)" && replaced 1 &&
  kill -CONT "$last"
wait "$last"
[ $? -eq 1 ] && grep -q '^gradweir: .*another worker has taken the place of this one' "$scratch/worker.1.err" &&
  kill -INT "$launched" && ends 3
result=$?
[ $result -eq 0 ] || sed 's/^/# /' "$scratch/worker.1.err"
[ $result -eq 0 ]
ok 'one that was paused is told that it was replaced'
} 2>&1
end_all
await 3 nobody_left
ok 'nobody is left'
echo "1..$tests"
