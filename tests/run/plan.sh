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
plan --link 100Mbit --workers 2 --servers 1 --step-time '1 ms' --set policy.fragments=2 \
  --set policy.overlap=1 --set policy.inner_clip=1 --set cluster.policy=diloco:4
ok 'also where only they have parts, overlap and clipping'
plan --link '100 kbit/s' --workers 2 --servers 1 --step-time '1 ms' &&
  near "$(number step_s)" "$(awk "BEGIN { print 2 * $model / 11.77e3 }")" 0.01 &&
  plan --link '1 Mbit/s' --workers 16 --servers 1 --step-time '1 ms' &&
  near "$(number step_s)" "$(awk "BEGIN { print 16 * $model / 0.1177e6 }")" 0.01 &&
  plan --link '5 Mbit/s' --workers 16 --servers 1 --step-time '1 ms' && # simulated
  near "$(number step_s)" "$(awk "BEGIN { print 16 * $model / 0.5885e6 }")" 0.10
ok 'a link on which a chunk takes seconds'
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
      -v w=2 'BEGIN { print f * b / w / 1e9 }')" 0.01
ok 'computing by --flops'
run 0 plan "$job" --set "$small" --json "$scratch/file" --step-time 1ms &&
  [ "$(wc -l <"$scratch/file")" -eq 1 ] && grep -q '^memory, MiB' "$scratch/out"
ok '--json FILE beside the tables'

# --- words that are wrong ---
run 2 plan && says 'plan: takes one job file' &&
  run 2 plan "$job" --link fast && says '--link: "fast" is no network' &&
  run 2 plan "$job" --link '2 ms' && says '--link: "2 ms" has no rate' &&
  run 2 plan "$job" --step-time 12 && says '--step-time: "12" is not a number' &&
  run 2 plan "$job" --flops 3GB && says '--flops: "3GB" .* TFLOP/s' &&
  run 2 plan "$job" --host-memory 1Gbit && says '--host-memory: .* GiB' &&
  run 2 plan "$job" --step-time 1ms --flops 1GFLOP/s && says 'plan: .* give one' &&
  run 2 plan "$job" --link 1Gbit --placement nowhere && says '.*nowhere' &&
  run 2 plan "$job" --set train.batch=0 && says '.*train.batch'
ok 'what is wrong is named'

# --- GPUs that are not here: 64-7000-10 is 2.1 MB, two pages of each ---
gpu() { plan --device cuda --step-time '1 ms' --memory-rate '10 GB/s' "$@"; }
mib=1048576
gpu --workers 1 --servers 1 && near "$(number weights)" $((4 * mib)) 0 &&
  near "$(number gradients)" $((4 * mib)) 0 && near "$(number batch)" $((4 * mib)) 0 &&
  near "$(number workspace)" $((34 * mib)) 0 &&
  near "$(number gpu_bytes)" "$(awk -v own="$(number gpu_needs_bytes)" 'BEGIN { print own }')" 0 &&
  ! grep -q product_scratch "$scratch/plan" &&
  gpu --workers 1 --servers 1 --set train.precision=bf16 && grep -q product_scratch "$scratch/plan" &&
  gpu --workers 2 --servers 1 && near "$(number workspace)" $((34 * mib)) 0 &&
  near "$(number for_sums_or_a_network)" $((42 * mib)) 0 &&
  gpu --workers 2 --servers 1 --set cluster.local_reduction=host &&
  ! grep -q for_sums "$scratch/plan"
ok 'what fills a GPU, which need not be here'
gpu && sed 's/.*"memory_bytes":{"worker":\({[^}]*}\).*/\1/' "$scratch/plan" >"$scratch/worker" &&
  ! grep -q 'activations' "$scratch/worker" && grep -q '"blas":0' "$scratch/worker" &&
  grep -q '"gpu":{.*"activations":[1-9]' "$scratch/plan"
ok 'a worker beside a GPU has no activations and no BLAS'
run 0 plan "$job" --set "$small" --device cuda --step-time 1ms --memory-rate '10 GB/s' &&
  grep -q '^workers compute on *cuda (there is none here)$' "$scratch/out" &&
  grep -q '^memory, MiB *GPU *worker' "$scratch/out" &&
  grep -q '^its GPUs *2, with up to 1 worker each: .* is not known (--gpu-memory)$' "$scratch/out" &&
  grep -q '^host to GPU *not given, and no GPU is here to be asked' "$scratch/out" &&
  ! grep -q '^host to GPU and back' "$scratch/out"
ok 'what is not known of a GPU is said'
run 1 plan "$job" --device cuda && says 'a step cannot be measured here, give --step-time or --flops: '
ok 'nor can its step be measured'
run 1 plan "$job" --gpu-memory 10MiB --step-time 1ms --json "$scratch/refused" &&
  says 'does not fit: a worker needs [0-9.]* MiB of its GPU (weights .*, CUDA itself 576 MiB), and 10.0 MiB are given; no batch makes it fit: take a GPU with more memory' &&
  grep -q '"gpu_needs_bytes":[1-9].*"refused":"does not fit: ' "$scratch/refused" &&
  run 1 plan "$job" --gpu-memory 1kB --step-time 1ms && says '.* and 1000 bytes are given'
ok 'a GPU that is too small is refused with what fills it'
wide='--device cuda --workers 2 --servers 1 --set data.test= --set train.eval_every=never --step-time 1ms
  --set model.layers=(64,32768,10) --gpus 1'
# shellcheck disable=SC2086
run 1 plan "$job" $wide --gpu-memory 1450MiB --set train.batch=100 &&
  says 'does not fit: 2 workers on one GPU need .* it fits with train.batch = [0-9]* or less' &&
  batch=$(sed 's/.*train.batch = \([0-9]*\).*/\1/' "$scratch/err") &&
  run 0 plan "$job" $wide --gpu-memory 1450MiB --set train.batch="$batch" &&
  run 1 plan "$job" $wide --gpu-memory 1450MiB --set train.batch=$((batch + 1)) &&
  run 0 plan "$job" $wide --gpu-memory 1450MiB --set train.batch=100 --gpus 2
ok 'workers that share one are counted together'
# 2.1 MB go there, with a batch, and as many come back
gpu --workers 1 --servers 1 --device-link '10 MB/s' && grep -q '"bound":"device_link"' "$scratch/plan" &&
  near "$(number bytes_out)" $model 0 && near "$(number device_link)" "$(awk "BEGIN { print $model / 1e7 }")" 0.01 &&
  near "$(number step_s)" "$(awk "BEGIN { print $model / 1e7 }")" 0.02 &&
  gpu --workers 1 --servers 1 --device-link '10 MB/s' --step-time '200 ms' &&
  near "$(number step_s)" "$(awk "BEGIN { print 0.2 / 3 + $model / 1e7 }")" 0.02 &&
  gpu --workers 1 --servers 1 --device-link '10 GB/s' && ! grep -q '"bound":"device_link"' "$scratch/plan" &&
  gpu --workers 2 --servers 1 --gpus 1 --device-link '10 MB/s' &&
  near "$(number bytes_out)" $((2 * model)) 0 && near "$(number compute)" 0.002 0 &&
  gpu --workers 1 --servers 1 --device-link '10 MB/s' --set train.weights=bf16 --set train.batch=1 &&
  near "$(number bytes_in)" "$((model / 2))" 0.01
ok 'bytes between host and GPU take their time'
together='--workers 4 --servers 1 --set cluster.local_reduction=on --device-link 10MB/s'
# shellcheck disable=SC2086
gpu $together && near "$(number bytes_out)" $((model / 4)) 0 &&
  near "$(number bytes_peers)" "$(awk "BEGIN { print 1.5 * $model }")" 0.001 &&
  one=$(number device_link) && gpu $together --peer-link '100 MB/s' &&
  near "$(number peer_link)" "$(awk "BEGIN { print 1.5 * $model / 1e8 }")" 0.001 &&
  near "$one" "$(awk -v rest="$(number device_link)" "BEGIN { print rest + 1.5 * $model / 1e7 }")" 0.001
ok 'and between GPUs that sum'
gpu --step-time '1 s' --cores 1 && awk "BEGIN { exit !($(number cores) < 0.1) }" &&
  plan --device cpu --step-time '1 s' --cores 1 && awk "BEGIN { exit !($(number cores) > 1) }"
ok 'a GPU takes no cores'
run 2 plan "$job" --device cpu --gpus 1 && says 'plan: --gpu-memory, .* worker.device = "cpu"' &&
  run 2 plan "$job" --gpus 0 && says '--gpus: ' && run 2 plan "$job" --device tpu && says '.*"tpu" is no device' &&
  run 2 plan "$job" --device-link 1Gbit && says '--device-link: .* GB/s' &&
  run 2 plan "$job" --peer-link 1 && says '--peer-link: .* GB/s'
ok 'wrong words about GPUs are named'

# --- what else a plan says ---
run 0 plan "$job" --set "$small" --link 100Mbit --step-time 1us &&
  grep -q '^links that *none hides [0-9.]* MB in the 0.001 ms of backward$' "$scratch/out" &&
  run 0 plan "$job" --set "$small" --link 100Mbit --step-time 1ms &&
  grep -q '^links that *[0-9]* Mbit/s of payload hide' "$scratch/out"
ok 'no link is asked for that there is not'
run 0 plan "$job" --set "$small" --step-time 10ms --set checkpoint.dir="$scratch/c" --set 'checkpoint.every=10 seconds' &&
  grep -q '^checkpoint  *[0-9.]* MB of a server every 10 s: a disk of [0-9.]* MB/s takes 1 %' "$scratch/out" &&
  grep -q '^under overload  *no more: ' "$scratch/out"
ok 'checkpoints beside the time, and memory under overload'

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
# over tcp each has its own; over shm servers write into workers' weights and
# read their gradients, and what both have mapped both have
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
  says 'does not fit: this host needs [0-9.]* TiB (512 workers of .*), and .* are .*' &&
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
