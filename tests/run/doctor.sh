#!/bin/sh
# gradweir doctor on this host, on a host that is made worse, and between two
# processes. Prints TAP.
. "${GW_SRCDIR:-..}/tests/run/lib.sh"
make_data

# finds VERDICT CHECK PATTERN: a line of $scratch/out.
finds() {
  grep -qE "^$1 +$2 +.*$3" "$scratch/out" && return 0
  echo "# not found: $1 $2 $3"
  sed 's/^/# /' "$scratch/out" "$scratch/err"
  return 1
}

# serve NAME WHERE..: in the background; sets $address and $server.
serve() {
  name=$1
  shift
  start "$name" doctor --serve "$@"
  server=$started
  await 10 grep -q -- --peer "$scratch/$name.out"
  address=$(sed -n 's/.*--peer //p' "$scratch/$name.out")
}

# --- this host ---
gradweir doctor >"$scratch/out" 2>"$scratch/err"
found=$?
silent=
for check in transport device mtu gid files memlock interface trust port firewall \
  clock nofile shm gpu peer; do
  finds '(ok|note|unknown|fix)' $check . || silent="$silent $check"
done
[ -z "$silent" ] && [ ! -s "$scratch/err" ] &&
  ! sed '$d' "$scratch/out" | grep -vE '^(ok|note|unknown|fix) +[a-z]+ +[^ ]' &&
  [ $found -eq "$(grep -q '^fix' "$scratch/out" && echo 1 || echo 0)" ]
ok 'every check says something, and the exit code is what they say'
finds '(ok|note)' transport 'rdma (works here|does not work here: .*)' &&
  finds note transport 'cluster.transport = "auto" tensors go over shm within a host, else (rdma|tcp: not rdma, )'
ok 'which transports work, and why not'

if [ -z "$(ls /sys/class/infiniband 2>/dev/null)" ]; then
  finds note device 'no RDMA device here: tensors go over tcp' &&
    finds note gid 'nothing to look at'
  ok 'no device'
  run 1 doctor --set cluster.transport=rdma &&
    finds fix transport 'set cluster.transport = "auto"' &&
    finds fix device 'rdma link add rxe0'
  ok 'no device for a job that asks for one'
else
  skip 'no device' 'there is one'
  skip 'no device for a job that asks for one' 'there is one'
fi

rm -f "$scratch/json"
run "$found" doctor --json "$scratch/json" &&
  [ "$(wc -l <"$scratch/json")" -eq $(($(wc -l <"$scratch/out") - 1)) ] &&
  ! grep -vE '^{"verdict":"(ok|note|unknown|fix)","check":"[a-z]+","text":".+"}$' "$scratch/json" &&
  run "$found" doctor --json - && ! grep -v '^{"verdict"' "$scratch/out"
ok '--json'

# --- locked memory ---
# As somebody who may not lock what he likes.
poor() {
  if [ $((0x$(sed -n 's/^CapEff:\t//p' /proc/self/status) >> 14 & 1)) -eq 1 ]; then
    setpriv --bounding-set -ipc_lock --inh-caps -ipc_lock "$@"
  else
    "$@"
  fi
}
# shellcheck disable=SC3045
if (ulimit -l 64 && poor true) 2>/dev/null; then
  (ulimit -l 64 && GW_TEST_MARK=$scratch poor timeout 60 "$program" doctor "$job" \
    --set cluster.transport=rdma >"$scratch/out" 2>"$scratch/err")
  [ $? -eq 1 ] &&
    finds fix memlock 'the job registers [0-9]+ MiB per worker and [0-9]+ MiB per server, and a process may lock 64 KiB: ulimit -l unlimited'
  ok 'a job that registers more than may be locked'
  (ulimit -l 64 && GW_TEST_MARK=$scratch poor timeout 60 "$program" doctor "$job" \
    --set cluster.transport=tcp >"$scratch/out" 2>"$scratch/err")
  [ $? -eq 0 ] && finds note memlock 'too little should it go over rdma'
  ok 'a job that registers nothing'
  (ulimit -l 64 && GW_TEST_MARK=$scratch poor timeout 60 "$program" doctor "$job" \
    --set "data.train=$scratch/none,$scratch/none" >"$scratch/out" 2>"$scratch/err")
  finds unknown memlock "not known, .*$scratch/none"
  ok 'a job whose data is not here'
else
  for name in 'a job that registers more than may be locked' \
    'a job that registers nothing' 'a job whose data is not here'; do
    skip "$name" 'the limit cannot be set (setpriv)'
  done
fi
# shellcheck disable=SC3045
(ulimit -n 100 && run 1 doctor "$job" --set cluster.workers=90) &&
  finds fix nofile 'a server of this job has up to 222 .*ulimit -n 222'
ok 'a job with more links than may be open'

# --- the port ---
serve taken lo:0
port=${address##*:}
run 1 doctor "$job" --set cluster.port="$port" &&
  finds fix port "127.0.0.1:$port is in use by gradweir, process $server: end it, or set cluster.port"
ok 'a port that is taken, and by whom'
kill "$server"
wait "$server" 2>/dev/null
run 0 doctor "$job" --set cluster.port="$port" &&
  finds ok port "127.0.0.1:$port is free"
ok 'and is free again'

# --- two processes ---
serve server 127.0.0.1:0
run 0 doctor --peer "$address" &&
  finds ok peer "$address over tcp: round trip [0-9]+ us, [0-9.]+ [MG]B/s there, [0-9.]+ [MG]B/s back" &&
  finds ok route "packets to $address leave by lo" &&
  await 5 grep -q 'measured over tcp' "$scratch/server.out"
ok 'latency and bandwidth over tcp'
finds ok clock "that of $address is 0[.][0-9]* ms (ahead of|behind) this host's, to [0-9.]+ ms" &&
  finds unknown firewall "$address is this host itself"
ok 'clocks are compared; within a host no firewall is judged'
finds note peer 'over rdma is not measured: (here|there), '
ok 'and why not over rdma'
! gradweir status "$address" >"$scratch/out" 2>"$scratch/err" &&
  grep -q 'this is gradweir doctor --serve, and no job' "$scratch/err"
ok 'who serves measurements is no coordinator'
run 1 doctor --peer "$address" --peer "$address" --peer 127.0.0.1:1 &&
  [ "$(grep -c '^ok *peer' "$scratch/out")" -eq 2 ] &&
  finds fix peer '127.0.0.1:1 over tcp: Connection refused; start gradweir doctor --serve there' &&
  finds unknown clock 'that of 127.0.0.1:1 was not compared: it was not reached' &&
  finds unknown firewall '127.0.0.1:1 was not reached'
ok 'several peers, of which one is not there'

"${GW_BUILDDIR:-.}/tests/run/junk" "${address##*:}" 20 </dev/null >"$scratch/junk" 2>&1 ||
  sed 's/^/# /' "$scratch/junk"
grep -q '^idle$' "$scratch/junk" && ! grep -q WRONG "$scratch/junk" && run 0 doctor --peer "$address" &&
  finds ok peer "$address over tcp"
ok 'what strangers throw at it does not stop it'
kill "$server"
wait "$server" 2>/dev/null
serve sixth '[::1]:0'
run 0 doctor --peer "$address" && finds ok peer "\[::1\]:[0-9]+ over tcp: round trip"
ok 'IPv6'
kill "$server"
wait "$server" 2>/dev/null
serve server 127.0.0.1:0

before=$(now_ms)
kill -STOP "$server"
run 1 doctor --peer "$address" && finds fix peer "$address over tcp: .*start gradweir doctor --serve" &&
  [ $(($(now_ms) - before)) -lt 15000 ]
ok 'a peer that does not answer is not waited for'
kill -CONT "$server"
run 0 doctor --peer "$address" && finds ok peer "$address over tcp"
ok 'and is measured once it does'
kill "$server"
wait "$server" 2>/dev/null

start coordinator coordinator "$job"
await 10 grep -q 'gradweir .* --join' "$scratch/coordinator.out" ||
  await 1 [ "$(ports coordinator)" ]
address=127.0.0.1:$(ports coordinator | head -n 1)
before=$(now_ms)
run 1 doctor --peer "$address" && finds fix peer "$address over tcp: " &&
  [ $(($(now_ms) - before)) -lt 15000 ] && kill -0 "$started"
ok 'a coordinator is not measured, and stays'
kill -9 "$started"
wait "$started" 2>/dev/null

# --- interfaces ---
cat >"$scratch/worse" <<'WORSE'
set -e
"$1" doctor --set cluster.interface=d0 >"$2/none" || true
ip link add d0 type veth peer name d1
"$1" doctor --set cluster.interface=d0 >"$2/bare" || true
ip addr add 10.99.0.1/24 dev d0
"$1" doctor --set cluster.interface=d0 --set cluster.insecure=true >"$2/down" || true
ip link set d1 up
ip link set d0 up
ip link set lo up
"$1" doctor --set cluster.interface=d0 --set cluster.insecure=true >"$2/up"
"$1" doctor --set cluster.interface=d0 >"$2/closed" || true
"$1" doctor >"$2/default"
"$1" doctor --serve d0 2>"$2/guarded" || [ $? -eq 2 ]
WORSE
inside=
for how in -n -rn; do
  unshare $how ip link add d0 type veth peer name d1 2>/dev/null && inside=$how && break
done
if [ "$inside" ]; then
  GW_TEST_MARK=$scratch timeout 60 unshare "$inside" sh "$scratch/worse" "$program" "$scratch" \
    2>"$scratch/err"
  ok 'a network of its own'
  cp "$scratch/none" "$scratch/out"
  finds fix interface 'the loopback interface is down.*ip link set lo up' &&
    finds fix interface 'cluster.interface "d0" is no interface'
  ok 'loopback is down, and the interface is not there'
  cp "$scratch/bare" "$scratch/out"
  finds fix interface 'cluster.interface d0 has no address: ip addr add'
  ok 'an interface without an address'
  cp "$scratch/down" "$scratch/out"
  finds fix interface 'cluster.interface d0 is down: ip link set d0 up'
  ok 'an interface that is down'
  cp "$scratch/up" "$scratch/out"
  finds ok interface 'd0, address 10.99.0.1, MTU 1500' && finds note trust 'neither encrypted'
  ok 'and up'
  cp "$scratch/closed" "$scratch/out"
  finds fix trust 'cluster.insecure = true in the job'
  ok 'an interface that the job may not use'
  cp "$scratch/default" "$scratch/out"
  finds note interface 'set cluster.interface to this: d0 10.99.0.1'
  ok 'an interface that the job could use'
  cp "$scratch/guarded" "$scratch/err"
  says '10.99.0.1:7171 is not loopback'
  ok 'serving beyond loopback must be asked for'
else
  for name in 'a network of its own' 'loopback is down, and the interface is not there' \
    'an interface without an address' 'an interface that is down' 'and up' \
    'an interface that the job may not use' 'an interface that the job could use' \
    'serving beyond loopback must be asked for'; do
    skip "$name" 'no network namespace can be made (unshare -n)'
  done
fi

# --- two hosts, and what is between ---
# A network of its own, d0 10.99.0.1, and another one, d1 10.99.0.2, where
# "there" runs commands.
cat >"$scratch/hosts" <<'HOSTS'
set -e
program=$1 scratch=$2
ip link set lo up
unshare -n sleep 60 &
other=$!
there() { nsenter -n -t $other "$@"; }
trap 'kill $other' EXIT
until [ "$(readlink /proc/self/ns/net)" != "$(readlink /proc/$other/ns/net)" ]; do sleep 0.05; done
ip link add d0 type veth peer name d1
ip link set d1 netns $other
there ip link set lo up
there ip addr add 10.99.0.2/24 dev d1
there ip link set d1 up
ip addr add 10.99.0.1/24 dev d0
ip link set d0 up
open='--set cluster.insecure=true --set cluster.port=7199'
nsenter -n -t $other "$program" doctor --serve d1:7171 --set cluster.insecure=true \
  >"$scratch/there" &
server=$!
trap 'kill $other $server' EXIT
turns=100
until grep -q -- --peer "$scratch/there" || [ $turns -eq 0 ]; do sleep 0.1; turns=$((turns - 1)); done
"$program" doctor --peer 10.99.0.2 $open >"$scratch/passes" || true
"$program" doctor --peer 10.99.0.2 >"$scratch/guarded" || true
# a rule of the routes is everywhere; for TCP it is a firewall like any other
there ip rule add pref 10 ipproto tcp dport 7199 unreachable
"$program" doctor --peer 10.99.0.2 $open >"$scratch/blocked" || true
HOSTS
if [ "$inside" ] &&
  GW_TEST_MARK=$scratch timeout 60 unshare "$inside" sh "$scratch/hosts" "$program" "$scratch" \
    2>"$scratch/err"; then
  cp "$scratch/passes" "$scratch/out"
  finds ok firewall '10.99.0.2:7171 reached 10.99.0.1:7199 here over tcp' &&
    finds ok clock 'that of 10.99.0.2:7171 is 0[.]'
  ok 'a port that the other host reaches'
  grep -qE '^(also|not) over rdma' "$scratch/there" && ! grep -i shm "$scratch/there" &&
    finds '(ok|note|fix)' peer '10.99.0.2.* over rdma' && ! grep -E '^[a-z]+ +peer .*shm' "$scratch/out"
  ok 'shm, which no other host has, is not offered to one'
  cp "$scratch/guarded" "$scratch/out"
  finds ok peer '10.99.0.2:7171 over tcp' &&
    finds unknown firewall '10.99.0.2:7171 was not asked to knock here: 10.99.0.1:0 is not loopback'
  ok 'nobody knocks where the job may not listen'
  cp "$scratch/blocked" "$scratch/out"
  finds ok peer '10.99.0.2:7171 over tcp' &&
    finds fix firewall '10.99.0.2:7171 did not reach 10.99.0.1:7199 here over tcp: .*let the firewall'
  ok 'a port that it does not reach'
else
  for name in 'a port that the other host reaches' \
    'shm, which no other host has, is not offered to one' \
    'nobody knocks where the job may not listen' 'a port that it does not reach'; do
    skip "$name" "no two networks can be made: $(head -n 1 "$scratch/err")"
  done
fi

# --- wrong words ---
run 2 doctor a b && says 'doctor: one job at a time, not also b'
ok 'two jobs'
run 2 doctor "$scratch/nojob" && says "$scratch/nojob: cannot be opened"
ok 'no such job'
run 2 doctor --peer host:x && says '--peer: "host:x" is no address'
ok 'a peer that is no address'
run 2 doctor --serve nowhere && says '--serve: "nowhere" is neither the name nor an address'
ok 'serving at no interface'
run 2 doctor --serve lo:99999 && says '--serve: its port: takes a whole number'
ok 'serving at no port'
run 2 doctor --serve lo --peer host && says 'doctor: --serve is for the other host'
ok 'both sides at once'
run 1 doctor --json "$scratch" && says "--json: $scratch cannot be opened"
ok '--json that cannot be written'

await 3 nobody_left
ok 'nothing is left'
echo "1..$tests"
