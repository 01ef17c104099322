#!/bin/sh
# train.split = speed between real processes: a worker that is slowed gets less,
# the record says so, and what it says gives the same weights again. Prints TAP.
. "${GW_SRCDIR:-..}/tests/run/lib.sh"
make_data

# Steps that are mostly computing, and no shorter than what a worker is slowed
# by, also on a fast machine.
by_speed="--set model.layers=[64,2000,2000,10] --set train.batch=0
--set train.global_batch=200 --set train.split=speed --set train.steps=50
--set train.eval_every=never --set log.every=1"

# slow PID: lets it run 20 ms of each 80, for as long as it is there.
slow() {
  while kill -STOP "$1" 2>/dev/null; do
    sleep 0.06
    kill -CONT "$1" 2>/dev/null || break
    sleep 0.02
  done
}

# Starts the job, and slows one of its workers until its end.
measured() {
  rm -f "$scratch/run.json"
  # shellcheck disable=SC2086
  start t train "$job" $by_speed --json "$scratch/run.json"
  trainer=$started
  await 20 grep -qs '^step 1/' "$scratch/t.out" || return 1
  slow "$(pid_of worker 2)" &
  slower=$!
  wait "$trainer"
  code=$?
  wait "$slower"
  [ $code -eq 0 ] || sed 's/^/# /' "$scratch/t.out" "$scratch/t.err"
  [ $code -eq 0 ] && [ ! -s "$scratch/t.err" ]
}
measured
ok 'one of two workers is slowed: a whole job'
grep -q '^from step [0-9]* on workers have [0-9.]*, [0-9.]* % of each step.s samples$' \
  "$scratch/t.out" || { sed 's/^/# /' "$scratch/t.out"; false; }
ok 'says that it gets another part'

# Every step has 200 samples; the last one is not divided like the first.
splits() {
  sed -n 's/.*"split":\[\([0-9]*\),\([0-9]*\)\].*/\1 \2/p' "$1"
}
splits "$scratch/run.json" | awk '
  { if ($1 + $2 != 200) wrong = 1; if (NR == 1) first = $1; last = $1 }
  END { exit wrong || NR < 50 || first != 100 || (last > 80 && last < 120) }' ||
  { splits "$scratch/run.json" | sed 's/^/# /'; false; }
ok 'the record has the samples of each step'
grep '"split_step"' "$scratch/run.json" >"$scratch/changes"
sed -n 1p "$scratch/changes" |
  grep -qx '{"split_step":0,"split_weights":\[524288,524288\]}' &&
  [ "$(wc -l <"$scratch/changes")" -ge 2 ]
ok 'the record has each change'

wanted=$(digest "$scratch/t.out")
# repeated OPTION...: the same weights, and the same record of splits.
repeated() {
  rm -f "$scratch/again.json"
  # shellcheck disable=SC2086
  run 0 train "$job" $by_speed --set "train.split_from=$scratch/run.json" \
    --json "$scratch/again.json" "$@" &&
    [ -n "$wanted" ] && [ "$(digest)" = "$wanted" ] &&
    grep '"split_step"' "$scratch/again.json" | cmp -s - "$scratch/changes"
}
repeated
ok 'repeated: the same weights'
repeated --servers 1 --set train.commit=whole
ok 'repeated with one server and whole steps: the same weights'

# Stopped somewhere and gone on with.
stopped() {
  where="--set train.split_from=$scratch/run.json --set checkpoint.dir=$scratch/c"
  # shellcheck disable=SC2086
  start t train "$job" $by_speed $where
  trainer=$started
  await 20 grep -qs '^step 12/' "$scratch/t.out" || return 1
  kill -TERM "$trainer"
  wait "$trainer"
  [ $? -eq 3 ] || return 1
  # shellcheck disable=SC2086
  run 0 train "$job" $by_speed $where --resume && [ "$(digest)" = "$wanted" ]
}
stopped
ok 'repeated, stopped and gone on with: the same weights'
grep -q '"split": *[1-9]' "$scratch"/c/step-*/manifest.json
ok 'checkpoints have the split'

# shellcheck disable=SC2086
run 2 train "$job" $by_speed --set cluster.policy=async &&
  says 'train.split: speed lets all workers finish a step at the same time, but'
ok 'refused where nobody waits'
run 2 train "$job" --set train.split=speed &&
  says 'train.split: speed divides train.global_batch, but train.batch gives'
ok 'refused without a global batch'
for how in '' --dry-run; do
  # shellcheck disable=SC2086
  run 1 train "$job" $by_speed --set "train.split_from=$scratch/none" $how &&
    says "train.split_from: cannot open $scratch/none"
  ok "refused: a record that is not there${how:+, with $how}"
  # shellcheck disable=SC2086
  run 2 train "$job" $by_speed --set "train.split_from=$job" $how &&
    says "train.split_from: $job has no split in it"
  ok "refused: a file that is no record${how:+, with $how}"
done
# shellcheck disable=SC2086
run 1 train "$job" $by_speed --set "train.split_from=$scratch/run.json" \
  --workers 3 &&
  says "train.split_from: $scratch/run.json:1: a split of 2 workers, this job has 3"
ok 'refused: the record of another number of workers'

await 3 nobody_left
ok 'nobody is left'

echo "1..$tests"
