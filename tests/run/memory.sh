#!/bin/sh
# Resident memory of each role against the formulas of docs/manual.md, for a
# model of 200 MB; and that a slow process makes no other one grow. Prints TAP.
. "${GW_SRCDIR:-..}/tests/run/lib.sh"
if grep -q '^#define GW_SANITIZED' "${GW_BUILDDIR:-.}/config.h"; then
  echo '1..0 # SKIP a sanitizer takes memory of its own'
  exit 0
fi
make_data

# 64-7000-7000-10: 49,542,010 weights in 6 keys
model=198168040
layers='model.layers=(64,7000,7000,10)'
set -- --set "$layers" --set train.steps=4 --set train.epochs=0 \
  --set optimizer.kind=momentum --json "$scratch/json"

huge=1
"$program" doctor | grep -q '^ok  *shm .*huge pages' || huge=0

rss() { tail -n 1 "$scratch/json" | sed "s/.*\"$1\":\([0-9]*\).*/\1/"; }

# within ROLE FORMULA: bytes, 10 % either way
within() {
  awk -v role="$1" -v is="$(rss "$1")" -v should="$2" 'BEGIN {
    printf "# %s: %.1f MB, the formula says %.1f MB: %.3f\n",
      role, is / 1e6, should / 1e6, is / should
    exit !(is > 0.9 * should && is < 1.1 * should) }'
}

# server: A (2 + s + W), tables of C = 199 chunks, messages, program
# worker: 2 M, tables, messages, program and the buffers of OpenBLAS
# over shm: what a server writes and reads of workers' counts for both; of what
# is in huge pages it has that of other servers too, chunks of 1 MiB
formula() {
  awk -v M=$model -v W="$1" -v N="$2" -v C=199 -v whole="$3" -v both="$4" -v huge="$huge" 'BEGIN {
    A = M / N
    seen = huge && N > 1 ? 2 * A : A
    tables = C / N * (120 + 256 * W) + 212 * C
    printf "server=%.0f\n", A * (3 + W + whole) + 2 * seen * W * both + tables + 9.6e6 + W * 170e3
    printf "worker=%.0f\n", 2 * M + C * 232 + 25.6e6 + N * 170e3 }'
}

for shape in '1 1 streaming 0 tcp' '2 1 streaming 0 shm' '1 2 whole 1 auto'; do
  # shellcheck disable=SC2086
  read -r workers servers commit sum transport <<END
$shape
END
  eval "$(formula "$workers" "$servers" "$sum" \
    "$([ "$transport" = tcp ]; echo $?)")"
  rm -f "$scratch/json"
  run 0 train "$job" "$@" --workers "$workers" --servers "$servers" \
    --set train.commit="$commit" --set cluster.transport="$transport"
  ok "a model of 198 MB trains: $workers workers, $servers servers, $commit, $transport"
  within server "$server"
  ok 'a server has the memory that the manual says'
  within worker "$worker"
  ok 'a worker has the memory that the manual says'
done

# Weights that come as bf16: half an array more at both ends.
eval "$(formula 1 1 0 0)"
rm -f "$scratch/json"
run 0 train "$job" "$@" --workers 1 --servers 1 --set train.weights=bf16 \
  --set cluster.transport=tcp
ok 'a model of 198 MB trains with weights as bf16'
within server $((server + model / 2))
ok 'a server of bf16 weights has the memory that the manual says'
within worker $((worker + model / 2))
ok 'a worker of bf16 weights has the memory that the manual says'

# A worker with momentum of its own, and a copy of it for checkpoints: weights,
# gradients, where the round began, state, copy; 64-3500-3500-10, C = 67 chunks
own=50064040
rm -f "$scratch/json"
run 0 train "$job" "$@" --workers 1 --servers 1 \
  --set 'model.layers=(64,3500,3500,10)' --set 'cluster.policy="local:2"' \
  --set checkpoint.dir="$scratch/ck" --set checkpoint.every=never
ok 'a job under local leaves checkpoints'
within worker "$(awk -v M=$own 'BEGIN { print 6 * M + 67 * 232 + 26.7e6 }')"
ok 'a worker with an optimizer of its own has the memory that the manual says'
rm -rf "$scratch/ck"

# A process that runs a third of the time makes the others wait, not grow.
slow() {
  rm -f "$scratch/json"
  start slow train "$job" "$@" --workers 1 --servers 1
  job_pid=$started
  await 10 pid_of "$role" >/dev/null
  pid=$(pid_of "$role")
  while kill -STOP "$pid" 2>/dev/null; do
    sleep 0.4
    kill -CONT "$pid" 2>/dev/null
    sleep 0.2
  done
  wait "$job_pid"
}
eval "$(formula 1 1 0 1)"
for role in server worker; do
  slow "$@"
  ok "a job goes on whose $role runs a third of the time"
  within server "$server" && within worker "$worker"
  ok "nobody grows because the $role is slow"
done
echo "1..$tests"
