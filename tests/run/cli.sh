#!/bin/sh
# The program as a whole: lines, exit codes, completion, manual. Prints TAP.
program=${GW_BUILDDIR:-.}/gradweir
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
tests=0

# ok NAME: the status of the command before decides.
ok() {
  if [ $? -eq 0 ]; then result=ok; else result='not ok'; fi
  tests=$((tests + 1))
  echo "$result $tests - $1"
}

# run CODE ARGUMENTS...: output and lines go to $scratch/out and err.
run() {
  code=$1
  shift
  "$program" "$@" >"$scratch/out" 2>"$scratch/err"
  got=$?
  [ $got -eq "$code" ] && return 0
  echo "# gradweir $*: exit code $got and not $code"
  sed 's/^/# /' "$scratch/err"
  return 1
}

# says LINE: standard error is this line and no other.
says() {
  printf 'gradweir: %s\n' "$1" | cmp -s - "$scratch/err" && return 0
  sed 's/^/# /' "$scratch/err"
  return 1
}

cat >"$scratch/job.cfg" <<'JOB'
data = { train = ("a", "b"); test = ("c", "d"); };
model = { layers = (784, 10); };
train = { batch = 64; steps = 10; };
JOB
job=$scratch/job.cfg

run 0 --help && grep -q '^  config ' "$scratch/out"
ok '--help lists commands'
run 0 --version && grep -q '^gradweir [0-9.]*$' "$scratch/out" &&
  grep -q '^wire protocol  2$' "$scratch/out" &&
  grep -q '^transports .*tcp.*sim' "$scratch/out" &&
  grep -q '^devices .*cpu (' "$scratch/out" &&
  grep -q '^optimizers .*momentum' "$scratch/out" &&
  grep -q '^libraries .*libuv' "$scratch/out"
ok '--version'
run 2 && grep -q '^Usage' "$scratch/err"
ok 'no arguments'
run 2 confg &&
  says 'no such command "confg", the nearest is config (gradweir --help lists all)'
ok 'unknown command'
run 2 xyz && says 'no such command "xyz" (gradweir --help lists all)'
ok 'a word that is near to no command'
run 0 --help && cp "$scratch/out" "$scratch/help" &&
  run 0 help && cmp -s "$scratch/out" "$scratch/help" &&
  run 0 config --help && cp "$scratch/out" "$scratch/help" &&
  run 0 help config && cmp -s "$scratch/out" "$scratch/help" &&
  run 0 Help Config && cmp -s "$scratch/out" "$scratch/help" &&
  run 0 help help
ok 'help of everything, and of a command'
run 2 help confg &&
  says 'no such command "confg", the nearest is config (gradweir --help lists all)' &&
  run 2 help config train && says 'help: takes one command, not also train'
ok 'help of what is no command'
run 0 help --options && grep -qx 'study --jobs N' "$scratch/out" &&
  grep -qx 'ctl policy WORD' "$scratch/out" && ! grep -q -e --parent-fd "$scratch/out"
ok 'help --options lists options and words'
run 0 Config --keys
ok 'a command in capitals'
sets=$(yes -- '--set train.seed=1' | head -n 256)
# shellcheck disable=SC2086
run 2 train "$job" $sets --workers 2 && says '--set: given more than 256 times'
ok 'more settings than there is room for'

run 0 config && grep -q '^    # samples per worker' "$scratch/out" &&
  cp "$scratch/out" "$scratch/template.cfg" &&
  run 0 config "$scratch/template.cfg" --set train.batch=64 \
    --set train.steps=9 --set data.train=a --set data.test=b \
    --set model.layers=784,10 && grep -q '^    steps = 9;$' "$scratch/out"
ok 'config prints a job file that it reads'
run 0 config "$job" && grep -q '^    batch = 64;$' "$scratch/out" &&
  grep -q '^    layers = ("784", "10");$' "$scratch/out"
ok 'config of a job'
run 0 config "$job" --set train.batch=32 --set=train.batch=16 &&
  grep -q '^    batch = 16;$' "$scratch/out"
ok 'the last --set wins'
run 0 config "$job" --set train.epochs=5 &&
  says '--set train.epochs=5 takes the place of train.steps = 10, the later word wins' &&
  grep -q '^    steps = 0;$' "$scratch/out" &&
  grep -q '^    epochs = 5;$' "$scratch/out" &&
  run 0 config "$job" --set train.Global_Batch=128 &&
  says '--set train.Global_Batch=128 takes the place of train.batch = 64, the later word wins'
ok 'the later of two words for one thing wins, and it is said'
echo 'optimizer = { }; train = { batch = 64; steps = 10; epochs = 5; };
data = { train = "a"; test = "b"; }; model = { layers = (4, 2); };' \
  >"$scratch/both.cfg"
run 2 config "$scratch/both.cfg" && says 'train.epochs and train.steps: both are given, set exactly one (passes over the data, or updates)'
ok 'config checks a job'
printf '\357\273\277' >"$scratch/windows.cfg"
sed 's/$/\r/' "$job" >>"$scratch/windows.cfg"
run 0 config "$job" && cp "$scratch/out" "$scratch/plain" &&
  run 0 config "$scratch/windows.cfg" && cmp -s "$scratch/out" "$scratch/plain"
ok 'a job as editors of Windows write it'
run 0 config --keys && grep -q '^train.batch = 0$' "$scratch/out"
ok 'config --keys'
run 0 config --help && grep -q '^Usage: gradweir config' "$scratch/out"
ok 'config --help'

run 2 config --bad && says 'config: cannot take --bad (gradweir config --help)'
ok 'unknown option'
run 2 config "$job" --sett train.batch=1 && says 'config: cannot take --sett, the nearest is --set (gradweir config --help)'
ok 'an option that is nearly one'
run 2 config "$job" -x && says 'config: cannot take -x (gradweir config --help)'
ok 'unknown letter'
run 2 config --set && says 'config: --set needs a value (gradweir config --help)'
ok 'option without its value'
run 2 config --set=train.bach=1 && says '--set: train.bach: no such key, the nearest is train.batch (gradweir config lists all)'
ok 'unknown key by --set'
run 2 config a b && says 'config: one job at a time, not also b'
ok 'two jobs'
run 2 config "$job" --keys && says 'config: --keys is the same for every job'
ok '--keys with a job'

run 2 config "$scratch/none.cfg" &&
  says "$scratch/none.cfg: cannot be opened: No such file or directory"
ok 'no such job'
run 2 config "$scratch" && says "$scratch: cannot be read: Is a directory"
ok 'a directory for a job'
printf 'train = {\n  batch = 0.5;\n};\n' >"$scratch/bad.cfg"
run 2 config "$scratch/bad.cfg" && says "$scratch/bad.cfg:2: train.batch: takes a whole number, 0..1000000, not 0.5"
ok 'a wrong job'
printf 'train = { };\n\0' >"$scratch/nul.cfg"
run 2 config "$scratch/nul.cfg" && says "$scratch/nul.cfg: is no text"
ok 'a job with zero bytes'
head -c 60000 /dev/zero | tr '\0' ' ' >"$scratch/long.cfg"
run 2 config "$scratch/long.cfg" &&
  says "$scratch/long.cfg: longer than 49152 bytes"
ok 'a job that is too long'
head -c 49152 /dev/zero | tr '\0' ' ' >"$scratch/full.cfg"
run 2 config "$scratch/full.cfg" && ! grep -q longer "$scratch/err"
ok 'a job that is just not too long'

if [ -w /dev/full ]; then
  "$program" config --keys >/dev/full 2>"$scratch/err"
  [ $? -eq 1 ] && grep -q 'cannot write to standard output' "$scratch/err"
  ok 'a full disk behind standard output'
else
  tests=$((tests + 1))
  echo "ok $tests # SKIP /dev/full is not there"
fi

# offers WORD...: what bash would offer for the last word.
offers() {
  bash -c '
    compopt() { :; }
    . "$1" || exit 1
    COMP_WORDS=("${@:2}")
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    _gradweir "$2" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
    printf "%s\n" "${COMPREPLY[@]}"
  ' bash "${GW_SRCDIR:-..}/cli/gradweir.bash" "$program" "$@"
}
if command -v bash >/dev/null; then
  [ "$(offers conf)" = config ]
  ok 'completion of commands'
  [ "$(offers config --k)" = --keys ] && [ "$(offers Config --k)" = --keys ] && [ "$(offers config --set tr)" ] &&
    [ "$(offers config --set train.bat)" = train.batch= ]
  ok 'completion of options and keys'
  [ "$(offers ctl pol)" = policy ] && [ "$(offers ctl --job 7 st | xargs)" = 'stop status' ] &&
    [ "$(offers ctl --so)" = --socket ]
  ok 'completion of what ctl takes'
else
  tests=$((tests + 3))
  echo "ok $((tests - 2)) # SKIP bash is not here"
  echo "ok $((tests - 1)) # SKIP bash is not here"
  echo "ok $tests # SKIP bash is not here"
fi

manual=${GW_BUILDDIR:-.}/docs/gradweir.1
"$program" config --keys | grep -c '^[^ ]' >"$scratch/keys"
[ "$(grep -c '^\.B [a-z]*\.[a-z_0-9]* = ' "$manual")" = "$(cat "$scratch/keys")" ] &&
  ! grep -q '@[A-Z]*@' "$manual"
ok 'the manual has every key'

commands=$("$program" --help | awk '/^  [a-z]/ { print $1 }')
# roff NAME: as the manual writes it
roff() { printf '%s\n' "$1" | sed 's/-/\\-/g'; }
for command in $commands; do
  run 0 "$command" --help && grep -q "^Usage: gradweir $command " "$scratch/out" &&
    [ ! -s "$scratch/err" ] && ! grep -q '.\{80\}' "$scratch/out" &&
    ! grep -q '\[--[^]]*$' "$scratch/out"
  ok "$command --help"
  missing=
  grep -q "^\.B gradweir $command" "$manual" || missing=$command
  for option in $(grep -oE -e '--[a-z][-a-z]*' "$scratch/out" | sort -u); do
    grep -qF -e "$(roff "$option")" "$manual" || missing="$missing $option"
  done
  [ -z "$missing" ] || echo "# not in the manual: $missing"
  [ -z "$missing" ]
  ok "the manual has $command and its options"
done
if command -v bash >/dev/null; then
  for command in $commands; do
    [ "$(offers "$command")" = "$command" ] && offers "$command" --h | grep -qx -e --help
    ok "completion of $command"
  done
fi
# every option has a paragraph of its own below its command
"$program" help --options | awk '/^[a-z]+ --/ { print $2 }' | sort >"$scratch/options"
sed -n 's/^\\fB\(\\-\\-[^ \]*\(\\-[^ \]*\)*\)\\fR.*/\1/p' "$manual" |
  sed 's/\\//g' | sort >"$scratch/paragraphs"
cmp "$scratch/options" "$scratch/paragraphs"
ok 'the manual describes every option of each command'
# options that the manual has are options
for option in $(grep -oE '\\-\\-[a-z]+(\\-[a-z]+)*' "$manual" | sed 's/\\//g' | sort -u); do
  found=
  for command in $commands; do
    "$program" "$command" --help | grep -qE -e "$option([^-a-z]|$)" && found=1
  done
  [ "$found" ] || "$program" --help | grep -q -e "$option" || echo "# $option is none"
done >"$scratch/out"
cat "$scratch/out" && [ ! -s "$scratch/out" ]
ok 'every option of the manual is one'
if command -v groff >/dev/null; then
  groff -man -Tascii -ww "$manual" >"$scratch/out" 2>"$scratch/err"
  sed 's/^/# /' "$scratch/err"
  [ ! -s "$scratch/err" ]
  ok 'the manual is sound'
fi

echo "1..$tests"
