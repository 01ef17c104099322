#!/bin/sh
# Junk on every listening port of a job of real processes: the job goes on, to
# the weights that it has without, can still be asked, and its logs stay short.
# Prints TAP.
. "${GW_SRCDIR:-..}/tests/run/lib.sh"
junk=${GW_BUILDDIR:-.}/tests/run/junk
make_data
long="--set train.eval_every=never --set log.every=100 --set checkpoint.every=never"

# shellcheck disable=SC2086
start l train "$job" $long --set train.steps=4000000 \
  --set checkpoint.dir="$scratch/ck" --set checkpoint.every=never \
  --set log.dir="$scratch/logs"
launcher=$started
await 20 grep -qs '^step [0-9]*00/' "$scratch/l.out"
began=$(now_ms)
coordinator=$(ports coordinator)
servers=$(ports server)
[ "$(echo $coordinator $servers | wc -w)" -eq 3 ]
ok 'a coordinator and two servers listen'

# each holds its idle connections until the other end of its input closes
mkfifo "$scratch/hold" && exec 4<>"$scratch/hold"
for port in $coordinator $servers; do
  "$junk" "$port" 500 <"$scratch/hold" >"$scratch/junk.$port" 2>&1 4>&- &
  throwers="$throwers $!"
done
for port in $coordinator $servers; do
  await 20 grep -q '^idle$' "$scratch/junk.$port"
  idle=$?
  sed 's/^\(# \)*/#   /' "$scratch/junk.$port"
  [ $idle -eq 0 ] && ! grep -q WRONG "$scratch/junk.$port"
  ok "port $port: all of it is turned away"
done
before=$(grep -c '^step' "$scratch/l.out")
await 10 eval '[ "$(grep -c "^step" "$scratch/l.out")" -gt $((before + 2)) ]'
ok 'the job goes on beside 500 idle connections on each'
run 0 status "127.0.0.1:$coordinator" && grep -q '^job .*: running, step ' "$scratch/out"
ok 'and can be asked'
await 10 eval 'grep -q "refused: no login in time" "$scratch"/logs/coordinator-*'
ok 'who does not log in is put out after a while'
exec 4>&-
for thrower in $throwers; do wait "$thrower" || failed=1; done
[ -z "$failed" ]
ok 'everything thrown was answered as it should be'

seconds=$((($(now_ms) - began) / 1000 + 1))
kill -TERM $launcher
await 10 nobody_left || end_all
wait $launcher
[ $? -eq 3 ] && ended=$(digest "$scratch/l.out") && [ "$ended" ] &&
  step=$(sed -n 's/^gradweir: stopped at step \([0-9]*\); --resume goes on from there$/\1/p' "$scratch/l.err") &&
  [ "$step" ] && [ "$(wc -l <"$scratch/l.err")" -eq 1 ]
ok 'it ends well, with a line'
for log in "$scratch"/logs/*; do
  lines=$(grep -c . "$log")
  echo "# $(basename "$log"): $lines lines in $seconds s, of $(grep -c refused "$log") refusals"
  [ "$lines" -le $((12 + 6 * seconds)) ] || failed=1
done
[ -z "$failed" ] &&
  grep -q 'suppressed [0-9]* similar lines' "$scratch"/logs/coordinator-*
ok 'its logs are short'
# shellcheck disable=SC2086
run 0 train "$job" $long --set train.steps="$step" && [ "$(digest)" = "$ended" ]
ok 'the weights are those of an undisturbed job'

echo "1..$tests"
