# What the tests of whole programs share. Sourced; prints TAP.
program=${GW_BUILDDIR:-.}/gradweir
scratch=$(mktemp -d) || exit 1
trap 'end_all; rm -rf "$scratch"' EXIT
trap 'echo "# a signal, perhaps for want of time"; exit 1' HUP INT TERM
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE MASTER_ADDR MASTER_PORT RANK WORLD_SIZE
unset GRADWEIR_COORDINATOR GRADWEIR_SECRET_FD
unset SLURM_PROCID SLURM_STEP_NUM_TASKS
# A limit for all of it: what hangs is a failure, and is left to nobody.
(timeout "${GW_TEST_SECONDS:-300}" tail --pid=$$ -f /dev/null || kill -TERM $$) \
  >/dev/null 2>&1 </dev/null &
tests=0
LC_ALL=C
# The jobs of a test are no concern of the user's, nor his of the test's.
GRADWEIR_SOCKET_DIR=$scratch/sockets
export LC_ALL GRADWEIR_SOCKET_DIR

# ok NAME: the status of the command before decides.
ok() {
  if [ $? -eq 0 ]; then result=ok; else result='not ok'; fi
  tests=$((tests + 1))
  echo "$result $tests - $1"
}

# skip NAME WHY: it cannot be tried here.
skip() {
  tests=$((tests + 1))
  echo "ok $tests - $1 # SKIP $2"
}

# Every process of this test that is left, zombies apart: they carry its mark.
left() {
  grep -lzxF "GW_TEST_MARK=$scratch" /proc/[0-9]*/environ 2>/dev/null |
    sed 's|/proc/\([0-9]*\)/environ|\1|'
}

# pid_of ROLE [N]: of one process of the test, the launcher being train; fails
# where there is none.
pid_of() {
  for pid in $(left); do
    tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline" | grep -q "gradweir $1 " &&
      echo "$pid"
  done | sed "${2:-1}q;d" | grep .
}

# ports ROLE: where processes of that role listen.
ports() {
  for pid in $(left); do
    tr '\0' ' ' <"/proc/$pid/cmdline" | grep -q "gradweir $1 " || continue
    ls -l "/proc/$pid/fd" 2>/dev/null | sed -n 's/.*socket:\[\([0-9]*\)\]$/\1/p' |
      while read -r inode; do
        awk -v inode="$inode" '$4 == "0A" && $10 == inode {
          print substr($2, 10) }' "/proc/$pid/net/tcp"
      done
  done | while read -r hex; do echo $((0x$hex)); done
}

# More than once: one may have begun while the others were looked for.
end_all() {
  for turn in 1 2 3 4 5; do
    pids=$(left)
    [ "$pids" ] || return 0
    for pid in $pids; do kill -9 "$pid" 2>/dev/null; done
  done
}

# await SECONDS COMMAND...: polls until it succeeds.
await() {
  turns=$(($1 * 20))
  shift
  while ! "$@"; do
    turns=$((turns - 1))
    if [ $turns -le 0 ]; then
      echo "# in vain: $*"
      for pid in $(left); do
        echo "# left: $pid $(tr '\0' ' ' <"/proc/$pid/cmdline")"
      done
      return 1
    fi
    sleep 0.05
  done
}

nobody_left() { [ -z "$(left)" ]; }

# now_ms: of a clock that nobody sets.
now_ms() { awk '{ print int($1 * 1000) }' /proc/uptime; }

# gradweir ARGUMENTS...: marked, and not for ever.
gradweir() {
  GW_TEST_MARK=$scratch timeout -s KILL 120 "$program" "$@"
}

# start NAME ARGUMENTS...: in the background; out and err go to $scratch/NAME.*
start() {
  name=$1
  shift
  # what an earlier one of that name wrote must not be taken for its words
  rm -f "$scratch/$name.out" "$scratch/$name.err"
  GW_TEST_MARK=$scratch "$program" "$@" >"$scratch/$name.out" \
    2>"$scratch/$name.err" &
  started=$!
}

# ends CODE: of the process $launched, started as l, and nobody is left.
ends() {
  wait "$launched"
  code=$?
  [ $code -eq "$1" ] && await 5 nobody_left && return 0
  echo "# exit code $code and not $1"
  sed 's/^/# /' "$scratch/l.out" "$scratch/l.err"
  return 1
}

# run CODE ARGUMENTS...: output and lines go to $scratch/out and err.
run() {
  code=$1
  shift
  gradweir "$@" >"$scratch/out" 2>"$scratch/err"
  got=$?
  [ $got -eq "$code" ] && return 0
  echo "# gradweir $*: exit code $got and not $code"
  sed 's/^/# /' "$scratch/out" "$scratch/err"
  return 1
}

# says PATTERN: standard error is one line, and matches.
says() {
  [ "$(wc -l <"$scratch/err")" -eq 1 ] && grep -q "^gradweir: $1" "$scratch/err" &&
    return 0
  echo "# expected one line: gradweir: $1"
  sed 's/^/# /' "$scratch/err"
  return 1
}

digest() { sed -n 's/^weights *sha256 //p' "${1:-$scratch/out}"; }

# make_pictures DIR SIDE: 200 of SIDE x SIDE in ten classes, each a pattern with
# noise over it; bytes of 1..127, which every awk prints as they are.
make_pictures() {
  mkdir -p "$1"
  side=\\000\\000\\000\\$(printf %03o "$2")
  printf "\000\000\010\003\000\000\000\310$side$side" >"$1/images"
  printf '\000\000\010\001\000\000\000\310' >"$1/labels"
  awk -v pixels=$(($2 * $2)) 'BEGIN { srand(1)
    for (i = 0; i < 200; i++) for (p = 0; p < pixels; p++)
      printf "%c", 1 + ((i % 10) * 37 + p * 11) % 61 + int(rand() * 60) }' \
    >>"$1/images"
  i=0
  while [ $i -lt 200 ]; do
    printf "\\$(printf %03o $((i % 10)))"
    i=$((i + 1))
  done >>"$1/labels"
}

# Pictures of 8 x 8, and a job with them.
make_data() {
  make_pictures "$scratch/data" 8
  cat >"$scratch/job" <<JOB
data = { train = ("$scratch/data/images", "$scratch/data/labels");
         test = ("$scratch/data/images", "$scratch/data/labels"); };
model = { layers = (64, 32, 10); };
train = { batch = 10; steps = 40; seed = 3; };
optimizer = { lr = 0.05; };
cluster = { workers = 2; servers = 2; };
log = { every = 10; };
JOB
  job=$scratch/job
}
