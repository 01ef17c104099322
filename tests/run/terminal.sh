#!/bin/sh
# A job on a terminal, with keys typed as a person types them: the live line and
# the table, Ctrl-C, Ctrl-Z and fg, a terminal that goes away. GW_PAUSE: seconds
# between Ctrl-Z and fg. Prints TAP.
if ! env --default-signal=HUP script -qefc true /dev/null </dev/null >/dev/null 2>&1; then
  echo '1..0 # SKIP script(1) of util-linux or a new env(1) is not here'
  exit 0
fi
. "${GW_SRCDIR:-..}/tests/run/lib.sh"
trap 'end_all; [ -z "$terminal" ] || kill -9 "$terminal"; rm -rf "$scratch"' EXIT
make_data
terminal=
pause=${GW_PAUSE:-5}
tty=$scratch/tty
keys=$scratch/keys
mkfifo "$keys" && exec 4<>"$keys" || exit 1
long="--set train.eval_every=never --set log.every=100"

type_line() { printf '%s\n' "$1" >&4; }
press() { printf "$1" >&4; }
shows() { grep -aq "$1" "$tty"; }

# A shell on a terminal of its own; what it shows is in $tty. Whoever runs the
# tests may have had SIGHUP ignored (nohup), which programs respect.
open_terminal() {
  : >"$tty" # or what the one before showed would be taken for this one's
  ENV='' HISTFILE=/dev/null env --default-signal=HUP script -qfc 'exec sh -i' /dev/null <"$keys" >"$tty" 2>&1 4>&- &
  terminal=$!
  type_line 'PS1="> "; stty rows 24 cols 72; echo; echo be""gun'
  await 5 shows '^begun'
}

close_terminal() {
  kill -9 "$terminal"
  wait "$terminal" 2>/dev/null
  terminal=
}

# type_train ARGUMENTS...: its exit code is shown when it ends or stops.
type_train() {
  type_line "GW_TEST_MARK=$scratch '$program' train '$job' $*; echo code=\$?"
}

# ends SECONDS CODE: that exit code, in time, and nobody is left.
ends() {
  began=$(now_ms)
  await "$1" nobody_left && await 3 shows "^code=$2"
  ended=$?
  echo "# ended within $(($(now_ms) - began)) ms"
  [ $ended -eq 0 ] || tail -n 5 "$tty" | tr -d '\r\033' | sed 's/^/# /'
  return $ended
}

# the coordinator alone is left, which still has to print
is_there() { [ "$(pid_of "$1")" ]; }
nobody_else() { ! is_there worker && is_there coordinator; }

on_terminal() { tr -d '\r' <"$tty" | digest -; }

# every process of the test is stopped
all_stopped() {
  for pid in $(left); do
    grep -q '^State:.T' "/proc/$pid/status" 2>/dev/null || return 1
  done
}

# --- what it looks like ---
# a job of a second: the live line is drawn anew every quarter of one
run 0 train "$job" --set train.steps=10000
plain=$(digest)
open_terminal && type_train --set train.steps=10000 && ends 20 0 &&
  [ "$(on_terminal)" = "$plain" ] &&
  shows "$(printf '\r\033\\[Kstep [0-9]*/10000 ')" && shows '^accuracy ' &&
  ! shows '^step 10/'
ok 'a live line, and a table in the end'
# a line that is as wide as the terminal would wrap, and could not be taken back
tr '\r' '\n' <"$tty" | sed -n "s/^$(printf '\033')\\[K//p" |
  awk 'length($0) > 71 { exit 1 } END { exit NR < 2 }'
ok 'the live line fits'
close_terminal
run 0 train "$job"
plain=$(digest)
open_terminal && type_train '>' "$scratch/out" && ends 20 0 &&
  [ "$(digest)" = "$plain" ] && ! grep -aq "$(printf '\033')" "$scratch/out"
ok 'a file gets none'
close_terminal

open_terminal && type_line 'export TERM=dumb' && type_train && ends 20 0 &&
  [ "$(on_terminal)" = "$plain" ] && shows '^step 10/' &&
  ! shows "$(printf '\033')"
ok 'nor does a terminal that is dumb'
close_terminal
open_terminal && type_train --json - '>' "$scratch/out" && ends 20 0 &&
  [ "$(grep -c '^{.*}$' "$scratch/out")" -eq "$(grep -c . "$scratch/out")" ] &&
  grep -q "\"weights_sha256\":\"$plain\"" "$scratch/out" && shows '^accuracy '
ok '--json -: objects on standard output, the rest on the terminal'
close_terminal

# --- Ctrl-C ---
rm -rf "$scratch/ck"
open_terminal && type_train --set train.steps=4000000 "$long" \
  --set checkpoint.dir="$scratch/ck" --set checkpoint.every=never &&
  await 20 shows 'step [0-9]*/4000000' && press '\003' && ends 10 3 &&
  [ "$(grep -ac 'gradweir: ' "$tty")" -eq 1 ] &&
  shows 'gradweir: stopped at step [0-9]*; --resume goes on from there'
ok 'Ctrl-C: one line and exit code 3 within 10 s'
step=$(sed -n 's/.*gradweir: stopped at step \([0-9]*\);.*/\1/p' "$tty")
# shellcheck disable=SC2086
run 0 train "$job" --set train.steps=$((step + 20)) $long \
  --set checkpoint.dir="$scratch/ck" --resume
ok '--resume goes on'
close_terminal

# --- Ctrl-Z and fg ---
# shellcheck disable=SC2086
run 0 train "$job" --set train.steps=20000 $long && plain=$(digest)
ok 'a job that nobody disturbs'
open_terminal && type_train --set train.steps=20000 "$long" &&
  await 20 shows 'step [0-9]*/20000' && press '\032' &&
  await 5 all_stopped && [ "$(left | wc -w)" -eq 6 ] && sleep "$pause" &&
  type_line 'fg; echo code=$?' && ends 60 0 && [ "$(on_terminal)" = "$plain" ] && ! shows 'gradweir: '
ok "Ctrl-Z, fg after $pause s: the job goes on, to the same weights"
close_terminal

# --- nobody reads ---
open_terminal && type_train --set train.steps=4000000 "$long" &&
  await 20 shows 'step [0-9]*/4000000' && press '\023' && sleep 3 &&
  press '\021' && before=$(wc -c <"$tty") &&
  await 5 eval '[ "$(wc -c <"$tty")" -gt $((before + 500)) ]' &&
  press '\003' && ends 10 3 && [ "$(grep -ac 'gradweir: ' "$tty")" -eq 1 ]
ok 'Ctrl-S does not stop a job'
close_terminal
# more than a megabyte of lines, and then the table; less | is such a reader
run 0 train "$job" --set train.steps=20000 --set train.eval_every=never \
  --set log.every=10000
plain=$(digest)
{ gradweir train "$job" --set train.steps=20000 --set train.eval_every=never \
  --set log.every=1; echo $? >"$scratch/code"; } 2>"$scratch/err" |
  { await 20 is_there worker; await 60 nobody_else; cat; } >"$scratch/out"
sed 's/^/# /' "$scratch/err"
[ "$(cat "$scratch/code")" = 0 ] && [ "$(digest)" = "$plain" ] &&
  grep -q '^\.\.\. some lines are lost' "$scratch/out"
ok 'nor does a pipe that nobody reads, and the table comes'

# --- a terminal that goes away ---
rm -rf "$scratch/ck"
open_terminal && type_train --set train.steps=4000000 "$long" \
  --set checkpoint.dir="$scratch/ck" --set checkpoint.every=never &&
  await 20 shows 'step [0-9]*/4000000'
close_terminal
await 10 nobody_left &&
  [ "$(find "$scratch/ck" -name manifest.json | wc -l)" -gt 1 ]
ok 'a terminal that is closed: a checkpoint, and nobody is left'

# --- programs as workers ---
linear=$(cd "${GW_BUILDDIR:-.}" && pwd)/tests/run/linear
type_run() {
  type_line "GW_TEST_MARK=$scratch '$program' run $long --set log.every=1 $*; echo code=\$?"
}
cat >"$scratch/ask" <<'PROGRAM'
trap 'echo "got a signal"' INT TERM HUP
printf 'your na''me? '
read name
echo "hello $name"
"$1"
echo 'ended by itself'
PROGRAM
open_terminal && type_run --set train.steps=300 --workers 1 -- sh "$scratch/ask" "$linear" &&
  await 10 shows 'your name? ' && type_line somebody && ends 20 0 &&
  shows 'hello somebody' && shows 'ended by itself'
ok 'one program may ask, and is answered'
close_terminal
open_terminal && type_run --set train.steps=4000000 --workers 2 -- sh "$scratch/ask" "$linear" &&
  await 10 shows 'step [1-9][0-9]*/4000000' && press '\003' && ends 10 3 &&
  [ "$(grep -ac 'ended by itself' "$tty")" -eq 2 ] && ! shows 'got a signal' &&
  [ "$(grep -ac 'gradweir: ' "$tty")" -eq 2 ] && shows 'gradweir: stopped at step [0-9]*'
ok 'Ctrl-C is no signal to programs, and the job ends in order'
close_terminal
# but for those above programs, which wait
have_stopped() {
  for pid in $(left); do
    tr '\0' ' ' <"/proc/$pid/cmdline" | grep -q 'gradweir program' ||
      grep -q '^State:.T' "/proc/$pid/status" 2>/dev/null || return 1
  done
}
open_terminal && type_run --set train.steps=50000 --workers 1 -- "$linear" &&
  await 10 shows 'step [1-9][0-9]*/50000' && press '\032' &&
  await 5 have_stopped && sleep "$pause" && have_stopped &&
  type_line 'fg; echo code=$?' && ends 60 0 && ! shows 'gradweir: '
ok "Ctrl-Z, fg after $pause s: so do programs"
close_terminal
open_terminal && type_run --set train.steps=4000000 --workers 2 -- "$linear" &&
  await 10 shows 'step [1-9][0-9]*/4000000'
close_terminal
await 10 nobody_left
ok 'a terminal that is closed: no program is left'

echo "1..$tests"
