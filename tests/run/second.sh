#!/bin/sh
# A second implementation, written from docs/PROTOCOL.md (second.py): it is one
# worker of a job beside a real one, and the weights are those of two real ones;
# what it says wrong at login and in frames ends as the page says. Prints TAP.
. "${GW_SRCDIR:-..}/tests/run/lib.sh"
if ! command -v python3 >/dev/null 2>&1; then
  skip 'a second implementation' 'there is no python3; apt-get install python3'
  echo "1..$tests"
  exit 0
fi
proto=${GW_SRCDIR:-..}/proto/control.proto
seconds=${GW_SRCDIR:-..}/tests/run/second.py

# 13 pictures of 4 x 4 with one white pixel each, in three classes: whatever
# sums them in whatever order has the same bits.
make_points() {
  mkdir -p "$scratch/data"
  printf '\000\000\010\003\000\000\000\015\000\000\000\004\000\000\000\004' \
    >"$scratch/data/images"
  printf '\000\000\010\001\000\000\000\015' >"$scratch/data/labels"
  i=0
  while [ $i -lt 13 ]; do
    p=0
    while [ $p -lt 16 ]; do
      if [ $p -eq $((i * 5 % 16)) ]; then printf '\377'; else printf '\000'; fi
      p=$((p + 1))
    done
    i=$((i + 1))
  done >>"$scratch/data/images"
  printf '\000\001\002\000\001\002\000\001\002\000\001\002\000' \
    >>"$scratch/data/labels"
}
make_points
cat >"$scratch/job" <<JOB
data = { train = ("$scratch/data/images", "$scratch/data/labels"); };
model = { layers = (16, 3); };
train = { batch = 2; steps = 30; seed = 5; eval_every = "never"; };
optimizer = { kind = "momentum"; lr = 0.5; };
cluster = { workers = 2; servers = 2; transport = "tcp"; step_deadline = 1; };
log = { every = 10; };
JOB
job=$scratch/job

# second NAME ARGUMENTS...: in the background, as start does.
second() {
  name=$1
  shift
  rm -f "$scratch/$name.out" "$scratch/$name.err"
  GW_TEST_MARK=$scratch python3 "$seconds" "$@" >"$scratch/$name.out" \
    2>"$scratch/$name.err" &
  started=$!
}

is_open() { grep -q 'members join at' "$scratch/c.out" 2>/dev/null; }

# open_job SETTINGS...: a coordinator and two servers; its address is $at.
open_job() {
  start c coordinator "$job" --listen 127.0.0.1:0 "$@"
  coordinator=$started
  await 10 is_open
  at=$(sed -n 's/^.*members join at \([^:]*:[0-9]*\):.*/\1/p' "$scratch/c.out")
  start s1 server --join "$at"
  start s2 server --join "$at"
}

# beside HOW: a real rank 0 and the second implementation as rank 1.
beside() {
  open_job --set cluster.abort_after=10
  start w worker --join "$at" --rank 0
  # the real one first, so that the other finds rank 1
  second p "$at" "$proto" "$scratch/data/images" "$scratch/data/labels" "$1"
  await 30 nobody_left || end_all
  wait $coordinator
  ended=$?
  sed 's/^/# second: /' "$scratch/p.out" "$scratch/p.err"
  sed -n '$s/^/# coordinator: /p' "$scratch/c.out" "$scratch/c.err"
  return $ended
}

run 0 train "$job" && real=$(digest) && [ "$real" ]
ok 'two real workers train'
beside '' && [ "$(digest "$scratch/c.out")" = "$real" ]
ok 'a second implementation beside a real worker comes to the same weights'
grep -q '^0 all 30 steps done$' "$scratch/p.out"
ok 'and hears how the job ended'

# it knows rank 0 from the view, as everybody does
beside steal && [ "$(digest "$scratch/c.out")" = "$real" ]
ok 'who takes the name of another member does the job no harm'
[ "$(grep -c '^-33 no proof that this is worker 0' "$scratch/p.out")" -eq 2 ]
ok 'it is refused at the shard and at the coordinator'
grep -q 'warn connection from 127.0.0.1:[0-9]* refused: no proof that this is worker 0' \
  "$scratch/c.err"
ok 'and named with its address'

for how in many one-more; do
  count=3
  [ $how = many ] && count=1000000
  beside $how
  [ $? -eq 1 ] &&
    grep -q "worker 1 (second, pid [0-9]*) breaks the protocol: push of $count samples of rank 1, which has 2 at most, says server [01]" "$scratch/c.err"
  ok "a push of $count samples is named"
  grep -q "^gradweir: .*worker 1 (second.*push of $count samples of rank 1, which has 2 at most" \
    "$scratch/c.err"
  ok 'and is why the job ends'
done

beside vanish
[ $? -eq 1 ] && grep -q '^gradweir: worker 1 (second, pid [0-9]*) was lost at step [0-9]*: it broke the protocol: message that its role does not send$' \
  "$scratch/c.err"
ok 'who breaks the protocol and is silent then is named with what it did'

# ---- logins that are not as they should be

open_job
# says KIND PATTERN
answers() {
  got=$(python3 "$seconds" "$at" "$proto" hello "$1")
  echo "$got" | grep -qx -- "$2" && return 0
  echo "# $1: $got"
  return 1
}
wrong=
answers none '0 ' || wrong=1
for kind in magic crc role links link incarnation generation; do
  answers $kind closed || wrong=1
done
answers version '-35 protocol versions differ: this is gradweir [^ ]* with wire version 2, you are gradweir second 1 with 1' || wrong=1
answers job '-33 this is another job: .*' || wrong=1
answers expects '-33 another process listens here now' || wrong=1
answers coordinator '-33 this job has a coordinator' || wrong=1
[ -z "$wrong" ]
ok 'logins that are not as they should be end as the page says'
wrong=
kill -TERM $coordinator
await 10 nobody_left || end_all

# ---- a crowd that is there before the members

mkfifo "$scratch/hold"
for role in 3 4; do
  start c coordinator "$job" --listen 127.0.0.1:0
  coordinator=$started
  await 10 is_open
  at=$(sed -n 's/^.*members join at \([^:]*:[0-9]*\):.*/\1/p' "$scratch/c.out")
  exec 4<>"$scratch/hold"
  python3 "$seconds" "$at" "$proto" crowd $role <"$scratch/hold" \
    >"$scratch/crowd.out" 2>&1 4>&- &
  crowd=$!
  await 10 grep -q crowded "$scratch/crowd.out"
  start s1 server --join "$at" 4>&-
  start s2 server --join "$at" 4>&-
  start w0 worker --join "$at" 4>&-
  run 0 status "$at" && grep -q '^job .*: gathering' "$scratch/out"
  ok "a crowd of role $role: the job can be looked at"
  start w1 worker --join "$at" 4>&-
  await 20 grep -q '^done .*all 30 steps done' "$scratch/c.out" &&
    [ "$(digest "$scratch/c.out")" = "$real" ]
  ok 'and has its members, and its weights'
  exec 4>&-
  kill $crowd 2>/dev/null
  await 10 nobody_left || end_all
done

# ---- a launcher's job is its children's

start l train "$job" --set train.steps=4000000 --set log.every=1000
launcher=$started
await 10 eval '[ "$(ports coordinator | wc -w)" -eq 1 ]'
at=127.0.0.1:$(ports coordinator)
python3 "$seconds" "$at" "$proto" "$scratch/data/images" "$scratch/data/labels" \
  other-secret >"$scratch/p.out" 2>"$scratch/p.err"
[ $? -ne 0 ] && grep -qx -- '-33 only the processes that gradweir train has started are members of this job' "$scratch/p.err"
ok 'nobody else joins what gradweir train has started'
env >"$scratch/env" # may name a test with such a word
for pid in $(left); do
  { tr '\0' '\n' <"/proc/$pid/environ" | grep -vxFf "$scratch/env" |
    grep -v '^GW_TEST_MARK='; tr '\0' '\n' <"/proc/$pid/cmdline"; } |
    grep -i '[0-9a-f]\{64\}\|secret.*='
done >"$scratch/shown"
sed 's/^/# /' "$scratch/shown"
[ ! -s "$scratch/shown" ]
ok 'its secret is in no command line and no environment'
kill -TERM $launcher
await 10 nobody_left || end_all
wait $launcher
[ $? -eq 3 ]
ok 'and the job was not disturbed'

echo "1..$tests"
