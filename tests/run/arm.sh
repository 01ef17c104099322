#!/bin/sh
# aarch64, on an x86-64 that emulates it: the cross build, the arithmetic's bits,
# links in shared memory, and jobs whose members are of both. Prints TAP.
why=
command -v qemu-aarch64 >/dev/null ||
  why='no qemu-aarch64 (apt-get install qemu-user)'
command -v aarch64-linux-gnu-gcc >/dev/null ||
  why='no aarch64-linux-gnu-gcc (apt-get install gcc-aarch64-linux-gnu)'
[ "$(uname -m)" = x86_64 ] || why='not an x86-64'
case ${GW_CFLAGS-} in *-fsanitize*) why='sanitizers are for this machine' ;; esac
[ -z "$why" ] || { echo "1..0 # SKIP $why"; exit 0; }
GW_TEST_SECONDS=${GW_TEST_SECONDS:-500} # it builds, perhaps among others
. "${GW_SRCDIR:-..}/tests/run/lib.sh"
make_data

# What is tried under emulation: the arithmetic, and what shares memory. Not
# test_shm_meet: qemu 7.2 lets an x86-64 take a load before an earlier store,
# which aarch64's stlr and ldar forbid.
programs='unit/test_kernel_bits unit/test_update unit/test_reduce unit/test_blend
unit/test_blend_reference unit/test_bf16 unit/test_cpu_sums unit/test_cpu_dense
unit/test_wire unit/test_shm_order
unit/test_shm_hostile unit/test_shm_processes table/test_transport'
targets=
for test in $programs; do targets="$targets tests/$test"; done

# ---- the build ----

here=${GW_BUILDDIR:-.}/arm
# beside this shell, which would hear no signal before its end
# shellcheck disable=SC2086
env -u CFLAGS -u CPPFLAGS -u LDFLAGS -u LIBS GW_TEST_MARK="$scratch" GW_MAKE_SECONDS=240 \
  "${GW_SRCDIR:-..}/tests/arm/build.sh" "$here" gradweir docs/gradweir.1 $targets \
  >"$scratch/built" &
wait $!
built=$?
if [ $built -eq 77 ]; then
  echo "1..0 # SKIP $(head -n 1 "$scratch/built")"
  exit 0
fi
sed 's/^/# /' "$scratch/built"
[ $built -eq 0 ]
ok 'it builds'
[ $built -eq 0 ] || exit 1
! grep -E 'warning|WARNING' "$here/configure.log" "$here/make.log"
ok 'without a warning'
cmp -s "$here/build/docs/gradweir.1" "${GW_BUILDDIR:-.}/docs/gradweir.1"
ok 'the manual is the same'

# ---- the arithmetic and the links ----

GW_TRANSPORT=shm # of the tables
export GW_TRANSPORT
for test in $programs; do
  timeout -s KILL 60 qemu-aarch64 -L "$here/root" "$here/build/tests/$test" \
    >"$scratch/out" 2>&1 || { tail -n 20 "$scratch/out" | sed 's/^/# /' && false; }
  ok "emulated: $test"
done

# ---- jobs ----

x86=$program
arm=$scratch/gradweir-arm
cat >"$arm" <<END
#!/bin/sh
exec qemu-aarch64 -L '$here/root' '$here/build/gradweir' "\$@"
END
chmod +x "$arm"

"$arm" --version | grep -q '^optimizers .*(neon)$'
ok 'it says neon'

# trained NAME SERVERS WORKER WORKER OPTION...: two servers of a program, and a
# worker of each of two. Its digest is in $weights.
trained() {
  servers=$2 first=$3 second=$4
  what=$1 weights=
  shift 4
  program=$x86
  start c coordinator "$job" "$@"
  coordinator=$started
  await 10 grep -qs '^members join at ' "$scratch/c.out" || return 1
  address=$(sed -n 's/^members join at \([^ ]*[0-9]\).*/\1/p' "$scratch/c.out")
  program=$servers
  start s0 server --join "$address"
  start s1 server --join "$address"
  program=$first
  start w0 worker --join "$address" --rank 0
  program=$second
  start w1 worker --join "$address" --rank 1
  wait $coordinator && await 10 nobody_left &&
    weights=$(digest "$scratch/c.out") && [ "$weights" ] && return 0
  echo "# $what"
  sed 's/^/# /' "$scratch"/*.out "$scratch"/*.err
  return 1
}

# same NAME: weights are as those that were kept.
same() {
  [ "$weights" ] && [ "$weights" = "$kept" ]
  ok "$1"
}

adam='--set optimizer.kind=adam --set optimizer.lr=0.003 --set train.clip=1'
# words
# shellcheck disable=SC2086
{
  trained 'all x86-64' "$x86" "$x86" "$x86" $adam && kept=$weights
  ok 'a job of x86-64'
  trained 'servers' "$arm" "$x86" "$x86" $adam
  same 'with servers of aarch64 it has the same bits'
  trained 'one worker' "$x86" "$x86" "$arm" $adam && kept=$weights
  ok 'a job with a worker of aarch64 among x86-64'
  grep -q 'reached over shm' "$scratch/w1.err"
  ok 'which share memory'
  trained 'servers and one worker' "$arm" "$x86" "$arm" $adam
  same 'with its servers too it has the same bits'
  trained 'tcp' "$x86" "$x86" "$arm" $adam --set cluster.transport=tcp
  same 'and over tcp'
}
if "$x86" --version | grep -q '(avx'; then
  trained 'one layer' "$x86" "$x86" "$x86" --set 'model.layers=[64,10]' &&
    kept=$weights
  trained 'one layer' "$x86" "$arm" "$arm" --set 'model.layers=[64,10]'
  same 'workers of both have the same bits, but for the products of a CBLAS'
else
  skip 'workers of both have the same bits, but for the products of a CBLAS' \
    'this processor multiplies and adds apart'
fi

await 10 nobody_left
ok 'nobody is left'
echo "1..$tests"
