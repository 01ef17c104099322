#!/bin/sh
# A trainer that knows worker/trainer/rank.h alone (linear.c) and the built-in
# model, which has the same arithmetic here: each sample has one white pixel and
# a step of a worker one sample, so that there is one order of each sum. Prints
# TAP.
. "${GW_SRCDIR:-..}/tests/run/lib.sh"
linear=${GW_BUILDDIR:-.}/tests/run/linear
mkdir -p "$scratch/data"
# 200 pictures of 8 x 8; the white pixel of picture i is pixel i mod 64
side='\000\000\000\010'
{
  printf "\000\000\010\003\000\000\000\310$side$side"
  i=0
  while [ $i -lt 200 ]; do
    head -c $((i % 64)) /dev/zero
    printf '\377'
    head -c $((63 - i % 64)) /dev/zero
    i=$((i + 1))
  done
} >"$scratch/data/images"
{
  printf '\000\000\010\001\000\000\000\310'
  i=0
  while [ $i -lt 20 ]; do
    printf '\000\001\002\003\004\005\006\007\010\011'
    i=$((i + 1))
  done
} >"$scratch/data/labels"
cat >"$scratch/job" <<JOB
data = { train = ("$scratch/data/images", "$scratch/data/labels"); };
model = { layers = (64, 10); init = "glorot"; };
train = { batch = 1; steps = 300; seed = 3; eval_every = "never"; };
optimizer = { kind = "momentum"; lr = 0.1; };
cluster = { workers = 2; servers = 2; };
log = { every = 50; };
JOB
job=$scratch/job

at() { sed -n 's/^members join at \([^:]*:[0-9]*\): .*/\1/p' "$scratch/$1.out" 2>/dev/null; }
listens() { [ "$(at "$1")" ]; }
has_ended() { ! kill -0 $coordinator 2>/dev/null; }
mistake=
# by_linear KEYS..: the job, whose workers are the program's; its output in c.out
by_linear() {
  start c coordinator "$job" "$@"
  coordinator=$started
  await 10 listens c || return 1
  members=
  for i in 1 2; do
    start "s$i" server --join "$(at c)"
    members="$members $started"
    "$linear" "$(at c)" $mistake >"$scratch/l$i.out" 2>"$scratch/l$i.err" &
    members="$members $!"
  done
  await 60 has_ended || kill $coordinator
  wait $coordinator || { sed 's/^/# /' "$scratch/c.err" "$scratch/l1.err"; return 1; }
  for member in $members; do wait "$member" || return 1; done
}

for policy in sync local:4 diloco:4 backup:0; do
  keys="--set cluster.policy=$policy"
  [ $policy = local:4 ] && keys="$keys --set policy.inner_clip=0.2"
  # shellcheck disable=SC2086
  run 0 train "$job" $keys && builtin=$(digest) &&
    by_linear $keys && [ ${#builtin} -eq 64 ] &&
    [ "$(digest "$scratch/c.out")" = "$builtin" ]
  ok "$policy: the weights of the built-in model"
done
loss() { sed -n 's/^step 250\/300 .* loss \([0-9.]*\).*/\1/p' "$1"; }
run 0 train "$job" --set cluster.policy=ssp:2 && builtin=$(loss "$scratch/out") &&
  by_linear --set cluster.policy=ssp:2 && own=$(loss "$scratch/c.out") &&
  awk "BEGIN { exit !($own > 0 && $own < 2 * $builtin && $builtin < 2 * $own) }"
ok "ssp:2: its loss, $own beside ${builtin:-none}"
mistake=twice
! by_linear >/dev/null 2>&1 &&
  grep -q '^gradweir: worker [01] .*: step 0: key fc1.bias is ready twice in one step, by a mistake of the trainer$' "$scratch/c.err"
ok 'a key that is ready twice ends the job by its name'
await 3 nobody_left
ok 'nobody is left'
echo "1..$tests"
