#!/bin/sh
# Copies of shards: servers die, and the job goes on with the copies that others
# have, to the bits of a job in which nobody dies. Prints TAP.
. "${GW_SRCDIR:-..}/tests/run/lib.sh"
make_data
kills=${GW_KILLS:-5}
ck=$scratch/ck
always="--set train.eval_every=never --set log.every=50"
keep="--set checkpoint.dir=$ck --set checkpoint.every=1000"
copies='--set cluster.copies=2 --set cluster.restarts=100'
endless="$always $copies --set train.steps=100000000"

fail() {
  echo "# $1"
  sed 's/^/# /' "$scratch/l.out" "$scratch/l.err"
  return 1
}

# begin ARGUMENTS...: a job that has made steps, in an empty directory.
begin() {
  end_all
  rm -rf "$ck"
  start l train "$job" "$@"
  launched=$started
  await 20 grep -qs '^step [1-9]' "$scratch/l.out"
}

# told COUNT PATTERN: so many lines of the job.
told() { [ "$(grep -c "$2" "$scratch/l.out")" -eq "$1" ] || fail "expected $1 times: $2"; }
# tells COUNT PATTERN: it comes to as many.
tells() { await 20 eval "[ \"\$(grep -sc '$2' '$scratch/l.out')\" -ge $1 ]" || fail "expected $1 times: $2"; }

last_step() { sed -n 's/^step \([0-9]*\)\/.*/\1/p' "$scratch/l.out" | tail -n 1; }

# moves_on STEPS: the job comes that much further than it is.
moves_on() {
  from=$(last_step)
  await 20 eval "[ \"\$(last_step)\" -ge $((${from:-0} + $1)) ]"
}

lost='^server [01] (.*) died at step [0-9]*: .*; its shards\{0,1\} goe\{0,1\}s\{0,1\} on at other servers, and nothing is lost$'
whole='^all 2 shards have two copies again$'

# Nothing but what may befall a slow host, or a cut that a server was writing.
says_little() {
  ! grep -v 'this process was paused\|the checkpoint of step [0-9]* failed, the job goes on: .* died with it$' \
    "$scratch/l.err" | grep -q .
}

listens() { [ "$(ports coordinator)" ]; }
# met: where the members join.
met() { echo "127.0.0.1:$(ports coordinator | head -n 1)"; }

# kill_server N: one is killed for the Nth time, and its place taken; the time to
# the next line of a step is added to $scratch/times.
kill_server() {
  victim=$(pid_of server $((1 + $1 % 2))) && killed=$(now_ms) && kill -9 "$victim" && from=$(last_step) &&
    await 20 eval "[ \"\$(last_step)\" -gt $from ]" && echo $(($(now_ms) - killed)) >>"$scratch/times" &&
    tells "$1" "$whole"
}

# shellcheck disable=SC2086
{
# --- kills under the launcher ---
for way in 'shm --set cluster.transport=shm' 'tcp --set cluster.transport=tcp' \
  'whole --set train.clip=1 --set train.weights=bf16'; do
  how=${way%% *}
  long="$always --set train.steps=$((15000 + 5000 * kills)) ${way#* }"
  rm -f "$scratch/times"
  run 0 train "$job" $long && calm=$(digest) && [ "$calm" ] && begin $long $keep $copies
  i=0
  while [ $i -lt "$kills" ] && moves_on 300 && kill_server $((i + 1)); do
    i=$((i + 1))
  done
  [ $i -eq "$kills" ] && ends 0 && [ "$(digest "$scratch/l.out")" = "$calm" ] &&
    told "$kills" "$whole" && says_little || fail "killed $i"
  ok "$how: $kills servers are killed, the bits are the same"
  echo "# ms from the kill to the next line of a step: $(sort -n "$scratch/times" | tr '\n' ' ')"
  gradweir eval "$ck" >"$scratch/out" 2>&1 &&
    run 0 train "$job" $long $keep --resume --set train.steps=$((15100 + 5000 * kills))
  ok "$how: the newest checkpoint is whole, and --resume goes on from it"
done

# --- others die meanwhile ---
long="$always --set train.steps=20000"
run 0 train "$job" $long && calm=$(digest)
begin $long $copies && kill -9 "$(pid_of server)" "$(pid_of worker)" && ends 0 &&
  [ "$(digest "$scratch/l.out")" = "$calm" ] && tells 1 "$lost" &&
  told 1 '^worker [01] .* takes its place: '
ok 'a worker is killed together with a server: both are replaced'
begin $long $copies && kill -STOP "$(pid_of server)" && ends 0 &&
  [ "$(digest "$scratch/l.out")" = "$calm" ] && told 1 "$lost" && told 1 "$whole"
ok 'a server that is stopped is given up, and another one is started'
left='^server [01] (.*) leaves at step [0-9]*; its shard goes on at other servers, and nothing is lost$'
begin $long $copies && kill -TERM "$(pid_of server)" && tells 1 "$whole" && kill -TERM "$(pid_of server 2)" && ends 0 &&
  [ "$(digest "$scratch/l.out")" = "$calm" ] && told 2 "$left" && told 2 "$whole"
ok 'SIGTERM to one server, and to the other: each leaves, and another one is started'
begin $long $keep $copies && kill -9 "$(pid_of server)" "$(pid_of server 2)" && ends 0 &&
  [ "$(digest "$scratch/l.out")" = "$calm" ] &&
  grep -q '^gradweir: the job begins again from step ' "$scratch/l.err"
ok 'both copies are lost: the job begins again from its checkpoint'
outlived() { await 5 test -e "$ck/.gradweir-members"; }
taken='^this coordinator takes the place of the one before, .* step [0-9]* is made$'
for who in server 'server 2'; do
  begin $long $keep $copies && outlived && kill -9 "$(pid_of coordinator)" "$(pid_of $who)" && ends 0 &&
    [ "$(digest "$scratch/l.out")" = "$calm" ] && told 1 "$taken" && told 1 "$whole"
  ok "the coordinator is killed together with a $who: both are replaced, to the same bits"
done
begin $long $copies --set cluster.restarts=0 && kill -9 "$(pid_of server)" && tells 1 "$lost" && moves_on 300 &&
  kill -9 "$(pid_of server)" && ends 1 && grep -q '^gradweir: server [01] .* died at step ' "$scratch/l.err"
ok 'without another server the next death is the end'

# --- as people see it ---
begin $endless && gradweir status "$(met)" >"$scratch/out" && grep -q '^2 of 2 shards have two copies$' "$scratch/out" &&
  ! grep -q 'shards_degraded' "$scratch/out"
ok 'status tells of the copies'
begin $endless --set cluster.restarts=0 && kill -9 "$(pid_of server)" && tells 1 "$lost" &&
  gradweir status "$(met)" >"$scratch/out" && grep -q '^0 of 2 shards have two copies: degraded$' "$scratch/out" &&
  grep -q '^coordinator: .*, shards_degraded 2$' "$scratch/out"
ok 'and that they are missing'
kill -INT "$launched" && ends 3
ok 'a job with one copy is stopped in order'
# shards_of N: that server has, and does not stand by for.
shards_of() { grep -c "^server $1 .*: shard [0-9]" "$scratch/out"; }
begin $endless && kill -9 "$(pid_of server)" && tells 1 "$whole" && gradweir status "$(met)" >"$scratch/out" &&
  told 1 '^shard [01] moves to server [01] (.*), which has fewer$' && [ "$(shards_of 0) $(shards_of 1)" = '1 1' ] ||
  fail "$(cat "$scratch/out")"
ok 'behind a death each server has a shard again'
gradweir plan "$job" --set cluster.copies=2 >"$scratch/out" && grep -q '^copies of others' "$scratch/out"
ok 'a plan counts their memory'

# --- by hand ---
end_all
start coordinator coordinator "$job" $long --set cluster.copies=2
await 10 listens
for name in server1 server2 worker1 worker2; do
  start "$name" "${name%?}" --join "$(met)" --wait 10
done
cp "$scratch/coordinator.out" "$scratch/l.out"
await 20 grep -q '^step [1-9]' "$scratch/coordinator.out" && kill -9 "$(pid_of server)" &&
  await 20 grep -q "$lost" "$scratch/coordinator.out" && start server3 server --join "$(met)" --wait 10 &&
  await 20 grep -q "$whole" "$scratch/coordinator.out"
ok 'by hand: another server takes the place of one that was killed'
leaver=$(pid_of server) && kill -TERM "$leaver" && await 20 grep -q "$left" "$scratch/coordinator.out" && {
  wait "$leaver"
  code=$?
  [ $code -eq 0 ] || fail "code $code"
} && start server4 server --join "$(met)" --wait 10
ok 'and one that gets SIGTERM ends with 0'
await 40 grep -q '^weights ' "$scratch/coordinator.out" && [ "$(digest "$scratch/coordinator.out")" = "$calm" ] &&
  await 5 nobody_left
ok 'to the same bits'
end_all

start coordinator coordinator "$job" $long $keep --set cluster.copies=2
await 10 listens
place=$(met)
for name in server1 server2 worker1 worker2; do
  start "$name" "${name%?}" --join "$place" --wait 10
done
await 20 grep -q '^step [1-9]' "$scratch/coordinator.out" && outlived && kill -9 "$(pid_of coordinator)" &&
  kill -9 "$(pid_of server)" && sleep 2 &&
  start again coordinator "$job" $long $keep --set cluster.copies=2 --rejoin && began=$(now_ms) &&
  await 20 grep -qs '^step [1-9]' "$scratch/again.out" && took=$(($(now_ms) - began)) &&
  grep -q '^server [01] .* died while the job had no coordinator; what it had is at other servers, and nothing is lost$' "$scratch/again.out" &&
  start server3 server --join "$place" --wait 10 && await 20 grep -q "$whole" "$scratch/again.out"
ok 'by hand: another coordinator and another server take the places of both'
echo "# ms from the start of the coordinator to the next line of a step: ${took-}"
await 60 grep -q '^weights ' "$scratch/again.out" && [ "$(digest "$scratch/again.out")" = "$calm" ] &&
  await 5 nobody_left
ok 'to the same bits, too'
end_all

# supervise NAME ARGUMENTS..: as the manual has it (section 10).
supervise() {
  name=$1
  shift
  {
    while GW_TEST_MARK=$scratch "$program" "$@"; code=$?; [ $code -gt 128 ]; do sleep 0.2; done
    echo $code >"$scratch/$name.code"
  } >>"$scratch/$name.out" 2>>"$scratch/$name.err" &
}
rm -rf "$ck"
long="$always --set train.steps=80000"
run 0 train "$job" $long && calm=$(digest)
supervise head coordinator "$job" $long $keep --set cluster.copies=2 --rejoin
await 10 listens
place=$(met)
for name in server1 server2 worker1 worker2; do
  supervise "$name" "${name%?}" --join "$place" --wait 10
done
head_step() { sed -n 's/^step \([0-9]*\)\/.*/\1/p' "$scratch/head.out" | tail -n 1; }
# comes: it has made more steps, and all has two copies.
comes() {
  from=$(head_step)
  await 20 eval "[ \"0\$(head_step)\" -gt ${from:-0} ]" && await 20 eval 'gradweir status "$place" 2>/dev/null | grep -q "shards have two copies$"'
}
comes && outlived && kill -9 "$(pid_of server)" && comes && kill -9 "$(pid_of coordinator)" "$(pid_of worker)" && comes &&
  kill -9 "$(pid_of coordinator)" "$(pid_of server 2)" && comes &&
  await 60 grep -q '^weights ' "$scratch/head.out" && [ "$(digest "$scratch/head.out")" = "$calm" ] &&
  await 5 nobody_left && grep -qx 0 "$scratch/head.code" && [ "$(cat "$scratch"/server?.code "$scratch"/worker?.code | tr -d '\n')" = 0000 ]
result=$?
[ $result -eq 0 ] || sed 's/^/# /' "$scratch/head.out" "$scratch/head.err"
[ $result -eq 0 ]
ok 'a loop of shell is supervisor enough: five deaths, the same bits, all end with 0'
end_all

# --- wrong ---
run 2 train "$job" --set cluster.copies=3 && says '.*cluster.copies: 3 is out of range 1..2'
ok 'three copies are refused'
run 2 train "$job" --set cluster.copies=2 --set cluster.servers=1 && says 'cluster.copies: 2 needs two server processes.*'
ok 'and two on one server'
run 2 train "$job" --set cluster.copies=2 --set cluster.policy=async && says 'cluster.copies: 2 is for cluster.policy = sync.*'
ok 'and another policy'
}

echo "1..$tests"
