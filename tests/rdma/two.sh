#!/bin/sh
# A job across two machines on one wire, run in both of them (GW_GUEST is 1 or
# 2): the coordinator, a server and a worker in the first, a server and a worker
# in the second. Prints TAP in the first.
GW_TEST_SECONDS=600 # processors are emulated
. "${GW_SRCDIR:-..}/tests/run/lib.sh"
. "${GW_SRCDIR:-..}/tests/rdma/timely.sh"
mine=10.77.0.$GW_GUEST
shared=/run/out
port=7117

# said WORD: a file that the other machine waits for.
say() { : >"$shared/$1"; }
said() { [ -e "$shared/$1" ]; }

# join NAME: a server and a worker of this machine, to their end. Exit codes in
# $scratch/NAME.server and .worker.
join() {
  for role in server worker; do
    {
      gradweir $role --join 10.77.0.1:$port --wait 30 \
        --set cluster.interface="$mine" >>"$scratch/$1.out" 2>>"$scratch/$1.err"
      echo $? >"$scratch/$1.$role"
    } &
  done
}
has_left() { [ -s "$scratch/$1.server" ] && [ -s "$scratch/$1.worker" ]; }

if [ "$GW_GUEST" -eq 2 ]; then
  for round in tcp rdma cut; do
    await 90 said "begin.$round" || exit 1
    join $round
    if [ $round = cut ]; then
      await 60 said cut || exit 1
      ip link set "$GW_LINK" down
      say down
    fi
    await 60 has_left $round || exit 1
    [ $round = cut ] || say "end.$round"
  done
  sed 's/^/# guest 2: /' "$scratch/cut.err" >"$shared/cut.err"
  say end.cut
  exit 0
fi

make_data
make_pictures "$shared/data" 28 # the other machine's worker reads it, too
sed -i "s|$scratch/data|$shared/data|g; s/(64, 32, 10)/(784, 64, 10)/" "$job"
# begin ROUND KEYS..: the whole job; its output in $scratch/ROUND.job
begin() {
  round=$1
  shift
  {
    gradweir coordinator "$job" --set cluster.insecure=true \
      --set cluster.port=$port --set cluster.interface="$mine" "$@" \
      >"$scratch/$round.job" 2>"$scratch/$round.said"
    echo $? >"$scratch/$round.code"
  } &
  await 10 listens && say "begin.$round" && join "$round"
}
listens() { [ "$(ports coordinator)" ]; }
is_over() { [ -s "$scratch/$1.code" ]; }
train_over() {
  begin "$1" --set cluster.transport="$1" --set train.steps=20 &&
    await 60 is_over "$1" && await 30 said "end.$1" && await 10 has_left "$1" &&
    [ "$(cat "$scratch/$1.code")" = 0 ] && [ "$(digest "$scratch/$1.job")" ]
}

train_over tcp
ok 'an mlp 784-64-10, 20 steps across two machines over tcp'
train_over rdma && [ "$(digest "$scratch/rdma.job")" = "$(digest "$scratch/tcp.job")" ]
ok 'the same weights over rdma'
for round in tcp rdma; do
  [ -s "$scratch/$round.code" ] && [ "$(cat "$scratch/$round.code")" = 0 ] ||
    sed 's/^/# /' "$scratch/$round.job" "$scratch/$round.said" "$scratch/$round.err"
done

# --- the link goes down: the default silence of two hosts, 5 s, is too long for 2 s ---
begin cut --set cluster.transport=rdma --set train.steps=100000000 --set cluster.silence=1 \
  --set cluster.patience=0 --set train.eval_every=never --set log.every=10 &&
  await 30 grep -q '^step [0-9]*0/' "$scratch/cut.job" && say cut &&
  await 30 said down && since=$(now_ms) &&
  looks grep -q 'gradweir: .*\(server\|worker\) .*\(died\|silent\)' "$scratch/cut.said" &&
  timely 2
ok 'the link goes down: who is gone is named within 2 s'
sed 's/^/# /' "$scratch/cut.said"
await 10 is_over cut && [ "$(cat "$scratch/cut.code")" = 1 ]
ok 'and the job ends'
await 10 has_left cut
ok 'and every process ends'
await 60 said end.cut
ok 'in both machines'
cat "$shared/cut.err" 2>/dev/null

echo "1..$tests"
