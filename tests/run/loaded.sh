#!/bin/sh
# Libraries that are loaded when they are wanted: rdma-core. A host without it,
# or with one that is too old, runs all the rest and is told why. Prints TAP.
. "${GW_SRCDIR:-..}/tests/run/lib.sh"
case $(gradweir --version) in
*'built without rdma-core'*)
  echo '1..0 # SKIP built without rdma-core'
  exit 0
  ;;
esac
make_data

# ---- what the program is linked with ----
if command -v readelf >/dev/null; then
  readelf -d "$program" >"$scratch/out" && grep -q NEEDED "$scratch/out" &&
    ! grep -iE 'verbs|rdmacm|blas|cuda' "$scratch/out"
  ok 'the program needs no library of a device, and no BLAS'
else
  skip 'the program needs no library of a device, and no BLAS' 'no readelf'
fi

# ---- rdma-core that cannot be used ----

# without NAME PATTERN: in place of the library of that name, one in $scratch/lib;
# each command gives PATTERN as the reason.
without() {
  export LD_LIBRARY_PATH="$scratch/lib"
  run 0 --version && grep -qE "^transports .* rdma \(not here: $2\), tcp" "$scratch/out"
  ok "$1: --version"
  run 0 doctor && grep -qE "^note  *transport  *rdma does not work here: $2" "$scratch/out" &&
    grep -qE "^note  *transport  *with cluster.transport = \"auto\" .* not rdma, $2" "$scratch/out"
  ok "$1: doctor, and what auto comes to"
  run 1 doctor --set cluster.transport=rdma &&
    grep -qE "^fix  *transport  *rdma does not work here: $2" "$scratch/out"
  ok "$1: doctor, where it is asked for"
  run 1 train "$job" --set cluster.transport=rdma &&
    grep -qE "^gradweir: cluster.transport rdma: $2; gradweir doctor" "$scratch/err"
  ok "$1: a job over rdma ends, with a line"
  run 0 train "$job" && [ "$(digest)" ]
  ok "$1: a job trains"
  unset LD_LIBRARY_PATH
}

mkdir "$scratch/lib"
missing='rdma-core cannot be loaded: .*(libibverbs|librdmacm)\.so\.1: .*\(Debian: .*\)'
echo nothing >"$scratch/lib/libibverbs.so.1"
without 'no libibverbs' "$missing"
rm "$scratch/lib/libibverbs.so.1"
echo nothing >"$scratch/lib/librdmacm.so.1"
without 'no librdmacm' "$missing"
case ${GW_CFLAGS-} in
*-fsanitize*) skip 'an old one' 'sanitizers have libraries of their own' ;;
*)
  echo 'int gw_nothing;' >"$scratch/old.c"
  if ${GW_CC:-cc} -shared -fPIC -o "$scratch/lib/librdmacm.so.1" "$scratch/old.c" 2>/dev/null; then
    without 'an old librdmacm' 'rdma-core is too old: librdmacm.so.1 has no rdma_[a-z_]*, 34 or later is needed'
  else
    skip 'an old librdmacm' 'nothing compiles here'
  fi ;;
esac
nobody_left
ok 'nobody is left'
echo "1..$tests"
