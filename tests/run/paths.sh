#!/bin/sh
# What relative paths are relative to, and paths as long as the system takes
# them. Prints TAP.
. "${GW_SRCDIR:-..}/tests/run/lib.sh"

# Everything but the tests stands elsewhere.
make_pictures "$scratch/home/data" 8
mkdir "$scratch/away"
cat >"$scratch/home/job" <<'JOB'
data = { train = ("data/images", "./data/labels");
         test = ("../home/data/images", "data/labels"); };
model = { layers = (64, 32, 10); };
train = { batch = 10; steps = 20; seed = 3; };
cluster = { workers = 2; servers = 1; };
checkpoint = { dir = "ck"; every = "10 steps"; };
log = { dir = "log"; };
JOB
case $program in
/*) ;;
*) program=$PWD/$program ;;
esac
cd "$scratch/away" || exit 1
none_here() { [ -z "$(ls -A "$scratch/away")" ]; }

run 0 train ../home/job && none_here && [ -d ../home/ck/step-00000020 ] &&
  [ "$(ls ../home/log | wc -l)" -eq 4 ] && digest >"$scratch/first"
ok 'paths of a job file are relative to it'
run 0 eval ../home/ck && none_here &&
  run 0 eval ../home/ck --set data.test=../home/data/images,../home/data/labels
ok 'a checkpoint knows its test set wherever one stands'
run 0 train ../home/job --resume --set train.steps=30 && none_here &&
  [ -d ../home/ck/step-00000030 ]
ok 'a job goes on from where its file says'
run 0 train ../home/job --set checkpoint.dir=here --set log.dir=./log &&
  [ -d here/step-00000020 ] && [ -n "$(ls log)" ] &&
  [ "$(digest)" = "$(cat "$scratch/first")" ] && rm -r here log
ok 'paths of the command line are relative to where one stands'
run 0 config ../home/job && grep -q "\"$scratch/home/data/images\"" "$scratch/out"
ok 'a job shows which files it means'
# shellcheck disable=SC2002 # a pipe is what it is about
cat ../home/job | gradweir config /dev/stdin >"$scratch/out" &&
  grep -q "\"$scratch/away/data/images\"" "$scratch/out"
ok 'paths of a job that comes through a pipe are relative to where one stands'
gradweir config /dev/stdin <../home/job | cmp -s - "$scratch/out"
ok 'and so they are where standard input is a file'
# piped ARGUMENTS...: train with the job on a pipe, and its data beside where
# one stands
ln -s "$scratch/home/data" data
piped() {
  sed 's|\.\./home/||; s|"ck"|""|; s|"log"|""|' ../home/job |
    gradweir train /dev/stdin "$@" >"$scratch/out" 2>"$scratch/err"
}
run 0 train ../home/job --set checkpoint.dir= --dry-run && grep '^absent ' "$scratch/out" >"$scratch/absent" &&
  piped --dry-run && grep '^absent ' "$scratch/out" | cmp -s - "$scratch/absent"
ok 'of a job that comes through a pipe --dry-run knows what is in it'
piped && [ "$(digest)" = "$(cat "$scratch/first")" ]
ok 'and it is run'
rm data

start coordinator coordinator ../home/job --set checkpoint.dir= --set log.dir=
await 10 grep -q 'members join at' "$scratch/coordinator.out"
at=$(sed -n 's/.*--join \([0-9.:]*\)$/\1/p' "$scratch/coordinator.out")
cp -r ../home/data own
start server server --join "$at"
start other worker --join "$at"
(cd own && start worker worker --join "$at" --set data.train=images,labels)
await 30 nobody_left && grep -q "^weights *sha256 $(cat "$scratch/first")" \
  "$scratch/coordinator.out"
ok "a worker's own paths are relative to where it stands"
rm -r own

# a folder whose path is nearly as long as one may be
name=$(head -c 200 /dev/zero | tr '\0' n)
deep=$scratch/home
while [ ${#deep} -lt 3400 ]; do
  deep=$deep/$name
  mkdir "$deep" || break
done
cp -r ../home/data "$deep/data" && cp ../home/job "$deep/job" &&
  sed -i 's|\.\./home/data|data|' "$deep/job"
run 0 train "$deep/job" && [ "$(digest)" = "$(cat "$scratch/first")" ] &&
  [ -n "$(ls "$deep/log")" ] &&
  run 0 train "$deep/job" --resume --set train.steps=30 &&
  [ -d "$deep/ck/step-00000030" ] && run 0 eval "$deep/ck"
ok 'data, logs and checkpoints below a path of 3,400 bytes'
run 1 train "$deep/job" --set checkpoint.dir= --set data.train="$deep/no,$deep/no" &&
  says "worker [01] (.*): data.train: $scratch/home/nnn.*nnn\.\.\..*/no: cannot be opened: No such file or directory$"
ok 'a line about a long path keeps what is wrong'

# studies: the job beside the study, its data beside the job
printf '\357\273\277job = "../home/job";\r\nset = [ "checkpoint.dir=", "log.dir=", "data.test=sets/images,sets/labels" ];\r\ngrid = { lr = [ 0.1 ]; };\r\n' >"$scratch/s.study"
mkdir "$scratch/studies" && mv "$scratch/s.study" "$scratch/studies" &&
  cp -r ../home/data "$scratch/studies/sets"
run 0 study ../studies/s.study && none_here &&
  [ -d "$scratch/studies/s.results" ] &&
  run 0 study --dry-run ../studies/s.study && cp "$scratch/out" "$scratch/ids"
ok 'a study finds its job, and both their data'
mkdir "$scratch/moved" && mv "$scratch/home" "$scratch/studies" "$scratch/moved" &&
  run 0 study --dry-run ../moved/studies/s.study &&
  cmp -s "$scratch/out" "$scratch/ids"
ok 'a study that is moved has the same runs'
echo "1..$tests"
