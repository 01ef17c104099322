#!/bin/sh
# Links over two RDMA devices, each on an interface and in a network of its own,
# and over IPv6: runs in an emulated machine (machine.sh) that has rxe0, as root,
# with nobody else there. Leaves one device, as it was. Prints TAP.
GW_TEST_SECONDS=600 # processors are emulated
. "${GW_SRCDIR:-..}/tests/run/lib.sh"
. "${GW_SRCDIR:-..}/tests/rdma/timely.sh"
make_data
link=$(cat /sys/class/infiniband/rxe0/parent)
six=fd77::1
ip link add d1 type dummy && ip addr add 10.77.1.1/24 dev d1 && ip link set d1 up &&
  rdma link add rxe1 type rxe netdev d1 && ip addr add $six/64 dev "$link" nodad
ok 'two devices, an IPv6 address'
# Processes of one host would take shm: so nobody can tell which host this is.
echo none >"$scratch/boot_id"
mount --bind "$scratch/boot_id" /proc/sys/kernel/random/boot_id
both="10.77.0.1,10.77.1.1"
keys="--set cluster.insecure=true --set log.level=info --set log.dir=$scratch/logs"

# sent DEVICE: packets
sent() { cat "/sys/class/infiniband/$1/ports/1/hw_counters/sent_pkts"; }
# trains TRANSPORT INTERFACES KEYS..: a job; packets of both devices in $first, $second
trains() {
  transport=$1 interfaces=$2
  shift 2
  before="$(sent rxe0) $(sent rxe1)"
  rm -rf "$scratch/logs"
  # shellcheck disable=SC2086
  run 0 train "$job" $keys $patient --set cluster.transport="$transport" \
    --set cluster.interface="$interfaces" "$@"
  result=$?
  # shellcheck disable=SC2086
  set -- $before
  first=$(($(sent rxe0) - $1))
  second=$(($(sent rxe1) - $2))
  echo "# $transport over $interfaces: $first and $second packets"
  return $result
}
# logged PATTERN: a line of a process's log.
logged() {
  grep -rqE "$1" "$scratch/logs" "$scratch/err" && return 0
  echo "# not logged: $1"
  cat "$scratch"/logs/* "$scratch/err" | grep -E 'link|over' | head -n 20 | sed 's/^/# /'
  return 1
}

trains tcp "$both" && plain=$(digest) && [ "$plain" ] &&
  logged 'link 0 goes over tcp to 10.77.0.1:' && logged 'link 1 goes over tcp to 10.77.1.1:'
ok 'tcp over two interfaces'
trains rdma 10.77.0.1 && [ "$(digest)" = "$plain" ] && [ "$first" -gt 100 ] && [ "$second" -eq 0 ]
ok 'rdma over the first device alone'
trains rdma 10.77.1.1 && [ "$(digest)" = "$plain" ] && [ "$second" -gt 100 ] && [ "$first" -eq 0 ]
ok 'and over the second'
trains rdma "$both" && [ "$(digest)" = "$plain" ] && [ "$first" -gt 100 ] && [ "$second" -gt 100 ] &&
  logged 'link 0 goes over rdma to 10.77.0.1:' && logged 'link 1 goes over rdma to 10.77.1.1:'
ok 'over both: a link each, the same weights'
trains rdma "$link,d1" --set cluster.connections=4 && [ "$(digest)" = "$plain" ] &&
  logged 'link 2 goes over rdma to 10.77.0.1:' && logged 'link 3 goes over rdma to 10.77.1.1:'
ok 'by their names, with two links each'
trains rdma "10.77.1.1,lo" && [ "$(digest)" = "$plain" ] && [ "$first" -eq 0 ] && [ "$second" -gt 100 ]
ok 'an interface that has no device is left out'
trains rdma "$six" && [ "$(digest)" = "$plain" ] && [ "$first" -gt 100 ]
ok 'over an IPv6 address'
trains rdma "$six,10.77.1.1" && [ "$(digest)" = "$plain" ] && [ "$first" -gt 100 ] &&
  [ "$second" -gt 100 ] && logged "link 0 goes over rdma to .$six.:" &&
  logged 'link 1 goes over rdma to 10.77.1.1:'
ok 'and both at once'

run 0 doctor --set cluster.interface="$both" --set cluster.insecure=true &&
  grep -qE "^ok +interface +$link, address 10.77.0.1" "$scratch/out" &&
  grep -qE '^ok +interface +d1, address 10.77.1.1' "$scratch/out" &&
  grep -qE '^note +interface +links of a worker are spread over these 2' "$scratch/out"
ok 'the doctor sees both'

# ---- a device goes ----

# begin KEYS..: a job in the background; its output in $scratch/out.
begin() {
  rm -rf "$scratch/code" "$scratch/logs"
  # shellcheck disable=SC2086
  { gradweir train "$job" $keys --set cluster.interface="$both" \
    --set train.eval_every=never --set log.every=10 "$@" \
    >"$scratch/out" 2>"$scratch/err"; echo $? >"$scratch/code"; } &
  await 20 grep -q '^step [0-9]*0/' "$scratch/out"
}
ended() { [ -s "$scratch/code" ]; }
steps() { grep -c '^step ' "$scratch/out"; }
# loses DEVICE: under load; the job comes to its end over the other one.
loses() {
  removed "$1" && at=$(steps) && await 60 ended &&
    [ "$(cat "$scratch/code")" = 0 ] && echo "# $1 went after $at lines, the job has $(steps)"
  result=$?
  grep -h 'goes over' "$scratch/err" | head -n 8 | sed 's/^/# /'
  return $result
}
deleted rxe1 && unused=$took
rdma link add rxe1 type rxe netdev d1
await 10 grep -q ACTIVE /sys/class/infiniband/rxe1/ports/1/state
run 0 train "$job" --set train.steps=600 --set train.eval_every=never && plain=$(digest)
begin --set cluster.transport=rdma --set train.steps=600 && loses rxe1 &&
  [ "$plain" ] && [ "$(digest)" = "$plain" ] &&
  logged 'link 1 goes over rdma to 10.77.0.1:[0-9]* instead of 10.77.1.1:[0-9]*: .*(taken away|closed by the peer)'
ok 'the second device goes, the job goes on over the first, to the same weights'
end_all
rdma link add rxe1 type rxe netdev d1
await 10 grep -q ACTIVE /sys/class/infiniband/rxe1/ports/1/state
begin --set cluster.transport=rdma --set train.steps=600 && loses rxe0 &&
  [ "$(digest)" = "$plain" ] &&
  logged 'link 0 goes over rdma to 10.77.1.1:[0-9]* instead of 10.77.0.1:[0-9]*: .*(taken away|closed by the peer)'
ok 'the first device goes, the job goes on over the second'
end_all
rdma link add rxe0 type rxe netdev "$link"
await 10 grep -q ACTIVE /sys/class/infiniband/rxe0/ports/1/state
begin --set cluster.transport=auto --set train.steps=1000 && removed rxe0 &&
  removed rxe1 && await 90 ended && [ "$(cat "$scratch/code")" = 0 ] &&
  logged 'goes over tcp instead of rdma'
ok 'with auto both may go, and it moves to tcp'
end_all
rdma link add rxe0 type rxe netdev "$link"
ip link del d1
ip addr del $six/64 dev "$link"
await 10 grep -q ACTIVE /sys/class/infiniband/rxe0/ports/1/state
await 3 nobody_left
ok 'nothing is left'
echo "1..$tests"
