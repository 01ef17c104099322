#!/bin/sh
# gradweir study from outside: simulated runs, their results, interruptions of
# every kind, runs that fail. Prints TAP.
. "${GW_SRCDIR:-..}/tests/run/lib.sh"
make_data

study=$scratch/a.study
cat >"$study" <<STUDY
job = "job";
set = [ "log.every=1", "train.steps=300", "train.eval_every=10 steps" ];
compute = { step_us = 1000.0; sample_us = 10.0; };
target = { loss = 2.0; accuracy = 0.3; };
grid = { policy = [ "sync", "async", "backup:1" ]; workers = 3;
         straggler = [ "none", "exponential" ];
         network = "1 Gbit/s, 0.2 ms"; seed = [ 1, 2 ]; };
STUDY

# files DIR: what a study has come to, but for plots.
files() { (cd "$1" && cat results.csv results.jsonl results.txt report.html && cat runs/*.jsonl runs/*.spans) | cksum; }
is_there() { [ "$(pid_of "$1")" ]; }
# texts DIR NAME: of results.jsonl, a line for each run.
texts() { sed -n "s/.*\"$2\":\"\([^\"]*\)\".*/\1/p" "$1/results.jsonl"; }

run 0 study "$study" --dry-run && [ "$(grep -c '^[0-9a-f]\{16\}  policy' "$scratch/out")" -eq 12 ] &&
  tail -n 1 "$scratch/out" | grep -q '^12 runs of 6 points, simulated$' &&
  [ ! -e "$scratch/a.results" ]
ok '--dry-run shows the runs and makes nothing'

# --- those of examples/studies ---
examples=${GW_SRCDIR:-..}/examples/studies
seen=0 wrong=0
for ready in "$examples"/*.study; do
  seen=$((seen + 1))
  run 0 study "$ready" --dry-run && grep -q '^[1-9][0-9]* runs of [1-9]' "$scratch/out" || wrong=1
done
[ $seen -ge 4 ] && [ $wrong -eq 0 ]
ok 'the ready studies are studies'

run 0 study "$study" && whole=$(files "$scratch/a.results") &&
  [ "$(texts "$scratch/a.results" end | grep -c done)" -eq 12 ] &&
  grep -q '^run 12/12: ' "$scratch/out" && grep -q '^sync ' "$scratch/out"
ok 'a study runs, and has its results beside it'
python3=$(command -v python3)
if [ -z "$python3" ]; then
  echo "ok $((tests += 1)) - another reader reads them # SKIP no python3"
else
  python3 - "$scratch/a.results" <<'PY'
import csv, json, sys
d = sys.argv[1]
rows = list(csv.DictReader(open(d + "/results.csv", newline="")))
objects = [json.loads(line) for line in open(d + "/results.jsonl")]
assert len(rows) == len(objects) == 12
for row, o in zip(rows, objects):
    assert list(row) == list(o)
    for name, value in o.items():
        if value is None: assert row[name] == "", name
        elif isinstance(value, str): assert row[name] == value, name
        else: assert abs(float(row[name]) - value) <= 1e-8 * abs(value), name
    last = None
    for line in open(f"{d}/runs/{o['id']}.jsonl"):
        r = json.loads(line)
        if "step" in r: last = r
        if r.get("final"): final = r
    assert o["bytes"] == final["workers"]["bytes_pushed"] + final["workers"]["bytes_pulled"]
    assert o["accuracy"] == final["test_accuracy"] and o["wall_s"] == final["wall_s"]
    late = [sum(x) for x in zip(*[w + [0] * (99 - len(w)) for w in last.get("staleness_by_worker", [])])]
    mean = sum(i * n for i, n in enumerate(late)) / max(1, sum(late))
    assert abs(o["staleness_mean"] - mean) < 1e-7
PY
  ok 'another reader reads them, and they are what the records say'
fi

run 0 study "$study" && ! grep -q '^run ' "$scratch/out" &&
  [ "$(files "$scratch/a.results")" = "$whole" ]
ok 'what has been run is not run again'

if ! command -v gnuplot >/dev/null; then
  echo "ok $((tests += 1)) - a report with its plots in it # SKIP no gnuplot"
else
  report=$scratch/a.results/report.html
  [ "$(grep -c '^<svg' "$report")" -eq 7 ] && ! grep -Eq '(src|href)="?(http|//)' "$report" &&
    ! grep -Eqi '#010203|rgb\( *1, *2, *3\)|"black"' "$report" && [ "$(find "$scratch/a.results/plots" -name '*.png' -size +2k | wc -l)" -eq 7 ]
  ok 'a report with its plots in it, which needs no network'
fi
GW_TEST_MARK=$scratch PATH=$scratch/nothing "$program" study "$study" >"$scratch/out" 2>"$scratch/err" &&
  says 'the report has no plots: gnuplot is not here' && ! grep -q '<svg' "$scratch/a.results/report.html"
ok 'without gnuplot the report has no plots, and says so'
run 0 study "$study"
ok 'and has them again'

sed 's/^ *test = .*/};/' "$job" >"$scratch/untested"
printf 'job = "untested"; set = "train.eval_every=never"; compute = { step_us = 1000.0; };' >"$scratch/u.study"
run 0 study "$scratch/u.study" && [ "$(texts "$scratch/u.results" end)" = 'done' ]
ok 'a job without a test set is studied as well'

# --- interruptions ---
# interrupted SIGNAL CODE: another directory, ended after its first runs.
interrupted() {
  start study study "$study" --out "$scratch/b" --jobs 2
  await 20 grep -q '^run [0-9]*/12' "$scratch/study.out"
  kill "-$1" "$started"
  wait "$started"
  [ $? -eq "$2" ] && await 3 nobody_left
}
interrupted TERM 3 && says_in="$(cat "$scratch/study.err")" &&
  case $says_in in *'stopped: '*' of 12 runs have ended; the same command goes on'*) true ;; *) false ;; esac
ok 'SIGTERM: one line, exit code 3, and nobody is left'
interrupted KILL 137 2>/dev/null
ok 'kill -9 leaves nobody either'
# as Ctrl-C does, to all of its group
GW_TEST_MARK=$scratch setsid "$program" study "$study" --out "$scratch/i" --jobs 3 \
  >"$scratch/int.out" 2>"$scratch/int.err" &
started=$!
await 20 grep -q '^run [0-9]*/12' "$scratch/int.out"
kill -s INT -- "-$started"
wait "$started"
[ $? -eq 3 ] && [ "$(wc -l <"$scratch/int.err")" -eq 1 ] && await 3 nobody_left &&
  ! grep -q failed "$scratch"/i/runs/*.jsonl
ok 'Ctrl-C is no failure of the runs that it ends'
run 0 study "$study" --out "$scratch/b" &&
  sed "s|$scratch/b|$scratch/a.results|" -i "$scratch/b/report.html" &&
  [ "$(files "$scratch/b")" = "$whole" ]
ok 'interrupted twice and gone on with, it comes to the same files'

start first study "$study" --out "$scratch/c"
await 20 test -e "$scratch/c/runs/.lock"
run 1 study "$study" --out "$scratch/c" && says '.*another study runs in this directory'
ok 'two studies do not share a directory'
wait "$started"

# --- a large one, alone, and in threads ---
cat >"$scratch/l.study" <<STUDY
job = "job";
compute = { step_us = 1000.0; };
set = [ "train.arithmetic=none", "train.steps=3", "train.eval_every=never", "log.every=1" ];
grid = ( { workers = 3; }, { workers = 250; servers = 6; network = "10 Gbit/s, 10 us"; },
         { workers = 4; } );
STUDY
run 0 study "$scratch/l.study" --jobs 1 && one=$(files "$scratch/l.results") && rm -r "$scratch/l.results" &&
  run 0 study "$scratch/l.study" --jobs 3 && [ "$(files "$scratch/l.results")" = "$one" ] &&
  [ "$(sed -n 's/^run \(.\).3: workers \([0-9]*\).*/\1 \2/p' "$scratch/out" | xargs)" = '1 3 2 250 3 4' ]
ok 'a large simulation runs alone in all threads, and comes to the same files'

# --- runs that fail ---
cat >"$scratch/d.study" <<STUDY
job = "job";
compute = { step_us = 1000.0; };
set = "optimizer.weight_decay=0.9";
grid = ( { lr = [ 0.05, 1e6 ]; }, { lr = 0.05; } );
STUDY
run 0 study "$scratch/d.study" &&
  [ "$(texts "$scratch/d.results" end | xargs)" = 'done failed done' ] &&
  grep -q 'not finite' "$scratch/d.results/results.csv" &&
  grep -q '^run 2/2' "$scratch/out" && grep -q '1 failed' "$scratch/out"
ok 'a run that diverges is a row, and what is there twice is run once'
printf 'job = "job"; limit_s = 0.001; compute = { step_us = 1000.0; };' >"$scratch/e.study"
run 0 study "$scratch/e.study" && grep -q 'failed' "$scratch/e.results/results.csv"
ok 'a run that takes too long is given up'

# --- real processes ---
cat >"$scratch/p.study" <<STUDY
job = "job"; run = "processes"; target = { accuracy = 0.2; };
grid = ( { policy = [ "sync", "async" ]; },
         { vary = ( { name = "nowhere"; set = "checkpoint.dir=/proc/x"; } ); } );
STUDY
run 0 study "$scratch/p.study" &&
  [ "$(texts "$scratch/p.results" end | xargs)" = 'done done failed' ] &&
  texts "$scratch/p.results" why | grep -q '^checkpoint.dir: cannot make directory /proc/x' &&
  id=$(texts "$scratch/p.results" id | head -n 1) && run 0 train "$scratch/p.results/runs/$id.job" &&
  grep -q "\"$(digest)\"" "$scratch/p.results/runs/$id.jsonl"
ok 'real processes, whose job can be run again'
cat >"$scratch/q.study" <<STUDY
job = "job"; run = "processes"; set = [ "train.steps=100000000", "train.eval_every=never" ]; limit_s = 2;
STUDY
run 0 study "$scratch/q.study" && texts "$scratch/q.results" why | grep -q '^given up after 2 s' && await 3 nobody_left
ok 'one that takes too long is ended'
sed -i 's/limit_s = 2/limit_s = 100/' "$scratch/q.study"
start study study "$scratch/q.study"
await 10 is_there worker
kill -9 "$started"
wait "$started" 2>/dev/null
await 10 nobody_left
ok 'and with a study that is killed goes its job'

run 2 study "$scratch/none.study" && says '.*none.study: cannot be opened: No such file or directory'
ok 'a file that is not there'
run 2 study && says 'study: takes one study file'
ok 'no file'
mkdir "$scratch/f" && : >"$scratch/f/runs"
run 1 study "$study" --out "$scratch/f" && says '.*/f/runs/.lock'
ok 'a directory that cannot be made'
echo "1..$tests"
