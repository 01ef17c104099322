#!/bin/sh
# gradweir plan: its words, that its memory is what a job has, and that a job
# which cannot fit is refused before it starts. Prints TAP.
. "${GW_SRCDIR:-..}/tests/run/lib.sh"
make_data
small='model.layers=(64,32,10)'

# number NAME: of the plan's object
number() { sed "s/.*\"$1\":\([-+.0-9e]*\).*/\1/" "$scratch/plan"; }

# near IS WANTED PART
near() {
  awk -v is="$1" -v wanted="$2" -v part="$3" 'BEGIN {
    printf "# %g, wanted %g: %.3f\n", is, wanted, is / wanted
    exit !(is >= wanted * (1 - part) && is <= wanted * (1 + part)) }'
}

plan() {
  run 0 plan "$job" --set "$small" --json - "$@" && cp "$scratch/out" "$scratch/plan"
}

# --- tables ---
run 0 plan "$job" --set "$small" &&
  for word in weights gradients activations 'optimizer state' 'landing slots' \
    'peak RSS' program 'this host ' computing 'reduce+update' 'step '; do
    grep -q "^$word" "$scratch/out" || echo "# no $word"
  done | tee "$scratch/missing" && [ ! -s "$scratch/missing" ] &&
  ! grep -qv 'ASan .* makecontext' "$scratch/err" && grep -q '^links *none: all are on one machine' "$scratch/out"
ok 'a plan without anything given'
run 0 plan "$job" --set "$small" --link '1 Gbit/s, 0.2 ms' --workers 4 --servers 2 &&
  grep -qE '^host with workers +0\.0[0-9]+' "$scratch/out" &&
  grep -q '^all-reduce .* a ring of the workers. 4 hosts' "$scratch/out" &&
  grep -q '^a host with servers .*(--host-memory)' "$scratch/out"
ok 'a plan for links'

plan --step-time '1 ms' --set 'model.layers=(64,7000,10)' --set cluster.transport=tcp &&
  over_tcp=$(number cores) && run 0 plan "$job" --step-time '1 ms' \
    --set 'model.layers=(64,7000,10)' --set cluster.transport=tcp &&
  grep -q '^links *none: all are on one machine$' "$scratch/out" &&
  plan --step-time '1 ms' --set 'model.layers=(64,7000,10)' --set cluster.transport=shm &&
  awk "BEGIN { exit !($(number cores) < $over_tcp) }" && run 0 plan "$job" --step-time '1 ms' \
    --set cluster.transport=shm && grep -q '^links *none: .*, over shm$' "$scratch/out"
ok 'bytes of a job within this machine cost less over shm'

# --- 64-7000-10: 525,010 weights, 2.1 MB; on 100 Mbit/s it is all sending ---
small='model.layers=(64,7000,10)'
model=2100040
plan --link 100Mbit --workers 2 --servers 2 --step-time '1 ms' \
  --memory-rate '10 GB/s' &&
  near "$(number model_bytes)" $model 0 &&
  near "$(number all_reduce_s)" "$(awk "BEGIN { print $model / 11.77e6 }")" 0.01 &&
  near "$(number step_s)" "$(awk "BEGIN { print $model / 11.77e6 }")" 0.20 &&
  grep -qE '"bound":"(worker|server)_link"' "$scratch/plan"
ok 'what a step takes on a slow link, by hand'
plan --link 10Gbit --workers 2 --servers 2 --step-time '80 ms' &&
  near "$(number step_s)" 0.080 0.05 && grep -q '"bound":"compute"' "$scratch/plan"
ok 'a fast link hides what is sent'
plan --link 100Mbit --workers 4 --servers 4 --placement together \
  --step-time '1 ms' &&
  near "$(number worker_link)" "$(awk "BEGIN { print 1.5 * $model / 11.77e6 }")" 0.05
ok 'servers on the hosts of workers send 2 (n-1) / n of the model'
plan --link 100Mbit --workers 2 --servers 1 --step-time '1 ms' \
  --set 'cluster.policy="local:10"' &&
  near "$(number worker_link)" "$(awk "BEGIN { print 0.1 * $model / 11.77e6 }")" 0.05 &&
  near "$(number step_s)" "$(awk "BEGIN { print 0.2 * $model / 11.77e6 + 1e-3 }")" 0.5
ok 'workers with steps of their own send less'
plan --link 1Gbit --workers 4 --servers 2 --per-host 2 --step-time '10 ms' &&
  whole=$(number worker_link) &&
  near "$whole" "$(awk "BEGIN { print $model / 117.7e6 }")" 0.05 &&
  plan --link 1Gbit --workers 4 --servers 2 --per-host 2 --step-time '10 ms' \
    --set train.weights=bf16 && near "$(number worker_link)" "$whole" 0.01 &&
  plan --link 1Gbit --workers 2 --servers 2 --placement together \
    --step-time '10 ms' && whole=$(number worker_link) &&
  plan --link 1Gbit --workers 2 --servers 2 --placement together \
    --step-time '10 ms' --set train.weights=bf16 &&
  near "$(number worker_link)" "$(awk "BEGIN { print 0.75 * $whole }")" 0.01
ok 'hosts of several workers, and weights as bf16'
plan --flops '1 GFLOP/s' --link 10Gbit &&
  near "$(number compute)" \
    "$(awk -v f="$(number sample_flop)" -v b="$(number global_batch)" \
      -v w="$(number workers)" 'BEGIN { print f * b / w / 1e9 }')" 0.01
ok 'computing by --flops'
run 0 plan "$job" --set "$small" --json "$scratch/file" --step-time 1ms &&
  [ "$(wc -l <"$scratch/file")" -eq 1 ] && grep -q '^memory, MiB' "$scratch/out"
ok '--json FILE beside the tables'

# --- words that are wrong ---
run 2 plan && says 'plan: takes one job file' &&
  run 2 plan "$job" --link fast && says '"fast" is no network' &&
  run 2 plan "$job" --link '2 ms' && says '--link: "2 ms" has no rate' &&
  run 2 plan "$job" --step-time 12 && says '--step-time: "12" is not a number' &&
  run 2 plan "$job" --flops 3GB && says '--flops: "3GB" .* TFLOP/s' &&
  run 2 plan "$job" --host-memory 1Gbit && says '--host-memory: .* GiB' &&
  run 2 plan "$job" --step-time 1ms --flops 1GFLOP/s && says 'plan: .* give one' &&
  run 2 plan "$job" --link 1Gbit --placement nowhere && says '.*nowhere' &&
  run 2 plan "$job" --set train.batch=0 && says '.*train.batch'
ok 'what is wrong is named'

# --- memory, beside a job's own ---
layers='model.layers=(64,3500,3500,10)'
# peak ROLE FILE: bytes.
peak() {
  tail -n 1 "$2" | sed "s/.*\"peak_rss_bytes\":{[^}]*\"$1\":\([0-9]*\).*/\1/"
}

# near_peak ROLE TEXT: what was planned beside what the job had.
near_peak() {
  if grep -q '^#define GW_SANITIZED' "${GW_BUILDDIR:-.}/config.h"; then
    tests=$((tests + 1))
    echo "ok $tests - memory of a $1 # SKIP a sanitizer takes memory of its own"
    return
  fi
  near "$(peak "$1" "$scratch/plan")" "$(peak "$1" "$scratch/json")" 0.10
  ok "memory of a $1 is as planned, $2, within 10 %"
}

small=$layers
# over tcp each has its own; over shm servers write into workers' weights, and
# workers into servers' slots, and what both have mapped both have
for transport in tcp auto; do
  rm -f "$scratch/json"
  run 0 train "$job" --set "$layers" --set train.steps=4 --set train.epochs=0 \
    --set optimizer.kind=adam --workers 2 --servers 2 --json "$scratch/json" \
    --set cluster.transport=$transport
  ok "a model of 50 MB trains, over $transport"
  plan --workers 2 --servers 2 --set optimizer.kind=adam --step-time '1 s' \
    --memory-rate '10 GB/s' --set cluster.transport=$transport
  ok 'and is planned'
  for role in coordinator server worker; do
    near_peak $role "over $transport"
  done
done
rm -f "$scratch/json"
small='model.layers=(64,32,10)'
run 0 train "$job" --set "$small" --set train.steps=3000 --set train.epochs=0 \
  --set cluster.transport=auto --json "$scratch/json" &&
  plan --step-time '1 ms' --memory-rate '10 GB/s' --set cluster.transport=auto
ok 'a job of many steps with little to send'
near_peak server 'after many steps'
small=$layers

# --- what does not fit ---
huge='model.layers=(64,40000,40000,10)' # 6.4 GB, of 512 workers twice
run 1 train "$job" --set "$huge" --workers 512 &&
  says 'does not fit: this host needs [0-9.]* GiB (512 workers of .*), and .* are .*' &&
  [ ! -s "$scratch/out" ]
ok 'train refuses a model that cannot fit, before it starts'
run 1 train "$job" --set "$huge" --workers 512 --dry-run && says 'does not fit: this host'
ok 'so does --dry-run'
run 1 plan "$job" --set "$huge" --workers 512 && says 'does not fit: this host' &&
  grep -q '^peak RSS' "$scratch/out"
ok 'so does plan, and says what it needs'
run 0 train "$job" --set "$huge" --workers 512 --dry-run --overcommit
ok '--overcommit asks nobody'
sed '/test = /d; s/labels");$/labels"); };/' "$job" >"$scratch/other"
small='model.layers=(64,2000,10)'
run 1 plan "$scratch/other" --set "$small" --set train.eval_every=never --set train.batch=200 --workers 1 --servers 1 \
  --host-memory 5MiB && says 'does not fit: .*; it fits with train.batch = [0-9]* or less'
ok 'the largest batch that fits is told'
batch=$(sed 's/.*train.batch = \([0-9]*\).*/\1/' "$scratch/err")
run 0 plan "$scratch/other" --set "$small" --set train.eval_every=never --set train.batch="${batch:-0}" --workers 1 \
  --servers 1 --host-memory 5MiB --step-time 1ms &&
  run 1 plan "$scratch/other" --set "$small" --set train.eval_every=never --set train.batch=$((batch + 1)) --workers 1 \
    --servers 1 --host-memory 5MiB --step-time 1ms
ok 'it fits, and one more does not'
run 1 plan "$job" --set "$layers" --link 1Gbit --host-memory 120MiB --servers 1 &&
  says 'does not fit: a host with .*; it fits with cluster.servers = [0-9]* or more'
ok 'more servers than one are told where one is too small'
nobody_left
ok 'nothing is left behind'
echo "1..$tests"
