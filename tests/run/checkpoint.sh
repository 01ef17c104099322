#!/bin/sh
# eval, export, import: a checkpoint scored, written as one file, and made of
# one; what is missing, damaged or of another model is refused. Prints TAP.
. "${GW_SRCDIR:-..}/tests/run/lib.sh"
make_data
dir=$scratch/dir
field() { sed -n "s/.*\"$1\":\"*\([^,}\"]*\).*/\1/p" "$2" | tail -n 1; }

run 0 train "$job" --set checkpoint.dir="$dir" --json "$scratch/json" &&
  last=$(digest)
ok 'a job leaves checkpoints'

# --- nothing left to do ---
done_by() {
  run 0 train "$job" --resume --set checkpoint.dir="$dir" "$@" &&
    [ "$(digest)" = "$last" ] && [ ! -s "$scratch/err" ]
}
for steps in 40 25; do
  done_by --set train.steps=$steps &&
    grep -q "^done *nothing to do: the checkpoint is at step 40 already, and train.steps is $steps; raise train.steps to go on$" "$scratch/out"
  ok "--resume at step 40 with train.steps = $steps"
done
done_by --set train.steps=0 --set train.epochs=2 &&
  grep -q '^done *nothing to do: the checkpoint is at step 40 already, and train.epochs is 2, 20 steps; raise train.epochs to go on$' "$scratch/out"
ok '--resume at step 40 with fewer epochs than it has seen'

# --- eval ---
run 0 eval "$dir" --json - && cp "$scratch/out" "$scratch/score" &&
  [ "$(field weights_sha256 "$scratch/score")" = "$last" ] &&
  [ "$(field step "$scratch/score")" = 40 ] &&
  [ "$(field test_accuracy "$scratch/score")" = "$(field test_accuracy "$scratch/json")" ] &&
  awk -v a="$(field test_loss "$scratch/score")" \
    -v b="$(field test_loss "$scratch/json")" \
    'BEGIN { d = a - b; exit !(d < 1e-6 && d > -1e-6 && a > 0) }'
ok 'eval finds the loss, accuracy and weights with which the job ended'
run 0 eval "$dir/step-00000040/" && grep -q '^step 40: loss [0-9.]*, accuracy [01]\.[0-9]* of 200 test samples$' "$scratch/out"
ok 'eval of one checkpoint by name'

# --- export ---
run 0 export "$dir" "$scratch/model.safetensors" &&
  grep -q "^$scratch/model.safetensors: 4 tensors of step 40$" "$scratch/out" &&
  [ ! -e "$scratch/model.safetensors.tmp" ] &&
  grep -aq '"fc1.weight":{"dtype":"F32","shape":\[[0-9]*,[0-9]*\]' "$scratch/model.safetensors"
ok 'export writes every key with its shape'
run 1 export "$dir" "$scratch/none/model" && says ".*$scratch/none/model"
ok 'export into a directory that is not there'
run 1 export "$dir" "$scratch/data" && says "cannot write $scratch/data: Is a directory" &&
  [ ! -e "$scratch/data.tmp" ]
ok 'export over a directory'
mkfifo "$scratch/fifo" && ln -s model.safetensors "$scratch/link" &&
  { cat "$scratch/fifo" >"$scratch/read" & } && reader=$! &&
  run 0 export "$dir" "$scratch/fifo" && wait $reader &&
  run 0 export "$dir" "$scratch/link" && run 0 export "$dir" /dev/stdout &&
  [ -p "$scratch/fifo" ] && [ -L "$scratch/link" ] &&
  cmp "$scratch/read" "$scratch/model.safetensors" &&
  cmp "$scratch/out" "$scratch/model.safetensors"
ok 'export into a FIFO, through a link, to standard output'

# --- import ---
run 0 import "$scratch/model.safetensors" --job "$job" --to "$scratch/new" &&
  run 0 eval "$scratch/new" --json - &&
  [ "$(field weights_sha256 "$scratch/out")" = "$last" ] &&
  [ "$(field step "$scratch/out")" = 0 ]
ok 'import makes a checkpoint of step 0 with the same weights'
run 0 export "$scratch/new" "$scratch/again" &&
  run 0 train "$job" --set checkpoint.dir="$scratch/new" --resume \
    --set optimizer.kind=adamw --json "$scratch/json2" &&
  awk -v a="$(field loss "$scratch/json2")" 'BEGIN { exit !(a > 0) }' &&
  [ "$(sed -n 's/.*"step":0,.*"loss":\([^,]*\),.*/\1/p' "$scratch/json" | head -n 1)" != \
    "$(sed -n 's/.*"step":0,.*"loss":\([^,]*\),.*/\1/p' "$scratch/json2" | head -n 1)" ]
ok 'train --resume begins with it, also under another optimizer'
# what it scores before and after a few steps that change next to nothing
run 0 import "$scratch/model.safetensors" --job "$job" --to "$scratch/apart" &&
  run 0 eval "$scratch/apart" --json - && before=$(field test_loss "$scratch/out") &&
  run 0 train "$job" --set checkpoint.dir="$scratch/apart" --resume \
    --set cluster.policy=easgd:2 --set optimizer.lr=1e-6 --json "$scratch/json3" &&
  awk -v a="$before" -v b="$(field test_loss "$scratch/json3")" \
    'BEGIN { d = (a - b) / a; exit !(a > 0 && d < 0.01 && d > -0.01) }'
ok 'and workers with weights of their own begin with it'
run 1 import "$scratch/model.safetensors" --job "$job" --to "$dir" &&
  says ".*$dir holds a checkpoint of step 40 already"
ok 'import does not write where checkpoints are'

# --- a checkpoint under another name ---
cp -r "$dir/step-00000040" "$scratch/best"
run 0 eval "$scratch/best" --json - &&
  [ "$(field weights_sha256 "$scratch/out")" = "$last" ] &&
  run 0 export "$scratch/best/" "$scratch/best.st" &&
  cmp "$scratch/best.st" "$scratch/model.safetensors" &&
  run 0 import "$scratch/best" --job "$job" --to "$scratch/from-best" &&
  run 0 eval "$scratch/from-best" --json - &&
  [ "$(field weights_sha256 "$scratch/out")" = "$last" ] &&
  [ "$(field step "$scratch/out")" = 0 ]
ok 'a checkpoint that was copied to another name is one'
run 1 import "$dir" --job "$job" --to "$scratch/other" --set model.layers=64,16,10 &&
  says "$dir is of another model: its keys or their shapes are not the job's" &&
  [ ! -e "$scratch/other" ]
ok 'nor is one of another model imported'

# --- what was not finished ---
mkdir -p "$scratch/begun/step-00001500" "$scratch/begun/step-00001600" &&
  : >"$scratch/begun/step-00001500/shard-0-of-2.safetensors.tmp" &&
  : >"$scratch/begun/step-00001600/notes" &&
  run 0 train "$job" --set checkpoint.dir="$scratch/begun" --dry-run &&
  [ -e "$scratch/begun/step-00001500/shard-0-of-2.safetensors.tmp" ] &&
  run 0 train "$job" --set checkpoint.dir="$scratch/begun" &&
  [ "$(digest)" = "$last" ] && [ ! -e "$scratch/begun/step-00001500" ] &&
  [ -e "$scratch/begun/step-00001600/notes" ]
ok 'directories without a manifest keep no job out, and go if a job made them'
mkdir "$scratch/begun/step-00001500" &&
  run 0 train "$job" --set checkpoint.dir="$scratch/begun" --resume --set train.steps=50 &&
  [ ! -e "$scratch/begun/step-00001500" ] && [ -e "$scratch/begun/step-00000050" ]
ok 'also where it goes on'
mkdir -p "$scratch/left/step-00000007" &&
  run 0 import "$scratch/best.st" --job "$job" --to "$scratch/left"
ok 'nor do they keep an import out'

# --- wrong inputs ---
run 1 eval "$scratch/nothing" && says "no checkpoint: $scratch/nothing: No such file or directory" &&
  run 1 eval "$scratch/job" && says "no checkpoint: $scratch/job is a file; a checkpoint is a folder" &&
  mkdir "$scratch/hollow" && run 1 eval "$scratch/hollow" &&
  says "no checkpoint: $scratch/hollow is an empty folder" &&
  run 1 export "$scratch/hollow" "$scratch/out.st" && [ ! -e "$scratch/out.st" ] &&
  run 1 eval "$scratch/data" && says "there is no checkpoint in $scratch/data"
ok 'a checkpoint that is not there'
run 2 eval "$dir" --set data.test= && says '.*data.test'
ok 'a job without a test set'
run 2 eval "$dir" --set model.layers=64,16,10 --set model.layers=64 && [ -s "$scratch/err" ]
ok 'a model that does not fit its data'
run 1 eval "$dir" --set model.layers=64,16,10 && says '.*another model'
ok 'a checkpoint of another model'
run 1 import "$scratch/model.safetensors" --job "$job" --to "$scratch/other" \
  --set model.layers=64,16,10 && says '.*another model' && [ ! -e "$scratch/other" ]
ok 'a file of another model'
run 1 import "$scratch/job" --job "$job" --to "$scratch/other" && says '.*' &&
  [ ! -e "$scratch/other" ]
ok 'a file that is no safetensors file'
sed 's/"F32"/"I32"/' "$scratch/model.safetensors" >"$scratch/type" &&
  run 1 import "$scratch/type" --job "$job" --to "$scratch/other" &&
  says '.*is of type I32; save it as one of F32, F16, BF16 and F64' && [ ! -e "$scratch/other" ]
ok 'a file with another type'
head -c 4000 "$scratch/model.safetensors" >"$scratch/short" &&
  run 1 import "$scratch/short" --job "$job" --to "$scratch/other" && says '.*short' &&
  [ ! -e "$scratch/other" ]
ok 'a file that ends too early'
run 1 import "$scratch/absent" --job "$job" --to "$scratch/other" && says '.*absent'
ok 'a file that is not there'
run 2 import "$scratch/model.safetensors" --job "$job" && says '.*--to'
ok 'no place to put it'
run 2 import "$scratch/model.safetensors" && says 'import: takes one file and --job'
ok 'import without a job'
shard=$(ls "$dir"/step-00000040/shard-0-* | head -n 1)
cp "$shard" "$scratch/whole"
printf 'x' | dd of="$shard" bs=1 seek=3000 conv=notrunc 2>"$scratch/dd"
refused="the checkpoint of step 40 is refused: $shard"
run 1 export "$dir/step-00000040" "$scratch/bad" && says "$shard is damaged" && [ ! -e "$scratch/bad" ]
ok 'a damaged checkpoint is named, and nothing is written'
run 0 eval "$dir" && says "$refused is damaged" && grep -q '^step 30: loss' "$scratch/out"
ok 'of a directory eval takes the one before it'
run 0 export "$dir" "$scratch/before" && says "$refused is damaged" &&
  grep -q ' 4 tensors of step 30$' "$scratch/out"
ok 'and so does export'
rm "$shard"
run 1 eval "$dir/step-00000040" && says ".*$shard: No such file" &&
  run 0 eval "$dir" && says "the checkpoint of step 40 is refused: .*$shard: No such file" && grep -q '^step 30: loss' "$scratch/out"
ok 'a checkpoint without one of its files'
mkdir "$scratch/only" && cp -r "$dir/step-00000040" "$scratch/only" &&
  run 1 eval "$scratch/only" && [ "$(wc -l <"$scratch/err")" -eq 2 ] &&
  grep -q "^gradweir: no checkpoint in $scratch/only is whole$" "$scratch/err"
ok 'a directory with nothing else'
cp "$scratch/whole" "$shard"
rm "$dir/step-00000040/manifest.json"
run 1 eval "$dir/step-00000040" && says '.*manifest.json'
ok 'a checkpoint that was not finished'
run 0 eval "$dir" && ! grep -q '^step 40:' "$scratch/out"
ok 'the one before it is the newest whole one'

# --- two jobs in one directory ---
start first train "$job" --set checkpoint.dir="$scratch/one" \
  --set train.steps=1000000 --set train.eval_every=1000000 --set checkpoint.every=1000000
first=$started
begun() { [ -e "$scratch/one/step-00000000/manifest.json" ]; }
await 20 begun &&
  run 1 train "$job" --set checkpoint.dir="$scratch/one" --resume &&
  says "checkpoint.dir: another job runs with $scratch/one; wait for its end, or choose another directory" &&
  [ -e "$scratch/one/.gradweir-token" ]
ok 'a second job in the directory of one that runs'
run 1 train "$job" --set checkpoint.dir="$scratch/one" --resume --dry-run &&
  says "checkpoint.dir: another job runs with $scratch/one; wait for its end, or choose another directory"
ok 'and --dry-run says it too'
run 0 train "$job" --set checkpoint.dir= --dry-run &&
  grep -q '^absent  *worker, server, policy.* are not in the file: defaults$' "$scratch/out"
ok '--dry-run says which sections a job does not have'
kill -INT "$first"
wait "$first"
[ $? -eq 3 ] && [ ! -e "$scratch/one/.gradweir-token" ] && run 0 eval "$scratch/one"
ok 'does not disturb the first one'
: >"$scratch/one/.gradweir-token"
run 0 train "$job" --set checkpoint.dir="$scratch/one" --set train.steps=1 --resume
ok 'the file of one that was killed keeps nobody out'
await 3 nobody_left
ok 'nobody is left'

echo "1..$tests"
