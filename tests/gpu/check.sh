#!/bin/sh
# What only a machine with a GPU can show: every operation against its
# definition and against the cpu, compute-sanitizer, sums of a host's workers on
# their GPUs, the example jobs to their accuracy and twice to the same bits,
# wrong words about devices. Prints TAP, then a table of it, and at last
# "N passed, N failed, N skipped". Without a GPU all is skipped, with the reason; with
# one that cannot be used likewise, with exit code 77.
# By hand: make check-gpu.
#
# GW_DATA_DIR: where Fashion-MNIST is; without it jobs are skipped.
# GW_TEST_SECONDS: for all of it, 250, and 50 for each other GPU; what has not come
# by then has failed.
# GW_PARTS: some of them, as they are called at the end. GW_JOB_SETTINGS: what
# jobs are told besides. GW_STEPS: of short ones, 60.
source=${GW_SRCDIR:-..}
build=${GW_BUILDDIR:-.}
# Each process of CUDA starts every GPU of the machine, which takes a second.
gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU ')
[ "$gpus" -ge 1 ] || gpus=1
# patient SECONDS: what takes so long with one.
patient() { echo $(($1 + $1 * (gpus - 1) / 5)); }
: "${GW_TEST_SECONDS:=$(patient 250)}"
# shellcheck disable=SC2154
. "$source/tests/run/lib.sh"
passed=0 failed=0 skipped=0 finished='' holder='' title=''
data=${GW_DATA_DIR:-/usr/share/datasets/fashion-mnist}

# Also where time is up in the middle, which a trap only sees where the shell
# waits: everything long runs beside it.
at_end() {
  [ ! "$holder" ] || kill "$holder" 2>/dev/null
  end_all
  if [ ! "$finished" ]; then
    tests=$((tests + 1)) failed=$((failed + 1))
    echo "not ok $tests - came to the end within $GW_TEST_SECONDS s"
  fi
  echo "1..$tests"
  end_part
  echo "# part                                           passed failed skipped   s"
  cat "$scratch/table"
  [ ! -s "$scratch/did" ] || {
    echo '# what was done faster, and why not, of so many workers or cases'
    sort "$scratch/did" | uniq -c | sort -rn | sed 's/^ */#  /'
  }
  echo "$passed passed, $failed failed, $skipped skipped"
  rm -rf "$scratch"
  [ $failed -eq 0 ] || exit 1
}
trap at_end EXIT
: >"$scratch/table"

# gradweir ARGUMENTS...: as in lib.sh, but so that a signal is seen; with what
# $environment says.
environment=
gradweir() {
  # shellcheck disable=SC2086
  GW_TEST_MARK=$scratch timeout -s KILL "$(patient 120)" env $environment "$program" "$@" &
  wait $!
}

# point NAME: the status of the command before decides.
point() {
  ok "$1"
  if [ "$result" = ok ]; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
  fi
}

skip() {
  tests=$((tests + 1)) skipped=$((skipped + 1))
  echo "ok $tests - $1 # SKIP $2"
}

# show FILE LINES: its end, as comments.
show() { tail -n "$2" "$1" | sed 's/^/# /'; }

seconds() { echo $((($(now_ms) - begun) / 1000)); }

# part TITLE: a line above what follows, and one of the table.
part() {
  end_part
  title=$1 before="$passed $failed $skipped $(seconds)"
  echo "# --- $title (after $(seconds) s)"
}
end_part() {
  [ ! "$title" ] || echo "$title:$before $passed $failed $skipped $(seconds)" |
    awk -F: '{ split($2, n, " ")
      printf "# %-46s %6d %6d %7d %3d\n", $1, n[5] - n[1], n[6] - n[2],
        n[7] - n[3], n[8] - n[4] }' >>"$scratch/table"
  title=
}
begun=$(now_ms)

# ---- is there a GPU ----

gradweir --version >"$scratch/version" 2>&1 ||
  echo 'devices cuda (not here: the program does not start)' >>"$scratch/version"
devices=$(sed -n 's/^devices *//p' "$scratch/version" | tail -n 1)
case $devices in
'cuda (not here: '*)
  why=${devices#'cuda (not here: '}
  rm -rf "$scratch"
  trap - EXIT
  echo "1..0 # SKIP no GPU: ${why%%'), cpu ('*}"
  echo '0 passed, 0 failed, 1 skipped'
  # a GPU of which nothing was seen is no success
  ! nvidia-smi -L 2>/dev/null | grep -q '^GPU ' || exit 77
  exit 0
  ;;
esac
echo "# ${devices%%'), cpu ('*})"
nvidia-smi --query-gpu=name,driver_version,memory.total,pcie.link.gen.max,pcie.link.width.max \
  --format=csv,noheader 2>/dev/null | sed 's/^/# nvidia-smi: /'

# A driver without anyone who uses it may start anew each time, which takes
# seconds. Nobody's concern where it fails.
hold() {
  mkfifo "$scratch/hold" || return
  "$build/tests/gpu/test_gpu_share" own 0 <"$scratch/hold" >/dev/null 2>&1 &
  holder=$!
  exec 9>"$scratch/hold"
}
hold

# ---- operations ----

# Gives the points of a program numbers that go on; SKIP takes for its reason
# the comment before it.
renumber() {
  awk -v n="$tests" '
    /^(ok|not ok) [0-9]+ # SKIP / {
      sub(/^(ok|not ok) [0-9]+ # SKIP /, "")
      print "ok " ++n " - " $0 " # SKIP " (said ? said : "it says not why")
      next
    }
    /^(ok|not ok) [0-9]/ {
      sub(/^ok [0-9]+/, "ok " ++n) || sub(/^not ok [0-9]+/, "not ok " n)
    }
    /^# / { said = substr($0, 3) }
    !/^1\.\./ { print }' "$1"
}

# points_of SECONDS FILE ARGUMENTS..: its points, and that it came to its end.
# GW_CASES chooses among them.
points_of() {
  limit=$(patient "$1") file=$2
  shift 2
  GW_TEST_MARK=$scratch CMOCKA_MESSAGE_OUTPUT=TAP timeout -k 5 "$limit" \
    "$build/$file" "$@" >"$scratch/tap" 2>&1 &
  wait $!
  code=$?
  sed -n 's/^# \(fp32\|tf32\|bf16\|fp16\): graphs/\1: graphs/p' "$scratch/tap" >>"$scratch/did"
  renumber "$scratch/tap" >"$scratch/points"
  cat "$scratch/points"
  skips=$(grep -c '^ok .* # SKIP' "$scratch/points")
  fails=$(grep -c '^not ok ' "$scratch/points")
  all=$(grep -c '^ok \|^not ok ' "$scratch/points")
  tests=$((tests + all)) failed=$((failed + fails)) skipped=$((skipped + skips))
  passed=$((passed + all - fails - skips))
  [ $code -ne 124 ] || echo "# more than $limit s"
  [ "$all" -gt 0 ] && grep -q '^1\.\.' "$scratch/tap" && [ $code -le 125 ] &&
    [ $code -ne 124 ] && { [ $code -eq 0 ] || [ "$fails" -gt 0 ]; }
  point "$file came to its end"
}

operations() {
  part 'every operation against its definition'
  GW_CASES='cuda *' points_of 60 tests/table/test_backends
  GW_CASES='cuda *' points_of 60 tests/table/test_backend_layers
  GW_CASES='cuda *' points_of 60 tests/table/test_backend_parts
  GW_CASES='cuda *' points_of 60 tests/table/test_backend_shapes
  part 'sizes of models, copies, memory, processes'
  points_of 90 tests/gpu/test_gpu_layers ${GW_GPU_GFLOP:+"$GW_GPU_GFLOP"}
  points_of 60 tests/gpu/test_gpu_memory
  points_of 60 tests/gpu/test_gpu_share
}

# ---- compute-sanitizer ----

find_sanitizer() {
  for sanitizer in compute-sanitizer /usr/local/cuda/bin/compute-sanitizer \
    /usr/local/cuda/compute-sanitizer/compute-sanitizer \
    /opt/cuda/bin/compute-sanitizer; do
    command -v "$sanitizer" >/dev/null && return 0
  done
  return 1
}

# How much of what a sanitizer has found is not in cublasLt's own kernels; what
# it does not understand is.
ours() {
  awk '
    function count() { if (found) { all++; if (own || !foreign) n++ } }
    /^=+ [A-Z]/ { count(); foreign = own = 0
      found = /^=+ (Error|Warning: Race|Race|Barrier|Divergent|Invalid|Potential)/ }
    /cublas|gemm|gemv|cutlass|xmma|nvjet|splitK/ { foreign = 1 }
    /cuda_[a-z]*\.cu/ { own = 1 }
    END { count(); print n + !all }' "$1"
}

# sanitize TOOL SECONDS CASES FILE ARGUMENTS..: nothing wrong in our own kernels;
# of memory, nothing at all. All together take SANITIZER_S, for jobs come after.
# Leaks are seen by tests, which count what is left on the device: a sanitizer
# would see them only where the context ends before the process.
SANITIZER_S=$(patient 50)
sanitize() {
  tool=$1 limit=$(patient "$2") cases=$3 file=$4
  shift 4
  name="$tool: $file, $cases" strict=
  time_left=$((sanitized + SANITIZER_S - $(seconds)))
  [ "$limit" -le $time_left ] || limit=$time_left
  if [ "$limit" -lt 5 ]; then
    skip "$name" "no time left of $SANITIZER_S s"
    return
  fi
  # what a call refuses is ours to see, and seen
  [ "$tool" != memcheck ] || strict='--report-api-errors no'
  # shellcheck disable=SC2086
  GW_TEST_MARK=$scratch GW_CASES=$cases CMOCKA_MESSAGE_OUTPUT=TAP \
    timeout -k 5 "$limit" "$sanitizer" --tool "$tool" \
    $strict \
    --log-file "$scratch/sanitizer" "$build/$file" "$@" >"$scratch/tap" 2>&1 &
  wait $!
  code=$?
  summary=$(grep -E 'ERROR SUMMARY|RACECHECK SUMMARY' "$scratch/sanitizer" 2>/dev/null |
    tail -n 1 | sed 's/^=* *//')
  echo "# $tool: ${summary:-no summary}"
  if [ $code -eq 124 ]; then
    skip "$name" "it takes more than $limit s"
    return
  fi
  if ! grep -q '^ok ' "$scratch/tap" || [ ! "$summary" ]; then
    show "$scratch/tap" 5
    [ ! -e "$scratch/sanitizer" ] || show "$scratch/sanitizer" 10
    false
  elif grep -q '^not ok ' "$scratch/tap" && [ "$tool" = memcheck ]; then
    grep -B 2 '^not ok ' "$scratch/tap" | sed 's/^/# /'
    false
  elif ! echo "$summary" | grep -qE '(: 0 errors|: 0 hazards)'; then
    head -n 40 "$scratch/sanitizer" | sed 's/^/# /'
    [ "$tool" != memcheck ] && [ "$(ours "$scratch/sanitizer")" -eq 0 ] &&
      echo '# all of that is in kernels of cublasLt'
  fi
  point "$name"
}

sanitizers() {
  part 'compute-sanitizer'
  if ! find_sanitizer; then
    skip 'compute-sanitizer finds nothing' 'it is not here (package cuda-sanitizer)'
    return
  fi
  sanitized=$(seconds)
  sanitize memcheck 20 'cuda *' tests/table/test_backend_layers
  sanitize racecheck 15 'cuda *_backward' tests/table/test_backend_layers
  sanitize memcheck 20 'cuda *' tests/table/test_backends
  sanitize racecheck 15 'cuda losses' tests/table/test_backends
  sanitize memcheck 15 'cuda parts*' tests/table/test_backend_parts
  sanitize memcheck 15 'copies*' tests/gpu/test_gpu_memory
  sanitize synccheck 10 'cuda *_backward' tests/table/test_backend_layers
  sanitize synccheck 10 'cuda losses' tests/table/test_backends
  sanitize memcheck 20 'cuda *' tests/table/test_backend_shapes
}

# ---- whole jobs ----

# begin NAME MODEL ARGUMENTS..: the same, and does not wait for it.
begin() {
  name=$1 model=$2
  shift 2
  rm -rf "$scratch/$name".*
  # shellcheck disable=SC2086
  set -- train "$source/examples/fashion-$model.job" \
    --set "data.train=$data/train-images-idx3-ubyte.gz,$data/train-labels-idx1-ubyte.gz" \
    --set "data.test=$data/t10k-images-idx3-ubyte.gz,$data/t10k-labels-idx1-ubyte.gz" \
    --set worker.device=cuda --set "log.dir=$scratch/$name.log" \
    --json "$scratch/$name.rows" "$@" $GW_JOB_SETTINGS
  GW_TEST_MARK=$scratch timeout -s KILL "$(patient 90)" "$program" "$@" \
    >"$scratch/$name.out" 2>"$scratch/$name.err" &
  started=$!
}

have_data() {
  for file in train-images-idx3 train-labels-idx1 t10k-images-idx3 t10k-labels-idx1; do
    [ -r "$data/$file-ubyte.gz" ] || return 1
  done
}

# job NAME MODEL ARGUMENTS..: an example on the GPU; output in $scratch/NAME.out,
# rows in $scratch/NAME.rows, logs in $scratch/NAME.log. Says what it came to.
job() {
  name=$1 model=$2
  shift 2
  begin "$name" "$model" "$@"
  wait "$started"
  code=$?
  cat "$scratch/$name.log"/worker-* 2>/dev/null |
    sed -n 's/.*at the end: graphs/job: graphs/p' >>"$scratch/did"
  echo "# $name: $(grep -E '^(accuracy|speed) ' "$scratch/$name.out" |
    sed 's/^[a-z]* *//' | paste -s -d ';' -)"
  show "$scratch/$name.err" 5 # a warning is worth seeing
  [ $code -eq 0 ] && return 0
  echo "# exit code $code"
  show "$scratch/$name.out" 3
  return 1
}

# on_gpu NAME: that is what its workers said.
on_gpu() {
  grep '^workers compute on ' "$scratch/$1.out" | grep -q 'cublasLt'
}

accuracy() { sed -n 's/^accuracy *\([0-9.]*\) of.*/\1/p' "$scratch/$1.out"; }

# reaches NAME LEAST
reaches() {
  awk -v is="$(accuracy "$1")" -v least="$2" 'BEGIN { exit !(is != "" && is >= least) }'
}

# same NAME NAME: weights to the bit.
same() {
  one=$(digest "$scratch/$1.out") other=$(digest "$scratch/$2.out")
  [ "$one" ] && [ "$one" = "$other" ] && return 0
  echo "# weights of $1 $one"
  echo "# weights of $2 $other"
  return 1
}

losses() { sed -n 's/^{"step":\([0-9]*\),.*"loss":\([^,]*\),.*/\1 \2/p' "$scratch/$1.rows"; }

# near NAME NAME STEPS: losses of as many steps are within 1e-4 of each other.
near() {
  losses "$1" >"$scratch/one"
  losses "$2" | paste -d ' ' "$scratch/one" - |
    awk -v steps="$3" '
      NF == 4 && $1 == $3 && n < steps { n++
        off = ($2 - $4) / $4; off = off < 0 ? -off : off
        if (!(off <= 1e-4)) { print "# step " $1 ": " $2 " and " $4; wrong = 1 }
        if (off > most) most = off }
      END { printf "# losses of %d steps: %.2g apart at most\n", n, most
        exit wrong || n < steps }'
}

# ---- workers of one host ----

# told NAME N PATTERN: so many of its workers say so.
told() {
  n=$(grep -l "$3" "$scratch/$1.log"/worker-* 2>/dev/null | wc -l)
  [ "$n" -eq "$2" ] && return 0
  echo "# $n of $2 workers of $1 say: $3"
  return 1
}
on_devices='sums of [0-9]* workers are made over nvlink, on the devices, which give each other the weights'
on_host='sums of [0-9]* workers are made over shm, on the host'
as_said='sums of this host are made on the host: so says cluster.local_reduction'
on_pinned='of weights and gradients on the host are pinned'
few="--set train.epochs=0 --set train.steps=${GW_STEPS:-60} --set train.eval_every=never"

# sums WORKERS OPTION..: pushed apart, summed on devices, summed on the host.
sums() {
  workers=$1
  shift
  # shellcheck disable=SC2086
  job apart cnn $few --workers "$workers" --set cluster.local_reduction=off "$@" &&
    told apart "$workers" "$on_pinned"
  point "$workers workers push apart, from pinned memory $*"
  # shellcheck disable=SC2086
  job devices cnn $few --workers "$workers" --set cluster.local_reduction=on "$@" &&
    told devices "$workers" "$on_devices" && told devices "$workers" "$on_pinned" &&
    same apart devices
  point "$workers workers sum on the devices, to the same weights $*"
  sed -n 's/.*\(between the GPU of worker .*\)/# \1/p' \
    "$scratch/devices.log"/worker-* 2>/dev/null | sort -u
  # shellcheck disable=SC2086
  job host cnn $few --workers "$workers" --set cluster.local_reduction=host "$@" &&
    told host "$workers" "$on_host" && told host "$workers" "$as_said" && same apart host
  point "$workers workers sum on the host, to the same weights $*"
}

# One of four is killed in the middle: the others end by its name.
in_the_middle() { [ "$(losses killed 2>/dev/null | wc -l)" -ge 3 ]; }
killed() {
  begin killed mlp --workers 4 --servers 1 --set cluster.local_reduction=on \
    --set train.epochs=0 --set train.steps=10000000 --set log.every=20 \
    --set train.eval_every=never
  launcher=$started
  await "$(patient 40)" in_the_middle && told killed 4 "$on_devices"
  point 'a long job of 4 workers that sum on the devices'
  victim=$(pid_of worker 2)
  rank=$(tr '\0' '\n' <"/proc/$victim/cmdline" | sed -n '/^--rank$/{ n; p; }')
  kill -9 "$victim"
  wait "$launcher"
  code=$?
  await 10 nobody_left && [ $code -eq 1 ] &&
    grep -q "worker ${rank:-[0-9]*} (.*died at step" "$scratch/killed.err" ||
    { show "$scratch/killed.err" 5; false; }
  point 'one is killed, and the job ends by its name'
}

sums_of_hosts() {
  part 'workers of one host that share the GPU'
  sums 2
  sums 4
  sums 2 --set train.weights=bf16
  killed
}

# ---- examples ----

# What the README's job comes to, 0.9094 on a CPU, must be 0.905 at least. With
# 1 worker a CPU has 0.9058: other roundings make thousandths of difference. What
# is only to be the same, or near, has one epoch, in which a CPU comes to 0.8793.
examples() {
  part 'the examples to their accuracy'
  job two cnn && on_gpu two && reaches two 0.905
  point 'cnn, 2 workers on one GPU: to its accuracy'
  job cnn cnn --workers 1 --servers 1 && on_gpu cnn && reaches cnn 0.9
  point 'cnn, 1 worker: to its accuracy'
  job bf16 cnn --set train.precision=bf16 && on_gpu bf16 &&
    grep -q 'bf16 products' "$scratch/bf16.out" && reaches bf16 0.9
  point 'cnn in bf16: to its accuracy'
  job mlp_two mlp && on_gpu mlp_two && reaches mlp_two 0.88
  point 'mlp, 2 workers on one GPU: to its accuracy'
}

ways() {
  part 'an epoch in other ways'
  epoch='--set train.epochs=1'
  # shellcheck disable=SC2086
  {
    job short cnn $epoch && on_gpu short && reaches short 0.865
    point 'cnn, an epoch'
    job again cnn $epoch && same short again
    point 'the same job again: the same weights'
    job whole cnn $epoch --set train.commit=whole && same short whole
    point 'the same with whole steps: the same weights'
    job tcp cnn $epoch --set cluster.transport=tcp --servers 1 && same short tcp
    point 'the same over tcp with 1 server: the same weights'
    job tf32 cnn $epoch --set train.precision=tf32 && on_gpu tf32 &&
      grep -q 'tf32 products' "$scratch/tf32.out" && reaches tf32 0.865
    point 'with TF32'
    job fp16 cnn $epoch --set train.precision=fp16 --set train.loss_scale=dynamic &&
      on_gpu fp16 && grep -q 'fp16 products' "$scratch/fp16.out" && reaches fp16 0.86
    point 'in fp16 with a dynamic loss scale'
    job tuned cnn $epoch --set worker.autotune=true --set "checkpoint.dir=$scratch/ck" &&
      on_gpu tuned && reaches tuned 0.865
    point 'with its products timed'
  }
}

beside_cpu() {
  part 'the first steps beside the cpu'
  short='--set train.epochs=0 --set train.steps=10 --set log.every=1 --set train.eval_every=never'
  for each in mlp:1 cnn:2; do
    model=${each%:*} workers=${each#*:}
    # shellcheck disable=SC2086
    job gpu_$model $model $short --workers $workers &&
      job cpu_$model $model $short --workers $workers --set worker.device=cpu &&
      near gpu_$model cpu_$model 10
    point "$model, workers: $workers; the losses are those of the cpu within 1e-4"
  done
}

policies() {
  part 'policies and checkpoints'
  short='--set train.epochs=1 --set train.eval_every=never'
  # shellcheck disable=SC2086
  job async mlp $short --set cluster.policy=async && reaches async 0.7
  point 'async'
  # shellcheck disable=SC2086
  job local mlp $short --set cluster.policy=local:4 && reaches local 0.7 &&
    job local2 mlp $short --set cluster.policy=local:4 && same local local2
  point 'local:4, twice to the same weights'
  : >"$scratch/scored"
  # shellcheck disable=SC2086
  job kept mlp $short --set "checkpoint.dir=$scratch/kept" &&
    gradweir eval "$scratch/kept" >"$scratch/scored" 2>&1 &&
    grep -q "$(accuracy kept)" "$scratch/scored"
  kept=$?
  show "$scratch/scored" 2
  [ $kept -eq 0 ]
  point 'a checkpoint is scored as the job was'
  resumed
}

# A job that is stopped on its way and goes on comes to the weights of `mlp`.
rows_are_there() {
  [ "$(losses stopped 2>/dev/null | wc -l)" -ge 3 ] || ! kill -0 "$launcher" 2>/dev/null
}
resumed() {
  begin stopped mlp --set "checkpoint.dir=$scratch/stopped"
  launcher=$started
  await "$(patient 30)" rows_are_there && kill -TERM "$launcher"
  wait "$launcher"
  code=$?
  if [ $code -eq 0 ]; then
    skip 'stopped and resumed: the same weights' 'it was done before it could be stopped'
    return
  fi
  [ $code -eq 3 ] && { [ -e "$scratch/mlp_two.out" ] || job mlp_two mlp; } &&
    job resumed mlp --set "checkpoint.dir=$scratch/stopped" --resume &&
    same mlp_two resumed
  point 'stopped and resumed: the same weights'
}

# ---- what is wrong is told in one line ----

# wrong CODE PATTERN ARGUMENTS..: of a job with made pictures
wrong() {
  code=$1 pattern=$2
  shift 2
  run "$code" train "$job" --workers 1 "$@" || return 1
  # who ends a process with a GPU in it may be told twice
  grep 'did not leave in time' "$scratch/err" | sed 's/^/# /'
  sed -i '/did not leave in time/d' "$scratch/err"
  says "$pattern"
}

wrongs() {
  part 'what is wrong is told in one line'
  make_data
  wrong 1 '.*cuda:99.*counts from 0' --set worker.device=cuda:99
  point 'a GPU that is not there'
  environment='CUDA_VISIBLE_DEVICES='
  wrong 1 '.*CUDA_VISIBLE_DEVICES = "" leaves no GPU' --set worker.device=cuda
  point 'no GPU that may be seen'
  run 0 train "$job" --set worker.device=auto && ! grep -q cublasLt "$scratch/out"
  point 'auto takes the cpu then'
  environment="GRADWEIR_MODULES=$scratch"
  wrong 1 '.*not the module for it' --set worker.device=cuda
  point 'no module'
  environment=
  wrong 2 '.*is no device' --set worker.device=gpu
  point 'a word that is no device'
  make_pictures "$scratch/pictures" 64
  wrong 1 '.*no memory on the device.*' --set "data.train=$scratch/pictures/images,$scratch/pictures/labels" \
    --set "data.test=$scratch/pictures/images,$scratch/pictures/labels" \
    --set worker.device=cuda --set model.kind=cnn \
    --set 'model.layers=conv 60000 3 pad 1,pool 8,pool 8,dense 10' \
    --set train.batch=200 --overcommit
  point 'a batch that does not fit'
  run 0 train "$job" --set worker.device=auto && grep -q cublasLt "$scratch/out"
  point 'auto takes the GPU'
}

for of in ${GW_PARTS:-operations sanitizers sums_of_hosts beside_cpu examples ways wrongs policies}; do
  case $of in
  operations | sanitizers | wrongs) $of ;;
  *)
    if have_data; then
      $of
    else
      part "$of"
      skip "$of" "no Fashion-MNIST in $data (package dataset-fashion-mnist, or GW_DATA_DIR)"
    fi
    ;;
  esac
done
finished=yes
