#!/bin/sh
# gradweir ctl and real jobs: what it makes of them, who may use it, where its
# sockets are and how they go. Prints TAP.
. "${GW_SRCDIR:-..}/tests/run/lib.sh"
make_data
sockets=$GRADWEIR_SOCKET_DIR
long="--set train.steps=4000000 --set train.eval_every=never --set log.every=1000
--set checkpoint.every=never"

# job NAME ARGUMENTS...: one that goes on until it is told not to; its pid is
# then in $started.
job_of() {
  name=$1
  shift
  # words
  # shellcheck disable=SC2086
  start "$name" train "$job" $long "$@"
  await 20 runs "$started"
}

# runs PID: all of that job are there, and it has begun.
runs() {
  gradweir ctl --job "$1" status 2>/dev/null | grep -q '^job .*: running, step'
}

# leaves CODE PID: the process ends with that code, in time.
leaves() {
  await 10 eval "! kill -0 $2 2>/dev/null" || return 1
  wait "$2"
  [ $? -eq "$1" ]
}

# prints PATTERN: standard output is one line, and matches.
prints() {
  [ "$(wc -l <"$scratch/out")" -eq 1 ] && grep -q "^$1" "$scratch/out" && return 0
  echo "# expected one line: $1"
  sed 's/^/# /' "$scratch/out"
  return 1
}

# in_time COMMAND...: within 3 s and a little for a slow machine.
in_time() {
  began=$(now_ms)
  "$@" || return 1
  took=$(($(now_ms) - began))
  [ $took -lt 4500 ] && return 0
  echo "# $* took $took ms"
  return 1
}

mode() { stat -c %a "$1" 2>/dev/null; }

# --- no job ---
failed=
for command in status stop checkpoint 'policy async'; do
  # words
  # shellcheck disable=SC2086
  run 1 ctl $command && says 'ctl: no job of this user runs on this host$' || failed=1
done
[ -z "$failed" ]
ok 'no job runs'
run 0 status && prints 'no job of this user runs on this host$' &&
  run 2 status --job && says 'status: takes one HOST:PORT, '
ok 'status without an address where no job runs'
run 1 ctl --job 77 stop && says 'ctl: no job 77 of this user runs on this host$' &&
  run 1 ctl --socket "$scratch/none" stop &&
  says "no coordinator at unix:$scratch/none: No such file or directory"
ok 'no such job'

# --- what is no command ---
run 2 ctl && says 'ctl: takes one of policy WORD, checkpoint, stop and status ' &&
  run 2 ctl polcy async && run 2 ctl policy && run 2 ctl stop now &&
  run 2 ctl status --job 0 && says '--job: takes a whole number, ' &&
  run 2 ctl --job 1 --socket x stop && says 'ctl: --job and --socket '
ok 'what is no command'
run 2 ctl policy spp:4 && says 'ctl: policy: "spp:4" is no policy, the nearest is ssp:S' &&
  run 2 ctl policy 'sync until 5, async' && says 'ctl: policy: '
ok 'what is no policy is told before any job is asked'
path=$scratch/$(yes p | head -n 120 | tr -d '\n')
run 1 ctl --socket "$path" stop && says '.* too long'
ok 'a path that is too long for a socket'

# --- a job ---
job_of one --set checkpoint.dir="$scratch/ck"
ok 'a job begins'
one=$started
[ "$(mode "$sockets")" = 700 ] && [ "$(mode "$sockets/$one.sock")" = 600 ] &&
  [ -S "$sockets/$one.sock" ]
ok 'its socket is for its user alone'
run 0 ctl status && grep -q '^job .*: running, step [0-9]* of 4000000, policy [a-z0-9:-]*$' "$scratch/out" &&
  grep -q '^worker 1 ' "$scratch/out" && run 0 ctl --job "$one" status &&
  run 0 ctl --socket "$sockets/$one.sock" status
ok 'its status'
await 10 eval 'ls "$scratch"/ck/step-*/manifest.json' >/dev/null
before=$(ls "$scratch/ck" | tail -n 1)
run 0 ctl checkpoint && prints "making a checkpoint: in $scratch/ck, of the next step" &&
  await 10 eval '[ "$(ls "$scratch/ck" | tail -n 1)" != "$before" ] &&
    [ -e "$scratch/ck/$(ls "$scratch/ck" | tail -n 1)/manifest.json" ]'
ok 'a checkpoint'
run 0 ctl policy ' ssp:4 ' && prints 'switching to ssp:4: it holds from the next step where all workers have one clock'
ok 'a policy'
await 10 grep -qs '^step [0-9]*: the policy is ssp:4 from here on$' "$scratch/one.out" &&
  run 0 ctl status && grep -q '^job .*, policy ssp:4$' "$scratch/out" &&
  grep -q '^  staleness ' "$scratch/out"
ok 'comes to hold'
run 0 ctl policy ssp:4 && prints 'the policy is ssp:4 already'
ok 'a policy that holds'
job_of quiet --set log.every=100000000
quiet=$started
run 0 ctl --job "$quiet" policy local:4 &&
  await 10 eval "gradweir ctl --job $quiet status | grep -q '^job .*, policy local:4$'" &&
  run 0 ctl --job "$quiet" policy local:4 && prints 'the policy is local:4 already' &&
  ! grep -q 'from here on' "$scratch/quiet.out" &&
  run 0 ctl --job "$quiet" stop && leaves 3 "$quiet"
ok 'a policy that holds, long before a step is logged'
run 0 ctl policy backup:1 && await 10 grep -qs ': the policy is backup:1 from here on$' "$scratch/one.out" &&
  run 0 ctl policy sync && await 10 grep -qs ': the policy is sync from here on$' "$scratch/one.out"
ok 'one after the other'
run 1 ctl policy backup:2 && says 'cluster.policy: backup:2 leaves none of 2 workers' &&
  runs "$one"
ok 'a policy that the job forbids'

# --- the model in parts: what only diloco does holds up no other policy ---
job_of parts --set cluster.policy=diloco:6 --set policy.fragments=2 --set policy.overlap=2 --set checkpoint.every=50
parts=$started
run 0 ctl --job "$parts" policy async && await 10 grep -qs ': the policy is async from here on$' "$scratch/parts.out" &&
  run 0 ctl --job "$parts" policy diloco:9 && await 10 grep -qs ': the policy is diloco:9 from here on$' "$scratch/parts.out" &&
  run 1 ctl --job "$parts" policy diloco:2 && says 'policy.overlap: 2 steps are too many for diloco:2' &&
  run 0 ctl --job "$parts" stop && leaves 3 "$parts" && [ "$(wc -l <"$scratch/parts.err")" -eq 1 ]
ok 'from diloco in parts to another policy and back'

# --- two jobs ---
job_of two
two=$started
run 1 ctl stop && [ "$(wc -l <"$scratch/err")" -eq 3 ] &&
  grep -q '^gradweir: ctl: 2 jobs of this user run on this host, choose one' "$scratch/err" &&
  grep -q "^  $one  *job [0-9a-f]*: running, step [0-9]* of 4000000, policy [a-z0-9:-]*$" "$scratch/err" &&
  grep -q "^  $two  *job [0-9a-f]*: running, step " "$scratch/err"
ok 'one of two must be chosen'
run 0 ctl --job "$one" status && [ -s "$scratch/out" ] && ! grep ': *$' "$scratch/out"
ok 'no line of a status ends in nothing'
in_time run 0 status && [ "$(wc -l <"$scratch/out")" -eq 2 ] &&
  grep -q "^  $one  *job [0-9a-f]*: running, step [0-9]* of [0-9]*, policy " "$scratch/out" &&
  grep -q "^  $two  *job [0-9a-f]*: running, step " "$scratch/out" && [ ! -s "$scratch/err" ]
ok 'status without an address shows both'
# every process and thread of them, whoever started it
for pid in $(left); do cat "/proc/$pid"/task/*/comm; done | sort -u >"$scratch/comm"
[ "$(cat "$scratch/comm")" = gradweir ] || sed 's/^/# /' "$scratch/comm" | grep .
[ "$(cat "$scratch/comm")" = gradweir ]
ok 'ps and top call all of them gradweir'
run 1 ctl --job "$two" checkpoint && says 'the job makes no checkpoints: it has no checkpoint.dir$'
ok 'a checkpoint of a job that makes none'
run 0 ctl --job "$two" stop && prints 'stopping: the job ends at the next step where all workers have one clock, and cannot go on from there without checkpoint.dir' &&
  leaves 3 "$two" && [ ! -e "$sockets/$two.sock" ] && runs "$one"
ok 'one of two is stopped'

# --- the end ---
run 0 ctl stop && prints 'stopping: the job ends at the next step where all workers have one clock, which becomes a checkpoint' &&
  leaves 3 "$one" && grep -q '^gradweir: stopped at step [0-9]*; --resume goes on from there' "$scratch/one.err" &&
  await 3 nobody_left && [ -z "$(ls "$sockets")" ]
ok 'the job ends as a signal ends it, and its socket with it'

# --- over the network ---
start c coordinator "$job" --listen 127.0.0.1:0
coordinator=$started
address() { sed -n 's/^members join at .*--join //p' "$scratch/c.out"; }
await 10 eval '[ "$(address)" ]'
run 0 ctl status && grep -q '^job .*: gathering, ' "$scratch/out" &&
  [ -S "$sockets/$coordinator.sock" ]
ok 'a coordinator that was started by hand'
run 1 ctl policy async && says 'the job has not begun yet' && run 1 ctl checkpoint
ok 'before the job begins there is nothing to switch'
# nobody has joined who would take it for dead
kill -STOP "$coordinator" && in_time run 1 ctl stop &&
  says "ctl: job $coordinator does not answer" &&
  in_time run 1 ctl --socket "$sockets/$coordinator.sock" stop &&
  says "no coordinator at unix:.*: no answer yet"
ok 'a coordinator that is stopped keeps nobody waiting'
kill -CONT "$coordinator"
run 0 ctl stop && prints 'stopping: the job ends before its first step$' &&
  leaves 3 "$coordinator" && [ -z "$(ls "$sockets")" ]
ok 'a job that has not begun is stopped'

# --- who dies leaves his file, which harms nobody ---
job_of killed
killed=$started
coordinator=$(pid_of coordinator)
kill -9 "$coordinator" && leaves 1 "$killed" && await 4 nobody_left &&
  [ -S "$sockets/$killed.sock" ] && run 1 ctl stop && says 'ctl: no job of this user runs'
ok 'after kill -9 of the coordinator there is no job'
job_of next
next=$started
[ -S "$sockets/$killed.sock" ] && run 0 ctl status && run 0 ctl stop && leaves 3 "$next" &&
  [ "$(ls "$sockets")" = "$killed.sock" ]
ok 'the next job touches nothing of it'
rm -f "$sockets/$killed.sock"

# --- signals ---
start s coordinator "$job"
coordinator=$started
await 10 test -S "$sockets/$coordinator.sock" && kill -TERM "$coordinator" &&
  leaves 3 "$coordinator" && [ -z "$(ls "$sockets")" ]
ok 'a signal to a coordinator removes its socket'
job_of launched
launched=$started
kill -9 "$launched" && await 4 nobody_left && [ -z "$(ls "$sockets")" ]
ok 'the end of the launcher removes it'
wait "$launched"


# a step that cannot end, and no patience: the watch ends the process
job_of stuck
stuck=$started
worker=$(pid_of worker)
kill -STOP "$worker" && kill -TERM "$stuck" && sleep 0.5 && kill -TERM "$stuck" &&
  leaves 3 "$stuck" && await 3 nobody_left && [ -z "$(ls "$sockets")" ]
ok 'a second signal removes it'

# --- what is in its place stays there ---
# the shell's pid becomes the coordinator's
GW_TEST_MARK=$scratch sh -c 'echo mine >"$1/$$.sock" && exec "$2" coordinator "$3"' \
  sh "$sockets" "$program" "$job" >"$scratch/f.out" 2>"$scratch/f.err" &
coordinator=$!
await 10 grep -qs "^members join at" "$scratch/f.out" &&
  grep -q " warn gradweir ctl cannot reach this job: cannot listen on unix:$sockets/$coordinator.sock: " "$scratch/f.err" &&
  run 1 ctl stop && says 'ctl: no job of this user runs' &&
  kill -TERM "$coordinator" && leaves 3 "$coordinator" &&
  [ "$(cat "$sockets/$coordinator.sock")" = mine ]
ok 'a file that is in its place stays, and the job runs without'
rm -f "$sockets/$coordinator.sock"

# --- directories that are not the user's alone ---
# warns PATTERN: a job runs to its end, and says in one line why it cannot be
# reached.
warns() {
  run 0 train "$job" --set train.steps=20 && [ "$(wc -l <"$scratch/err")" -eq 1 ] &&
    grep -q " warn gradweir ctl cannot reach this job: $1" "$scratch/err" && return 0
  sed 's/^/# /' "$scratch/err"
  return 1
}
# refused PATTERN: nor does ctl look there.
refused() { warns "$1" && run 1 ctl status && says "$1"; }
(
  GRADWEIR_SOCKET_DIR=$scratch/loose
  mkdir -m 750 "$scratch/loose"
  refused "$scratch/loose is open to others (mode 0750)"
)
ok 'a loose directory is refused'
(
  GRADWEIR_SOCKET_DIR=$scratch/link
  mkdir -m 700 "$scratch/target" && ln -s "$scratch/target" "$scratch/link"
  refused "$scratch/link is no directory, or a symbolic link" &&
    [ -z "$(ls "$scratch/target")" ]
)
ok 'a symbolic link is refused'
(
  GRADWEIR_SOCKET_DIR=$scratch/$(yes d | head -n 100 | tr -d '\n')
  warns ".* is too long for a socket's path"
)
ok 'a directory with a long name is refused'

# --- another user: only root can play both ---
as_nobody='setpriv --reuid=65534 --regid=65534 --clear-groups'
# words
# shellcheck disable=SC2086
if [ "$(id -u)" -eq 0 ] && $as_nobody true 2>/dev/null; then
  (
    GRADWEIR_SOCKET_DIR=$scratch/foreign
    mkdir -m 700 "$scratch/foreign" && chown 65534 "$scratch/foreign"
    refused "$scratch/foreign belongs to another user (65534)"
  )
  ok 'a directory of another user is refused'
  cp "$program" "$scratch/gradweir" && chmod 755 "$scratch" "$scratch/gradweir"
  start u coordinator "$job"
  coordinator=$started
  socket=$sockets/$coordinator.sock
  await 10 test -S "$socket"
  $as_nobody timeout 20 "$scratch/gradweir" ctl --socket "$socket" stop >"$scratch/out" 2>"$scratch/err"
  [ $? -eq 1 ] && says "no coordinator at unix:$socket: Permission denied"
  ok 'another user does not reach the socket'
  chmod 755 "$sockets" && chmod 666 "$socket"
  $as_nobody timeout 20 "$scratch/gradweir" ctl --socket "$socket" stop >"$scratch/out" 2>"$scratch/err"
  [ $? -eq 1 ] && grep -q "connection from local, pid [0-9]* refused: it is another user's" "$scratch/c.err" "$scratch/u.err" &&
    kill -0 "$coordinator"
  ok 'another user is turned away also where somebody opened the way'
  chmod 700 "$sockets" "$scratch"
  run 0 ctl stop && leaves 3 "$coordinator"
else
  for what in 'a directory of another user is refused' \
    'another user does not reach the socket' \
    'another user is turned away also where somebody opened the way'; do
    tests=$((tests + 1))
    echo "ok $tests - $what # SKIP only root can try"
  done
fi

# --- where the sockets are by default ---
unset GRADWEIR_SOCKET_DIR
XDG_RUNTIME_DIR=$scratch/run
export XDG_RUNTIME_DIR
mkdir "$XDG_RUNTIME_DIR"
start x coordinator "$job"
coordinator=$started
await 10 test -S "$XDG_RUNTIME_DIR/gradweir/$coordinator.sock" &&
  [ "$(mode "$XDG_RUNTIME_DIR/gradweir")" = 700 ] &&
  run 0 ctl --job "$coordinator" stop && leaves 3 "$coordinator"
ok 'in XDG_RUNTIME_DIR'
XDG_RUNTIME_DIR=$scratch/nowhere
start y coordinator "$job"
coordinator=$started
XDG_RUNTIME_DIR=$scratch/run
await 10 test -S "/tmp/gradweir-$(id -u)/$coordinator.sock" &&
  run 0 ctl --job "$coordinator" stop && leaves 3 "$coordinator" &&
  [ ! -e "/tmp/gradweir-$(id -u)/$coordinator.sock" ]
ok 'else in /tmp, where it is found as well'

echo "1..$tests"
