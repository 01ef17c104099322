#!/bin/sh
# kill -9 of every role at random times: no process is left after 3 s, a line
# says who died at which step, the exit code is 3 where a checkpoint is complete,
# else 1, and --resume works. In restart.sh jobs begin again by themselves.
# GW_KILLS: how often for each role. Prints TAP.
. "${GW_SRCDIR:-..}/tests/run/lib.sh"
make_data
kills=${GW_KILLS:-3}
seed=${GW_SEED:-$$}
echo "# seed $seed"

# moments: kills delays in seconds, from before anyone has joined to well into
# the job
moments=$(awk -v seed="$seed" -v n="$kills" \
  'BEGIN { srand(seed); for (i = 0; i < 4 * n; i++) printf "%.3f ", rand() ^ 2 * 1.2 }')

# newest: step of the newest complete checkpoint; nothing where there is none.
newest() {
  ls "$scratch/ck"/step-*/manifest.json 2>/dev/null |
    sed -n 's|.*/step-0*\([0-9][0-9]*\)/.*|\1|p' | tail -n 1
}

# kill_one ROLE SECONDS
kill_one() {
  rm -rf "$scratch/ck"
  start l train "$job" --set train.steps=400000 --set train.eval_every=never \
    --set log.every=50 --set checkpoint.dir="$scratch/ck" \
    --set checkpoint.every=200 --set cluster.restarts=0
  launcher=$started
  sleep "$2"
  if [ "$1" = train ]; then
    victim=$launcher
  else
    await 5 eval "victim=\$(pid_of $1); [ \"\$victim\" ]" || return 1
  fi
  began=$(now_ms)
  kill -9 "$victim" || return 1
  await 4 nobody_left || return 1
  took=$(($(now_ms) - began))
  wait $launcher
  code=$?
  lines=$(grep -c '^gradweir: ' "$scratch/l.err")
  echo "# $1 after $2 s: gone in $took ms, exit code $code: $(grep '^gradweir: ' "$scratch/l.err")"
  expected=1
  [ -z "$(newest)" ] || expected=3
  [ $took -le 3000 ] || return 1
  case $1 in
  train)
    # whom nobody had joined yet has nothing to say, and no one to say it to
    [ $code -eq 137 ] && [ "$lines" -le 1 ] &&
      { [ "$lines" -eq 0 ] || grep -q '^gradweir: the launcher died at step [0-9]' "$scratch/l.err"; } ;;
  coordinator)
    [ $code -eq $expected ] && grep -q "^gradweir: the coordinator (pid $victim) died at step [0-9]*: killed by signal 9" "$scratch/l.err" &&
      { [ $code -eq 1 ] || grep -q '^gradweir: --resume goes on from step [0-9]' "$scratch/l.err"; } ;;
  *)
    # a second line where the first checkpoint was completed meanwhile
    [ $code -eq $expected ] && [ "$lines" -le 2 ] && grep -Eq "^gradweir: ($1 [0-9]+ \(.*pid $victim\) died at step [0-9]+|a process \(pid $victim\) died at step 0, before it had joined): killed by signal 9" "$scratch/l.err" &&
      { [ $code -eq 1 ] || [ "$(grep -c -e '--resume goes on from' "$scratch/l.err")" -eq 1 ]; } ;;
  esac
}

# goes_on: from the newest checkpoint, if one was made at all.
goes_on() {
  newest=$(newest)
  if [ -z "$newest" ]; then
    echo '# no checkpoint yet'
    return 0
  fi
  run 0 train "$job" --set train.steps=$((newest + 300)) \
    --set train.eval_every=never --set checkpoint.dir="$scratch/ck" --resume
}

# --- one that has joined, while others are still to come ---
join_address() { sed -n 's/^members join at .*--join //p' "$scratch/c.out"; }
start c coordinator "$job"
coordinator=$started
await 10 eval '[ "$(join_address)" ]'
start w worker --join "$(join_address)" --rank 1
worker=$started
await 10 eval 'gradweir status "$(join_address)" | grep -q "^worker 1"' &&
  kill -9 "$worker"
wait "$coordinator"
[ $? -eq 1 ] && await 3 nobody_left &&
  grep -q "^gradweir: worker 1 (.*, pid $worker) died at step 0: silent " "$scratch/c.err"
ok 'kill -9 of a worker before the others are there'

# --- a job that is over while some are still on their way to it ---
i=0
while [ $i -lt $((2 * kills)) ] &&
  run 2 train "$job" --set model.kind=cnn --servers 12 && says '.*"64": it is none of'; do
  i=$((i + 1))
done
[ $i -eq $((2 * kills)) ] && await 3 nobody_left
ok 'who comes too late leaves, without a word'

# --- a worker that is still there when its job has ended ---
# left_behind: stops a worker; its job ends without it.
left_behind() {
  start l train "$job" --set train.steps=400000 --set train.eval_every=never \
    --set log.every=50 --set cluster.patience=0
  launcher=$started
  await 10 grep -qs '^step ' "$scratch/l.out" && worker=$(pid_of worker) &&
    kill -STOP "$worker" && await 5 eval '[ -z "$(pid_of coordinator)" ]'
}
late="died after the job's end"
left_behind && kill -9 "$worker"
wait "$launcher"
[ $? -eq 1 ] && await 3 nobody_left &&
  grep -q "^gradweir: worker [01] (pid $worker) $late: killed by signal 9" "$scratch/l.err"
ok 'kill -9 of a worker after its job has ended'
left_behind && await 5 nobody_left
wait "$launcher"
[ $? -eq 1 ] && ! grep -q "$late" "$scratch/l.err" &&
  grep -q "^gradweir: worker [01] (pid $worker) did not leave in time and is killed" "$scratch/l.err"
ok 'whom the launcher kills did not die of something else'

for role in worker server coordinator train; do
  i=0
  while [ $i -lt "$kills" ]; do
    moment=${moments%% *}
    moments=${moments#* }
    kill_one $role "$moment"
    ok "kill -9 of ${role} ($i)"
    end_all
    goes_on
    ok "--resume after it ($i)"
    i=$((i + 1))
  done
done

echo "1..$tests"
