#!/bin/sh
# Disks that are full or read-only, as a file system in memory of 1 MiB that
# nobody else sees: it needs the right to mount one. Prints TAP.
if [ -z "$GW_TEST_MOUNTS" ]; then
  for how in -m -rm; do
    if unshare $how sh -c 'mount -t tmpfs none /mnt' 2>/dev/null; then
      GW_TEST_MOUNTS=1 exec unshare $how sh "$0"
    fi
  done
  echo '1..0 # SKIP no right to mount a file system (root, or user namespaces)'
  exit 0
fi
. "${GW_SRCDIR:-..}/tests/run/lib.sh"
make_data
disk=$scratch/disk
mkdir "$disk" && mount -t tmpfs -o size=1m none "$disk" || exit 1
trap 'end_all; umount -l "$disk"; rm -rf "$scratch"' EXIT
ck=$disk/ck
endless="--set train.steps=4000000 --set train.eval_every=never --set log.every=1000"

fill() { dd if=/dev/zero of="$disk/fill" bs=4096 2>/dev/null; }
newest() {
  ls "$ck" | sed -n 's/^step-//p' | sort -n | awk 'END { print $0 + 0 }'
}
failures() { grep -c "the checkpoint of step [0-9]* failed, the job goes on: .*No space left on device" "$scratch/l.err"; }
# only whole checkpoints, no file that was not finished
tidy() {
  for dir in "$ck"/step-*; do [ -e "$dir/manifest.json" ] || return 1; done
  [ -z "$(find "$disk" -name '*.tmp')" ]
}

# --- full, and room again ---
# shellcheck disable=SC2086
start l train "$job" $endless --set checkpoint.dir="$ck" \
  --set checkpoint.every=500 --set checkpoint.keep=2
launcher=$started
await 20 eval '[ -d "$ck" ] && [ "$(newest)" -gt 0 ]'
fill
await 20 eval '[ "$(failures)" -ge 3 ]'
ok 'a full disk: a line per checkpoint, and the job goes on'
once() {
  ! grep -q 'failed' "$scratch/l.out" && grep -q ' coordinator warn the checkpoint' "$scratch/l.err" &&
    [ -z "$(sed 's/.*\(step [0-9]* failed\).*/\1/' "$scratch/l.err" | uniq -d)" ]
}
once
ok 'once each, as a warning on standard error'
stands=$(newest)
rm "$disk/fill"
await 20 eval '[ "$(newest)" -gt "$stands" ]' && ! grep -v ' coordinator warn the checkpoint of step' "$scratch/l.err"
ok 'the next one that has room is made'
fill
failed=$(failures)
await 20 eval '[ "$(failures)" -gt "$failed" ]' && kill -TERM $launcher
await 10 nobody_left
wait $launcher
[ $? -eq 1 ] && [ "$(grep -vc ' coordinator warn ' "$scratch/l.err")" -eq 1 ] &&
  grep -q "^gradweir: stopped at step [0-9]*, but the last checkpoint could not be written; --resume goes on from step $(newest)$" "$scratch/l.err"
ok 'the last one fails: exit code 1, and what --resume goes on from'
tidy
ok 'nothing is left of those that failed'
rm "$disk/fill"
run 0 train "$job" --resume --set checkpoint.dir="$ck" \
  --set train.steps=$(($(newest) + 20)) --set train.eval_every=never &&
  grep -q '^going on from the checkpoint of step' "$scratch/out"
ok '--resume goes on'

# --- with a file for the log: there and on standard error ---
stands=$(newest)
# shellcheck disable=SC2086
start l train "$job" $endless --resume --set checkpoint.dir="$ck" \
  --set checkpoint.every=500 --set log.dir="$scratch/logs"
await 20 eval '[ "$(newest)" -gt "$stands" ]'
fill
await 20 eval '[ "$(failures)" -ge 1 ]' && kill -TERM $started
wait $started
n=$(failures)
[ "$n" -ge 1 ] && [ "$(grep -c '^gradweir: the checkpoint of step' "$scratch/l.err")" -eq "$n" ] &&
  [ "$(cat "$scratch"/logs/coordinator-* | grep -c ' warn the checkpoint of step [0-9]* failed')" -eq "$n" ]
ok 'a failed checkpoint is told on both'
rm "$disk/fill"

# --- full from the beginning ---
rm -rf "$ck" && fill
run 1 train "$job" --set checkpoint.dir="$ck" &&
  says "checkpoint.dir: cannot write $ck/.*No space left on device" &&
  await 3 nobody_left
ok 'a disk without any room: refused before it begins'
[ -z "$(find "$disk" -type f ! -name fill)" ]
ok 'no file is left there'
rm -rf "$disk/fill" "$ck"

# --- read-only ---
run 0 train "$job" --set checkpoint.dir="$ck" && mount -o remount,ro "$disk"
for key in checkpoint.dir log.dir; do
  run 1 train "$job" --set $key="$disk/new" &&
    says ".*$key.*$disk/new.*Read-only file system" && await 3 nobody_left
  ok "$key on a read-only disk"
  run 1 train "$job" --dry-run --set $key="$disk/new" &&
    says ".*$key.*$disk/new.*Read-only file system"
  ok "$key on a read-only disk, as --dry-run has it"
done
run 1 train "$job" --json "$disk/new" &&
  says "--json: $disk/new cannot be opened: Read-only file system"
ok '--json on a read-only disk'
run 1 train "$job" --dry-run --json "$disk/new" &&
  says "--json: $disk/new cannot be opened: Read-only file system"
ok '--json on a read-only disk, as --dry-run has it'
run 1 train "$job" --resume --set train.steps=60 --set checkpoint.dir="$ck" &&
  says "checkpoint.dir: cannot .*Read-only file system"
ok '--resume on a read-only disk'
run 1 train "$job" --dry-run --resume --set train.steps=60 --set checkpoint.dir="$ck" &&
  says "checkpoint.dir: cannot .*Read-only file system"
ok '--resume on a read-only disk, as --dry-run has it'
run 1 export "$ck" "$disk/new" && says ".*$disk/new.*: Read-only file system"
ok 'export to a read-only disk'
run 0 eval "$ck" && [ ! -s "$scratch/err" ]
ok 'eval only reads'
await 3 nobody_left
ok 'nobody is left'

echo "1..$tests"
