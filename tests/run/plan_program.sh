#!/bin/sh
# gradweir plan of a job whose model is a program's: numbers of --weights beside
# closed forms, and beside the bytes and memory of a job. Prints TAP.
. "${GW_SRCDIR:-..}/tests/run/lib.sh"
linear=$(cd "${GW_BUILDDIR:-.}" && pwd)/tests/run/linear
echo 'model = { kind = "external"; };' >"$scratch/job"
job=$scratch/job

# number NAME [FILE]: of an object, the last of that name.
number() { sed "s/.*\"$1\":\([-+.0-9e]*\).*/\1/" "${2:-$scratch/plan}"; }

# near IS WANTED PART: WANTED may be a formula of M bytes, W workers, S servers,
# B bytes per second of payload.
near() {
  awk -v is="$1" -v M="$model" -v W="$workers" -v S="$servers" -v B=11768530.56 -v part="$3" "BEGIN {
    wanted = $2
    printf \"# %g, wanted %g: %.3f\n\", is, wanted, is / wanted
    exit !(is >= wanted * (1 - part) && is <= wanted * (1 + part)) }"
}

# plan WEIGHTS WORKERS SERVERS ARGUMENTS...: the object, and a model of M bytes.
plan() {
  model=$((4 * $1)) workers=$2 servers=$3
  shift 3
  run 0 plan "$job" --weights $((model / 4)) --workers "$workers" --servers "$servers" --json - "$@" &&
    cp "$scratch/out" "$scratch/plan"
}

# --- tables ---
run 0 plan "$job" --weights 1M --link '1 Gbit/s' &&
  grep -q '^model *1000000 weights, 4.00 MB, in 64 chunks: --weights$' "$scratch/out" &&
  grep -q '^step *not known: your program has data, batches and arithmetic$' "$scratch/out" &&
  grep -q '^optimizer *the program.s, counted as momentum (optimizer.kind)$' "$scratch/out" &&
  grep -q '^computing *not known: your program.s (--step-time)$' "$scratch/out" &&
  grep -q '^libgradweir.so, in all *[0-9.]* *$' "$scratch/out" &&
  grep -q '^peak RSS  *[0-9.]*  *[0-9.]*$' "$scratch/out" &&
  grep -q '^worker, sync *4.000 *0.000 *0.000 *4.000$' "$scratch/out" &&
  grep -q '^exchange *[0-9.]* ms, bound by ' "$scratch/out" &&
  grep -q '^step *not known: computing alone, .* up to the sum of both$' "$scratch/out" &&
  grep -q '^computing of *[0-9.]* ms and more hides the exchange' "$scratch/out" &&
  grep -q '^all-reduce *[0-9.]* ms for the exchange: a ring' "$scratch/out" &&
  ! grep -qE 'samples|epoch|GFLOP|BLAS|activations [0-9]|nan|inf' "$scratch/out"
ok 'a plan of a program says what is known, and what is not'
run 0 plan "$job" --weights 1M --set cluster.policy=local:10 --link 1Gbit &&
  grep -q '^worker, local:10 *0.400 *0.000 *0.000 *0.400$' "$scratch/out" &&
  grep -q '^ *one exchange in 10 steps, the mean$' "$scratch/out"
ok 'one exchange in several steps'
run 0 plan "$job" --weights 1M --step-time '20 ms' --set optimizer.kind=adam &&
  grep -q '^computing *20.000 ms a step: --step-time$' "$scratch/out" &&
  grep -qE '^step +[0-9.]+ ms, [0-9.]+ steps/s; bound by ' "$scratch/out" &&
  ! grep -qE '^optimizer  |samples' "$scratch/out"
ok 'a step whose computing is given'
plan 1000000 2 1 --set optimizer.kind=adam && for name in device global_batch sample_flop \
  compute step_s samples_per_s; do
  grep -q "\"$name\":null" "$scratch/plan" || echo "# $name is known"
done | tee "$scratch/known" && [ ! -s "$scratch/known" ] &&
  grep -q '"peak_rss_bytes":{[^}]*"worker":null' "$scratch/plan" && ! grep -q blas "$scratch/plan"
ok 'what is unknown is null in the object'

# --- by hand ---
plan 3000000 4 2 --link 100Mbit --set optimizer.kind=adam &&
  near "$(number model_bytes)" M 0 &&
  near "$(number worker_link)" M/B 0.01 && near "$(number server_link)" W*M/S/B 0.01 &&
  near "$(number exchange_s)" W*M/S/B 0.10 && near "$(number all_reduce_s)" '2*(W-1)/W*M/B' 0.01
ok 'links and an exchange'
server=$(sed 's/.*"server":\({[^}]*}\).*/\1/; q' "$scratch/plan")
worker=$(sed 's/.*"memory_bytes":{"worker":\({[^}]*}\).*/\1/; q' "$scratch/plan")
echo "$server" >"$scratch/server" && echo "$worker" >"$scratch/worker" &&
  near "$(number weights "$scratch/server")" 2*M/S 0.03 &&
  near "$(number optimizer_state "$scratch/server")" 2*M/S 0.03 &&
  near "$(number landing_slots "$scratch/server")" W*M/S 0.03 &&
  near "$(number weights "$scratch/worker")" M 0.01 && near "$(number gradients "$scratch/worker")" M 0.01
ok 'memory of a server, and of a library'
plan 3000000 2 2 --link 100Mbit --step-time '2 s' && near "$(number step_s)" 2 0.05 &&
  near "$(number compute)" 2 0 && plan 3000000 2 2 --link 100Gbit --step-time '80 ms' &&
  near "$(number step_s)" 0.08 0.05 && grep -q '"bound":"compute"' "$scratch/plan"
ok 'backward hides pushes'
plan 3000000 2 1 --link 100Mbit --set 'cluster.policy="sync until 9, local:10"' &&
  near "$(number bytes_pushed)" M/10 0 && near "$(number bytes_pulled)" M/10 0 &&
  sed 's/.*"exchange":\(\[[^]]*\]\).*/\1/; s/},{.*//' "$scratch/plan" >"$scratch/first" &&
  grep -q '"policy":"sync"' "$scratch/first" && near "$(number bytes_pushed "$scratch/first")" M 0 &&
  plan 3000000 2 1 --set train.weights=bf16 && near "$(number bytes_pushed)" M 0 &&
  near "$(number bytes_pulled)" M/2 0
ok 'bytes of each policy'
plan 3000000 4 2 --link 100Mbit --per-host 4 --set cluster.local_reduction=on &&
  near "$(number worker_link)" M/B 0.01
ok 'workers of a host that push one sum'

# --- beside a job: 650 weights, in 300 steps ---
# counted ROLE NAME: of the last line of a job.
counted() { tail -n 1 "$scratch/json" | sed "s/.*\"$1\":{[^}]*\"$2\":\([0-9]*\).*/\1/"; }
for policy in sync ssp:2 async local:10 diloco:20; do
  rm -f "$scratch/json"
  run 0 run "$job" --workers 3 --servers 2 --set train.steps=300 --set cluster.policy=$policy \
    --json "$scratch/json" -- "$linear" && plan 650 3 2 --set cluster.policy=$policy &&
    near "$(counted servers bytes_pushed)" "300 * W * $(number bytes_pushed)" 0.01 &&
    near "$(counted workers bytes_pulled)" "300 * W * $(number bytes_pulled) + W * M" 0.01
  ok "a job sends and gets as planned, $policy"
done

# --- what does not fit, and wrong words ---
run 1 plan "$job" --weights 1G --link 1Gbit --host-memory 4GiB --servers 1 &&
  says 'does not fit: a host with workers needs .*; no number of servers makes it fit: take a smaller model'
ok 'a model that is too large for a worker'
run 1 plan "$job" --weights 100M --link 1Gbit --host-memory 1GiB --servers 1 &&
  says 'does not fit: a host with servers needs .*; it fits with cluster.servers = [0-9]* or more' &&
  count=$(sed 's/.*servers = \([0-9]*\) or.*/\1/' "$scratch/err") &&
  run 0 plan "$job" --weights 100M --link 1Gbit --host-memory 1GiB --servers "$count" &&
  run 1 plan "$job" --weights 100M --link 1Gbit --host-memory 1GiB --servers $((count - 1))
ok 'the number of servers with which it fits is told'
run 1 plan "$job" --weights 100M --host-memory 1GiB --json "$scratch/refused" && says 'does not fit: this host' &&
  grep -q '"refused":"does not fit: ' "$scratch/refused"
ok 'and all on one host'
run 2 plan "$job" && says 'model.kind: .* such as --weights 124M$' &&
  run 2 plan "$job" --weights 0 && says '--weights: "0" is not a number above 0 with one of these units, or none: k, M, G' &&
  run 2 plan "$job" --weights 3MB && says '--weights: "3MB" is not' &&
  run 2 plan "$job" --weights 1e18 && says '--weights: key tensor0 has too many' &&
  run 2 plan "$job" --weights 1M --flops 1GFLOP/s && says 'plan: --flops: .* give --step-time' &&
  run 2 plan "$job" --weights 1M --gpus 1 && says 'plan: --gpu-memory, .* here your program does'
ok 'wrong words about a program are named'
make_data # 64-7000-10 has 525,010 weights
run 0 plan "$job" --set 'model.layers=(64,7000,10)' --link 100Mbit --workers 4 --servers 2 --step-time '1 ms' --json - &&
  cp "$scratch/out" "$scratch/builtin" && echo 'model = { kind = "external"; };' >"$scratch/own" && job=$scratch/own &&
  plan 525010 4 2 --link 100Mbit --step-time '1 ms' &&
  near "$(number step_s)" "$(number step_s "$scratch/builtin")" 0.05 &&
  near "$(number worker_link)" "$(number worker_link "$scratch/builtin")" 0.001 &&
  near "$(number server "$scratch/builtin")" "$(number server)" 0.02
ok 'a model of gradweir of that size is planned alike'
job=$scratch/job
run 2 plan "$job" --weights 5 && says 'plan: --weights is for model.kind = "external"; this job has'
ok 'a model of gradweir has its own size'
nobody_left
ok 'nothing is left behind'
echo "1..$tests"
