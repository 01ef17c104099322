#!/bin/sh
# Directories of checkpoints and logs: who may read what is made there, what
# neighbours plant in them, and what becomes of them while a job runs. Prints
# TAP.
. "${GW_SRCDIR:-..}/tests/run/lib.sh"
make_data
program=$(realpath "$program")
cd "$scratch" || exit 1
umask 022
long="--set cluster.patience=0 --set train.steps=4000000 --set train.eval_every=never --set log.every=1000 --set checkpoint.every=200"

modes() { find "$@" -printf '%m\n' | sort -u | tr '\n' ' '; }
# checkpoint DIR: the number of the newest one that was finished
newest() {
  ls -d "$1"/step-*/manifest.json 2>/dev/null |
    sed -n 's|.*/step-0*\([0-9][0-9]*\)/manifest.json|\1|p' | sort -n | tail -n 1
}
later() { [ "$(newest "$1")" -gt "$2" ] 2>/dev/null; }

# --- who may read them ---
run 0 train "$job" --set checkpoint.dir=a/ck --set log.dir=log &&
  [ "$(modes a/ck log -type d)" = '700 ' ] && [ "$(modes a/ck log -type f)" = '600 ' ] &&
  [ "$(modes a -maxdepth 0)" = '755 ' ] && [ ! -s err ]
ok 'checkpoints and logs are private'
run 0 train "$job" --set checkpoint.dir=b --set log.dir=log2 \
  --set checkpoint.access=umask --set log.access=umask &&
  [ "$(modes b log2 -type d)" = '755 ' ] && [ "$(modes b log2 -type f)" = '644 ' ]
ok 'or for whom the umask lets, where that is asked for'
run 0 import "$(run 0 export a/ck model >/dev/null && echo model)" --job "$job" --to c &&
  [ "$(modes c -type d)" = '700 ' ] && [ "$(modes c -type f)" = '600 ' ] &&
  [ "$(modes model)" = '644 ' ]
ok 'so is what import makes; what export makes is as the umask has it'

# --- what neighbours plant ---
echo secret >victim
unharmed() { [ "$(cat victim)" = secret ]; }
mkdir d && ln -s ../victim d/.gradweir-token
run 1 train "$job" --set checkpoint.dir=d &&
  says 'checkpoint.dir: /.*/d/.gradweir-token is a link, or no file of its own; see what it is, and remove it' &&
  run 1 train "$job" --set checkpoint.dir=d --dry-run && says 'checkpoint.dir: /.*/d/.gradweir-token is a link' && unharmed
ok 'a link for the token'
rm d/.gradweir-token
mkdir d/step-00000040
for name in shard-0-of-2.safetensors.tmp shard-1-of-2.safetensors.tmp manifest.json.tmp; do
  ln -s ../../victim "d/step-00000040/$name"
done
run 0 train "$job" --set checkpoint.dir=d && unharmed && run 0 eval d &&
  grep -q '^step 40' out
ok 'links for files that will be written'
mkdir e elsewhere && ln -s ../elsewhere e/step-00000040
run 0 train "$job" --set checkpoint.dir=e && [ -z "$(ls elsewhere)" ] &&
  [ -d e/step-00000040 ] && [ ! -L e/step-00000040 ]
ok 'a link for the directory of a checkpoint goes, being none'
mkdir log3
cat >by_hand <<'SH'
ln -s ../victim "log3/coordinator-$(uname -n)-$$.log"
exec "$0" coordinator "$1" --set log.dir=log3
SH
GW_TEST_MARK=$scratch timeout 20 sh -c "$(cat by_hand)" "$program" "$job" 2>err >out
[ $? -eq 1 ] && says 'log.dir: /.*/log3/coordinator-.*.log is a link, or no file of this user.s own' && unharmed
ok 'a link for a log'
mkdir -m 777 f log4
run 0 train "$job" --set checkpoint.dir=f --set log.dir=log4 &&
  [ "$(wc -l <err)" -eq 2 ] &&
  grep -q '^gradweir: checkpoint.dir: everybody may write to /.*/f (mode 0777, chmod o-w takes it away): ' err &&
  grep -q '^gradweir: log.dir: everybody may write to /.*/log4 ' err
ok 'a directory that everybody may fill is warned of, once'

# --- what becomes of them ---
# shellcheck disable=SC2086
start l train "$job" $long --set checkpoint.dir=h --set checkpoint.every=10000
await 20 later h -1
for n in 1 2 3 4 5 6 7 8 9; do ln -s ../elsewhere h/step-000${n}0000; done
await 20 grep -q 'the checkpoint of step [0-9]* failed, the job goes on: .*h/step-000[0-9]*0000 is a link' l.err
status=$?
find h -type l -delete
await 20 later h 0 && kill -INT "$started"
wait "$started"
[ $? -eq 3 ] && [ $status -eq 0 ] && [ -z "$(ls elsewhere)" ]
ok 'a link for a checkpoint to come: that one fails, and the job goes on'
# shellcheck disable=SC2086
start l train "$job" $long --set checkpoint.dir=g
await 20 later g 200
mv g moved && ln -s elsewhere g
stood=$(newest moved)
await 20 later moved "$stood"
kill -INT "$started"
wait "$started"
[ -z "$(ls elsewhere)" ]
ok 'a link in the place of the directory is not followed'
[ -n "$stood" ] && grep -q '; no checkpoint is left in /.*/g$' l.err
ok 'and the end does not promise what --resume will not find'
for how in INT KILL; do
  # shellcheck disable=SC2086
  start l train "$job" $long --set checkpoint.dir=i --set checkpoint.every=5000
  await 20 later i 0
  mv i gone && await 5 rm -rf gone 2>/dev/null
  await 20 grep -q ' failed, the job goes on: .* the directory /.*/i was removed$' l.err
  if [ $how = INT ]; then kill -INT "$started"; else kill -KILL "$(pid_of worker)"; fi
  wait "$started"
  [ $? -eq 1 ] && tail -n 1 l.err | grep -q '^gradweir: .*; no checkpoint is left in /.*/i$' && [ ! -e i ]
  ok "a directory that is gone, at the end by $how"
done

# --- a slow disk, and who stops the job ---
cat >slow.c <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* a sync of a shard's file takes so many seconds, once a file "slow" is there */
int fsync(int fd)
{
    char link[64], path[512];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    path[n > 0 ? n : 0] = 0;
    if (strstr(path, "shard-") && access("slow", F_OK) == 0)
        sleep((unsigned)atoi(getenv("SLOW_S")));
    return ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(fd);
}
C
# slow_job DIR SECONDS: runs, and is asked to stop when it has a checkpoint
slow_job() {
  rm -f slow
  LD_PRELOAD=$PWD/slow.so
  SLOW_S=$2
  export LD_PRELOAD SLOW_S
  # shellcheck disable=SC2086
  start l train "$job" $long --set checkpoint.dir="$1" --set checkpoint.every=1000000000
  unset LD_PRELOAD
  await 20 later "$1" -1 && : >slow && kill -INT "$started"
}
if ${GW_CC:-cc} -shared -fPIC -o slow.so slow.c -ldl 2>/dev/null &&
  LD_PRELOAD=$PWD/slow.so "$program" --version >out 2>&1; then
  slow_job m 11
  wait "$started"
  [ $? -eq 3 ] && grep -q '^stopping: waiting for the checkpoint of step .* by server .*; another signal ends the job at once$' l.out &&
    grep -q "^gradweir: stopped at step $(newest m); --resume goes on from there$" l.err &&
    [ "$(newest m)" -gt 0 ]
  ok 'a checkpoint that takes 11 s is waited for'
  slow_job n 60
  await 20 grep -q '^stopping: waiting for the checkpoint' l.out && kill -INT "$started"
  wait "$started"
  [ $? -eq 3 ] && grep -q '^gradweir: stopped at step [0-9]* at once; --resume goes on from step 0$' l.err &&
    [ "$(ls n)" = step-00000000 ] && [ -z "$(find n -name '*.tmp')" ]
  ok 'a second signal waits for nothing, and nothing half-written is left'
else
  skip 'a checkpoint that takes 11 s is waited for' 'no library can be preloaded'
  skip 'a second signal waits for nothing' 'no library can be preloaded'
fi

# --- what is gone ---
# shellcheck disable=SC2086
start l train "$job" $long --set checkpoint.dir=j --set checkpoint.every=100000000
await 20 later j -1 && cp -r j kept && kill -STOP "$(pid_of coordinator)" && rm -rf j/* &&
  kill -CONT "$(pid_of coordinator)" && kill -KILL "$(pid_of worker)"
wait "$started"
[ $? -eq 1 ] && tail -n 1 l.err | grep -q '^gradweir: .*; no checkpoint is left in /.*/j$'
ok 'a checkpoint that is gone'
await 5 nobody_left
ok 'nobody is left'

echo "1..$tests"
