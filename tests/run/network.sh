#!/bin/sh
# Hosts that are unlike in their interfaces, that do not reach each other, that
# stand still: three network namespaces, a coordinator in one, a server and a
# worker in the others, which have a second network between them. Prints TAP.
if [ -z "$GW_TEST_NAMESPACE" ]; then
  for how in -nm -rnm; do
    if unshare $how ip link add d0 type veth peer name d1 2>/dev/null; then
      GW_TEST_NAMESPACE=1 exec unshare $how sh "$0"
    fi
  done
  echo '1..0 # SKIP no network namespace can be made (unshare -n, iproute2)'
  exit 0
fi
. "${GW_SRCDIR:-..}/tests/run/lib.sh"
make_data

# The other hosts last as long as this process.
GW_TEST_MARK=$scratch unshare -n sleep 300 &
b=$!
GW_TEST_MARK=$scratch unshare -n sleep 300 &
c=$!
apart() { [ "$(readlink "/proc/$1/ns/net")" != "$(readlink /proc/self/ns/net)" ]; }
await 5 apart $b && await 5 apart $c
at() {
  there=$1
  shift
  nsenter -t "$there" -n "$@"
}
# address HOST INTERFACE ADDRESS
address() { at "$1" ip addr add "$3/24" dev "$2" && at "$1" ip link set "$2" up; }
ip link set lo up && at $b ip link set lo up && at $c ip link set lo up &&
  ip link add br0 type bridge && ip addr add 10.99.0.1/24 dev br0 && ip link set br0 up &&
  ip link add pb type veth peer name eth0 netns $b && ip link set pb master br0 up &&
  ip link add pc type veth peer name ens3 netns $c && ip link set pc master br0 up &&
  at $b ip link add eth1 type veth peer name eth1 netns $c &&
  address $b eth0 10.99.0.2 && address $c ens3 10.99.0.3 &&
  address $b eth1 10.98.0.2 && address $c eth1 10.98.0.3
ok 'three hosts'

# start_at HOST NAME ARGUMENTS...: as start, there.
start_at() {
  there=$1
  name=$2
  shift 2
  rm -f "$scratch/$name.out" "$scratch/$name.err"
  GW_TEST_MARK=$scratch nsenter -t "$there" -n "$program" "$@" \
    >"$scratch/$name.out" 2>"$scratch/$name.err" &
  started=$!
}

# begin INTERFACE OPTION...: the coordinator of a job of one worker and one server.
begin() {
  interface=$1
  shift
  start c coordinator "$job" --set cluster.workers=1 --set cluster.servers=1 \
    --set cluster.insecure=true --set "cluster.interface=$interface" "$@"
  coordinator=$started
  await 10 grep -qs '^members join at ' "$scratch/c.out" || return 1
  port=$(sed -n 's/^members join at [^ ]*:\([0-9]*\): .*/\1/p' "$scratch/c.out")
  join="--join 10.99.0.1:$port"
}

only_hosts() { [ "$(left | wc -l)" -eq 2 ]; }

# ends CODE: the coordinator, and then everybody.
ends() {
  wait "$coordinator"
  code=$?
  [ $code -eq "$1" ] && await 10 only_hosts && return 0
  echo "# exit code $code and not $1"
  sed 's/^/# /' "$scratch"/[csw].out "$scratch"/[csw].err
  return 1
}

# members OPTION...: a server and a worker, each on its host.
members() {
  # shellcheck disable=SC2086
  start_at $b s server $join "$@"
  # shellcheck disable=SC2086
  start_at $c w worker $join "$@"
  worker=$started
}

# --- whose interfaces they are ---
begin 10.99.0.1 && members && ends 0
ok 'the address of the coordinator is nobody else'"'"'s'
begin br0 && members && ends 0
ok 'other hosts have interfaces of other names'

sent() { at $c ip -s link show "$1" | awk '/TX:/ { getline; print $1 }'; }
slow=$(sent ens3) fast=$(sent eth1)
begin br0 && members --set cluster.interface=eth1 && ends 0 &&
  [ $(($(sent eth1) - fast)) -gt $((4 * ($(sent ens3) - slow))) ]
ok 'tensors on a network that the coordinator is not in'

# --- who cannot come ---
begin br0 --set cluster.step_deadline=1 && members --set cluster.interface=eth9 && ends 1 &&
  grep -Eq '^gradweir: (server|worker) \(.*, pid [0-9]+\) cannot join: --set: cluster.interface "eth9" is neither' "$scratch/c.err"
ok 'a member that cannot come is not waited for'
begin br0 --set cluster.step_deadline=30 && members --set cluster.interface=eth9 &&
  await 5 grep -q '^server (.* cannot join' "$scratch/c.out" && await 5 grep -q '^worker (.* cannot join' "$scratch/c.out" &&
  members && ends 0
ok 'another one may come in its place'

# --- what stops a wait ---
begin br0 --set cluster.step_deadline=2 && start_at $b s server --advertise 10.99.0.3 $join &&
  start_at $c w worker $join --set cluster.interface=eth1 &&
  await 3 grep -Eq '^worker 0 \(.*\) cannot reach server 0 \(.*\) at 10\.99\.0\.3:[0-9]+: Connection refused \(from 10\.98\.0\.3, as cluster.interface says\)' "$scratch/c.out" &&
  ! grep -q 'waits for worker 0' "$scratch/c.out"
ok 'the dial that fails is told before the wait is'
await 5 grep -Eq 'shard 0 waits for worker 0 \(.*; worker 0 \(.*\) cannot reach .* Connection refused' "$scratch/c.out" &&
  [ "$(grep -c '^worker 0 (.*cannot reach' "$scratch/c.out")" -eq 1 ]
ok 'and with the wait, once by itself'
kill -INT "$coordinator"
sleep 0.5
kill -INT "$coordinator"
wait "$coordinator"
await 10 only_hosts
ok 'and it can be stopped'

begin br0 && at $b timeout 20 "$program" server $join --wait 7 \
  --set cluster.control_interface=eth1 2>"$scratch/err"
[ $? -eq 1 ] && grep -q 'from 10\.98\.0\.2, as cluster.control_interface says' "$scratch/err" ||
  { sed 's/^/# /' "$scratch/err"; false; }
ok 'from where the coordinator is dialled, and what says so'
members --set cluster.control_interface=10.99.0.9
await 5 grep -qs 'cluster.control_interface "10.99.0.9" is neither' "$scratch/w.err"
ok 'an address that is another host'"'"'s'
members && ends 0
ok 'and the job goes on'

printf '127.0.0.1 localhost\n127.0.1.1 hosta\n' >"$scratch/hosts"
mount --bind "$scratch/hosts" /etc/hosts 2>/dev/null
if getent hosts hosta | grep -q 127.0.1.1; then
  run 1 worker --join hosta:9 --wait 1 &&
    grep -q 'hosta:9 is 127.0.1.1:9, a loopback address' "$scratch/err"
  ok 'a name that is 127.0.1.1 is shown as that'
  umount /etc/hosts
else
  skip 'a name that is 127.0.1.1 is shown as that' 'nothing can be mounted on /etc/hosts'
fi

# --- silence ---
# long SILENCE: a job that does not end by itself, some steps into it.
long() {
  begin br0 --set train.steps=100000000 --set train.eval_every=never --set log.every=50 \
    --set cluster.silence="$1" --set cluster.patience=0 && members && await 10 grep -q '^step ' "$scratch/c.out"
}
# goes_on: comes further.
goes_on() {
  before=$(grep -c '^step ' "$scratch/c.out")
  await 10 eval '[ "$(grep -c "^step " "$scratch/c.out")" -gt $((before + 2)) ]'
}
long 4 && kill -STOP "$worker" && sleep 1.5 && kill -CONT "$worker" && goes_on &&
  await 2 grep -q 'worker 0 warn this process was paused for 1\.[4-9] s' "$scratch/w.err" &&
  ! grep -q ' died \|: silent' "$scratch/c.out" "$scratch/c.err" "$scratch/s.err" "$scratch/w.err"
ok 'a pause that is shorter is borne, and nobody is accused'
at $c ip link set ens3 down && sleep 1.2 && at $c ip link set ens3 up && goes_on
ok 'and so is a path that carries nothing'
kill -INT "$coordinator"
ends 3
ok 'to the end that is asked for'
long 1 && before=$(now_ms) && kill -STOP "$worker" && wait "$coordinator"
took=$(($(now_ms) - before))
kill -CONT "$worker"
wait "$worker"
echo "# $took ms"
[ $took -gt 700 ] && [ $took -lt 3500 ] &&
  grep -q '^gradweir: worker 0 .* died at step [0-9]*: silent for 1\.' "$scratch/c.err" &&
  grep -q '^gradweir: this process was paused for [1-9]\.[0-9] s; ' "$scratch/w.err" &&
  ! grep -q '^gradweir: the coordinator' "$scratch/w.err" && await 10 only_hosts
ok 'one that is longer is not, and who was away says so'

# Without a key, and all of one kernel: a second, which only the start tells, for
# the coordinator is not at loopback. Members miss it as it does them.
long 0 && before=$(now_ms) && kill -STOP "$coordinator" && wait "$worker"
took=$(($(now_ms) - before))
kill -CONT "$coordinator"
wait "$coordinator"
echo "# $took ms"
[ $took -gt 700 ] && [ $took -lt 3500 ] &&
  grep -q '^gradweir: the coordinator (.*) died at step [0-9]*: silent for 1\.' "$scratch/w.err" &&
  grep -q '^gradweir: this process was paused for [1-9]\.[0-9] s; ' "$scratch/c.err" &&
  await 10 only_hosts
ok 'members bear what the coordinator says, and it was away'

kill $b $c
wait $b $c 2>/dev/null
echo "1..$tests"
