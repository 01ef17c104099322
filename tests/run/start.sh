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
await 10 eval 'address=$(sed -n "s/^members join at .*--join //p" "$scratch/c.out"); [ "$address" ]'
GW_TEST_MARK=$scratch "$program" server --join "$address" <&- >&- 2>&- &
GW_TEST_MARK=$scratch "$program" worker --join "$address" <&- >&- 2>&- &
wait "$started" && await 5 nobody_left
ok 'members whose standard descriptors are closed'

echo "1..$tests"
