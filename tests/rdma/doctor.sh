#!/bin/sh
# gradweir doctor where there is an RDMA device, and where it is made worse: runs
# in an emulated machine (machine.sh), as root, with nobody else there. Leaves
# device and interface as they were. Prints TAP.
GW_TEST_SECONDS=600 # processors are emulated
. "${GW_SRCDIR:-..}/tests/run/lib.sh"
make_data
chmod 755 "$scratch"
link=$(cat /sys/class/infiniband/rxe0/parent)
own=10.77.0.${GW_GUEST:-1}

# finds VERDICT CHECK PATTERN: a line of $scratch/out.
finds() {
  grep -qE "^$1 +$2 +.*$3" "$scratch/out" && return 0
  echo "# not found: $1 $2 $3"
  sed 's/^/# /' "$scratch/out" "$scratch/err"
  return 1
}

# poor KIB ARGUMENTS..: doctor of somebody who is nobody, and may lock so much.
poor() {
  # shellcheck disable=SC3045
  (ulimit -l "$1" && shift &&
    GW_TEST_MARK=$scratch timeout -s KILL 60 setpriv --reuid 65534 --regid 65534 \
      --clear-groups "$program" doctor "$@" >"$scratch/out" 2>"$scratch/err")
}

serve() {
  start "$@"
  await 20 grep -q -- --peer "$scratch/$1.out"
}

run 0 doctor && finds ok device "rxe0 port 1 is active: LinkUp, Ethernet, .*, interface $link" &&
  finds ok transport 'rdma works here' &&
  finds note transport 'cluster.transport = "auto" tensors go over shm within a host, else rdma'
ok 'a device that works'
index=$(grep -lx '0000:0000:0000:0000:0000:ffff:0a4d:000.' /sys/class/infiniband/rxe0/ports/1/gids/* |
  sed 's|.*/||')
finds ok gid "rxe0 port 1: index $index for $own of $link, RoCE v2"
ok 'the GID that is used'
active=$(ibv_devinfo -d rxe0 2>/dev/null | sed -n 's/.*active_mtu: *\([0-9]*\) .*/\1/p')
finds note mtu "path MTU ${active:-1024} of 4096, as interface $link has 1500; .* ip link set $link mtu 4200"
ok 'the path MTU'
finds ok files '/dev/infiniband/rdma_cm .* can be opened' &&
  finds ok files '/dev/infiniband/uverbs0 \(rxe0\) can be opened'
ok 'the files of a device'
finds ok memlock 'does not hold for this user'
ok 'root may lock what it likes'

run 0 doctor && finds note gpu 'rxe0 takes GPU memory through a pinned mirror in host memory, because not by dma-buf: .*; not by peermem: '
ok 'what it does with the memory of GPUs'

run 1 doctor --set cluster.transport=rdma &&
  finds fix trust "over rdma servers listen at a device's address .$own:0."
ok 'rdma is not loopback'
run 1 doctor --set cluster.transport=rdma --set cluster.insecure=true \
  --set cluster.interface=lo && finds fix gid "cluster.interface lo is not that .*: set it to $link"
ok 'an interface of no device'

# --- somebody else ---
modes=$(stat -c '%a %n' /dev/infiniband/*)
if setpriv --reuid 65534 --regid 65534 --clear-groups "$program" --version >/dev/null 2>&1; then
  chmod 600 /dev/infiniband/*
  poor 64 "$job"
  [ $? -eq 1 ] && finds fix files 'uverbs0 .* may not be opened by this user: chmod 666 /dev/infiniband/uverbs0'
  ok 'a device that is for root alone'
  chmod 666 /dev/infiniband/*
  poor 64 "$job"
  [ $? -eq 1 ] && finds ok files 'uverbs0 .* can be opened' &&
    finds fix memlock 'the job registers [0-9]+ MiB per worker and [0-9]+ MiB per server, and a process may lock 64 KiB: ulimit -l unlimited'
  ok 'a job that registers more than may be locked'
  poor unlimited "$job" && finds ok memlock 'no limit; the job registers'
  ok 'no limit'
else
  poor() { return 1; }
  for name in 'a device that is for root alone' 'a job that registers more than may be locked' \
    'no limit'; do
    tests=$((tests + 1))
    echo "ok $tests - $name # SKIP only root can run the program here"
  done
fi

# --- a job ---
pinned() {
  for pid in $(left); do
    tr '\0' ' ' <"/proc/$pid/cmdline" | grep -q "gradweir $1 " &&
      sed -n 's/^VmPin:[^0-9]*\([0-9]*\) kB/\1/p' "/proc/$pid/status"
  done | sort -n | tail -n 1
}
# within ROLE SAYS: no more than doctor says, which is in MiB, nor much less
within() {
  says=$(sed -n "s/.* \([0-9]*\) MiB per $1.*/\1/p" "$scratch/out")
  is=$(pinned "$1")
  echo "# $1: $is KiB are pinned, doctor says $says MiB"
  [ "$is" -le $((says * 1024)) ] && [ "$is" -gt $((says * 512)) ]
}
set -- "$job" --set 'model.layers=(64,2000,10)' --set cluster.transport=rdma \
  --set cluster.insecure=true --set train.steps=100000 --set log.every=1
run 0 doctor "$@" && start train train "$@" &&
  await 60 grep -q 'step 2' "$scratch/train.out" && within worker && within server
ok 'a job registers what doctor says'
kill "$started"
wait "$started" 2>/dev/null
await 20 nobody_left

# --- two processes ---
serve server doctor --serve "$own" --set cluster.insecure=true
run 0 doctor --peer "$own" &&
  finds ok peer "$own:7171 over tcp: round trip [0-9]+ us, [0-9.]+ [MG]B/s there, [0-9.]+ [MG]B/s back" &&
  finds ok peer "$own:[0-9]+ over rdma: round trip [0-9]+ us, [0-9.]+ [MG]B/s there, [0-9.]+ [MG]B/s back" &&
  finds ok route "leave by (lo|$link)"
sed -n 's/^ok *peer */# /p' "$scratch/out"
grep -q 'over rdma: ' "$scratch/out"
ok 'latency and bandwidth over tcp and rdma'
await 10 grep -q 'measured over rdma' "$scratch/server.out"
ok 'the other side saw it'
if setpriv --reuid 65534 --regid 65534 --clear-groups "$program" --version >/dev/null 2>&1; then
  poor 64 --peer "$own"
  [ $? -eq 1 ] && finds ok peer 'over tcp: round trip' &&
    finds fix peer 'over rdma: cannot register .* may lock 64 KiB of memory; raise it .ulimit -l unlimited, [^;]*$'
  ok 'who may not lock memory is told so'
else
  tests=$((tests + 1))
  echo "ok $tests - who may not lock memory is told so # SKIP only root can run the program here"
fi
kill "$started"
wait "$started" 2>/dev/null
echo "$modes" | while read -r mode file; do chmod "$mode" "$file"; done

serve server doctor --serve lo:0
run 0 doctor --peer "$(sed -n 's/.*--peer //p' "$scratch/server.out")" &&
  finds ok peer 'over tcp' && finds note peer 'over rdma is not measured: there, it serves on loopback'
ok 'loopback has no RDMA'
kill "$started"
wait "$started" 2>/dev/null

# --- worse and worse ---
ip link set "$link" down
run 1 doctor && finds fix device "its interface $link is down: ip link set $link up" &&
  finds note gid 'nothing to look at'
ok 'an interface that is down'
ip link set "$link" up
await 10 grep -q ACTIVE /sys/class/infiniband/rxe0/ports/1/state
run 0 doctor && finds ok gid "index [0-9]+ for $own"
ok 'and up again'
ip addr del "$own/24" dev "$link"
run 1 doctor && finds fix gid "interface $link has no address, .*: ip addr add ADDRESS/PREFIX dev $link"
ok 'an interface without an address'
ip addr add "$own/24" dev "$link"
rdma link delete rxe0
run 0 doctor && finds note device 'no RDMA device here: tensors go over tcp' &&
  finds note transport 'tensors go over shm within a host, else tcp: not rdma, there is no RDMA device here'
ok 'a device that is gone'
run 1 doctor --set cluster.transport=rdma && finds fix device 'no RDMA device here, and cluster.transport is rdma'
ok 'and a job that needs it'
rdma link add rxe0 type rxe netdev "$link"
await 10 grep -q ACTIVE /sys/class/infiniband/rxe0/ports/1/state
run 0 doctor && finds ok device 'rxe0 port 1 is active'
ok 'and back'

await 3 nobody_left
ok 'nothing is left'
echo "1..$tests"
