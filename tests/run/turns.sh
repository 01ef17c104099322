#!/bin/sh
# Large models on few cores: whoever has much to do is slow, and nobody takes it
# for dead, nor breaks a link to it. Prints TAP.
. "${GW_SRCDIR:-..}/tests/run/lib.sh"
if grep -q '^#define GW_SANITIZED' "${GW_BUILDDIR:-.}/config.h"; then
  echo '1..0 # SKIP a sanitizer makes everything slow'
  exit 0
fi
make_data

# 64-5000-5000-10: 101 MB in 120 chunks, each a turn's work under adam
set -- train "$job" --workers 1 --servers 1 --set 'model.layers=(64,5000,5000,10)' \
  --set optimizer.kind=adam --set train.epochs=0 --set train.steps=6 \
  --set train.eval_every=never --set log.level=info

# nobody_missed NAME: what its processes wrote has no silence and no broken link.
nobody_missed() {
  ! grep -e ': silent' -e ' broke: ' "$scratch/$1.out" "$scratch/$1.err"
}

run 0 "$@" && cp "$scratch/out" "$scratch/alone.out" &&
  cp "$scratch/err" "$scratch/alone.err" && nobody_missed alone
ok 'a model of 101 MB trains under adam, and nobody is silent'

# members: all three, once they are there.
members() {
  members=$(for role in coordinator server worker; do pid_of $role; done)
  [ "$(echo "$members" | wc -w)" -eq 3 ]
}
# throttled: they run 40 ms of each 100, as a quota of 0.4 of a core has it. One
# that has ended leaves others stopped, which are to go on.
throttled() {
  # shellcheck disable=SC2086
  while kill -STOP $members 2>/dev/null; do
    sleep 0.06
    kill -CONT $members 2>/dev/null
    sleep 0.04
  done
  # shellcheck disable=SC2086
  kill -CONT $members 2>/dev/null
  wait "$job_pid"
}
start slow "$@"
job_pid=$started
await 20 members && throttled
ok 'so it does with 0.4 of a core'
nobody_missed slow
ok 'and nobody is silent'

echo "1..$tests"
