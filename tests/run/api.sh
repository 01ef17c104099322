#!/bin/sh
# A program over the C API (api.c): types, policies, waits that come back,
# leaving, failing, forks and mistakes. Prints TAP.
. "${GW_SRCDIR:-..}/tests/run/lib.sh"
api=${GW_BUILDDIR:-.}/tests/run/api
two='--workers 2 --servers 2'

# trains SETTINGS..: both ranks end near the target, with the same weights
trains() {
  # shellcheck disable=SC2086
  run 0 run $two --set optimizer.kind=sgd --set optimizer.lr=0.3 "$@" -- "$api" "${mode-train}" &&
    [ "$(grep -c '^\[[01]\] off by 0.0' "$scratch/out")" -eq 2 ]
}
for policy in sync backup:1 ssp:2 async local:4 diloco:4; do
  trains --set cluster.policy=$policy
  ok "$policy: three types, skipped keys, a rank with fewer steps"
done
for policy in sync backup:1 ssp:2 local:4; do
  mode=ahead trains --set cluster.policy=$policy
  ok "$policy: the same, and a step that has begun is given up at the end"
done
for policy in sync local:4 diloco:4 easgd:4 downpour:4; do
  mode=own trains --set cluster.policy=$policy
  ok "$policy: the same with an optimizer of the program's own"
done
trains --set train.commit=whole --set train.clip=100
ok 'whole commit: the same'
trains --set train.weights=bf16 && trains --set cluster.transport=tcp
ok 'bf16 weights, and tcp: the same'
first=$(digest)
trains --set cluster.transport=tcp --set cluster.servers=1 && [ "$(digest)" = "$first" ]
ok 'the same bits with another number of servers'

# groups SETTINGS..: both ranks have what AdamW by hand, and a mean, come to
groups() {
  run 0 run --workers 2 "$@" -- "$api" "${mode-groups}" &&
    [ "$(grep -cx '\[[01]\] groups are right' "$scratch/out")" -eq 2 ] &&
    grep -q "optimizer is adamw, as the program asks" "$scratch/out" "$scratch/err"
}
groups --servers 1 && first=$(digest) &&
  for set in cluster.transport=tcp cluster.transport=shm train.commit=whole cluster.connections=3 \
    cluster.local_reduction=on; do
    groups --servers 3 --set $set && [ "$(digest)" = "$first" ] || break
  done
ok 'groups with rates that change, the optimizer of the program, and means: as by hand, to the same bits'
for set in cluster.transport=tcp cluster.transport=shm train.commit=whole cluster.local_reduction=on; do
  mode=blind groups --servers 3 --set $set && [ "$(digest)" = "$first" ] || break
done
ok 'the same bits of a program that waits for no weights before it pushes'
run 1 run --workers 2 --set optimizer.kind=sgd -- "$api" groups
grep -q 'the job has optimizer.kind = "sgd", the program asks for adamw; leave that line out of the job' "$scratch/err"
ok 'a job that names another optimizer than the program is refused'
run 1 run --workers 2 -- "$api" odd
grep -q 'step 7, group [01]: lr is 0.0[0-9]* on worker 0 (.*) and 3 on worker 1 (.*); give all ranks the same' "$scratch/err"
ok 'ranks that set unlike rates end the job, by name'

# shellcheck disable=SC2086
{
run 0 run $two -- "$api" waits && grep -q '^\[1\] rank 1: many time-outs, many signals$' "$scratch/out"
ok 'waits come back for a time-out or a signal, and are gone on with'
run 0 run $two --set optimizer.kind=none -- "$api" pull &&
  grep -q '^\[0\] rank 0: often asked, 0 wrong, seldom waited$' "$scratch/out" &&
  grep -q '^\[1\] rank 1: .* 0 wrong' "$scratch/out"
ok 'a step gives means of keys before its end, and a question is no wait'
for policy in sync async local:3; do
  run 3 run $two --set cluster.policy=$policy --set checkpoint.dir="$scratch/ck-$policy" --set checkpoint.every=never -- "$api" save
  after=steps
  [ $policy = sync ] && after='no step'
  [ "$(grep -c "^\[[01]\] save: 0 after $after\$" "$scratch/out")" -eq 2 ] &&
    run 0 run $two --set cluster.policy=$policy --set checkpoint.dir="$scratch/ck-$policy" --resume -- "$api" train &&
    grep -q '^going on .*step [1-9]' "$scratch/out"
  ok "$policy: a program has a checkpoint made, and the job goes on from it"
done
run 0 run $two -- "$api" early && grep -qx '\[1\] -13 after 150 steps' "$scratch/out"
ok 'the end of a job says how many steps it has taken'
run 1 run $two -- "$api" leave
grep -q '^\[1\] left after a moment$' "$scratch/out" &&
  grep -q 'the program has left the job' "$scratch/err"
ok 'a rank that leaves while it waits is gone in a second, and the others hear it'
run 1 run $two -- "$api" fail
grep -q '^gradweir: .*the camera is gone' "$scratch/err" &&
  [ "$(grep -c 'the camera is gone' "$scratch/err" "$scratch/out" | awk -F: '{ n += $2 } END { print n }')" -ge 2 ]
ok 'a failure is told to all by its line'
run 0 run --workers 1 -- "$api" fork && grep -q '^child: -12, the job was opened before this process was forked' "$scratch/out" &&
  [ "$(grep -cx 'child: -12 -12 -12 -12 0' "$scratch/out")" -eq 2 ] && grep -q '^off by' "$scratch/out"
ok 'a fork has no job, and its parent goes on'
}
cat >"$scratch/expected" <<'SAID'
-12 gradweir_begin: the job is not joined
-2 key 0: its name "kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk" has 299 bytes, 1 to 255 are possible
-2 key a has 9 dimensions, at most 8 are possible
-2 key a: there is no type 7
-2 key a: there is no group 3, the last is 0
-2 group 1: there is no rule 2
-2 there is no optimizer "adamv"; take sgd, momentum, nesterov, adam, adamw, lamb or none
-2 key 0: its struct_size is not that of this library
-12 gradweir_declare: the job is not started
-12 gradweir_end: the job is not started
-2 gradweir_put: there is no key 77
-12 gradweir_start: no step has begun
-2 gradweir_terms: there is no group 1
-2 gradweir_terms: group 0: beta1 is 1; it must be finite and at least 0, and less than 1
-2 terms.struct_size is not that of this library
-12 gradweir_end: no step has begun
-12 gradweir_save: the job makes no checkpoints: it has no checkpoint.dir
-12 gradweir_push: no step has begun
-2 step.struct_size is not that of this library
-12 gradweir_begin: a step has begun, and has not ended
-2 gradweir_wait: there are 3 keys, not 2 + 2
4 sync
-5
-12 gradweir_pull: key whole was neither pushed nor skipped in this step
-12 gradweir_pull: key brain was neither pushed nor skipped in this step
-12 gradweir_weigh: a key of this step was pushed
-12 gradweir_terms: a key of this step was pushed
-12 step 0: key whole is ready twice in one step, by a mistake of the trainer
SAID
run 2 run --workers 1 -- "$api" misuse
grep '^-\|^[0-9]' "$scratch/out" >"$scratch/said" || :
diff "$scratch/expected" "$scratch/said" >"$scratch/diff" || { sed 's/^/# /' "$scratch/diff"; false; }
ok 'each mistake is a line, and most leave the job as it was'
# a sanitizer keeps memory for a while after it was freed
case ${GW_CFLAGS-} in
*-fsanitize*) some='[0-9]*' ;;
*) some='[0-9]\{1,3\}' ;;
esac
nothing_more() {
  grep -q "$1: $some KiB more, 0 descriptors more, 0 threads more\$" "$2" || { sed 's/^/# /' "$2"; false; }
}
"$api" many >"$scratch/many" 2>&1 && nothing_more unheard "$scratch/many"
ok '1,000 jobs that nobody hears are opened and closed, and nothing grows'
run 0 run --workers 1 -- "$api" refused && nothing_more refused "$scratch/out"
ok '1,000 jobs are turned away, and nothing grows'
echo 'model = { kind = "external"; }; cluster = { workers = 1; servers = 1; };' >"$scratch/job"
GW_TEST_MARK=$scratch "$api" whole "$program" "$scratch/job" "${GW_JOBS:-200}" >"$scratch/out" 2>"$scratch/err" &&
  nothing_more whole "$scratch/out" && [ "$(grep -c 'coordinator info finished at step 3$' "$scratch/err")" -eq "${GW_JOBS:-200}" ]
ok "${GW_JOBS:-200} whole jobs in one process, one after another, and nothing grows"
"$api" train >"$scratch/out" 2>"$scratch/err"
[ $? -eq 1 ] && grep -q 'GRADWEIR_COORDINATOR' "$scratch/err"
ok 'a program that nobody has started says what it needs'
await 3 nobody_left
ok 'nobody is left'
echo "1..$tests"
