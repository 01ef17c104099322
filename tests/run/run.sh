#!/bin/sh
# gradweir run: copies of a program as the workers of a job. Their environment,
# output and ends, signals, and that no process is left. Prints TAP.
. "${GW_SRCDIR:-..}/tests/run/lib.sh"
unset OMP_NUM_THREADS PYTHONUNBUFFERED GRADWEIR_RUN
build=$(cd "${GW_BUILDDIR:-.}" && pwd)
linear=$build/tests/run/linear
program=$build/gradweir
cd "$scratch" || exit 1
short='--set train.steps=300 --set log.every=100'
long='--set train.steps=100000000 --set log.every=100000000'
mkdir bin

# make NAME: a program of the test, its text from standard input.
make() {
  { echo '#!/bin/sh' && cat; } >"bin/$1" && chmod +x "bin/$1"
}

# ends_with CODE ARGUMENTS...: as run, and nobody is left soon after.
ends_with() {
  run "$@" && await 3 nobody_left
}

# tells PATTERN: a line of gradweir's on standard error.
tells() {
  grep -q "^gradweir: $1" "$scratch/err" && return 0
  echo "# expected: gradweir: $1"
  sed 's/^/# /' "$scratch/err"
  return 1
}

# --- jobs that come to their end ---
# shellcheck disable=SC2086
{
ends_with 0 run --workers 1 --servers 1 $short -- "$linear" &&
  [ "$(digest | wc -c)" -eq 65 ] && ! grep -q '^\[' "$scratch/out" &&
  ! [ -s "$scratch/err" ]
ok 'one worker: a job that is complete, and no line but its own'
ends_with 0 run --workers 1 --servers 1 -- "$linear" && digest | grep -q .
ok 'a job that ends when its program has no further step'
for policy in sync local:4 ssp:2; do
  ends_with 0 run --workers 3 --set cluster.policy=$policy -- "$linear" && digest | grep -q .
  ok "three workers, $policy: it ends when that of rank 0 has none"
done
ends_with 0 run --workers 4 $short -- "$linear" && digest | grep -q . &&
  [ "$(wc -l <"$scratch/err")" -eq 1 ] && tells 'OMP_NUM_THREADS=[0-9]* for each of 4 workers, which share'
ok 'four workers: the same, and a line about their threads'
OMP_NUM_THREADS=3 ends_with 0 run --workers 2 $short -- sh -c 'echo "threads $OMP_NUM_THREADS"; exec "$0"' "$linear" &&
  ! [ -s "$scratch/err" ] && [ "$(grep -c '^\[[01]\] threads 3$' "$scratch/out")" -eq 2 ]
ok 'threads that the environment says are left alone'

# --- the environment ---
make see <<'PROGRAM'
for name in RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR GRADWEIR_RUN PYTHONUNBUFFERED; do
  eval "echo $name=\$$name"
done
echo "port $MASTER_PORT, address ${GRADWEIR_COORDINATOR%:*}, secret at $GRADWEIR_SECRET_FD"
exec "$1"
PROGRAM
ends_with 0 run --workers 3 $short -- bin/see "$linear"
ended=$?
for rank in 0 1 2; do
  printf '%s\n' "RANK=$rank" "LOCAL_RANK=$rank" WORLD_SIZE=3 LOCAL_WORLD_SIZE=3 \
    MASTER_ADDR=127.0.0.1 GRADWEIR_RUN=1 PYTHONUNBUFFERED=1 >expected
  sed -n "s/^\[$rank\] //p" out | head -n 7 | cmp - expected || ended=1
done
[ $ended -eq 0 ] && grep ' port ' out | sed 's/^\[.\] //' | sort -u >ports &&
  [ "$(wc -l <ports)" -eq 1 ] && grep -q '^port [1-9][0-9]*, address 127.0.0.1, secret at 4$' ports
ok 'each rank has its place, and all have one port'
ends_with 1 run --workers 1 --servers 1 $short -- sh -c 'exec 4<&-; exec "$0"' "$linear" &&
  tells 'worker 0 ended before it had joined the job: exit code 1: linear: GRADWEIR_SECRET_FD: a program between the launcher and this one has closed it'
ok 'a secret that was closed on its way is told'
ends_with 0 run --workers 2 $short -- sh -c '"$0"; exit $?' "$linear"
ok 'the process that joins may be a child of the program'

# --- standard input ---
echo words >input
run_with_input() { run "$@" <input; }
run_with_input 0 run --workers 1 --servers 1 $short -- sh -c 'cat; exec "$0"' "$linear" &&
  grep -qx words "$scratch/out" &&
  run_with_input 0 run --workers 2 $short -- sh -c 'cat; exec "$0"' "$linear" &&
  ! grep -q words "$scratch/out"
ok 'one worker has the standard input, two have none'

# --- output ---
make print <<'PROGRAM'
head -c 10000000 /dev/zero | tr '\0' x | fold -w 9999
echo
head -c 10000000 /dev/zero | tr '\0' y | fold -w 99 >&2
printf '\nfirst\rsecond\r\nno end' >&2
exec "$1"
PROGRAM
# lines FILE PREFIX: how many of which length it has, each of one letter
lines() {
  sed -n "s/^$2\([xy]*\)\$/\1/p" "$1" | awk '
    { n[length($0) " " substr($0, 1, 1)]++ }
    END { for (kind in n) print n[kind], kind }' | grep ' .* ' | sort | tr '\n' ';'
}
ends_with 0 run --workers 2 $short --set log.dir="$scratch/logs" -- bin/print "$linear" &&
  [ "$(lines out '\[[01]\] ')" = '2 1000 x;2000 9999 x;' ] &&
  [ "$(lines err '\[[01]\] ')" = '2 10 y;202020 99 y;' ] &&
  [ "$(grep -c '^\[[01]\] ' out)" -eq 2002 ] && [ "$(grep -c '^\[[01]\] ' err)" -eq 202026 ] &&
  [ "$(grep -c '^\[[01]\] second$' err)" -eq 2 ] &&
  [ "$(grep -c '^\[[01]\] no end$' err)" -eq 2 ] && ! grep -q first err
ok '40 MB of output: every line is whole, the last ones too'
[ "$(cd logs && ls worker-?.log | tr '\n' ' ')" = 'worker-0.log worker-1.log ' ] &&
  [ "$(lines logs/worker-1.log '')" = '1 10 y;1 1000 x;1000 9999 x;101010 99 y;' ] &&
  grep -qx second logs/worker-1.log && grep -qx 'no end' logs/worker-1.log
ok 'log.dir has it without ranks, a file each'
rm -rf logs
(gradweir run --workers 2 $short -- sh -c 'echo before; head -c 200001 /dev/zero | tr "\0" z; exec "$0"' "$linear" 2>"$scratch/err" |
  cat >"$scratch/out") &&
  [ "$(grep -cE '^\[[01]\] z+$' "$scratch/out")" -eq 8 ] &&
  [ "$(grep -E '^\[[01]\] z+$' "$scratch/out" | tr -dc z | wc -c)" -eq 400002 ]
ok 'lines that are too long for memory come in several'
run 0 run --workers 2 $short --json - -- sh -c 'echo words; exec "$0"' "$linear" &&
  ! grep -v '^{' "$scratch/out" && [ "$(grep -c '^\[[01]\] words$' "$scratch/err")" -eq 2 ]
ok 'with --json - there are but objects on standard output'

# --- programs that fail ---
ends_with 7 run --workers 2 $short -- sh -c '[ $RANK = 0 ] && exec "$0"; echo; echo "no data" >&2; exit 7' "$linear" &&
  tells 'worker 1 ended before it had joined the job: exit code 7: no data$'
ok 'one that fails before it has joined ends the job by its line and its code'
ends_with 1 run --workers 2 $short -- sh -c '[ $RANK = 0 ] || exec "$0"' "$linear" &&
  tells 'worker 0 ended without joining the job: it must open gradweir'
ok 'one that never joins is told so'
# leaves its place as the test says, when the job has come to a step
make leave <<'PROGRAM'
[ $RANK = 0 ] && exec "$1"
"$1" &
until "$2" status | grep -q 'step [1-9]'; do sleep 0.1; done
eval "$3"
PROGRAM
ends_with 139 run --workers 2 $long -- bin/leave "$linear" "$program" 'kill -SEGV $$' &&
  tells 'worker 1 (.*, pid [0-9]*) ended at step [0-9]*, before the job was complete: killed by signal 11 '
ok 'one that dies of a signal in a step: 128 and its number'
ends_with 1 run --workers 2 $long -- bin/leave "$linear" "$program" 'exit 0' &&
  tells 'worker 1 (.*) ended at step [0-9]*, before the job was complete: exit code 0$'
ok 'one that ends too early, and what it has left goes'
ends_with 9 run --workers 2 $short -- sh -c '"$0"; [ $RANK = 0 ] || echo "no disk" >&2; exit $((9 * RANK))' "$linear" &&
  digest | grep -q . && tells 'worker 1 failed, but the job is complete: exit code 9: no disk$'
ok 'one that fails after the job: its code and line'
ends_with 1 run --workers 2 $long -- sh -c 'sleep 100 & [ $RANK = 0 ] && exec "$0" nowhere; exec "$0"' "$linear"
ok 'one that cannot join ends the job, and its children'

# --- programs that cannot be started, wrong usage ---
echo 'not executable' >text
run 2 run -- ./nothing && says 'run: cannot start ./nothing: there is no such program$' &&
  run 2 run -- nothing && says 'run: cannot start nothing: there is no such program$' &&
  run 2 run -- ./text && says 'run: cannot start ./text: it is no program$' &&
  run 2 run -- . && says 'run: cannot start .: there is no such program$'
ok 'a program that is not there, or is none'
printf '#!/nowhere\n' >refused && chmod +x refused
run 1 run --workers 2 -- ./refused && [ "$(grep -c 'worker [01]: cannot start ./refused: No such file' err)" -eq 1 ]
ok 'a program that only the kernel refuses'
run 2 run "$linear" && says 'run: the program stands behind "--"' &&
  run 2 run -- && says 'run: no program stands behind "--"' &&
  run 2 run one two -- true && says 'run: takes one job file, not also two' &&
  run 2 run --workers 0 -- true && says '--workers: takes a whole number' &&
  run 2 run --wrokers 1 -- true && says 'run: cannot take --wrokers, the nearest is --workers' &&
  run 2 run nothing -- true && says 'nothing: cannot be opened' &&
  run 2 run --set model.kind=mlp -- true && says '--set: model.kind: the job has a model of its own'
ok 'wrong usage is told in one line'
make_data
run 2 run "$job" -- true && says "$job: model.kind: the job has a model of its own" &&
  run 2 run "$job" --set model.kind=cnn -- true && says "$job: model.kind: the job"
ok 'a job with a model of its own is refused'
printf 'model = { kind = "external"; };\n' >external
run 2 train external && says 'model.kind: "external" is a program of yours, which gradweir run starts' &&
  run 2 train external --dry-run && says 'model.kind: "external" is a program of yours, which'
ok 'commands that need a model of ours refuse a job that has none'

# --- job files ---
cat >own <<JOB
train = { steps = 300; };
optimizer = { kind = "adam"; lr = 0.001; };
cluster = { workers = 4; servers = 3; };
JOB
ends_with 0 run own --workers 2 --servers 1 -- "$linear" &&
  grep -q '^cluster  *2 workers, 1 server$' "$scratch/out" && grep -q '^job  *own, by' "$scratch/out" &&
  grep -q '^model  *external; adam' "$scratch/out"
ok 'a job file without a model; --workers and --servers'
run 0 run own --dry-run -- "$linear" --with 'its arguments' && ! grep -q '^step' "$scratch/out" &&
  grep -qF "$linear --with its arguments" "$scratch/out" &&
  grep -q '^processes  *1 coordinator, 3 servers, 4 programs' "$scratch/out" &&
  run 2 run own --dry-run -- ./nothing
ok '--dry-run says what would run'
} 2>&1

# --- signals ---
# begin NAME ARGUMENTS..: a job in the background, until the coordinator knows a
# step of it.
goes() { gradweir status 2>/dev/null | grep -q "$launcher .*step [1-9]"; }
begin() {
  start l run "$@"
  launcher=$started
  await 10 goes
}
# has_ended SECONDS CODE
has_ended() {
  await "$1" nobody_left
  left=$?
  wait "$launcher"
  got=$?
  [ $left -eq 0 ] && [ $got -eq "$2" ] && return 0
  echo "# exit code $got and not $2"
  sed 's/^/# /' "$scratch/l.err"
  return 1
}
make trap <<'PROGRAM'
trap 'echo "got a signal"' INT TERM HUP
"$1"
echo "ended by itself"
PROGRAM
# shellcheck disable=SC2086
{
begin --workers 2 $long -- bin/trap "$linear" && kill -INT $launcher && has_ended 8 3 &&
  [ "$(grep -c 'ended by itself' "$scratch/l.out")" -eq 2 ] && ! grep -q 'got a signal' "$scratch/l.out"
ok 'the first signal ends the job in order, and no program has it'
make stay <<'PROGRAM'
trap '' INT TERM HUP
"$1" &
while :; do sleep 100; done
PROGRAM
begin --workers 2 $long -- bin/stay "$linear" && kill -INT $launcher && sleep 0.7 &&
  [ "$(left | wc -l)" -ge 3 ] && kill -INT $launcher && has_ended 5 3
ok 'a second one ends programs that would stay'
start l run --workers 2 $long -- sh -c 'trap "" INT TERM HUP; touch here.$RANK; while :; do sleep 100; done'
launcher=$started
await 5 test -e here.0 -a -e here.1 && kill -TERM $launcher && has_ended 5 3
[ $? -eq 0 ] && [ "$(grep -c '^gradweir: ' "$scratch/l.err")" -eq 2 ]
ok 'before the first step programs have a second after the job'
make after <<'PROGRAM'
"$1" && touch "after.$RANK" && sleep 4 && touch "saved.$RANK"
PROGRAM
ends_with 0 run --workers 2 $short -- bin/after "$linear" && [ -e saved.0 ] && [ -e saved.1 ]
ok 'after a job that is complete programs may take their time'
rm -f after.* saved.*
start l run --workers 2 $short -- bin/after "$linear"
launcher=$started
await 5 test -e after.0 -a -e after.1 && sleep 0.3 && kill -INT $launcher && has_ended 3 3 &&
  ! [ -e saved.0 ]
ok 'then a signal is theirs'

# states LETTER: of all processes below programs
all_are() {
  for pid in $(left); do
    tr '\0' ' ' <"/proc/$pid/cmdline" | grep -q "^$linear" || continue
    grep -q "^State:.$1" "/proc/$pid/status" || return 1
  done
}
running() { ! all_are T; }
await 5 nobody_left # of the job before, whose members are named alike
begin --workers 2 $long --set cluster.silence=2 -- "$linear"
others="$(pid_of coordinator) $(pid_of server) $(pid_of server 2)"
# as a terminal does to a group
kill -TSTP $launcher $others && await 3 all_are T && sleep 3 && all_are T &&
  kill -CONT $launcher $others && await 3 running && sleep 0.5 && kill -0 $launcher &&
  kill -INT $launcher && has_ended 15 3
ok 'a job that is paused as a whole goes on'

# --- deaths ---
make family <<'PROGRAM'
(trap '' INT TERM HUP; sleep 1000) &
"$1"
PROGRAM
begin --workers 2 $long -- bin/family "$linear" && kill -9 $launcher && has_ended 3 137
ok 'kill -9 of the launcher: programs and their children go'
for role in program coordinator server; do
  begin --workers 2 $long -- bin/family "$linear" && victim=$(pid_of $role) && kill -9 "$victim" &&
    case $role in program) has_ended 12 137 ;; *) has_ended 12 1 ;; esac
  ok "kill -9 of a $role: the same"
  end_all
done
begin --workers 2 $long -- bin/family "$linear"
launched=$(pid_of program)
kill -STOP "$launched" && kill -9 $launcher && has_ended 3 137
ok 'also of one whose parent was stopped'
} 2>&1
end_all
await 3 nobody_left
ok 'nobody is left'
echo "1..$tests"
