#!/bin/sh
# Makes a directory that shows all of a GPU on a machine that has none of our
# libraries: the program and its module, the tests and benches, Fashion-MNIST,
# and run.sh, which runs them. Linked with what there is as archives; what is
# not comes along. From the machine it takes glibc, NVIDIA's driver and
# libcublasLt, and for comparisons python3 with PyTorch. Needs nvcc here.
#
#   tests/gpu/pack.sh [DIR [CONFIGURE-ARGUMENT..]]    build-gpu
set -eu
unset CDPATH MAKEFLAGS MFLAGS MAKELEVEL OPENBLAS_CORETYPE OPENBLAS_L2_SIZE
source=$(cd "$(dirname "$0")/../.." && pwd)
dir=${1:-build-gpu}
[ $# -eq 0 ] || shift
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
tree=$dir-tree
data=${GW_DATA_DIR:-/usr/share/datasets/fashion-mnist}
limit=$((50 << 20)) # bytes, of all

say() { printf '%s\n' "$*"; }
give_up() {
  say "pack.sh: $*" >&2
  exit 1
}

# Archives alone in a directory that the linker looks into first.
archives() {
  rm -rf "$tree/archives"
  mkdir -p "$tree/archives"
  for pair in uv=libuv_a.a uv=libuv.a config=libconfig.a \
    protobuf-c=libprotobuf-c.a jansson=libjansson.a z=libz.a crypto=libcrypto.a \
    isal=libisal.a cmocka=libcmocka.a; do
    at=$(${CC:-cc} -print-file-name="${pair#*=}")
    [ ! -e "$at" ] || ln -sf "$at" "$tree/archives/lib${pair%%=*}.a"
  done
}

# Of OpenBLAS what is called, in one library for all programs: a third less.
openblas() {
  at=$(${CC:-cc} -print-file-name=libopenblas.a)
  [ -e "$at" ] || return 0
  echo '{ global: cblas_sgemm; openblas_*; local: *; };' >"$tree/openblas.map"
  wanted=
  for name in cblas_sgemm openblas_set_num_threads openblas_get_num_threads \
    openblas_get_corename openblas_get_config; do
    wanted="$wanted -Wl,-u,$name"
  done
  # shellcheck disable=SC2086
  ${CC:-cc} -shared -o "$tree/archives/libopenblas.so.0" $wanted \
    -Wl,-soname,libopenblas.so.0 -Wl,--version-script="$tree/openblas.map" \
    -Wl,--gc-sections -Wl,-s "$at" -lm -lpthread
  ln -sf libopenblas.so.0 "$tree/archives/libopenblas.so"
}

programs='gradweir tests/table/test_backends tests/table/test_backend_layers
tests/table/test_backend_parts tests/table/test_backend_shapes
tests/gpu/test_gpu_layers tests/gpu/test_gpu_memory tests/gpu/test_gpu_share
tests/perf/gpu_ops tests/perf/gpu_overlap'
module=kernels/gradweir-cuda.so

build() {
  [ -e "$source/configure" ] || (cd "$source" && autoreconf -fi)
  (cd "$tree" && "$source/configure" --with-rdma=no --with-hwloc=no \
    --with-cuda=yes LDFLAGS="-L$tree/archives" "$@")
  # shellcheck disable=SC2086
  make -C "$tree" -j "$(nproc)" $programs $module
}

# Libraries that every machine of this kind has, or that are the GPU's.
at_home='^(linux-vdso|libc|libm|libdl|librt|libpthread|ld-linux|libcublasLt|libcuda|libgcc_s)[-.]'

# libraries FILE..: of what they need, the others.
libraries() {
  LD_LIBRARY_PATH=$tree/archives ldd "$@" |
    awk '$2 == "=>" && $3 ~ /^\// { print $1, $3 }' | sort -u |
    grep -vE "$at_home" || true
}

# The CBLAS, which programs load, and what it needs.
blas() {
  name=$(sed -n 's/^#define GW_BLAS_FILE "\(.*\)"/\1/p' "$tree/config.h")
  at=$tree/archives/$name
  [ -e "$at" ] || at=$(${CC:-cc} -print-file-name="$name")
  echo "$name $at"
  libraries "$at"
}

copy() {
  rm -rf "${dir:?}"/*
  mkdir -p "$dir/lib" "$dir/kernels" "$dir/tests/table" "$dir/tests/gpu" \
    "$dir/tests/run" "$dir/tests/perf" "$dir/examples" "$dir/data"
  for file in $programs $module; do
    ${STRIP:-strip} -o "$dir/$file" "$tree/$file"
  done
  # shellcheck disable=SC2086
  (cd "$tree" && libraries $programs $module && blas) | while read -r name at; do
    gzip -9 <"$at" >"$dir/lib/$name.gz"
  done
  # the name by which the module asks for it, of the CUDA that it is built with
  ${READELF:-readelf} -d "$tree/$module" |
    sed -n 's/.*(NEEDED).*\[\(libcublasLt[.]so[.0-9]*\)\].*/\1/p' >"$dir/cublaslt"
  [ -s "$dir/cublaslt" ] || give_up "$module needs no libcublasLt"
  cp "$source/tests/gpu/run.sh" "$dir/"
  cp "$source/tests/gpu/check.sh" "$dir/tests/gpu/"
  cp "$source/tests/run/lib.sh" "$dir/tests/run/"
  for file in gpu.py gpu_torch.py ddp.py; do
    cp "$source/tests/perf/$file" "$dir/tests/perf/"
  done
  cp "$source"/examples/fashion-*.job "$dir/examples/"
  for file in train-images-idx3 train-labels-idx1 t10k-images-idx3 t10k-labels-idx1; do
    cp "$data/$file-ubyte.gz" "$dir/data/" ||
      say "without $file-ubyte.gz: jobs will be skipped"
  done
}

mkdir -p "$tree"
archives
openblas
build "$@" >"$tree/log" 2>&1 || {
  tail -n 20 "$tree/log" >&2
  give_up "the build failed; all of it is in $tree/log"
}
copy
bytes=$(du -sb "$dir" | awk '{ print $1 }')
say "$dir: $((bytes >> 10)) KiB; sh $dir/run.sh"
[ "$bytes" -le $limit ] || give_up "that is more than $((limit >> 20)) MiB"
