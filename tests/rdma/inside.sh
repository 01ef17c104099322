#!/bin/sh
# The tests that need a real RDMA device, in a machine that has one, rxe0 on
# 10.77.0.1, which is theirs to take away. Prints TAP. By hand: tests/rdma/check.sh
GW_TEST_SECONDS=600 # processors are emulated
. "${GW_SRCDIR:-..}/tests/run/lib.sh"
. "${GW_SRCDIR:-..}/tests/rdma/timely.sh"
address=10.77.0.1
job_keys="--set cluster.insecure=true --set cluster.interface=$address"

# cases PROGRAM: those of a cmocka program, each a point of ours.
cases() {
  name=$(basename "$1")
  CMOCKA_MESSAGE_OUTPUT=TAP GW_TRANSPORT=rdma \
    timeout -k 10 120 "${GW_BUILDDIR:-.}/$1" >"$scratch/tap" 2>"$scratch/words"
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
for cmocka in tests/table/test_transport tests/table/test_transport_windows \
  tests/table/test_member tests/table/test_member_login \
  tests/rdma/test_hostile_rdma tests/rdma/test_stranger_rdma; do
  cases $cmocka
done
# Soft-RoCE may count wrongly where queue pairs end under load, and carries
# nothing any more (transport/rdma/rdma_end.c).
if dmesg | grep 'refcount_t\|WARNING: .*rdma_rxe' >"$scratch/kernel"; then
  sed 's/^/# /' "$scratch/kernel"
  false
fi
ok 'of all this the kernel has nothing to say'

# ---- whole jobs ----
make_data
# Processes of one host would take shm: so nobody can tell which host this is.
echo none >"$scratch/boot_id"
mount --bind "$scratch/boot_id" /proc/sys/kernel/random/boot_id
make_pictures "$scratch/large.data" 28
sed "s|$scratch/data|$scratch/large.data|g; s/(64, 32, 10)/(784, 64, 10)/" "$job" \
  >"$scratch/large"
# shellcheck disable=SC2086
over() {
  run 0 train "$scratch/large" $job_keys $patient --set train.steps=20 --set cluster.transport="$1"
}
over tcp && plain=$(digest) && [ "$plain" ]
ok 'an mlp 784-64-10, 20 steps over tcp'
over rdma && [ "$plain" ] && [ "$(digest)" = "$plain" ]
ok 'the same weights over rdma'
# shellcheck disable=SC2086
run 0 train "$scratch/large" $patient --set train.steps=20 && [ "$(digest)" = "$plain" ] &&
  ! grep -v 'this process was paused' "$scratch/err" | sed 's/^/# /' | grep .
ok 'on loopback auto goes by tcp, without a word more'
over auto && [ "$plain" ] && [ "$(digest)" = "$plain" ] && grep -q '^transport  *rdma, else tcp' "$scratch/out"
ok 'and with auto, which says that it is rdma'
run 2 train "$job" --set cluster.transport=rdma && says '.*is not loopback'
ok 'leaving loopback is asked for'

# poor KEYS..: such a job of somebody who is nobody, and may lock 64 KiB.
# shellcheck disable=SC2086,SC3045
poor() {
  chmod 755 "$scratch" && mkdir -p -m 777 "$scratch/poor" &&
    (ulimit -l 64 && GW_TEST_MARK=$scratch GRADWEIR_SOCKET_DIR=$scratch/poor \
      timeout -s KILL 40 setpriv --reuid 65534 --regid 65534 --clear-groups \
      "$program" train "$job" $job_keys "$@" >"$scratch/out" 2>"$scratch/err")
}
poor --set cluster.transport=rdma
[ $? -eq 1 ] && grep -q 'cannot register .* may lock 64 KiB of memory; raise it' "$scratch/err"
ok 'memory that may not be locked ends an rdma job, with the limit'
poor && grep -q 'goes over tcp instead of rdma: cannot register .* may lock 64 KiB' "$scratch/err"
ok 'and sends an auto job over tcp, with a line'
for file in uverbs0 rdma_cm; do
  chmod 600 /dev/infiniband/$file
  poor --set cluster.transport=rdma
  [ $? -eq 1 ] && says "cluster.transport rdma: /dev/infiniband/$file may not be opened by this user: chmod 666 /dev/infiniband/$file.*; gradweir doctor"
  ok "$file that is for root alone ends an rdma job, with what to do"
  poor && grep -q "^transport .*tcp (auto: .*not rdma, /dev/infiniband/$file may not be opened" "$scratch/out"
  ok 'and an auto job goes over tcp, and says why'
  chmod 666 /dev/infiniband/$file
done

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
  begin --set cluster.transport=rdma --set cluster.patience=0 && victim=$(pid_of "$1") &&
    since=$(now_ms) && kill -9 "$victim" &&
    looks grep -q "$1 .*\(died\|silent\|gone\|ended\|exit\|signal\)" "$scratch/err" &&
    timely 2 && await 6 ended && [ "$(cat "$scratch/code")" = 1 ] && await 3 nobody_left
  result=$?
  sed 's/^/# /' "$scratch/err"
  return $result
}
dies server
ok 'kill -9 of a server: named'
end_all
dies worker
ok 'kill -9 of a worker: named'
end_all

# ---- copies ----
steps='--set train.steps=800 --set train.eval_every=never --set log.every=10'
# with_copies KEYS..: a job that ends, with its shards at two servers.
# shellcheck disable=SC2086
with_copies() {
  rm -f "$scratch/code"
  { gradweir train "$job" $job_keys $patient $steps --set cluster.transport=rdma --set cluster.copies=2 "$@" \
    >"$scratch/out" 2>"$scratch/err"; echo $? >"$scratch/code"; } &
  await 60 grep -q '^step [0-9]*0/' "$scratch/out"
}
# shellcheck disable=SC2086
run 0 train "$job" $job_keys $patient $steps --set cluster.transport=tcp && plain=$(digest) && [ "$plain" ]
ok 'a job of 800 steps over tcp'
# ends_alike PATTERN: it ends, to the same bits, and has said that.
ends_alike() {
  await 120 ended && [ "$(cat "$scratch/code")" = 0 ] && [ "$(digest)" = "$plain" ] &&
    grep -q "$1" "$scratch/out" && return
  sed 's/^/# /' "$scratch/out" "$scratch/err"
  return 1
}
with_copies && kill -9 "$(pid_of server)" &&
  ends_alike '^server [01] .* at other servers, and nothing is lost$'
ok 'kill -9 of a server over rdma, with copies: the same bits'
end_all
with_copies --set checkpoint.dir="$scratch/ck" --set checkpoint.every=never &&
  await 20 test -e "$scratch/ck/.gradweir-members" &&
  kill -9 "$(pid_of coordinator)" "$(pid_of server)" &&
  ends_alike '^this coordinator takes the place of the one before'
ok 'of the coordinator together with one: the same bits'
end_all

# ---- what is left on the device ----
nothing_on_device() {
  rdma resource show qp >"$scratch/qp" && ! grep -q 'type RC' "$scratch/qp" &&
    rdma resource show mr >"$scratch/mr" && ! grep -q rxe0 "$scratch/mr"
}
nothing_on_device
ok 'no queue pair is left, and no memory registered'

# A job of processes that nobody has launched: they have joined.
joined="server1 server2 worker1 worker2"
listens() { [ "$(ports coordinator)" ]; }
# shellcheck disable=SC2086
start coordinator coordinator "$job" $job_keys --set cluster.transport=rdma \
  --set cluster.patience=0 --set train.steps=100000000 --set train.eval_every=never --set log.every=10
victim=$started
await 10 listens
met=$address:$(ports coordinator | head -n 1)
for name in $joined; do
  start "$name" "${name%?}" --join "$met" --wait 10 --set cluster.interface="$address"
done
died="^gradweir: the coordinator ($met) died at step [0-9]*: "
# all_say PATTERN: each of them, in a line.
all_say() {
  for name in $joined; do
    grep -q "$1" "$scratch/$name.err" || return 1
  done
}
await 20 grep -q '^step [0-9]*0/' "$scratch/coordinator.out" && since=$(now_ms) &&
  kill -9 "$victim" && looks all_say "$died" && timely 2
ok 'kill -9 of the coordinator: every process names it within 2 s'
looks nobody_left && timely 3
ok 'and ends within 3 s'
failed=
for name in $joined; do
  grep '^gradweir: ' "$scratch/$name.err" >"$scratch/lines"
  [ "$(wc -l <"$scratch/lines")" -eq 1 ] && grep -q "$died" "$scratch/lines" && continue
  sed "s/^/# $name: /" "$scratch/$name.err"
  failed=1
done
[ -z "$failed" ]
ok 'each with that one line'
nothing_on_device
ok 'and nothing of it is left on the device'
end_all

# ---- the device goes ----

back() { rdma link add rxe0 type rxe netdev "${GW_LINK:-d0}"; }
deleted rxe0 && unused=$took && back
ok 'an unused device is taken away'
# so_far WORDS: how far a point came, where it does not hold
so_far() { echo "# $1 after $(($(now_ms) - since)) ms"; }
begin --set cluster.transport=rdma && removed rxe0 && so_far 'it is deleted' &&
  await 10 ended && so_far 'the job has ended' && [ "$(cat "$scratch/code")" = 1 ] &&
  await 3 nobody_left && so_far 'everybody has'
ok 'the device is taken away: a job over rdma ends'
sed 's/^/# /' "$scratch/err"
end_all
back
begin --set cluster.transport=auto --set train.steps=1000 && removed rxe0 &&
  await 60 ended && [ "$(cat "$scratch/code")" = 0 ] &&
  grep -q 'goes over tcp instead of rdma' "$scratch/err"
ok 'with auto it moves to tcp, and says so'
sed 's/^/# /' "$scratch/err" | head -n 20
moved=$(digest)
end_all
run 0 train "$job" --set train.steps=1000 --set train.eval_every=never &&
  [ "$(digest)" = "$moved" ]
ok 'to the same weights'
run 1 train "$job" --set cluster.transport=rdma --set cluster.insecure=true &&
  says 'cluster.transport rdma: there is no RDMA device here; gradweir doctor .* says what to do, "auto"'
ok 'without a device rdma is refused, with why'
back
cases tests/rdma/test_rdma

echo "1..$tests"
