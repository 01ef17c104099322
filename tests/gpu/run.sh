#!/bin/sh
# Shows a GPU with what tests/gpu/pack.sh has put beside this file: the checks,
# then the benches, and at the end a table of both. What they say also goes to
# $OUT (./out): check-gpu.txt, bench-gpu.txt, machine.txt. With one GPU under 8
# minutes: 250 s for the checks, 50 for each other GPU, 185 for the benches, and
# seconds to end what is over them. Exit code 0: all is well; 1: something is not;
# 77: nothing ran, and the last line says what is missing.
#
#   run.sh [check | bench]    both
#
# PYTHON: that which has PyTorch, python3. CUBLASLT: the directory of libcublasLt.
set -u
unset CDPATH OPENBLAS_CORETYPE OPENBLAS_L2_SIZE
here=$(cd "$(dirname "$0")" && pwd)
out=${OUT:-./out}
python=${PYTHON:-python3}
mkdir -p "$out" || exit 1
PATH=${PATH:-/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin}
PATH=$PATH:/usr/local/cuda/bin:/usr/local/nvidia/bin
export PATH

scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM
for file in "$here"/lib/*.gz; do
  gzip -dc "$file" >"$scratch/$(basename "$file" .gz)" || exit 1
done

# The module asks for this one by name: that of the CUDA it was built with.
read -r library <"$here/cublaslt" || exit 1
major=${library##*.}

# Where Python has what it imports.
site() {
  command -v "$python" >/dev/null &&
    "$python" -c 'import sys; print("\n".join(p for p in sys.path if p))' 2>/dev/null
}

# candidates: directories that may have the library, the machine's own first.
candidates() {
  [ -z "${CUBLASLT-}" ] || echo "$CUBLASLT"
  { ldconfig -p || /sbin/ldconfig -p; } 2>/dev/null |
    sed -n "s|.*$library .*=> \(/.*\)/[^/]*\$|\1|p"
  echo "${LD_LIBRARY_PATH-}" | tr ':' '\n'
  for cuda in "${CUDA_HOME:-/usr/local/cuda}" "/usr/local/cuda-$major"* /opt/cuda; do
    for lib in lib64 lib targets/x86_64-linux/lib; do echo "$cuda/$lib"; done
  done
  # conda's, of the environment that is active and of the python that is told
  [ -z "${CONDA_PREFIX-}" ] || echo "$CONDA_PREFIX/lib"
  "$python" -c 'import sys; print(sys.prefix + "/lib")' 2>/dev/null
  # wheels, and those that PyTorch has brought
  { echo "$here/cublas" && site; } | while read -r path; do
    find "$path/nvidia" "$path/torch/lib" -name "$library" 2>/dev/null |
      sed 's|/[^/]*$||'
  done
}

# Of where it lies this library alone, and the compiler that it may load:
# PyTorch's directory, say, has others beside it. And PyTorch itself finds none of
# ours: it has its own.
blas=$(candidates | while read -r at; do
  if [ -e "$at/$library" ]; then echo "$at" && break; fi
done)
for file in ${blas:+"$blas/$library" "$blas"/libnvrtc*.so."$major"*}; do
  [ ! -e "$file" ] || ln -s "$file" "$scratch/$(basename "$file")"
done
driver=
for at in /usr/local/nvidia/lib64 /usr/lib/wsl/lib; do
  [ ! -e "$at/libcuda.so.1" ] || driver=:$at
done
GW_LIBRARY_PATH=$scratch${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}$driver
GRADWEIR_MODULES=${GRADWEIR_MODULES:-$here/kernels}
GW_BUILDDIR=$here GW_SRCDIR=$here
GW_DATA_DIR=${GW_DATA_DIR:-$here/data}
export GW_LIBRARY_PATH GRADWEIR_MODULES GW_BUILDDIR GW_SRCDIR GW_DATA_DIR
ours() { env LD_LIBRARY_PATH="$GW_LIBRARY_PATH" "$@"; }

{
  echo "# $library: ${blas:-not found (ldconfig, CUDA, python): the module will not load}"
  ours "$here/gradweir" --version
  uname -a
  lscpu 2>/dev/null | grep -E '^(Model name|CPU\(s\)|NUMA node\(s\))'
  nvidia-smi 2>&1 || echo 'nvidia-smi: not here, or it fails'
  nvidia-smi -q -d CLOCK,POWER,ECC 2>/dev/null
} >"$out/machine.txt" 2>&1
head -n 1 "$out/machine.txt"

# keep FILE COMMAND..: what it says is shown and kept; its status.
keep() {
  file=$1
  shift
  { "$@" 2>&1; echo $? >"$out/status"; } | tee "$out/$file"
  read -r status <"$out/status"
  rm -f "$out/status"
  return "$status"
}

worst=0 ran=
if [ "${1:-check}" = check ]; then
  keep check-gpu.txt ours timeout -k 10 "$((${GW_TEST_SECONDS:-1200} + 10))" \
    sh "$here/tests/gpu/check.sh" || worst=1
  grep -q '^1\.\.0 # SKIP' "$out/check-gpu.txt" || ran=yes
fi
if [ "${1:-bench}" = bench ]; then
  if command -v "$python" >/dev/null; then
    keep bench-gpu.txt timeout -k 5 "$((${GW_BENCH_SECONDS:-185} + 10))" \
      "$python" "$here/tests/perf/gpu.py" --build "$here" \
      --limit "${GW_BENCH_SECONDS:-185}" || worst=1
    grep -q '^SKIP' "$out/bench-gpu.txt" || ran=yes
  else
    echo "SKIP: bench-gpu needs $python" | tee "$out/bench-gpu.txt"
  fi
fi
nvidia-smi >>"$out/machine.txt" 2>&1
echo '# --- all of it'
sed -n '/^not ok/p; /^# part  /,$p' "$out/check-gpu.txt" 2>/dev/null
tail -n 1 "$out/bench-gpu.txt" 2>/dev/null
[ ! "$ran" ] || exit $worst

# Nothing ran.
wheel=nvidia-cublas
[ "$major" -ge 13 ] || wheel=nvidia-cublas-cu$major
if [ ! "$blas" ]; then
  echo "NOTHING RAN: no $library is here; get it (some 400 MB) by" \
    "$python -m pip install --no-deps --target $here/cublas $wheel" \
    "and run this again, or set CUBLASLT to the directory that has it"
else
  echo "NOTHING RAN: $(sed -n 's/^1\.\.0 # SKIP //p; s/^SKIP: //p' \
    "$out/check-gpu.txt" "$out/bench-gpu.txt" 2>/dev/null | head -n 1)"
fi
exit 77
