#!/bin/sh
# The tests that need a real RDMA device, in a machine that has one, rxe0 on
# 10.77.0.1, which is theirs to take away. Prints TAP. By hand: tests/rdma/check.sh
GW_TEST_SECONDS=400 # processors are emulated
. "${GW_SRCDIR:-..}/tests/run/lib.sh"
address=10.77.0.1
job_keys="--set cluster.insecure=true --set cluster.interface=$address"

# cases PROGRAM: those of a cmocka program, each a point of ours.
cases() {
  name=$(basename "$1")
  CMOCKA_MESSAGE_OUTPUT=TAP GW_TRANSPORT=rdma \
    timeout 120 "${GW_BUILDDIR:-.}/$1" >"$scratch/tap" 2>"$scratch/words"
  code=$?
  grep '^#' "$scratch/tap"
  [ $code -eq 0 ] || sed 's/^/# /' "$scratch/words"
  grep '^ok\|^not ok' "$scratch/tap" >"$scratch/points"
  while read -r line; do
    case $line in ok*) true ;; *) false ;; esac
    ok "$name: $(echo "$line" | sed 's/^[a-z ]*[0-9]* - //')"
  done <"$scratch/points"
  [ $code -eq 0 ] && [ -s "$scratch/points" ]
  ok "$name ends with 0"
}

# ---- the transport ----
for cmocka in tests/table/test_transport tests/table/test_member \
  tests/table/test_member_login tests/rdma/test_hostile_rdma \
  tests/rdma/test_stranger_rdma; do
  cases $cmocka
done

# ---- whole jobs ----
make_data
# Processes of one host would take shm: so nobody can tell which host this is.
echo none >"$scratch/boot_id"
mount --bind "$scratch/boot_id" /proc/sys/kernel/random/boot_id
fashion=/usr/share/datasets/fashion-mnist
if [ -r $fashion/train-images-idx3-ubyte.gz ]; then
  cat >"$scratch/fashion" <<JOB
data = { train = ("$fashion/train-images-idx3-ubyte.gz",
                  "$fashion/train-labels-idx1-ubyte.gz");
         test = ("$fashion/t10k-images-idx3-ubyte.gz",
                 "$fashion/t10k-labels-idx1-ubyte.gz"); };
model = { layers = (784, 64, 10); };
train = { batch = 16; steps = 20; seed = 3; eval_every = "never"; };
optimizer = { lr = 0.05; };
cluster = { workers = 2; servers = 2; };
JOB
else
  cp "$job" "$scratch/fashion"
fi
# shellcheck disable=SC2086
over() {
  run 0 train "$scratch/fashion" $job_keys --set cluster.transport="$1"
}
over tcp && plain=$(digest) && [ "$plain" ]
ok 'an mlp 784-64-10, 20 steps over tcp'
over rdma && [ "$plain" ] && [ "$(digest)" = "$plain" ]
ok 'the same weights over rdma'
run 0 train "$scratch/fashion" && [ "$(digest)" = "$plain" ] && [ ! -s "$scratch/err" ]
ok 'on loopback auto goes by tcp, without a word more'
over auto && [ "$plain" ] && [ "$(digest)" = "$plain" ] && grep -q '^transport  *rdma, else tcp' "$scratch/out"
ok 'and with auto, which says that it is rdma'
run 2 train "$job" --set cluster.transport=rdma && says '.*is not loopback'
ok 'leaving loopback is asked for'

# ---- deaths ----

# begin KEYS..: a job that goes on until it is disturbed; its output in $scratch/out.
# shellcheck disable=SC2086
begin() {
  rm -f "$scratch/code"
  { gradweir train "$job" $job_keys --set train.steps=100000000 \
    --set train.eval_every=never --set log.every=10 "$@" \
    >"$scratch/out" 2>"$scratch/err"; echo $? >"$scratch/code"; } &
  await 20 grep -q '^step [0-9]*0/' "$scratch/out"
}
ended() { [ -s "$scratch/code" ]; }

# dies ROLE: killed, named within 2 s, and nobody is left.
dies() {
  begin --set cluster.transport=rdma && victim=$(pid_of "$1") &&
    kill -9 "$victim" && killed=$(now_ms) && await 6 ended
  result=$?
  took=$(($(now_ms) - killed))
  sed 's/^/# /' "$scratch/err"
  echo "# over after $took ms"
  [ $result -eq 0 ] && [ "$(cat "$scratch/code")" = 1 ] && [ $took -lt 5000 ] &&
    grep -q "$1 .*\(died\|silent\|gone\|ended\|exit\|signal\)" "$scratch/err" &&
    await 3 nobody_left
}
dies server
ok 'kill -9 of a server: named'
end_all
dies worker
ok 'kill -9 of a worker: named'
end_all

# ---- what is left on the device ----
[ "$(rdma resource show qp | grep -c 'type RC')" -eq 0 ] &&
  [ "$(rdma resource show mr | grep -c rxe0)" -eq 0 ]
ok 'no queue pair is left, and no memory registered'

# ---- the device goes ----

back() { rdma link add rxe0 type rxe netdev "${GW_LINK:-d0}"; }
# deleted: rdma link delete, and $took, its ms
deleted() {
  before=$(now_ms)
  timeout 20 rdma link delete rxe0
  result=$?
  took=$(($(now_ms) - before))
  return $result
}
# removed: the same within a second, or where the emulated machine is slow for
# want of processors, within some times what it takes when nobody uses it.
removed() {
  deleted
  result=$?
  echo "# deleted in $took ms, unused in $unused ms"
  [ $result -eq 0 ] && { [ $took -lt 1000 ] || [ $took -lt $((10 * unused)) ]; }
}
deleted && unused=$took && back
ok 'an unused device is taken away'
begin --set cluster.transport=rdma && removed && await 10 ended &&
  [ "$(cat "$scratch/code")" = 1 ] && await 3 nobody_left
ok 'the device is taken away: a job over rdma ends'
sed 's/^/# /' "$scratch/err"
end_all
back
begin --set cluster.transport=auto --set train.steps=3000 && removed &&
  await 60 ended && [ "$(cat "$scratch/code")" = 0 ] &&
  grep -q 'goes over tcp instead of rdma' "$scratch/err"
ok 'with auto it moves to tcp, and says so'
sed 's/^/# /' "$scratch/err" | head -n 20
moved=$(digest)
end_all
run 0 train "$job" --set train.steps=3000 --set train.eval_every=never &&
  [ "$(digest)" = "$moved" ]
ok 'to the same weights'
run 1 train "$job" --set cluster.transport=rdma --set cluster.insecure=true &&
  says 'cluster.transport rdma: there is no RDMA device here'
ok 'without a device rdma is refused, with why'
back
cases tests/rdma/test_rdma

echo "1..$tests"
