#!/bin/sh
# Whole jobs of real processes: what they print, and that the same job gives the
# same bits however it is run. Prints TAP.
. "${GW_SRCDIR:-..}/tests/run/lib.sh"
make_data

run 0 train "$job" --json "$scratch/json" && first=$(digest) &&
  grep -q '^done *all 40 steps done$' "$scratch/out" &&
  grep -q '^accuracy *[01]\.[0-9]* of the test set' "$scratch/out" &&
  grep -q '^memory *worker [0-9]* MiB, server [0-9]* MiB' "$scratch/out" &&
  grep -q '^step 30/40  epoch 3  loss' "$scratch/out" && [ ! -s "$scratch/err" ]
ok 'train runs a job and prints plain lines'
! grep -q "$(printf '\033')" "$scratch/out"
ok 'a file gets no live line'

# every 10 steps, every epoch of 10 steps, the last step, and the end
[ "$(wc -l <"$scratch/json")" -eq 6 ] &&
  [ "$(sed '$d' "$scratch/json" | sed 's/:[^,}]*//g' | sort -u | wc -l)" -eq 2 ] &&
  sed -n 1p "$scratch/json" | grep -q '^{"step":0,"epoch":0,"wall_s":[0-9.e-]*,"loss":[0-9.]*,"lr":[0-9.e-]*,"samples_per_s":[0-9.e+-]*,"bytes_pushed":[0-9]*,"bytes_pulled":[0-9]*,"staleness":0,"policy":"sync"}$' &&
  sed -n 2p "$scratch/json" | grep -q '^{"step":10,.*,"test_accuracy":[0-9.]*}$' &&
  tail -n 1 "$scratch/json" | grep -q "^{\"final\":true,\"test_loss\":[0-9.]*,\"test_accuracy\":[0-9.]*,\"samples_per_s\":[0-9.]*,\"wall_s\":[0-9.]*,\"weights_sha256\":\"$first\",\"peak_rss_bytes\":{\"coordinator\":[0-9]*,\"server\":[0-9]*,\"worker\":[0-9]*},\"workers\":{\"steps\":[0-9]*,[^}]*},\"servers\":{\"steps\":0,[^}]*}}\$"
ok '--json'
run 0 train "$job" --json "$scratch/json" && [ "$(wc -l <"$scratch/json")" -eq 12 ]
ok '--json appends'

[ "$(digest)" = "$first" ] && [ ${#first} -eq 64 ]
ok 'twice the same job: the same weights'
for servers in 1 3; do
  for commit in streaming whole; do
    run 0 train "$job" --servers $servers --set train.commit=$commit &&
      [ "$(digest)" = "$first" ]
    ok "the same weights with $servers servers and train.commit = $commit"
  done
done
run 0 train "$job" --set server.threads=2 && [ "$(digest)" = "$first" ]
ok 'the same weights with two shards per server'
run 0 train "$job" --set train.seed=4 && [ "$(digest)" != "$first" ]
ok 'other weights with another seed'
run 0 train "$job" --set cluster.connections=3 && [ "$(digest)" = "$first" ]
ok 'the same weights over several connections'
for transport in tcp shm; do
  run 0 train "$job" --set cluster.transport=$transport && [ "$(digest)" = "$first" ] &&
    grep -q "^transport  *$transport (" "$scratch/out" && [ ! -s "$scratch/err" ]
  ok "the same weights over $transport"
done

# --- weights as bf16: other bits, and always the same ones ---
pulled() { sed -n 's/.*"bytes_pulled":\([0-9]*\).*/\1/p' "$1" | sed -n '$p'; }
rm -f "$scratch/whole.json" "$scratch/half.json"
run 0 train "$job" --json "$scratch/whole.json"
run 0 train "$job" --set train.weights=bf16 --json "$scratch/half.json" &&
  half=$(digest) && [ "$half" != "$first" ] &&
  [ "$(pulled "$scratch/half.json")" -lt $(($(pulled "$scratch/whole.json") * 6 / 10)) ]
ok 'half the bytes come back with train.weights = bf16'
for setting in cluster.transport=tcp cluster.transport=shm cluster.servers=3 \
  train.commit=whole server.threads=2 cluster.local_reduction=on; do
  run 0 train "$job" --set train.weights=bf16 --set $setting &&
    [ "$(digest)" = "$half" ] && [ ! -s "$scratch/err" ]
  ok "the same weights as bf16 with $setting"
done

# --- by hand ---
at() { sed -n 's/^members join at \([^:]*:[0-9]*\): .*/\1/p' "$scratch/$1.out" 2>/dev/null; }
listens() { [ "$(at "$1")" ]; }
# by_hand MEMBER...: a coordinator and these, in this order.
by_hand() {
  start c coordinator "$job" --set log.level=warn
  coordinator=$started
  await 10 listens c || return 1
  members=
  for member in "$@"; do
    # a member may be a command with options
    # shellcheck disable=SC2086
    start m$# $member --join "$(at c)"
    members="$members $started"
  done
  wait $coordinator || { sed 's/^/# /' "$scratch/c.err"; return 1; }
  for member in $members; do wait "$member" || return 1; done
  [ "$(digest "$scratch/c.out")" = "$first" ]
}
by_hand server server worker worker
ok 'by hand: servers first'
start c coordinator "$job"
coordinator=$started
await 10 listens c
for role in server worker; do
  start "$role" $role --join "$(at c)"
  await 10 grep -q " info $role 0 (.*, pid $started) has joined: " "$scratch/c.err" &&
    grep -q " $role .*info has joined $(at c), and waits for others$" "$scratch/$role.err"
  ok "by hand: a $role that waits says so, and the coordinator who is here"
done
grep -q ' has joined: 1 of 2 workers and 1 of 2 servers are here$' "$scratch/c.err"
ok 'by hand: how many are here'
kill -INT $coordinator
wait $coordinator
await 3 nobody_left
ok 'by hand: all leave who waited'
by_hand worker server 'worker --device cpu' 'server --set server.threads=2'
ok 'by hand: in turns, with settings of their own'
by_hand 'worker --rank 1' 'worker --rank 0' server 'server --port 20000-40000'
ok 'by hand: ranks and ports are chosen'
start c coordinator "$job" --set log.level=warn --listen '[::1]:0'
coordinator=$started
await 10 eval '[ "$(sed -n "s/^members join at .*--join //p" "$scratch/c.out")" ]'
address=$(sed -n 's/^members join at .*--join //p' "$scratch/c.out")
for role in server server worker worker; do start m $role --join "$address"; done
wait $coordinator && [ "$(digest "$scratch/c.out")" = "$first" ]
ok 'by hand: over IPv6'
# members wait for a coordinator that comes later; the port is one that was free
port=${address##*:}
start s server --join "127.0.0.1:$port"
start s server --join "127.0.0.1:$port"
MASTER_ADDR=127.0.0.1 MASTER_PORT=$port RANK=1 start w worker
MASTER_ADDR=127.0.0.1 MASTER_PORT=$port RANK=0 start w worker
MASTER_PORT=$port WORLD_SIZE=2 start c coordinator "$job"
wait $started && [ "$(digest "$scratch/c.out")" = "$first" ]
ok 'members first, by MASTER_ADDR, MASTER_PORT, RANK, WORLD_SIZE'
start c coordinator "$job"
coordinator=$started
await 10 eval '[ "$(sed -n "s/^members join at .*--join //p" "$scratch/c.out")" ]'
address=$(sed -n 's/^members join at .*--join //p' "$scratch/c.out")
export WORLD_SIZE=3 RANK=0
run 2 worker --join "$address" && says 'WORLD_SIZE is 3, but the job has 2 workers (cluster.workers); start as many, or unset WORLD_SIZE'
ok 'a worker that is started as one of another number of them'
unset WORLD_SIZE RANK
OMPI_COMM_WORLD_SIZE=1 start w worker --join "$address"
await 10 grep -q 'warn OMPI_COMM_WORLD_SIZE is 1, but the job waits for 2 workers' "$scratch/w.err"
ok 'a worker of an mpirun of too few'
kill "$coordinator"
await 10 nobody_left
if [ -w /dev/full ]; then
  run 1 train "$job" --json /dev/full && [ "$(digest)" = "$first" ] &&
    grep -q 'warn --json: /dev/full cannot be written: No space left on device' "$scratch/err" &&
    grep -q '^gradweir: the job is done, but not all of it is in --json /dev/full$' "$scratch/err"
  ok 'a record that cannot be written fails a job that is done'
else
  skip 'a record that cannot be written' '/dev/full is not there'
fi
await 5 nobody_left
ok 'nobody is left'

# --- one of each ---
one="--workers 1 --servers 1"
# shellcheck disable=SC2086
run 0 train "$job" $one --set train.steps=1 --set train.batch=1 --set log.dir="$scratch/one" &&
  grep -q '^cluster *1 worker, 1 server$' "$scratch/out" &&
  grep -q '^done *all 1 step done$' "$scratch/out" &&
  grep -q 'all are here: 1 worker, 1 server, 1 shard$' "$scratch"/one/coordinator-*
ok 'one is not many'
# shellcheck disable=SC2086
run 0 train "$job" $one --dry-run --set train.batch=1 &&
  grep -q '^processes *1 coordinator, 1 server, 1 worker, and a launcher$' "$scratch/out" &&
  ! grep -E '(^|[^0-9])1 [a-z]+s( |,|;|$)' "$scratch/out"
ok 'nor where nothing runs'

# --- status ---
start c coordinator "$job"
coordinator=$started
await 10 listens c && run 0 status "$(at c)" &&
  grep -q '^job [0-9a-f]*: gathering, 0 of 2 workers and 0 of 2 servers are here$' "$scratch/out" &&
  run 0 status "$(at c)" --job && grep -q '^    seed = 3;$' "$scratch/out"
ok 'status'
kill -INT $coordinator
wait $coordinator
[ $? -eq 3 ] && grep -q '^gradweir: stopped before the first step' "$scratch/c.err" &&
  grep -q '^memory *coordinator [0-9]* MiB$' "$scratch/c.out"
ok 'a coordinator that nobody joined is stopped'

# --- counters, and a second signal to the coordinator ---
long="--set train.steps=200000 --set train.eval_every=never --set log.every=50"
# shellcheck disable=SC2086
start c coordinator "$job" $long --set checkpoint.dir="$scratch/ck" \
  --set checkpoint.every=never --set cluster.step_deadline=1 --set cluster.silence=5
coordinator=$started
await 10 listens c
members=
for role in server server worker worker; do
  start "m$role" $role --join "$(at c)"
  members="$members $started"
done
counted() {
  run 0 status "$(at c)" &&
    grep -q '^coordinator: .*frames_in [1-9].* heartbeats ' "$scratch/out" &&
    grep -q '^server 1 .* frames_in [1-9].* heartbeats ' "$scratch/out" &&
    grep -q '^worker 1 .* frames_out [1-9].* compute_us ' "$scratch/out"
}
await 20 counted
ok 'status shows what was counted'
# a step that cannot end: the first signal waits for it, the second does not;
# both come long before the silence would tell
stopped=$(pid_of worker)
kill -STOP "$stopped"
kill -INT $coordinator
sleep 0.5
kill -INT $coordinator
began=$(date +%s)
wait $coordinator
[ $? -eq 3 ] && [ $(($(date +%s) - began)) -le 2 ] &&
  grep -q '^gradweir: stopped at step [0-9]* at once' "$scratch/c.err"
ok 'a second signal does not wait'
kill -CONT "$stopped"
codes=
for member in $members; do
  wait "$member"
  codes="$codes $?"
done
echo "# exit codes of the members:$codes"
[ "$codes" = ' 3 3 3 3' ] && await 3 nobody_left
ok 'and every member is told'

start c coordinator "$job" --set train.steps=4000000 --set train.eval_every=never
coordinator=$started
await 10 listens c
for role in 'worker --rank 1' server 'worker --rank 0' server; do
  # shellcheck disable=SC2086
  start m $role --join "$(at c)"
done
await 10 grep -q '^step [0-9]*00/' "$scratch/c.out" && run 0 status "$(at c)" &&
  [ "$(sed 's/ (.*//' "$scratch/out" | sed 1,2d | tr '\n' ,)" = 'server 0,server 1,worker 0,worker 1,' ] &&
  [ "$(sed -n 's/^job [0-9a-f]*: running, step \([0-9]*\) of 4000000, policy sync$/\1/p' "$scratch/out")" -ge 100 ] &&
  [ "$(grep -c '^worker .*: heard 0.[0-9] s ago, steps [0-9]*, samples' "$scratch/out")" -eq 2 ]
ok 'status of a job that runs, in order'
kill -TERM $coordinator
wait $coordinator
[ $? -eq 3 ] && await 3 nobody_left
ok 'SIGTERM to a coordinator by hand ends them all'

# --- stopping and going on ---
began() { grep -q '^step ' "$scratch/$1.out" 2>/dev/null; }
stop_and_resume() {
  signal=$1
  shift
  rm -rf "$scratch/ck"
  # $long is many words
  # shellcheck disable=SC2086
  start l train "$job" $long --set checkpoint.dir="$scratch/ck" \
    --set checkpoint.every=never
  launcher=$started
  await 10 began l
  sleep "0.$(awk 'BEGIN { srand(); printf "%03d", rand() * 1000 }')"
  "$@" "$signal"
  await 10 nobody_left || end_all
  wait $launcher
  [ $? -eq 3 ] || { sed 's/^/# /' "$scratch/l.err"; return 1; }
  step=$(sed -n 's/^gradweir: stopped at step \([0-9]*\); --resume goes on from there$/\1/p' "$scratch/l.err")
  echo "# stopped at step $step"
  [ "$step" ] && await 3 nobody_left || return 1
  end=$((step + 20))
  run 0 train "$job" --set train.steps=$end --set train.eval_every=never \
    --set checkpoint.dir="$scratch/ck" --resume --servers 3 || return 1
  resumed=$(digest)
  run 0 train "$job" --set train.steps=$end --set train.eval_every=never \
    --set log.every=10000 && [ "$(digest)" = "$resumed" ]
}
to_launcher() { kill "-$1" "$launcher"; }
to_worker() { kill "-$1" "$(pid_of worker)"; }
to_server() { kill "-$1" "$(pid_of server)"; }
to_all() { kill "-$1" $(left); }
stop_and_resume TERM to_launcher
ok 'SIGTERM to the launcher, and the same weights with --resume'
stop_and_resume INT to_all
ok 'SIGINT to all, and the same weights with --resume'
stop_and_resume TERM to_worker
ok 'SIGTERM to a worker, and the same weights with --resume'
stop_and_resume TERM to_server
ok 'SIGTERM to a server, and the same weights with --resume'

# shellcheck disable=SC2086
start l train "$job" $long
launcher=$started
await 10 began l && kill -INT $launcher && sleep 0.5 && kill -INT $launcher 2>/dev/null
wait $launcher
[ $? -eq 3 ] && await 3 nobody_left
ok 'two signals'

# --- a pause of all ---
# shellcheck disable=SC2086
start l train "$job" $long
launcher=$started
await 10 began l && kill -STOP $(left) && sleep 3 && kill -CONT $(left) &&
  before=$(wc -l <"$scratch/l.out") && sleep 1 &&
  [ "$(wc -l <"$scratch/l.out")" -gt "$before" ] && kill -TERM $launcher
wait $launcher
[ $? -eq 3 ] && grep -q 'stopped at step' "$scratch/l.err"
ok 'a pause of all members is forgiven'

# --- logs, dry run ---
run 0 train "$job" --set log.dir="$scratch/logs" \
  --set checkpoint.dir="$scratch/logged" && [ "$(digest)" = "$first" ] &&
  grep -q ' coordinator info the checkpoint of step 40 is complete$' "$scratch"/logs/coordinator-*.log &&
  [ "$(ls "$scratch/logs" | sed 's/-.*//' | sort | uniq -c | tr -d ' \n')" = 1coordinator2server2worker ] &&
  grep -q ' worker [01] info device cpu: ' "$scratch"/logs/worker-*.log
ok 'log.dir gets a file per process'
OPENBLAS_CORETYPE=Haswell run 0 train "$job" &&
  says 'OPENBLAS_CORETYPE=Haswell is inherited'
ok 'OPENBLAS_CORETYPE is warned of'
run 0 train "$job" --dry-run && grep -q '^data.train  200 samples of 1x8x8' "$scratch/out" &&
  grep -q '^steps *40 in all, 10 per epoch' "$scratch/out"
ok '--dry-run'
await 3 nobody_left
ok 'nobody is left'

echo "1..$tests"
