#!/bin/sh
# Gradients that RDMA devices read in the memory of GPUs: emulated ones, whose
# memory this process's code cannot touch, and soft-RoCE, to which dma_buf.c
# explains it. Runs in an emulated machine (machine.sh), as root, with nobody
# else there; takes its device away at the end. Prints TAP.
modules=${GW_BUILDDIR:-.}/tests/cuda
if [ ! -e "$modules/gradweir-cuda.so" ]; then
  echo '1..0 # SKIP the emulated CUDA is not built (configure says why)'
  exit 0
fi
GW_TEST_SECONDS=600 # processors are emulated
. "${GW_SRCDIR:-..}/tests/run/lib.sh"
make_data
export GRADWEIR_MODULES="$modules" LD_LIBRARY_PATH="$modules" GW_FAKE_DMA_BUF=
. "${GW_SRCDIR:-..}/tests/rdma/timely.sh"
keys="--set cluster.insecure=true --set cluster.interface=10.77.0.1 --set worker.device=cuda $patient
  --set log.level=info --set log.dir=$scratch/logs"
steps='--set train.steps=6 --set train.batch=4'

# trains TRANSPORT KEYS..: a job whose weights are $plain, if that is known.
trains() {
  transport=$1
  shift
  rm -rf "$scratch/logs"
  # shellcheck disable=SC2086
  LD_PRELOAD=$(realpath "${GW_BUILDDIR:-.}/tests/rdma/dma_buf.so") \
    run 0 train "$job" $keys $steps --set cluster.transport="$transport" "$@" &&
    [ "$(digest)" = "${plain:=$(digest)}" ] && [ "$plain" ] && return 0
  echo "# weights $(digest), not $plain"
  sed 's/^/# /' "$scratch/err"
  return 1
}
# logged PATTERN: in a line of a process's log.
logged() {
  grep -rqE "$1" "$scratch/logs" "$scratch/err" && return 0
  echo "# not logged: $1"
  grep -rhE 'gradients|memory' "$scratch/logs" "$scratch/err" | head -n 20 | sed 's/^/# /'
  return 1
}
from_device='gradients for 2 of 2 shards leave from the device.s memory'

plain=
trains tcp && logged 'gradients leave through host memory: tcp does not reach it'
ok 'over tcp, through host memory'
trains rdma && logged "$from_device"
ok 'over rdma, from the memory of GPUs: the same weights'
trains rdma --set worker.gpudirect=false &&
  logged 'gradients leave through host memory: worker.gpudirect is off'
ok 'or not, as the job says'
GW_FAKE_DMA_BUF=late trains rdma && logged "$from_device" &&
  logged 'server [01] .*: gradients go through host memory from here on: rdma does not reach it: cannot register .*: No space left on device'
ok 'a device that cannot after all: through host memory, with a line'
GW_FAKE_DMA_BUF=short trains rdma && logged "$from_device" &&
  logged 'server [01] .*: gradients go through host memory from here on: rdma does not reach it: reading the memory of a GPU failed: '
ok 'one that fails when it reads: the same'
GW_FAKE_CUDA=dmabuf=0 trains rdma &&
  logged 'gradients leave through host memory: rdma does not reach it: .*nvidia_peermem'
ok 'a GPU without dma-buf, where there is no peermem'
trains rdma --set train.weights=fp32 --set cluster.connections=2 --set train.commit=whole &&
  logged "$from_device"
ok 'with whole commits, over two links'

# sums of a host, on devices
trains tcp --set cluster.local_reduction=on
ok 'sums of two workers over tcp'
trains rdma --set cluster.local_reduction=on && logged 'sums of 2 workers are made over nvlink, on the devices' &&
  logged "$from_device"
ok 'sums that are made on GPUs leave from there'
GW_FAKE_DMA_BUF=late trains rdma --set cluster.local_reduction=on &&
  logged 'gradients go through host memory from here on'
ok 'or are brought to the host'
GW_FAKE_CUDA=ipc=0 trains rdma --set cluster.local_reduction=on &&
  logged 'sums of 2 workers are made over shm, on the host'
ok 'and sums of the host from the host'

# policies
for policy in async ssp:1 local:3 'sync until 3, local:2'; do
  plain=
  trains tcp --set "cluster.policy=$policy" --set optimizer.lr=0.01 --set cluster.workers=1 &&
    trains rdma --set "cluster.policy=$policy" --set optimizer.lr=0.01 --set cluster.workers=1
  ok "the same under $policy"
done

# where tcp is a way too
# Processes of one host would take shm: so nobody can tell which host this is.
echo none >"$scratch/boot_id"
mount --bind "$scratch/boot_id" /proc/sys/kernel/random/boot_id
plain=
trains tcp && GW_FAKE_DMA_BUF=late trains auto && logged "$from_device" &&
  logged 'gradients go through host memory from here on: rdma does not reach it' &&
  ! grep -h 'goes over tcp' "$scratch"/logs/worker-*
ok 'a device that cannot after all still sends the rest over rdma'

# the device goes, and a job goes on
plain= steps='--set train.steps=300 --set train.batch=4 --set log.every=10'
trains tcp
ok 'a longer job over tcp'
: >"$scratch/out"
{
  await 60 grep -q '^step [1-9]0/' "$scratch/out"
  rdma link delete rxe0
} &
trains auto && wait $! && logged "$from_device" &&
  logged 'gradients go through host memory from here on: tcp does not reach it'
ok 'its device is taken away: it goes on over tcp, from host memory'
nobody_left
ok 'nobody is left'
echo "1..$tests"
