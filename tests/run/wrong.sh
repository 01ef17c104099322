#!/bin/sh
# Wrong inputs: each one clear line, its exit code, and nothing left behind.
# Prints TAP.
. "${GW_SRCDIR:-..}/tests/run/lib.sh"
make_data
data=$scratch/data

# refuses CODE LINE ARGUMENTS...: and nobody is left.
refuses() {
  code=$1 line=$2
  shift 2
  run "$code" "$@" && says "$line" && await 3 nobody_left
}

# --- the job ---
refuses 2 '--set: train.bach: no such key' train "$job" --set train.bach=1
ok 'unknown key'
refuses 2 '--set: optimizer.momentum: ' train "$job" --set optimizer.momentum=2
ok 'value out of range'
refuses 2 "$scratch/none: cannot be opened" train "$scratch/none"
ok 'no such job'
refuses 2 'train: takes one job file' train
ok 'no job'
refuses 2 'train: cannot take --workes' train "$job" --workes 2
ok 'unknown option'
refuses 2 '--workers: takes a whole number, 1..4096, not "two"' train "$job" --workers two
ok 'no number'
refuses 2 '--set: cluster.policy: "asnyc" is no policy, the nearest is async; there are sync, backup:B' train "$job" --set cluster.policy=asnyc
ok 'a policy misspelt'
refuses 2 '--set: cluster.policy: phase 1: "sync" needs "until STEP", since another phase follows' train "$job" --set 'cluster.policy=sync, local:16'
ok 'a plan of policies that never switches'
refuses 2 'cluster.policy: async applies each push by itself, but with train.clip the norm' train "$job" --set cluster.policy=async --set train.clip=1
ok 'a policy that does not go with another key'
refuses 2 '--resume: checkpoint.dir is empty' train "$job" --resume
ok '--resume without checkpoint.dir'

# --- data and model ---
for how in '' --dry-run; do
  # shellcheck disable=SC2086
  refuses 1 ".*$data/none.*No such file" train "$job" $how --set "data.train=$data/none,$data/labels"
  ok "missing data $how"
  head -c 5000 "$data/images" >"$data/short"
  # shellcheck disable=SC2086
  refuses 1 ".*$data/short" train "$job" $how --set "data.train=$data/short,$data/labels"
  ok "truncated data $how"
  { printf '\000\000\010\001\000\000\000\144' && head -c 108 "$data/labels" | tail -c 100; } >"$data/fewer"
  # shellcheck disable=SC2086
  refuses 1 ".*$data/fewer: holds 100 labels for the 200 images" train "$job" $how --set "data.train=$data/images,$data/fewer"
  ok "labels that do not match $how"
  # shellcheck disable=SC2086
  refuses 2 '.*model.layers\[0\] "65"' train "$job" $how --set model.layers=65,10
  ok "a model that does not fit the data $how"
  # shellcheck disable=SC2086
  refuses 2 ".*$data/labels: sample 9 has label 9, and model.layers ends in 9 outputs, for labels 0 to 8" train "$job" $how --set model.layers=64,32,9
  ok "a model with too few classes $how"
  tr '\011' '\010' <"$data/labels" >"$data/upto8"
  # shellcheck disable=SC2086
  refuses 2 ".*$data/labels: sample 9 has label 9, and the training set has labels 0 to 8, .*; end model.layers in \"dense 10\"" train "$job" $how --set model.kind=cnn --set 'model.layers=conv 4 3' --set "data.train=$data/images,$data/upto8"
  ok "a test set with more classes than the model got $how"
  { printf '\000\000\010\003\000\000\000\144\000\000\000\010\000\000\000\020' && tail -c 12800 "$data/images"; } >"$data/wide"
  # shellcheck disable=SC2086
  refuses 1 '.*data.test is 1x8x16, data.train is 1x8x8' train "$job" $how --set "data.test=$data/wide,$data/fewer"
  ok "a test set of another shape $how"
  # shellcheck disable=SC2086
  refuses 1 ".*$data/labels: holds labels where images are expected" train "$job" $how --set "data.train=$data/labels,$data/images"
  ok "images and labels the wrong way round $how"
  # shellcheck disable=SC2086
  refuses 1 ".*$data/images: does not begin as an npy file" train "$job" $how --set data.format=npy
  ok "another format $how"
done

# --- files: what train refuses when it starts, --dry-run refuses before ---
run 0 train "$job" --set checkpoint.dir="$scratch/ck"
for how in '' --dry-run; do
  for key in checkpoint.dir log.dir; do
    # shellcheck disable=SC2086
    refuses 1 ".*$key.*/dev/null/x.*: Not a directory" train "$job" $how --set $key=/dev/null/x
    ok "$key where no directory can be $how"
  done
  # shellcheck disable=SC2086
  refuses 1 '--json: /dev/null/x cannot be opened: Not a directory' train "$job" $how --json /dev/null/x
  ok "--json where no file can be $how"
  # shellcheck disable=SC2086
  refuses 1 "--json: $data cannot be opened: Is a directory" train "$job" $how --json "$data"
  ok "--json where a directory is $how"
  # shellcheck disable=SC2086
  refuses 1 "--json: $scratch/none/x cannot be opened: No such file or directory" train "$job" $how --json "$scratch/none/x"
  ok "--json in a directory that is not there $how"
  # shellcheck disable=SC2086
  refuses 1 "checkpoint.dir $scratch/ck holds a checkpoint of step 40 already; go on from it with --resume" train "$job" $how --set checkpoint.dir="$scratch/ck"
  ok "a checkpoint directory that is not to be resumed $how"
  # shellcheck disable=SC2086
  refuses 1 ".*the checkpoint of step 40 in $scratch/ck is of another model" train "$job" $how --resume --set checkpoint.dir="$scratch/ck" --set model.layers=64,16,10
  ok "a checkpoint of another model $how"
  # shellcheck disable=SC2086
  refuses 1 ".*optimizer.kind = \"momentum\", the job says \"adam\"" train "$job" $how --resume --set checkpoint.dir="$scratch/ck" --set optimizer.kind=adam
  ok "a checkpoint of another optimizer $how"
  # shellcheck disable=SC2086
  refuses 2 '\(--set: \)\?cluster.interface "none0" is neither the name nor an address' train "$job" $how --set cluster.interface=none0
  ok "no such interface $how"
  # shellcheck disable=SC2086
  refuses 2 'cluster.transport: "sim" is for simulated jobs' train "$job" $how --set cluster.transport=sim
  ok "a transport that is none between processes $how"
  mkdir -p "$scratch/empty"
  # shellcheck disable=SC2086
  refuses 1 "there is no checkpoint to resume from in $scratch/empty" train "$job" $how --resume --set checkpoint.dir="$scratch/empty"
  ok "--resume without a checkpoint $how"
done
own=$(ip -o addr show up scope global 2>/dev/null | awk '{ sub("/.*", "", $4); print $4; exit }')
for how in '' --dry-run; do
  # shellcheck disable=SC2086
  [ -z "$own" ] || refuses 2 '.* is not loopback, and links are not authenticated' train "$job" $how --set cluster.interface="$own"
  ok "leaving loopback${own:+ at $own} $how"
done
before=$(ls -AR "$scratch/ck" "$scratch/empty")
run 0 train "$job" --dry-run --json "$scratch/json" --set log.dir="$scratch/logs" --set checkpoint.dir="$scratch/a/b" &&
  run 0 train "$job" --dry-run --resume --set checkpoint.dir="$scratch/ck" &&
  grep -q '^going on from the checkpoint of step 40$' "$scratch/out" &&
  [ ! -e "$scratch/json" ] && [ ! -e "$scratch/logs" ] && [ ! -e "$scratch/a" ] &&
  [ "$(ls -AR "$scratch/ck" "$scratch/empty")" = "$before" ]
ok '--dry-run makes nothing'
mkdir -p "$scratch/torn/step-00000000" && echo x >"$scratch/torn/step-00000000/shard-0.tmp" &&
  run 0 train "$job" --resume --set checkpoint.dir="$scratch/torn" &&
  grep -q "^no checkpoint in $scratch/torn was finished, so the job begins anew" "$scratch/out"
ok '--resume of a job that died within its first checkpoint'
[ -z "$(ls -A "$scratch/empty")" ]
ok 'nothing is left in its directory'

# --- addresses ---
refuses 2 'worker: --join HOST:PORT is missing' worker
ok 'no coordinator'
refuses 1 'no coordinator at 127.0.0.1:1 within 1 s' worker --join 127.0.0.1:1 --wait 1
ok 'unreachable coordinator: worker'
refuses 1 'no coordinator at 127.0.0.1:1 within 1 s' server --join 127.0.0.1:1 --wait 1
ok 'unreachable coordinator: server'
refuses 1 'no coordinator at 127.0.0.1:1 within 3 s' status 127.0.0.1:1
ok 'unreachable coordinator: status'
refuses 1 'no coordinator at not a host:1 within 1 s: .*; is it running' worker --join 'not a host:1' --wait 1
ok 'a name that is none'
for address in nonsense 127.0.0.1 127.0.0.1: :7000 127.0.0.1:0 127.0.0.1:65536 host:http ::1:7000; do
  refuses 2 "--join: \"$address\" is no address: expected HOST:PORT" worker --join "$address"
  ok "no address: $address"
done
MASTER_ADDR=127.0.0.1 MASTER_PORT=none refuses 2 'MASTER_ADDR, MASTER_PORT: "127.0.0.1:none" is no address' server
ok 'no address in the environment'
refuses 2 'status: "nonsense" is no address' status nonsense
ok 'no address: status'
refuses 2 '--listen: "nonsense" is no address' coordinator "$job" --listen nonsense
ok 'no address: --listen'
refuses 2 '--set: train.seed: is the job.s, not this host.s' worker --join 127.0.0.1:1 --set train.seed=1
ok 'a key that is not of this host'
refuses 2 '0.0.0.0:0 is not loopback, and links are not authenticated' coordinator "$job" --listen 0.0.0.0:0
ok 'leaving loopback'
refuses 2 '--set: cluster.interface "none0" is neither the name nor an address' coordinator "$job" --set cluster.interface=none0 &&
  refuses 2 '--set: cluster.interface "none0" is neither' coordinator "$job" --set Cluster.Interface=none0
ok 'no such interface'
sed 's/^cluster = {/& interface = "none0";/' "$job" >"$scratch/none0.job"
refuses 2 "$scratch/none0.job: cluster.interface \"none0\" is neither" coordinator "$scratch/none0.job" --set train.seed=1
ok 'no such interface in the job file'
refuses 2 '--set: cluster.control_interface: takes one, 2 are given' coordinator "$job" --set cluster.control_interface=lo,eth0
ok 'one interface to the coordinator'

# --- members and ports of one job ---
# eight steps of which each lasts until all are there
start c coordinator "$job"
coordinator=$started
listens() { grep -q '^members join at' "$scratch/$1.out" 2>/dev/null; }
await 10 listens c
address=$(sed -n 's/^members join at .*--join //p' "$scratch/c.out")
run 1 coordinator "$job" --listen "$address" && says "cannot listen on $address: the port is in use"
ok 'port in use: coordinator'
run 1 server --join "$address" --port "${address##*:}" && says "cannot listen on $address: the port is in use"
ok 'port in use: server'
run 2 server --join "$address" --port 20000-20001 --set server.threads=3 &&
  says '--port: 2 ports are too few for the 3 threads of this server, give a range such as 20000-20002'
ok 'too few ports'
run 2 server --join "$address" --listen 0.0.0.0 && says '0.0.0.0:0 is not loopback'
ok 'leaving loopback: server'
start w0 worker --join "$address" --rank 0
first=$started
joined() { run 0 status "$address" && [ "$(grep -c "^$1" "$scratch/out")" -eq "$2" ]; }
await 10 joined worker 1
run 1 worker --join "$address" --rank 0 && says 'rank 0 is taken by a worker on '
ok 'two workers with one rank'
run 1 worker --join "$address" --rank 7 && says 'rank 7 is out of range: the job has ranks 0..1'
ok 'a rank that is out of range'
start w1 worker --join "$address"
second=$started
await 10 joined worker 2
run 1 worker --join "$address" && says 'the job has its 2 workers (cluster.workers)'
ok 'a worker too many'
# who means the coordinator finds a server that waits for the others
start s0 server --join "$address"
await 10 joined server 1
port=$(ports server)
for role in worker server status; do
  join=--join
  [ $role != status ] || join=
  # shellcheck disable=SC2086
  run 1 $role $join "127.0.0.1:$port" &&
    says "127.0.0.1:$port turns us away: a server of a job listens here; join its coordinator, at $address"
  ok "a server's port instead of the coordinator's: $role"
done
start s1 server --join "$address"
wait $coordinator && wait $first && wait $second
ok 'the job itself is not touched by any of this'

# --- one worker with other data ---
servers=0
start c coordinator "$job"
coordinator=$started
await 10 listens c
address=$(sed -n 's/^members join at .*--join //p' "$scratch/c.out")
cp "$data/images" "$data/other" && printf x | dd of="$data/other" bs=1 seek=99 conv=notrunc 2>/dev/null
for role in server server "worker --rank 0" "worker --rank 1 --set data.train=$data/other,$data/labels"; do
  # shellcheck disable=SC2086
  start m $role --join "$address"
  # one that comes after the end waits for a coordinator that may come
  [ "$role" != server ] || servers=$((servers + 1))
  [ "$role" != server ] || await 10 joined server $servers
done
wait $coordinator
[ $? -eq 1 ] && grep -q '^gradweir: worker [01] on .* has other training data than the others' "$scratch/c.err" &&
  await 3 nobody_left
ok 'a worker with other data'

echo "1..$tests"
