#!/bin/sh
# Workers on a GPU, which is emulated: the module's own sources on a CUDA of the
# tests, behind a driver of the tests that says what it is told. Prints TAP.
build=${GW_BUILDDIR:-.} source=${GW_SRCDIR:-..}
modules=$build/tests/cuda perf=$build/tests/perf
if [ ! -e "$modules/gradweir-cuda.so" ]; then
  echo '1..0 # SKIP the emulated CUDA is not built (configure says why)'
  exit 0
fi
GW_TEST_SECONDS=${GW_TEST_SECONDS:-600} # an emulation
. "${GW_SRCDIR:-..}/tests/run/lib.sh"
make_data
unset CUDA_VISIBLE_DEVICES LOCAL_RANK SLURM_LOCALID OMPI_COMM_WORLD_LOCAL_RANK MPI_LOCALRANKID

# on_gpu CODE ARGUMENTS...: run, where there is a GPU.
on_gpu() {
  GRADWEIR_MODULES=$modules LD_LIBRARY_PATH=$modules \
    GW_FAKE_CUDA="$fake" run "$@"
}
fake=

# What a job says of its end, up to what rounding may change.
scores() { sed -n 's/^accuracy *\([0-9.]*\) of the test set, loss \([0-9.]*\),.*/\1 \2/p' "$scratch/out"; }
# near A B [PART]: each number of A is within such a part of B's.
near() {
  echo "$1 $2" | awk -v part="${3:-0.0002}" 'NF == 4 { bad = 0
    for (i = 1; i <= 2; i++) { d = $i - $(i + 2); if (d < 0) d = -d
      if (d > part * $(i + 2) + 0.0001) bad = 1 }
    exit bad } { exit 1 }' && return 0
  echo "# $1 is not near $2"
  return 1
}

# --- the program itself ---
ldd "$program" >"$scratch/out" && ! grep -iE 'cuda|cublas' "$scratch/out"
ok 'the program links no CUDA'
run 1 train "$job" --device cuda
sed -i '/did not leave in time/d' "$scratch/err"
says '.*device "cuda" is not available: '
ok 'cuda where there is none'

# --- models, commits, workers ---
small='--set train.steps=6 --set train.batch=4'
mlp=$job
cnn=$scratch/cnn
sed 's/^model = .*/model = { kind = "cnn"; layers = ("conv 4 3", "pool 2", "dense 16", "dropout 0.3"); };/' \
  "$job" >"$cnn"
for model in mlp cnn; do
  eval "of=\$$model"
  # shellcheck disable=SC2086,SC2154
  run 0 train "$of" $small --set worker.device=cpu
  expected=$(scores)
  first=
  for how in '' '--set train.commit=whole' '--set cluster.servers=1' \
    '--set cluster.local_reduction=on'; do
    # shellcheck disable=SC2086
    on_gpu 0 train "$of" $small $how --set worker.device=cuda &&
      near "$(scores)" "$expected" &&
      [ "$(digest)" = "${first:=$(digest)}" ]
    ok "a GPU's job is the cpu's: $model $how"
  done
done
# shellcheck disable=SC2086
run 0 train "$job" $small --set worker.device=cpu
expected=$(scores)
fake=nan=1
for how in '' '--set train.commit=whole' '--set train.accumulate=2 --set train.batch=2'; do
  # shellcheck disable=SC2086
  on_gpu 0 train "$mlp" $small --set worker.device=cuda $how && near "$(scores)" "$expected"
  ok "products that do ReLU and its backward: mlp $how"
done
# ends FAKE WORDS: with such products a job is the cpu's, and says this of them.
ends() {
  fake=$1
  rm -rf "$scratch/ends"
  # shellcheck disable=SC2086
  on_gpu 0 train "$mlp" $small --set worker.device=cuda --set log.dir="$scratch/ends" &&
    near "$(scores)" "$expected" &&
    [ "$(grep -l " device cuda, at the end: graphs .*, $2" "$scratch"/ends/worker-* | wc -l)" -eq 2 ] && return 0
  grep -h 'at the end' "$scratch"/ends/worker-* | sed 's/^/# /'
  return 1
}
ends nan=1 'ReLU noted by products [1-9] of [1-9], its backward in products' &&
  ends nan=0 'ReLU in products 0 of [1-9] (it makes 0 of NaN), ReLU noted by products 0 of' &&
  ends 'nan=1 zero=1' 'ReLU in products [1-9] of [1-9], ReLU noted by products 0 of [1-9] (it notes 0 as let through)' &&
  ends 'nan=1 masks=0' 'its backward in products 0 of [1-9] (the functionality requested is not'
ok 'what products do beside is said at the end'
# shellcheck disable=SC2086
on_gpu 0 train "$job" $small --set worker.device=cuda --set train.batch=2 \
  --set train.accumulate=2
near "$(scores)" "$expected"
ok 'micro-batches'
# as_bf16 RUN DEVICE OPTION..: such a job on a device; what it scores at its
# end, of whole weights, to all digits that it writes.
as_bf16() {
  with=$1 device=$2
  shift 2
  rm -f "$scratch/json"
  # shellcheck disable=SC2086
  $with 0 train "$job" $small --set train.weights=bf16 --json "$scratch/json" \
    --set worker.device="$device" "$@" &&
    lost=$(sed -n 's/^{"final":true,"test_loss":\([0-9.]*\),.*/\1/p' "$scratch/json")
}
# as_on_cpu OPTION..: both score the same, but for what sums round to, which is
# far less than bf16 does.
as_on_cpu() {
  as_bf16 run cpu "$@" && on_cpu=$lost && as_bf16 on_gpu cuda "$@" &&
    here=$(digest) &&
    awk -v a="$on_cpu" -v b="$lost" 'BEGIN { d = (a - b) / a
      exit !(a > 0 && d * d < 4e-12) }' && return 0
  echo "# $on_cpu on the cpu, $lost here"
  return 1
}
first=
for how in '' '--set train.commit=whole' '--set cluster.transport=tcp' \
  '--set cluster.local_reduction=on' '--set train.eval_every=never'; do
  # shellcheck disable=SC2086
  as_on_cpu $how && [ "$here" = "${first:=$here}" ]
  ok "a GPU makes fp32 of weights that come as bf16 $how"
done
as_on_cpu --workers 1 --set cluster.policy=async --set 'train.eval_every=2 steps'
ok 'and takes them whole where all stand still to be scored'
# in_16_bits PRECISION SCALE OPTION..: such a job comes near the cpu's, to
# weights that are not those of fp32.
in_16_bits() {
  word=$1 scale=$2
  shift 2
  # shellcheck disable=SC2086,SC2154
  on_gpu 0 train "$of" $small --set worker.device=cuda \
    --set "train.precision=$word" --set "train.loss_scale=$scale" "$@" &&
    near "$(scores)" "$expected" 0.03 && [ "$(digest)" != "$exact" ]
}
for model in mlp cnn; do
  eval "of=\$$model"
  # shellcheck disable=SC2086
  on_gpu 0 train "$of" $small --set worker.device=cuda
  expected=$(scores) exact=$(digest)
  in_16_bits bf16 none && first=$(digest) &&
    in_16_bits bf16 none --set cluster.servers=1 && [ "$(digest)" = "$first" ]
  ok "bf16 is near fp32, and the same with one server: $model"
  in_16_bits fp16 4096 && in_16_bits fp16 4096 --set train.accumulate=2 \
    --set train.batch=2 && in_16_bits fp16 dynamic
  ok "fp16 with its loss scaled is near fp32: $model"
done
# shellcheck disable=SC2086
on_gpu 1 train "$mlp" $small --set worker.device=cuda \
  --set train.precision=fp16 --set train.loss_scale=1e30 &&
  says 'stopped at step [0-9]*: the gradient was not finite; lower train.loss_scale ("dynamic" finds one that fits) or optimizer.lr, or take train.precision = "bf16"'
ok 'a scale that overflows in every step ends the job'
for policy in async ssp:1 local:3 'diloco:4' easgd:2; do
  # shellcheck disable=SC2086
  on_gpu 0 train "$job" $small \
    --set worker.device=cuda --set cluster.policy=$policy --set optimizer.lr=0.01
  ok "a GPU under $policy"
done
own='--set cluster.policy=local:3 --set optimizer.lr=0.01 --set policy.inner_clip=0.4'
# shellcheck disable=SC2086
run 0 train "$job" $small --set worker.device=cpu $own && expected=$(scores) &&
  on_gpu 0 train "$job" $small --set worker.device=cuda $own && first=$(digest) &&
  near "$(scores)" "$expected" &&
  on_gpu 0 train "$job" $small --set worker.device=cuda $own --set policy.inner_clip=0 &&
  [ "$(digest)" != "$first" ]
ok 'own gradients are clipped where they are made'

# From sums on devices to weights of the host's: at once in a step in which a
# rank has no sample, and pushes all the same. Who comes first is chance, so
# losses are compared, and they only by and large.
idle='--set train.batch=0 --set train.global_batch=199 --set train.steps=6
  --set optimizer.lr=0.01 --set cluster.local_reduction=on'
# shellcheck disable=SC2086
run 0 train "$job" $idle --set worker.device=cpu --set 'cluster.policy=sync until 1, easgd:1' &&
  expected=$(scores) &&
  on_gpu 0 train "$job" $idle --set worker.device=cuda --set 'cluster.policy=sync until 1, easgd:1' &&
  here=$(scores) && near "1 ${here#* }" "1 ${expected#* }" 0.15
ok 'a rank without samples pushes what it has on the host'

# --- products that are timed ---
# shellcheck disable=SC2086
tuned() { on_gpu 0 train "$mlp" $small --set worker.autotune=true "$@"; }
fake='fastest=0' && tuned --set worker.device=cuda && first=$(digest) &&
  fake='fastest=3' && tuned --set worker.device=cuda &&
  other=$(digest) && [ "$first" != "$other" ]
ok 'the fastest way of a product is taken'
fake='fastest=3'
tuned --set worker.device=cuda --set train.steps=4 \
  --set checkpoint.dir="$scratch/tuned"
fake='fastest=0'
tuned --set worker.device=cuda --set checkpoint.dir="$scratch/tuned" --resume &&
  [ "$(digest)" = "$other" ]
ok 'a job that goes on takes the ways of its checkpoint'
! grep 'the bits may differ' "$scratch/out" "$scratch/err"
ok 'of which nothing need be said'
# shellcheck disable=SC2086
on_gpu 0 train "$mlp" $small --set worker.device=cuda --set train.steps=9 \
  --set checkpoint.dir="$scratch/tuned" --resume
grep -q 'worker 1 computes its products in other ways than before (worker.autotune is off now): the bits may differ' \
  "$scratch/out" "$scratch/err"
ok 'one that is not tuned any more says so'
tuned --set worker.device=cuda --set train.steps=14 --set train.batch=3 \
  --set checkpoint.dir="$scratch/tuned" --set log.dir="$scratch/tuned.log" --resume
grep -q 'products have been timed, and take these ways: batches of 3 and ' "$scratch"/tuned.log/worker-*
ok 'ways are of a batch and a model'
fake=
run 0 train "$mlp" --set worker.device=cpu --set worker.autotune=true
ok 'the cpu has nothing to time'

# --- sums of a host, where devices have what is to be summed ---
# told N PATTERN: so many workers have such a line.
told() {
  [ "$(grep -l " $2" "$scratch"/sums/worker-* | wc -l)" -eq "$1" ] && return 0
  echo "# not $1 workers say: $2"
  return 1
}
pinned=4
# summed WHERE OPTION..: such a job of four workers, and where it is said so.
summed() {
  where=$1
  shift
  rm -rf "$scratch/sums"
  # shellcheck disable=SC2086
  on_gpu 0 train "$cnn" $small --workers 4 --set worker.device=cuda \
    --set log.dir="$scratch/sums" "$@" || return 1
  ! grep -h '^emulated CUDA: ' "$scratch"/sums/* || return 1
  told $pinned '.* KiB of weights and gradients on the host are pinned' &&
    told 4 'device cuda, at the end: graphs \([0-9]*\) of \1, bias in products ' || return 1
  [ -z "$where" ] ||
    [ "$(grep -l "sums of 4 workers are made over $where\$" "$scratch"/sums/worker-* | wc -l)" -eq 4 ]
}
devices='nvlink, on the devices, which give each other the weights'
host='shm, on the host'
fake='orderly=1'
summed '' --set cluster.local_reduction=off
apart=$(digest)
summed "$devices" --set cluster.local_reduction=on && [ "$(digest)" = "$apart" ]
ok 'sums on devices: the same bits'
summed "$devices" --set cluster.local_reduction=on --set train.commit=whole \
  --set train.clip=0.5
clipped=$(digest)
summed '' --set cluster.local_reduction=off --set train.commit=whole --set train.clip=0.5 &&
  [ "$(digest)" = "$clipped" ]
ok 'clipped as well'
fake='orderly=1 ipc=0'
summed "$host" --set cluster.local_reduction=on && [ "$(digest)" = "$apart" ]
ok 'where a device does not reach another, on the host'
fake='orderly=1 peers=0'
summed "$host" --set cluster.local_reduction=on && [ "$(digest)" = "$apart" ] &&
  told 4 "info no sums over nvlink: worker [0-9] (.*): [0-9]* of 1048576 numbers in its GPU's memory are others when they are copied here"
ok 'where a device reads zeros of another, without an error, on the host'
fake='orderly=1 peer_us=40000'
summed "$host" --set cluster.local_reduction=on && [ "$(digest)" = "$apart" ] &&
  told 4 "info no sums over nvlink: worker [0-9] (.*): its GPU's memory is read at 0.[01][0-9] GB/s, and at [0-9.]* GB/s by way of host memory"
ok 'and where it is the slower way'
fake='orderly=1'
summed "$host" --set cluster.local_reduction=host && [ "$(digest)" = "$apart" ] &&
  grep -q '^workers 0 to 3 (.*) sum their gradients' "$scratch/out" &&
  [ "$(grep -l 'sums of this host are made on the host: so says cluster' "$scratch"/sums/worker-* | wc -l)" -eq 4 ]
ok 'and on the host where that is asked for'
summed "$devices" --set cluster.local_reduction=on --set 'cluster.policy=sync until 3, local:2' \
  --set policy.outer_lr=1 && switched=$(digest) &&
  summed '' --set cluster.local_reduction=off --set 'cluster.policy=sync until 3, local:2' \
    --set policy.outer_lr=1 && [ "$(digest)" = "$switched" ]
ok 'until another policy'
# Weights that devices give each other: as bf16, scored on the way, in steps in
# which a rank has no sample, over several batches.
for how in '--set train.weights=bf16' '--set train.eval_every=2\ steps' \
  '--set train.batch=0 --set train.global_batch=3' '--set train.accumulate=2 --set train.batch=2'; do
  eval "summed '' --set cluster.local_reduction=off $how" && apart=$(digest) &&
    expected=$(scores) && eval "summed \"\$devices\" --set cluster.local_reduction=on $how" &&
    [ "$(digest)" = "$apart" ] && [ "$(scores)" = "$expected" ]
  ok "the same bits on devices that give each other the weights: $how"
done
summed '' --set cluster.local_reduction=off && apart=$(digest)
fake='orderly=1 pinning=0' pinned=0
summed "$devices" --set cluster.local_reduction=on && [ "$(digest)" = "$apart" ]
ok 'memory that cannot be pinned is only slower'
summed '' --set cluster.local_reduction=off && [ "$(digest)" = "$apart" ]
ok 'and that of it only a part can is not taken for all'
fake=

# --- which ---
# taken WORKERS GPUS OPTION..: which they take, by rank, and that each says so.
taken() {
  workers=$1 gpus=$2
  shift 2
  rm -rf "$scratch/taken"
  # shellcheck disable=SC2086
  on_gpu 0 train "$job" $small --workers "$workers" --set log.dir="$scratch/taken" \
    --set cluster.local_reduction=on "$@" || return 1
  found=$(cat "$scratch"/taken/worker-* | sed -n \
    's/.*worker \([0-9]\) info .*device cuda: .*, GPU \([0-9]\) at 0000:c\([0-9]\):00.0.*/\1 \2 \3/p' |
    sort | awk '$2 + 1 == $3 { printf "%s", $2 }')
  [ "$found" = "$gpus" ] && return 0
  echo "# GPUs $found are taken, and not $gpus"
  return 1
}
# between PATH N: so many of its workers say that of one of the others.
between() {
  [ "$(grep -h "between the GPU of worker [0-9] (.*) and this one: $1\$" \
    "$scratch"/taken/worker-* | wc -l)" -eq "$2" ] && return 0
  grep -h 'between the GPU' "$scratch"/taken/worker-* | sed 's/^/# /'
  return 1
}
fake='devices=2' taken 4 0101 --set worker.device=cuda && between PCIe 8 &&
  between 'the same GPU' 4
ok 'two devices'
fake='devices=4 nvlink=02,13' taken 4 0213 --set worker.device=cuda &&
  between NVLink 4 && between PCIe 8 &&
  fake='devices=4 nvlink=02,13' taken 2 02 && between NVLink 2
ok 'devices that are linked are taken together'
fake='devices=4 nvlink=02,13' taken 2 11 --set worker.device=cuda:1 &&
  between 'the same GPU' 2 &&
  fake='devices=4 nvlink=01,02,03,12,13,23' taken 4 0123 && between NVLink 12
ok 'but as they are counted where that is asked for, or all are linked'
fake='devices=3 old=0' taken 4 1212 --set worker.device=cuda &&
  fake='devices=3 old=0' taken 2 12 && fake='devices=3 old=1 nvlink=02' taken 3 020
ok 'devices that are too old for the build are passed'
of_mpi() { (export "$1" && shift && taken "$@"); }
fake='devices=2'
of_mpi OMPI_COMM_WORLD_LOCAL_RANK=1 2 11 && of_mpi MPI_LOCALRANKID=1 2 11
ok 'as mpirun numbers the workers of a host'
fake='devices=2 apart=01' taken 2 01 && between '.*' 0 &&
  [ "$(grep -l 'sums of 2 workers are made over shm, on the host$' "$scratch"/taken/worker-* | wc -l)" -eq 2 ] &&
  grep -q 'GPU 0 does not reach what another process' "$scratch"/taken/worker-*
ok 'two that do not reach each other'
# shellcheck disable=SC2086
on_gpu 0 train "$job" $small --set log.dir="$scratch/auto"
grep -q 'device cuda: Emulated' "$scratch"/auto/worker-* &&
  grep -qx 'device      cuda (auto: the first that works here)' "$scratch/out"
ok 'auto takes the GPU and says so'
# shellcheck disable=SC2086
fake='init=100' on_gpu 0 train "$job" $small --set log.dir="$scratch/none"
grep -q 'device cpu: .*no cuda: the NVIDIA driver is here, but no GPU' "$scratch"/none/worker-* &&
  grep -q '^device      cpu (auto: no cuda, the NVIDIA driver is here, but no GPU' "$scratch/out" &&
  ! grep -q 'a GPU is here' "$scratch/err"
ok 'auto takes the cpu and says why'
# shellcheck disable=SC2086
for fake in version=12040 init=999; do
  on_gpu 0 train "$job" $small --workers 1 &&
    [ "$(grep -c 'worker 0 warn a GPU is here, and the CPU computes: no cuda: .*; worker.device = "cpu" if that is meant' "$scratch/err")" -eq 1 ] &&
    on_gpu 0 train "$job" $small --workers 1 --device cpu && [ ! -s "$scratch/err" ]
  ok "and warns where a GPU is left alone: $fake"
done
fake=
# shellcheck disable=SC2086
fake='version=12040' on_gpu 0 train "$job" $small &&
  grep -q '^device      cpu (auto: no cuda, the NVIDIA driver is for CUDA 12.4, .* install a newer driver (.*)$' "$scratch/out" &&
  run 0 train "$job" $small && if grep -q 'no NVIDIA driver' "$scratch/out"; then
  grep -qx 'device      cpu (auto: no cuda, no NVIDIA driver is here)' "$scratch/out"; fi &&
  run 0 train "$job" $small --device cpu &&
  grep -qx 'device      cpu (worker.device says so)' "$scratch/out"
ok 'train says so in its first lines'
on_gpu 0 --version && grep -q 'cuda (Emulated' "$scratch/out"
ok '--version'

# --- what a real one has to show ---
# with_gpu COMMAND...: output and lines go to $scratch/out and err.
with_gpu() {
  GRADWEIR_MODULES=$modules LD_LIBRARY_PATH=$modules GW_FAKE_CUDA="$fake" \
    GW_THREADS=1 CMOCKA_MESSAGE_OUTPUT=TAP timeout 150 "$@" \
    >"$scratch/out" 2>"$scratch/err" && return 0
  sed 's/^/# /' "$scratch/out" "$scratch/err"
  return 1
}
if [ -e "$build/tests/gpu/test_gpu_share" ]; then
  # here a GFLOP is a second, and ReLU does each thing that a real one may do
  for fake in '' 'nan=1' 'nan=1 zero=1' 'nan=1 masks=0 graphs=0'; do
    with_gpu "$build/tests/gpu/test_gpu_layers" 0.01 &&
      [ "$(grep -c '^ok ' "$scratch/out")" -eq 15 ]
    ok "layers of a real GPU's test: $fake"
  done
  fake=
  with_gpu "$build/tests/gpu/test_gpu_memory" &&
    [ "$(grep -c '^ok ' "$scratch/out")" -eq 4 ]
  ok "memory, likewise"
  fake='orderly=1 devices=3'
  with_gpu "$build/tests/gpu/test_gpu_share" &&
    [ "$(grep -c '^ok ' "$scratch/out")" -eq 3 ] &&
    [ "$(grep -c '^# what GPU [0-2] has is seen' "$scratch/out")" -eq 3 ]
  ok "and what processes show each other"
  fake='ipc=0'
  ! with_gpu "$build/tests/gpu/test_gpu_share" >/dev/null &&
    grep -q 'peer access is not supported' "$scratch/out" "$scratch/err"
  ok "which fails where they do not"
  fake=
fi
# And jobs of tests/gpu/check.sh, with few pictures and little to do.
mkdir "$scratch/fashion"
make_pictures "$scratch/pictures" 28
for of in images:images-idx3 labels:labels-idx1; do
  for set in train t10k; do
    gzip -c "$scratch/pictures/${of%:*}" >"$scratch/fashion/$set-${of#*:}-ubyte.gz"
  done
done
fake='orderly=1'
with_gpu env GW_DATA_DIR="$scratch/fashion" GW_PARTS='sums_of_hosts' GW_TEST_SECONDS=120 \
  GW_JOB_SETTINGS='--set train.global_batch=8' GW_STEPS=6 sh "$source/tests/gpu/check.sh" &&
  grep -q '^11 passed, 0 failed, 0 skipped' "$scratch/out"
ok "jobs of a real GPU's test"
fake=
with_gpu "$perf/gpu_overlap" cuda 64 16 3 &&
  [ "$(grep -c 'of the copies hidden$' "$scratch/out")" -eq 2 ] &&
  awk '/^  fc[1-4] / { n++; if (!($4 >= before && $5 > $4)) exit 2; before = $5 }
    END { exit n != 4 }' "$scratch/out"
ok "gpu_overlap, whose copies begin and end one after the other"
cat >"$scratch/requests" <<REQUESTS
dense_forward fp32 0.001 8 16 8 1
dense_backward tf32 0.001 8 16 8 0
conv_forward bf16 0.001 2 1 8 8 4 3 1 0 1
conv_backward fp16 0.001 2 1 8 8 4 3 1 1 1
pool_forward fp32 0.001 2 3 8 8 2 2
pool_backward fp32 0.001 2 3 8 8 2 2
add_parts fp32 0.001 3 100
widen fp32 0.001 100
dropout fp32 0.001 4 64
softmax_loss fp32 0.001 4 10
upload fp32 0.001 4096
fetch fp32 0.001 4096
both fp32 0.001 4096
REQUESTS
with_gpu "$perf/gpu_ops" cuda <"$scratch/requests" &&
  sed 1d "$scratch/out" | grep -vE '^[0-9.e-]+$' | sed 's/^/# /' &&
  [ "$(sed 1d "$scratch/out" | grep -cE '^[0-9.e-]+$')" -eq "$(wc -l <"$scratch/requests")" ]
ok 'gpu_ops answers every request'
if command -v python3 >/dev/null; then
  with_gpu python3 "$source/tests/perf/gpu.py" --small --rounds 1 --torch none \
    --build "$build" --parts copies,overlap,products &&
    ! grep -E 'MISSED|not all of it|FAILED' "$scratch/out" &&
    grep -q '^both at once .* GB/s' "$scratch/out"
  ok 'gpu.py, without PyTorch'
else
  skip 'gpu.py, without PyTorch' 'no python3'
fi

# --- what goes wrong: one clear line ---
# fails WORDS ARGUMENTS...
fails() {
  words=$1
  shift
  on_gpu 1 train "$job" --set worker.device=cuda "$@"
  sed -i '/did not leave in time/d' "$scratch/err"
  says "$words"
}
fake='init=100' fails '.*the NVIDIA driver is here, but no GPU'
ok 'a driver without a device'
CUDA_VISIBLE_DEVICES=9 fake='init=100' fails '.*CUDA_VISIBLE_DEVICES = "9" leaves no GPU'
ok 'a device that is hidden'
fake='init=999' fails '.*the NVIDIA driver does not start: '
ok 'a driver that does not start'
fake='version=12040' fails '.*the NVIDIA driver is for CUDA 12.4, 1.\.[0-9]* is needed: install a newer driver (5[0-9]* or later), or on data-centre GPUs the package cuda-compat-1[0-9]*-0, or a build with CUDA 12'
ok 'a driver that is too old'
fails '.*cuda:7' --set worker.device=cuda:7
ok 'a device that is not there'
fake='devices=2 old=1' fails '.*cuda:1: the compute capability of Emulated is 6.0, this build needs 8.0: name another GPU, or none$' --set worker.device=cuda:1
ok 'a device that is too old for the build'
fake='version=11080' fails '.*is for CUDA 11.8, 1.\.0 is needed: install a newer driver (5[0-9]* or later), or on data-centre GPUs the package cuda-compat-1[0-9]*-0$'
ok 'a driver that is older than all builds'
fake='fail_at=60' fails '.*illegal memory access'
ok 'a device that fails on the way'
run 2 train "$job" --set worker.device=gpu && says '.*worker.device: "gpu" is no device' &&
  run 2 train "$job" --device 'a"b' && says '.*--device: "a"b" is no device'
ok 'a device of no name'

# --- memory: what is advised fits, and one more does not ---
# wide COMMAND CODE OPTION..: a job of a wide layer, which has little to do.
wide_job() {
  command=$1 wanted=$2
  shift 2
  on_gpu "$wanted" "$command" "$job" --workers 1 --servers 1 --device cuda \
    --set data.test= --set train.batch=0 --set train.eval_every=never \
    --set train.steps=1 --set 'model.layers=[64,16384,10]' "$@"
  as_wanted=$?
  sed -i '/did not leave in time/d' "$scratch/err"
  return $as_wanted
}
wide() { wide_job train "$@"; }
planned() { wide_job plan "$@" --step-time 1ms --memory-rate 10GB/s; }
parts='weights [0-9.]* MiB, gradients [0-9.]* MiB, activations [0-9.]* MiB, .*batch [0-9.]* MiB, workspace [0-9.]* MiB, code 64.0 MiB'
advice='it fits with train.global_batch = [1-9][0-9]* or less'
# advises WORKERS OPTION..: before the job starts and, where nobody asked then,
# by the worker, the same batch.
advises() {
  workers=$1
  shift
  wide 1 --set train.global_batch=200 --workers "$workers" "$@" &&
    says "does not fit: .* ($parts), and [0-9.]* MiB are free; $advice" &&
    [ ! -s "$scratch/out" ] &&
    batch=$(sed 's/.*train.global_batch = \([0-9]*\).*/\1/' "$scratch/err") &&
    wide 0 --set train.global_batch="$batch" --workers "$workers" "$@" &&
    planned 0 --set train.global_batch="$batch" --workers "$workers" "$@" &&
    over=$((batch + workers)) &&
    planned 1 --set train.global_batch=$over --workers "$workers" "$@" &&
    says "does not fit: .*; it fits with train.global_batch = $batch or less" &&
    wide 1 --set train.global_batch=$over --workers "$workers" --dry-run "$@" &&
    says "does not fit: .*; it fits with train.global_batch = $batch or less"
}
fake='memory=138412032' # 132 MiB
advises 1 && fitted=$batch && wide 1 --set train.global_batch=$over --overcommit &&
  says "worker 0 .*: no memory on the device: [0-9.]* MiB are needed ($parts), 132.0 MiB of 132.0 MiB are free; it fits with train.global_batch = $fitted or less" &&
  wide 0 --set train.global_batch="$fitted" --overcommit
ok 'too little memory'
fake='memory=150994944' # 144
advises 1 --set train.precision=bf16 --set train.weights=bf16
ok 'too little for copies in 16 bits, and weights that come so'
fake='memory=274726912' # 262, which the two take for one GPU, and then sum on the host
advises 2 --set cluster.local_reduction=on
ok 'too little for two that sum there'
fake='memory=274726912 devices=2'
wide 0 --set train.global_batch=200 --workers 2 --set cluster.local_reduction=on
ok 'enough for them on two GPUs'
fake='memory=150994944 others=102760448'
wide 1 --set train.global_batch=16 &&
  says "worker 0 .*: no memory on the device: [0-9.]* MiB are needed ($parts), 46.0 MiB of 144.0 MiB are free; no batch fits: take .*"
ok 'others that took it meanwhile'
fake='memory=1073741824'
planned 0 --set train.global_batch=200 --workers 2 --set cluster.local_reduction=on &&
  grep -q '^workers compute on *cuda$' "$scratch/out" &&
  grep -q '^its GPUs *1, with up to 2 workers each: at least [0-9.]* MiB of 1024.00, free$' "$scratch/out" &&
  grep -q '^host to GPU *[0-9.]* GB/s each way: measured here$' "$scratch/out"
ok 'a plan asks a GPU that is here'
# as_planned OPTION..: what such a job had of the GPU, beside what was planned.
as_planned() {
  fake="memory=1073741824 most=$scratch/most"
  planned 0 --json "$scratch/plan" --set train.global_batch=200 "$@" &&
    wide 0 --set train.global_batch=200 "$@" &&
    tail -n 1 "$scratch/plan" | sed 's/.*"gpu_needs_bytes":\([0-9]*\).*/\1/' |
    awk -v had="$(cat "$scratch/most")" '{ print "# planned " $1 ", had " had
      $1 -= 64 * 1048576 # code, which an emulated one does not load
      exit !(had <= $1 && had >= 0.9 * $1) }'
}
as_planned && as_planned --set train.precision=bf16 --set train.weights=bf16 &&
  as_planned --set worker.autotune=true
ok 'memory of a GPU is as planned, within 10 %'
fake='memory=109051904' # 104
wide 1 --set train.global_batch=16 &&
  says "does not fit: .*; no batch makes it fit: take a GPU with more memory, or a smaller model"
ok 'no batch fits'
fake=

# --- simulated workers ---
cat >"$scratch/sim.study" <<STUDY
job = "job";
set = [ "train.steps=4", "log.every=1" ];
compute = { step_us = 1000.0; sample_us = 10.0; };
target = { loss = 2.0; };
grid = { policy = [ "sync", "async" ]; workers = 2; };
STUDY
runs() { cat "$scratch/sim.results/runs"/*.jsonl | cksum; }
run 0 study "$scratch/sim.study" && expected=$(runs) &&
  rm -r "$scratch/sim.results" && on_gpu 0 study "$scratch/sim.study" &&
  [ "$(runs)" = "$expected" ]
ok 'simulated workers compute on the cpu where there is a GPU'
nobody_left
ok 'nobody is left'
echo "1..$tests"
