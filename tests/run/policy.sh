#!/bin/sh
# Policies between real processes: jobs end, say how stale their pushes were,
# stop and go on. Prints TAP.
. "${GW_SRCDIR:-..}/tests/run/lib.sh"
make_data

# whole_job POLICY [OPTION...]: runs to its end and says nothing beside.
whole_job() {
  policy=$1
  shift
  run 0 train "$job" --set "cluster.policy=\"$policy\"" "$@" &&
    grep -q '^done *all 40 steps done$' "$scratch/out" &&
    grep -q '^accuracy *[01]\.[0-9]* of the test set' "$scratch/out" &&
    [ ! -s "$scratch/err" ]
}

whole_job sync && sync=$(digest) &&
  grep -q '^loss *[0-9.]* in the last logged step, 39$' "$scratch/out"
ok 'sync: a whole job'
whole_job backup:0 && [ "$(digest)" = "$sync" ]
ok 'backup:0: the weights of sync'
whole_job backup:1 --workers 3
ok 'backup:1: a whole job'
for policy in local:1 local:7 diloco:7; do
  whole_job $policy && first=$(digest) &&
    whole_job $policy --servers 3 && [ "$(digest)" = "$first" ]
  ok "$policy: the same weights with another number of servers"
done

in_parts='--set policy.fragments=2 --set policy.overlap=2'
# no blanks in them
# shellcheck disable=SC2086
whole_job diloco:6 $in_parts && first=$(digest) &&
  whole_job diloco:6 $in_parts --servers 3 && [ "$(digest)" = "$first" ] &&
  whole_job diloco:6 && [ -n "$first" ] && [ "$(digest)" != "$first" ]
ok 'diloco:6 in parts: the same weights with another number of servers'

for policy in async ssp:0 ssp:3 stale-lr:1 stale-lr:2 dc-async easgd:3 downpour:3; do
  rm -f "$scratch/json"
  whole_job $policy --json "$scratch/json"
  ok "$policy: a whole job"
  sed '$d' "$scratch/json" | tail -n 1 |
    grep -q '"staleness":[0-9.]*,"staleness_by_worker":\[\[[0-9,]*\],\[[0-9,]*\]\]'
  ok "$policy: says how stale pushes were"
done

# number NAME [ROLE]: a counter of the final object.
number() {
  sed -n '$p' "$scratch/json" | sed "s/.*\"${2:-servers}\":{\([^}]*\)}.*/\1/" |
    tr ',' '\n' | sed -n "s/^\"$1\"://p"
}

# From policy to policy in one run: 10 steps together, then 5 rounds of up to 16
# (of which the last has 6), then each by itself. Every step of every worker is
# in the weights, once.
rm -f "$scratch/json"
run 0 train "$job" --set 'cluster.policy="sync until 10, local:16 until 80, async"' \
  --set train.epochs=0 --set train.steps=120 --json "$scratch/json" &&
  grep -q '^done *all 120 steps done$' "$scratch/out" &&
  grep -q '^step 10: the policy is local:16 from here on$' "$scratch/out" &&
  grep -q '^step 80: the policy is async from here on$' "$scratch/out"
ok 'sync, local:16 and async in one run'
chunks=$(gradweir train "$job" --dry-run |
  sed -n 's/.*in \([0-9]*\) chunks*.*/\1/p')
steps=$(number steps workers)
expect=$((chunks * (2 * 10 + 2 * 5 + steps - 2 * 80)))
[ "$steps" -ge 240 ] && [ "$(number pushes_applied)" -eq $expect ]
ok 'no push and no step is lost' ||
  echo "# $steps steps, $chunks chunks, $(number pushes_applied) applied, not $expect"
[ "$(grep -c '"policy":"sync"' "$scratch/json")" -gt 0 ] &&
  [ "$(grep -c '"policy":"local:16"' "$scratch/json")" -gt 0 ] &&
  [ "$(grep -c '"policy":"async"' "$scratch/json")" -gt 0 ]
ok 'the JSON lines say which policy held'
for plan in 'dc-async until 10, sync until 20, ssp:2' \
  'easgd:3 until 12, diloco:5 until 25, stale-lr:1'; do
  whole_job "$plan" && [ "$(grep -c 'the policy is' "$scratch/out")" -eq 2 ]
  ok "$plan"
done

# A job that goes on until it is told to stop: begin_job POLICY, stop_job.
begin_job() {
  rm -rf "$scratch/c"
  settings="--set cluster.policy=\"$1\" --set checkpoint.dir=$scratch/c"
  # no blanks in them
  # shellcheck disable=SC2086
  start t train "$job" $settings --set train.epochs=0 --set train.steps=1000000 \
    --set train.eval_every=never
  trainer=$started
  await 20 grep -qs '^step [1-9]' "$scratch/t.out"
}
stop_job() {
  kill -TERM "$trainer"
  wait "$trainer"
  [ $? -eq 3 ] && grep -q 'resume goes on from there$' "$scratch/t.err" ||
    return 1
  at=$(sed -n 's/.*stopped at step \([0-9]*\);.*/\1/p' "$scratch/t.err")
}
# Then to its end.
stop_and_go_on() {
  begin_job "$1" || return 1
  await 10 eval 'gradweir status "$(at)" >"$scratch/status" &&
    grep -q "^  staleness" "$scratch/status"' || return 1
  stop_job || return 1
  # shellcheck disable=SC2086
  run 0 train "$job" $settings --resume --set train.epochs=0 \
    --set "train.steps=$((at + 40))" &&
    grep -q "^done *all $((at + 40)) steps done$" "$scratch/out"
}
# Where the coordinator of the job listens.
at() {
  for port in $(ports coordinator); do echo "127.0.0.1:$port"; done | sed 1q
}
for policy in async ssp:2 dc-async easgd:3 downpour:3; do
  stop_and_go_on $policy
  ok "$policy: stopped and gone on with"
  grep -q '^  staleness [0-9.]* (0: [0-9]*' "$scratch/status" ||
    { sed 's/^/# /' "$scratch/status"; false; }
  ok "$policy: status says how stale pushes are"
done

# --- workers' own optimizers ---
cp "$job" "$scratch/plain"
for own in local:3/momentum diloco:5/adamw; do
  { cat "$scratch/plain"; echo "policy = { inner = \"${own#*/}\"; };"; } >"$job"
  begin_job "${own%/*}" && stop_job && whole=$at &&
    last=$scratch/c/$(printf 'step-%08d' "$whole") &&
    [ -s "$last/worker-0-of-2.safetensors" ] &&
    [ -s "$last/worker-1-of-2.safetensors" ]
  ok "$own: stopped, with a file of each worker"
  last_run="--set train.epochs=0 --set train.eval_every=never --set train.steps=$((whole + 40))"
  # shellcheck disable=SC2086
  run 0 train "$job" $settings $last_run --resume --servers 3 &&
    ! grep -q 'begins at zero' "$scratch/out" && first=$(digest) &&
    run 0 train "$job" --set "cluster.policy=\"${own%/*}\"" $last_run &&
    [ -n "$first" ] && [ "$(digest)" = "$first" ]
  ok "$own: the weights of a job that was not stopped"
  run 0 eval "$scratch/c" &&
    run 0 export "$scratch/c" "$scratch/model.safetensors" &&
    grep -q " 4 tensors of step $((whole + 40))$" "$scratch/out"
  ok "$own: eval and export take the checkpoint"
  # shellcheck disable=SC2086
  run 0 train "$job" $settings --resume --workers 3 --set train.epochs=0 \
    --set "train.steps=$((whole + 50))" &&
    grep -q "the state of the workers' own ${own#*/} is that of 2 workers, this job has 3: it begins at zero" \
      "$scratch/out"
  ok "$own: begins at zero with another number of workers"
done

# --- the model in parts: a stop ends where all of it is exchanged ---
cp "$scratch/plain" "$job"
{ echo 'policy = { fragments = 2; overlap = 2; inner = "momentum"; };'
  echo 'checkpoint = { every = "10 steps"; };'; } >>"$job"
begin_job diloco:6 && stop_job && [ $((at % 10)) -eq 0 ]
ok 'diloco:6 in parts: stopped where all of the model is exchanged' ||
  echo "# at $at"
last_run="--set train.epochs=0 --set train.eval_every=never --set train.steps=$((at + 47))"
# shellcheck disable=SC2086
run 0 train "$job" $settings $last_run --resume --servers 3 && first=$(digest) &&
  run 0 train "$job" --set 'cluster.policy="diloco:6"' $last_run &&
  [ -n "$first" ] && [ "$(digest)" = "$first" ]
ok 'diloco:6 in parts: the weights of a job that was not stopped'

# goes_on OPTION...: with the job that was stopped, from where it was.
goes_on() {
  rm -rf "$scratch/again" && cp -r "$scratch/stopped" "$scratch/again" &&
    run 0 train "$job" --resume --set train.epochs=0 --set "train.steps=$((at + 47))" \
      --set checkpoint.dir="$scratch/again" "$@"
}
rm -rf "$scratch/stopped"
begin_job diloco:6 && stop_job && cp -r "$scratch/c" "$scratch/stopped" &&
  goes_on --set cluster.policy=diloco:6 --set train.eval_every=never &&
  ! grep -q 'bits will differ\|made under' "$scratch/out" &&
  goes_on --set cluster.policy=diloco:6 --set train.eval_every=20 &&
  ! grep -q 'bits will differ\|made under' "$scratch/out"
ok 'diloco:6 in parts: gone on with, and the same meetings'
goes_on --set cluster.policy=diloco:6 --set train.eval_every=4 &&
  grep -q '^train.eval_every was never, now it is 4 steps: all parts of the model meet at other steps, so the bits will differ$' "$scratch/out" &&
  ! grep -q '^checkpoint.every was' "$scratch/out" &&
  goes_on --set cluster.policy=diloco:6 --set train.eval_every=never --set checkpoint.every=never &&
  grep -q '^checkpoint.every was 10 steps, now it is never: all parts' "$scratch/out"
ok 'diloco:6 in parts: other meetings are told'

# --- another policy than the checkpoint's ---
cp "$scratch/plain" "$job"
goes_on --set cluster.policy=sync &&
  grep -q '^the checkpoint was made under diloco:6, the job goes on under sync$' "$scratch/out" &&
  grep -q "^the servers' optimizer was nesterov, now it is momentum: its state begins at zero$" "$scratch/out" &&
  ! grep -q 'bits will differ' "$scratch/out" &&
  goes_on --set cluster.policy=diloco:7 &&
  grep -q '^the checkpoint was made under diloco:6, the job goes on under diloco:7$' "$scratch/out"
ok 'gone on with under another policy, and told'

# --- the first lines say what holds, also what nobody set ---
# shows LINE OPTION...
shows() {
  line=$1
  shift
  run 0 train "$job" --dry-run "$@" && grep -qxF "$line" "$scratch/out" && return 0
  echo "# no line $line"
  return 1
}
shows 'policy      ssp:2 (scale 0.5)' --set cluster.policy=ssp:2 &&
  shows 'policy      dc-async (scale 0.5, lambda 2, adaptive with decay 0.95)' \
    --set cluster.policy=dc-async --set policy.adaptive=true &&
  shows 'policy      easgd:4 (workers run adam, alpha 0.45)' \
    --set cluster.policy=easgd:4 --set policy.inner=adam &&
  shows 'policy      downpour:4 (workers run adam, servers sgd with lr 1, scale 0.5)' \
    --set cluster.policy=downpour:4 --set policy.inner=adam &&
  shows 'policy      diloco:6 (workers run momentum, servers nesterov with lr 0.7, momentum 0.9; 2 parts, merged after 1 step with mix 0.5)' \
    --set cluster.policy=diloco:6 --set policy.fragments=2 --set policy.overlap=1 &&
  shows '            local:16 (workers run momentum, servers sgd with lr 1)' \
    --set 'cluster.policy=sync until 2, local:16'
ok 'the numbers of a policy are shown'
shows 'commit      whole step (auto: train.clip asks)' --set train.clip=1 &&
  shows 'commit      whole step under backup:1, else streaming (auto: cluster.policy = backup asks)' \
    --set 'cluster.policy=sync until 9, backup:1 until 19, async' &&
  shows 'commit      streaming (auto: nothing asks for whole steps)' --set cluster.policy=backup:0
ok 'how steps are committed is shown, and which key asks for it'

# --- a plan that is longer than the job ---
for how in '' --dry-run; do
  # shellcheck disable=SC2086
  run 0 train "$job" $how --set 'cluster.policy=sync until 40, local:4' &&
    grep -q '^cluster.policy: local:4 from step 40 on never comes, since the job has 40 steps$' "$scratch/out" &&
    run 0 train "$job" $how --set 'cluster.policy=sync until 39, local:4' &&
    ! grep -q 'never comes' "$scratch/out"
  ok "a phase that never comes is told $how"
done

run 0 train "$job" --dry-run --set cluster.policy=easgd:41 &&
  grep -q '^cluster.policy: easgd:41 takes 41 steps to an exchange, and there are 40 for it: workers go beyond them$' "$scratch/out" &&
  run 0 train "$job" --dry-run --set 'cluster.policy=sync until 9, easgd:5 until 13, async' &&
  grep -q '^cluster.policy: easgd:5 takes 5 steps to an exchange, and there are 4 for it' "$scratch/out" &&
  run 0 train "$job" --dry-run --set cluster.policy=easgd:40 && ! grep -q 'go beyond' "$scratch/out"
ok 'rounds of easgd that are longer than the job are told'

await 3 nobody_left
ok 'nobody is left'

echo "1..$tests"
