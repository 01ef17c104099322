#!/bin/sh
# A job that loses a process begins again from its newest checkpoint, by itself
# (cluster.restarts), to the bits of a job that loses none. Workers are not
# replaced here; replace.sh has that. Prints TAP.
. "${GW_SRCDIR:-..}/tests/run/lib.sh"
make_data
build=$(cd "${GW_BUILDDIR:-.}" && pwd)
linear=$build/tests/run/linear
ck=$scratch/ck
always='--set train.eval_every=never --set log.every=500 --set cluster.patience=0'
steps="--set train.steps=6000 $always"
keep="--set checkpoint.dir=$ck --set checkpoint.every=200"
endless="--set train.steps=100000000 $always $keep"

# begin ARGUMENTS...: a job that has passed step 500, in an empty directory.
begin() {
  end_all
  rm -rf "$ck"
  start l "$@"
  launched=$started
  await 20 grep -qs '^step [1-9]' "$scratch/l.out"
}

# tells PATTERN [COUNT]: so many lines of gradweir's on standard error.
tells() {
  [ "$(grep -c "^gradweir: $1" "$scratch/l.err")" -eq "${2:-1}" ] && return 0
  echo "# expected ${2:-1} times: gradweir: $1"
  sed 's/^/# /' "$scratch/l.err"
  return 1
}

again='the job begins again from step'

# begun N: it has begun again so often, and computes.
begun() {
  await 20 eval "[ \$(grep -c '$again' '$scratch/l.err') -eq $1 ]" &&
    await 20 eval "[ \$(grep -c '^workers compute' '$scratch/l.out') -eq $(($1 + 1)) ]" &&
    await 20 eval "tail -n 1 '$scratch/l.out' | grep -q '^step [1-9]'"
}

# shellcheck disable=SC2086
{
run 0 train "$job" $steps && calm=$(digest) && [ "$calm" ]
ok 'a job that loses nobody'

# --- each kind of process ---
for role in worker server coordinator; do
  begin train "$job" $steps $keep && kill -9 "$(pid_of $role)" && ends 0 &&
    tells "$again [1-9][0-9]* (restart 1 of 3 in ten minutes)" &&
    tells '.*died at step [0-9]*: killed by signal 9' &&
    [ "$(digest "$scratch/l.out")" = "$calm" ]
  ok "kill -9 of a $role: it begins again, to the same bits"
done

# --- before the first checkpoint ---
rm -rf "$ck"
start l train "$job" $steps --set checkpoint.dir="$ck" --set checkpoint.every=100000
launched=$started
await 20 grep -qs '^step ' "$scratch/l.out" && kill -9 "$(pid_of worker)" && ends 0 &&
  tells "$again 0 (restart 1 of 3" && [ "$(digest "$scratch/l.out")" = "$calm" ]
ok 'before its first checkpoint it begins anew'

# --- several times, and no more ---
begin train "$job" $endless --set cluster.restarts=2 && kill -9 "$(pid_of worker)" && begun 1 &&
  GRADWEIR_SOCKET_DIR=$scratch/sockets run 0 ctl status && kill -9 "$(pid_of coordinator)" &&
  begun 2 && run 0 ctl status && kill -9 "$(pid_of server)" && ends 3 && tells "$again" 2 &&
  tells '2 restarts in ten minutes: no more (cluster.restarts)' &&
  tells 'server [01] .* died .*; --resume goes on from '
ok 'cluster.restarts in ten minutes, then exit code 3; ctl finds it each time'
begin train "$job" $endless --set cluster.restarts=2 && kill -9 "$(pid_of worker)" && begun 1 &&
  kill -INT "$launched" && ends 3 && tells "$again" 1
ok 'a job that has begun again stops by Ctrl-C'

# --- 0, and jobs without a checkpoint ---
begin train "$job" $endless --set cluster.restarts=0 && kill -9 "$(pid_of coordinator)" && ends 3 &&
  tells '--resume goes on from step [0-9]' && tells "$again" 0
ok 'cluster.restarts = 0: exit code 3, and where --resume goes on'
begin train "$job" $endless --set checkpoint.dir= && kill -9 "$(pid_of worker)" && ends 1 &&
  [ "$(wc -l <"$scratch/l.err")" -eq 1 ]
ok 'without checkpoint.dir a death is the end, with exit code 1'
begin train "$job" $endless && await 20 eval "ls '$ck'/step-*/manifest.json >/dev/null 2>&1" &&
  sleep 1 && mv "$ck" "$scratch/moved" && kill -9 "$(pid_of coordinator)" &&
  ends 1 && tells "no checkpoint is left in $ck" && tells "$again" 0
ok 'a job whose checkpoints are gone does not begin anew'

# --- programs of the user's ---
program=$build/gradweir
begin_program() {
  end_all
  rm -rf "$ck"
  start l run --workers 2 --set log.every=500 $keep "$@"
  launched=$started
  await 20 grep -qs '^step [1-9]' "$scratch/l.out"
}
begin_program --set train.steps=100000000 -- "$linear"
victim=$(left | while read -r pid; do
  tr '\0' ' ' <"/proc/$pid/cmdline" | grep -q "^$linear" && echo "$pid"
done | head -n 1)
kill -9 "$victim" && begun 1 && kill -INT "$launched" && ends 3 &&
  tells 'worker [01] .* ended at step .* signal 9'
ok 'a program that is killed: all begin again'
cat >"$scratch/fails" <<PROGRAM
#!/bin/sh
"$linear" &
sleep 2
kill -9 \$!
echo 'no data' >&2
exit 7
PROGRAM
chmod +x "$scratch/fails"
begin_program --set train.steps=100000000 -- "$scratch/fails"
ends 7 && tells "$again" 0
ok 'one that fails by itself would fail again'

# --- by hand ---
rm -rf "$ck"
join_address() { sed -n 's/^members join at .*--join //p' "$scratch/c.out"; }
start c coordinator "$job" $endless
coordinator=$started
await 10 eval '[ "$(join_address)" ]'
members=
for role in server server worker worker; do
  start "$role$members" $role --join "$(join_address)"
  members="$members $started"
done 2>/dev/null
await 20 eval "ls '$ck'/step-*/manifest.json >'$scratch/list' 2>&1" && kill -9 "${members##* }"
codes=
for pid in $coordinator ${members% *}; do
  wait "$pid"
  codes="$codes $?"
done
[ "$codes" = ' 3 3 3 3' ] && await 3 nobody_left
result=$?
echo "# exit codes$codes"
[ $result -eq 0 ]
ok 'by hand every process ends with 3, so that a supervisor knows'
} 2>&1
end_all
await 3 nobody_left
ok 'nobody is left'
echo "1..$tests"
