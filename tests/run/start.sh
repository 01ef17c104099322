#!/bin/sh
# How the processes of a job begin: a signal at any instant, standard descriptors
# that are closed, limits that are too low. Prints TAP.
. "${GW_SRCDIR:-..}/tests/run/lib.sh"
make_data

# --- Ctrl-C, which goes to every process of the terminal, at any instant ---
if env --default-signal=INT true 2>/dev/null && command -v setsid >/dev/null; then
  tries=${GW_INTERRUPTS:-24}
  seed=${GW_SEED:-$$}
  echo "# seed $seed"
  # interrupt SECONDS: 130 is a death by it before main
  interrupt() {
    GW_TEST_MARK=$scratch setsid env --default-signal=INT "$program" train \
      "$job" --set train.steps=4000000 --set train.eval_every=never \
      >"$scratch/i.out" 2>"$scratch/i.err" &
    launcher=$!
    # before that a signal would be env's
    until grep -qsa "^$program" "/proc/$launcher/cmdline"; do :; done
    sleep "$1"
    kill -INT "-$launcher"
    await 12 nobody_left || return 1
    wait $launcher
    code=$?
    [ $code -eq 3 ] || [ $code -eq 130 ] && return 0
    echo "# after $1 s: exit code $code"
    sed 's/^/# /' "$scratch/i.err"
    return 1
  }
  failed=0
  for moment in $(awk -v seed="$seed" -v n="$tries" 'BEGIN { srand(seed)
      for (i = 0; i < n; i++) printf "%.4f ", (i % 3 ? 0.06 : 1) * rand() }'); do
    interrupt "$moment" || failed=$((failed + 1))
  done
  [ $failed -eq 0 ]
  ok "Ctrl-C at $tries instants of the first second ends a job with exit code 3"
else
  skip 'Ctrl-C ends a job with exit code 3' 'no setsid, or an env without --default-signal'
fi

# A signal for one member, which has not joined anything yet.
start l train "$job" --set train.steps=4000000 --set cluster.workers=3
await 5 eval 'victim=$(pid_of worker 3); [ "$victim" ]' && kill -INT "$victim"
await 12 nobody_left
wait "$started"
[ $? -eq 3 ]
ok 'a signal to a member that has just begun stops the job'


# Two for one member that has joined, while no step can end: it leaves at once.
start l train "$job" --set train.steps=4000000 --set train.eval_every=never \
  --set log.every=50
launcher=$started
await 20 grep -qs '^step ' "$scratch/l.out" && other=$(pid_of worker 2) &&
  victim=$(pid_of worker) && kill -STOP "$other" && kill -INT "$victim" && sleep 0.7 &&
  kill -INT "$victim" && await 8 nobody_left
wait "$launcher"
[ $? -eq 3 ] && grep -q '^gradweir: stopped at step [0-9]* at once' "$scratch/l.err"
ok 'a second signal to a member ends the job, as one to the launcher does'

# --- standard descriptors that are closed ---
for closed in '<&-' '>&-' '2>&-' '<&- >&- 2>&-'; do
  rm -rf "$scratch/ck"
  eval "gradweir train \"\$job\" --set checkpoint.dir=\"\$scratch/ck\" \
    >\"\$scratch/out\" 2>\"\$scratch/err\" $closed" &&
    [ -e "$scratch/ck/step-00000040" ]
  ok "train $closed"
  eval "gradweir status 127.0.0.1:1 >\"\$scratch/out\" 2>\"\$scratch/err\" $closed"
  [ $? -eq 1 ]
  ok "status $closed"
done

# a member that is started by hand, whose first socket would be its output
start c coordinator "$job" --set cluster.workers=1 --set cluster.servers=1
address=
await 10 eval 'address=$(sed -n "s/^members join at .*--join //p" "$scratch/c.out" 2>/dev/null); [ "$address" ]'
GW_TEST_MARK=$scratch "$program" server --join "$address" <&- >&- 2>&- &
GW_TEST_MARK=$scratch "$program" worker --join "$address" <&- >&- 2>&- &
wait "$started" && await 5 nobody_left
ok 'members whose standard descriptors are closed'

# --- open files ---
(ulimit -Sn 30 && gradweir train "$job" --set cluster.workers=8 >"$scratch/out" 2>"$scratch/err")
ok 'the soft limit of open files is raised'
(ulimit -n 30 && run 1 train "$job") &&
  says 'the coordinator of this job needs [0-9]* open files, and a process may have 30 here: ulimit -n ' &&
  await 3 nobody_left
ok 'a limit of open files that is too low is told before anyone waits'
least=$(sed -n 's/.*here: ulimit -n \([0-9]*\) .*/\1/p' "$scratch/err")
(ulimit -n "$least" && run 1 train "$job" --dry-run) && says "a server of this job needs"
ok 'and so it is by --dry-run, of each role'
least=$(sed -n 's/.*here: ulimit -n \([0-9]*\) .*/\1/p' "$scratch/err")
rm -rf "$scratch/ck"
(ulimit -n "$least" && run 0 train "$job" --set checkpoint.dir="$scratch/ck" --set log.dir="$scratch/log")
ok 'what is told to be enough is enough'
start c coordinator "$job" --set cluster.workers=1 --set cluster.servers=1
await 10 eval 'address=$(sed -n "s/^members join at .*--join //p" "$scratch/c.out" 2>/dev/null); [ "$address" ]'
for role in server worker; do
  (ulimit -n 32 && run 1 $role --join "$address") &&
    says "this $role of this job needs [0-9]* open files, and a process may have 32 here"
  ok "a $role that is started by hand looks at its own limit"
done
kill -INT "$started"
wait "$started"

# --- processes and threads: one line, and nobody is killed ---
# few N COMMAND...: with N at most, as a user who has no privilege
few() {
  most=$1
  shift
  if [ "$(id -u)" -eq 0 ]; then
    prlimit --nproc="$most" setpriv --reuid=54321 --regid=54321 --clear-groups "$@"
  else
    prlimit --nproc="$most" "$@"
  fi
}
chmod a+rx "$scratch" && chmod -R a+rX "$scratch/data" "$scratch/job"
if few 4096 "$program" --version >/dev/null 2>&1; then
  for most in 1 18; do
    few $most "$program" train "$job" >"$scratch/out" 2>"$scratch/err"
    [ $? -eq 1 ] && says "[a-z ]* \(needs [0-9]* more processes and threads, and [0-9]* can be started\|cannot start a process\): this user may have $most processes and threads: ulimit -u"
    ok "a limit of $most processes and threads"
  done
  few 1 "$program" status 127.0.0.1:1 >"$scratch/out" 2>"$scratch/err"
  [ $? -eq 1 ] && says 'an event loop needs [0-9]* more processes and threads'
  ok 'status, where it may start no thread'
else
  skip 'a limit of processes and threads' 'another user cannot run the program here'
fi

# --- who computes nothing has no threads for it ---
start l train "$job" --set train.steps=4000000
computes() { worker=$(pid_of worker 2) && grep -q blas "/proc/$worker/maps"; }
await 20 computes
ok 'a worker loads the library for matrix products'
free=0
for role in train coordinator server; do
  pid=$(pid_of $role) && cp "/proc/$pid/maps" "$scratch/maps" && [ -s "$scratch/maps" ] &&
    ! grep -q blas "$scratch/maps" && free=$((free + 1))
done
[ $free -eq 3 ]
ok 'nobody else does'
kill -INT "$started"
wait "$started"
[ $? -eq 3 ] && await 12 nobody_left
ok 'and all of them end'

echo "1..$tests"
