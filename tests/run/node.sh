#!/bin/sh
# Workers of one host push one gradient: four of them in a network namespace of
# their own, servers in another. Prints TAP.
if [ -z "$GW_TEST_NAMESPACE" ]; then
  for how in -n -rn; do
    if unshare $how ip link add d0 type veth peer name d1 2>/dev/null; then
      GW_TEST_NAMESPACE=1 exec unshare $how sh "$0"
    fi
  done
  echo '1..0 # SKIP no network namespace can be made (unshare -n, iproute2)'
  exit 0
fi
. "${GW_SRCDIR:-..}/tests/run/lib.sh"
make_data

# The other host lasts as long as this process.
GW_TEST_MARK=$scratch unshare -n sleep 300 &
there=$!
apart() { [ "$(readlink "/proc/$there/ns/net")" != "$(readlink /proc/self/ns/net)" ]; }
await 5 apart
at() { nsenter -t $there -n "$@"; }
ip link set lo up && at ip link set lo up &&
  ip link add d0 type veth peer name d1 netns $there &&
  ip addr add 10.99.0.1/24 dev d0 && ip link set d0 up &&
  at ip addr add 10.99.0.2/24 dev d1 && at ip link set d1 up
ok 'two hosts'

# Bytes that have left the workers' host.
sent() { at ip -s link show d1 | awk '/TX:/ { getline; print $1 }'; }

# started_there NAME ARGUMENTS...: as start, on the workers' host.
started_there() {
  name=$1
  shift
  GW_TEST_MARK=$scratch nsenter -t $there -n "$program" "$@" >"$scratch/$name.out" \
    2>"$scratch/$name.err" &
}

# begin OPTION...: the coordinator of a job of four workers and two servers, and
# the servers, here.
begin() {
  start c coordinator "$job" --set cluster.workers=4 --set cluster.insecure=true \
    --set cluster.interface=10.99.0.1 --set 'model.layers=[64,2048,10]' \
    --set train.eval_every=never "$@"
  coordinator=$started
  await 10 grep -qs '^members join at ' "$scratch/c.out" || return 1
  address=$(sed -n 's/^members join at \([^ ]*[0-9]\).*/\1/p' "$scratch/c.out")
  for i in 0 1; do
    start s$i server --join "$address" --set cluster.interface=10.99.0.1
  done
}

# joins_there N OPTION...: worker N of a job, on the other host.
joins_there() {
  number=$1
  shift
  started_there "w$number" worker --join "$address" --set cluster.interface=10.99.0.2 "$@"
}

join_all() {
  for i in 0 1 2 3; do joins_there $i --rank $i; done
}

# ends: the job has come to its end, with these weights.
ends() {
  wait "$coordinator" && await 10 only_the_host &&
    weights=$(digest "$scratch/c.out") && [ "$weights" ] && return 0
  sed 's/^/# /' "$scratch"/*.out "$scratch"/*.err
  return 1
}

only_the_host() { [ "$(left)" = "$there" ]; }

# whole REDUCTION: such a job to its end, and the bytes that it sent.
whole() {
  before=$(sent)
  begin --set cluster.local_reduction="$1" && join_all && ends &&
    bytes=$(($(sent) - before))
}

whole off && wanted=$weights apart_bytes=$bytes &&
  ! grep -q 'sum their gradients' "$scratch/c.out"
ok 'each worker pushes its own'
whole auto && grep -q '^workers 0 to 3 (.*) sum their gradients before they push' "$scratch/c.out"
ok 'with a server on another host they push the sum'
[ "$weights" = "$wanted" ]
ok 'the same weights'
echo "# $apart_bytes bytes apart, $bytes summed"
[ $((bytes * 10)) -lt $((apart_bytes * 3)) ]
ok 'one gradient leaves the host instead of four'

# --- workers of two hosts ---

# has N MEMBERS: so many have joined.
has() { [ "$(grep -c ' has joined: ' "$scratch/c.err")" -eq "$1" ]; }

# in_turn OPTION: on one host and the other, each when the one before is there.
in_turn() {
  begin --set cluster.local_reduction=on --set log.level=info && await 5 has 2 || return 1
  for i in 0 1 2 3; do
    where=start
    [ $((i % 2)) -eq 0 ] || where=started_there
    $where w$i worker --join "$address" --set cluster.interface=10.99.0.$((i % 2 + 1)) \
      ${1:+"$1" $i}
    await 5 has $((3 + i)) || return 1
  done
  ends
}

in_turn && [ "$weights" = "$wanted" ] &&
  [ "$(grep -c '^workers [02] to [13] .* sum their gradients' "$scratch/c.out")" -eq 2 ] &&
  [ "$(grep -l 'sums of 2 workers are made over shm, on the host' "$scratch"/w?.err | wc -l)" -eq 4 ]
ok 'those of a host have ranks beside each other, in whatever order they come'
in_turn --rank && [ "$weights" = "$wanted" ] && ! grep -q 'sum their' "$scratch/c.out" &&
  [ "$(grep -c '^2 workers of .* push 2 gradients in a step instead of 1' "$scratch/c.out")" -eq 2 ]
ok 'ranks that were asked for and lie apart are told'

# --- another user ---

# mixed OPTION: rank 1 is somebody else's, who reads what all may.
mixed() {
  begin "$@" && cp "$program" "$scratch/program" && chmod 755 "$scratch" "$scratch/program" &&
    chmod a+r "$scratch"/* || return 1
  for i in 0 2 3; do joins_there $i --rank $i; done
  mine=$program
  program=$scratch/as_nobody
  printf '#!/bin/sh\nexec setpriv --reuid 65534 --clear-groups "%s" "$@"\n' \
    "$scratch/program" >"$program"
  chmod 755 "$program"
  joins_there 1 --rank 1
  program=$mine
  ends
}
what="who is another user's pushes alone"
if setpriv --reuid 65534 --clear-groups true 2>/dev/null; then
  mixed && [ "$weights" = "$wanted" ] && grep -q '^workers 2 to 3 ' "$scratch/c.out"
  ok "$what"
else
  skip "$what" 'this user cannot become another one (setpriv)'
fi

# --- one of them dies ---
begin --set train.steps=1000000 --set cluster.local_reduction=on && join_all &&
  await 20 grep -qs '^step [1-9]' "$scratch/c.out"
ok 'a long job'
victim=$(pid_of worker 3)
rank=$(tr '\0' ' ' <"/proc/$victim/cmdline" | sed 's/.*--rank \([0-9]\).*/\1/')
began=$(now_ms)
kill -9 "$victim"
wait "$coordinator"
code=$?
await 5 only_the_host
ok 'nobody is left behind one that was killed'
echo "# after $(($(now_ms) - began)) ms"
[ $code -ne 0 ] && grep -q "worker $rank (.*died at step" "$scratch/c.err" ||
  { sed 's/^/# /' "$scratch/c.err"; false; }
ok 'the job ends by its name'
for i in 0 1 2 3; do
  [ $i = "$rank" ] || grep -q "worker $rank (" "$scratch/w$i.err" || echo "worker $i"
done >"$scratch/silent"
[ ! -s "$scratch/silent" ] || { sed 's/^/# says nothing: /' "$scratch/silent"; false; }
ok 'and its neighbours name it'

kill $there
wait $there 2>/dev/null
echo "1..$tests"
