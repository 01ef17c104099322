#!/bin/sh
# Jobs whose processes are killed, stopped and paused at random, for as many
# minutes as GW_CHAOS_MINUTES says (3), from the seed GW_CHAOS_SEED (1). Each
# job has to end with the weights of a job in which nobody dies. For longer:
# make chaos. Prints TAP, and a table of faults.
minutes=${GW_CHAOS_MINUTES:-3}
GW_TEST_SECONDS=$((60 * minutes + 240))
. "${GW_SRCDIR:-..}/tests/run/lib.sh"
make_data
state=${GW_CHAOS_SEED:-1}
until_ms=$(($(now_ms) + 60000 * minutes))
ck=$scratch/ck
long='--set train.eval_every=never --set log.every=50 --set train.steps=40000 --set cluster.restarts=100'
jobs=0 whole=0

# draw N: sets $drawn to one of 0 to N - 1.
draw() {
  state=$(((state * 1103515245 + 12345) % 2147483648))
  drawn=$((state / 65536 % $1))
}

last_step() { sed -n 's/^step \([0-9]*\)\/.*/\1/p' "$scratch/l.out" | tail -n 1; }
runs_on() { kill -0 "$launched" 2>/dev/null; }
goes_beyond() { [ "$(last_step)" -gt "$1" ] || ! runs_on; }

# victim ROLE: sets $victim to one of its processes.
victim() {
  draw 2
  victim=$(pid_of "$1" $((1 + drawn))) || victim=$(pid_of "$1")
}

# Each does its harm to $victim.
killed() { kill -9 "$victim"; }
stopped() { kill -STOP "$victim"; }
paused() { kill -STOP "$victim" && sleep 0.7 && kill -CONT "$victim"; }
leaves() { grep -c ' leaves at step ' "$scratch/l.out"; }
leaving() {
  before=$(leaves)
  kill -TERM "$victim" && await 20 eval "[ \"\$(leaves)\" -gt $before ] || ! runs_on"
}

# With one copy of a shard the death of its server would be the end.
is_whole() {
  ! runs_on || gradweir status "127.0.0.1:$(ports coordinator | head -n 1)" 2>/dev/null |
    grep -q ' shards have two copies$'
}

# hurt ROLE HOW: the time to the next line of a step goes to $scratch/times; not
# to one that was on its way. A fault that the end of the job outran is none.
hurt() {
  victim "$1" && begun=$(now_ms) && "$2" 2>/dev/null && from=$(last_step) || return 0
  if ! await 30 goes_beyond "$from"; then
    echo "$1 $2 lost" >>"$scratch/times"
    sed 's/^/# /' "$scratch/l.out" "$scratch/l.err"
    return 1
  fi
  runs_on || return 0
  echo "$1 $2 $(($(now_ms) - begun))" >>"$scratch/times"
}

# job FAULTS WAY...: a job to which these happen, ROLE.HOW each, until it ends.
job() {
  faults=$1
  shift
  end_all
  rm -rf "$ck"
  start l train "$job" $long "$@"
  launched=$started
  jobs=$((jobs + 1))
  await 30 grep -qs '^step [1-9]' "$scratch/l.out" || return 1
  while runs_on; do
    # shellcheck disable=SC2086
    set -- $faults
    draw $#
    shift $drawn
    hurt "${1%.*}" "${1#*.}" || return 1
    case $faults in *server*) await 30 is_whole || return 1 ;; esac
    draw 1000
    sleep "0.$(printf %03d "$drawn")"
    [ "$(now_ms)" -lt $((until_ms + 150000)) ] || return 1
  done
  ends 0 && [ "$(digest "$scratch/l.out")" = "$calm" ] && whole=$((whole + 1))
}

# shellcheck disable=SC2086
{
run 0 train "$job" $long && calm=$(digest) && [ "$calm" ]
ok 'a job in which nobody dies'
while [ "$(now_ms)" -lt $until_ms ]; do
  draw 2
  [ $drawn -eq 0 ] && transport=shm || transport=tcp
  draw 2
  if [ $drawn -eq 0 ]; then
    job 'server.killed server.killed server.leaving server.stopped server.paused worker.killed worker.paused coordinator.killed coordinator.paused' \
      --set cluster.transport=$transport --set checkpoint.dir="$ck" --set checkpoint.every=5000 --set cluster.copies=2
  else
    job 'coordinator.killed coordinator.paused worker.killed worker.paused' \
      --set cluster.transport=$transport --set checkpoint.dir="$ck" --set checkpoint.every=5000
  fi || break
done
[ $jobs -gt 0 ] && [ $whole -eq $jobs ]
ok "$whole of $jobs jobs end with the same weights"
}
end_all
await 5 nobody_left
ok 'nobody is left'
touch "$scratch/times"
echo '# fault                  runs  recovered  p50 ms  p99 ms  max ms'
sort "$scratch/times" | awk '
  function tell() {
    if (runs) printf "# %-22s %5d %10d %7d %7d %7d\n", fault, runs, n,
      ms[int((n + 1) / 2)], ms[int(n * 0.99 + 0.999)], ms[n]
  }
  { name = $1 " " $2 }
  name != fault { tell(); fault = name; runs = n = 0; delete ms }
  { runs++ }
  $3 != "lost" { for (i = ++n; i > 1 && ms[i - 1] > $3; i--) ms[i] = ms[i - 1]; ms[i] = $3 }
  END { tell() }'
echo "1..$tests"
