#!/bin/sh
# A job that goes on with other steps (train.batch, cluster.workers): which
# samples it takes then, seen from outside, and the line about it. Prints TAP.
. "${GW_SRCDIR:-..}/tests/run/lib.sh"

# 60 samples of 60 pixels, of which pixel i of sample i alone is not black: a
# step changes column i of the weights exactly where it takes sample i.
n=60
side=$(printf %03o $n)
printf "\000\000\010\003\000\000\000\\$side\000\000\000\001\000\000\000\\$side" \
  >"$scratch/images"
printf "\000\000\010\001\000\000\000\\$side" >"$scratch/labels"
i=0
while [ $i -lt $n ]; do
  head -c $i /dev/zero
  printf '\377'
  head -c $((n - 1 - i)) /dev/zero
  printf "\\00$((i % 2))" >>"$scratch/labels"
  i=$((i + 1))
done >>"$scratch/images"
cat >"$scratch/job" <<JOB
data = { train = ("$scratch/images", "$scratch/labels"); };
model = { layers = ($n, 2); };
train = { batch = 12; steps = 4; seed = 5; eval_every = "never"; };
optimizer = { kind = "sgd"; lr = 0.5; };
cluster = { workers = 2; servers = 1; };
log = { every = 1; };
JOB
job=$scratch/job

# weights CHECKPOINT: those of the first class, one a line.
weights() {
  gradweir export "$1" "$scratch/weights" >"$scratch/out" || return 1
  head=$(od -An -N8 -tu8 "$scratch/weights" | tr -d ' ')
  at=$(head -c $((8 + head)) "$scratch/weights" |
    sed 's/.*"fc1.weight"[^}]*"data_offsets":\[\([0-9]*\),.*/\1/')
  od -An -v -tx4 -w4 -j $((8 + head + at)) -N $((4 * n)) "$scratch/weights"
}

# take STEP DIR: which samples the step before STEP took, with its epoch.
take() {
  weights "$2" >"$scratch/after" || return 1
  epoch=$(sed -n "s/.*\"step\":$(($1 - 1)),\"epoch\":\([0-9]*\),.*/\1/p" \
    "$scratch/json" | tail -n 1)
  paste "$scratch/before" "$scratch/after" |
    awk -v epoch="$epoch" '$1 != $2 { print epoch, NR - 1 }' >>"$scratch/taken"
  mv "$scratch/after" "$scratch/before"
}

# steps of 24, of which the checkpoint of the fourth is within epoch 1, and then
# steps of 15: the same job ends after each of them in turn
take_24() {
  for step in 1 2 3 4; do
    rm -rf "$scratch/ck"
    run 0 train "$job" --set checkpoint.dir="$scratch/ck" \
      --set train.steps=$step --json "$scratch/json" &&
      take $step "$scratch/ck" || return 1
  done
}
take_15() {
  for step in 5 6 7 8 9 10 11; do
    rm -rf "$scratch/ck"
    cp -r "$scratch/4" "$scratch/ck"
    run 0 train "$job" --resume --set checkpoint.dir="$scratch/ck" \
      --set train.steps=$step --set train.batch=5 --set cluster.workers=3 \
      --json "$scratch/json" && take $step "$scratch/ck" || return 1
  done
}
run 0 train "$job" --set checkpoint.dir="$scratch/4" --set checkpoint.keep=9 &&
  weights "$scratch/4/step-00000000" >"$scratch/before" && take_24 && take_15
ok 'a job that goes on with another batch and more workers'
for epoch in 0 1 2; do
  [ "$(grep -c "^$epoch " "$scratch/taken")" -eq $n ] &&
    [ "$(grep "^$epoch " "$scratch/taken" | sort -u | wc -l)" -eq $n ]
  ok "each sample of epoch $epoch comes once"
done

# --- what is said of it, once ---
onward() {
  rm -rf "$scratch/ck"
  cp -r "$scratch/4" "$scratch/ck"
  run 0 train "$job" --resume --set checkpoint.dir="$scratch/ck" "$@" \
    --set train.steps=0 --set train.epochs=3
}
onward --set train.batch=5 --set optimizer.schedule=cosine &&
  grep -q '^done *all 14 steps done$' "$scratch/out" &&
  [ "$(grep -c '^a step takes ' "$scratch/out")" -eq 1 ] &&
  grep -q '^a step takes 10 samples, before the checkpoint it took 24: the job goes on with sample 24 of epoch 1, and each sample of each epoch comes once; warm-up and all that comes every N steps go on counting steps, the schedule and what comes every N epochs follows epochs, of 6 steps now, 3 before$' "$scratch/out"
ok 'a line says what becomes of place, schedule, warm-up and epochs'
onward --set cluster.workers=1 --set train.batch=24 &&
  ! grep -q '^a step takes ' "$scratch/out" &&
  grep -q '^done *all 9 steps done$' "$scratch/out"
ok 'steps of the same size, by another number of workers, need no word'
onward --set train.seed=6 &&
  grep -q '^train.seed was 5, now it is 6: the rest of epoch 1 is in another order' "$scratch/out"
ok 'another seed within an epoch is named'
[ "$(onward --set train.batch=5 --dry-run &&
  sed -n 's/^steps *//p' "$scratch/out")" = '14 in all, 6 per epoch, 10 samples each' ]
ok '--dry-run counts the steps that are left'

# --- under policies of which each worker has steps of its own ---
for policy in local:3 diloco:3 async ssp:2 easgd:3 downpour:2; do
  rm -rf "$scratch/ck"
  run 0 train "$job" --set checkpoint.dir="$scratch/ck" --set "cluster.policy=$policy" &&
    run 0 train "$job" --resume --set checkpoint.dir="$scratch/ck" \
      --set "cluster.policy=$policy" --set train.steps=0 --set train.epochs=3 \
      --set train.batch=5 --set cluster.workers=3 --json "$scratch/json" &&
    grep -q '^a step takes 15 samples, before the checkpoint it took 24: the job goes on with sample 24 of epoch 1' "$scratch/out" &&
    grep -q '^done *all 11 steps done$' "$scratch/out"
  ok "$policy goes on with another batch and more workers"
done

await 3 nobody_left
ok 'no process is left'
echo "1..$tests"
