#!/bin/sh
# What the module for GPUs is built with: the capabilities that configure takes,
# the pack that goes to machines with one,
# and CUDA as old as the oldest that is promised. Of that only the runtime's
# headers and its library are fetched, which are small. Prints TAP.
source=$(cd "${GW_SRCDIR:-..}" && pwd)
build=$(cd "${GW_BUILDDIR:-.}" && pwd)
case ${GW_CFLAGS-} in
*-fsanitize*)
  echo '1..0 # SKIP nothing here runs what sanitizers look at'
  exit 0
  ;;
esac
. "$source/tests/run/lib.sh"

# ---- capabilities ----

# configured LIST: its configure, in $scratch/tree; its words in $scratch/said.
configured() {
  rm -rf "$scratch/tree"
  mkdir "$scratch/tree"
  (cd "$scratch/tree" && timeout 120 "$source/configure" -q \
    --with-rdma=no --with-hwloc=no --with-cuda-arch="$1") >"$scratch/said" 2>&1
}

# refuses LIST WORDS
refuses() {
  ! configured "$1" && grep -qF "$2" "$scratch/said" && return 0
  tail -n 5 "$scratch/said" | sed 's/^/# /'
  return 1
}
if [ -e "$source/config.status" ]; then
  skip 'capabilities that configure takes' \
    "$source is configured itself, and no other build can be: make distclean there"
elif [ -x "$source/configure" ]; then
  refuses '90 80' 'name the least first' &&
    refuses '9.0' '"9.0" is no compute capability times ten, such as 80, 90 or 90a'
  ok 'capabilities that are none, or in another order, are refused'
  configured '80 90a' &&
    grep -q '^#define GW_CUDA_LEAST 80$' "$scratch/tree/config.h" &&
    grep -q '^#define GW_CUDA_ARCHS "80 90"$' "$scratch/tree/config.h" &&
    { ! grep -q '^GW_NVCCFLAGS = .' "$scratch/tree/Makefile" ||
      grep -q 'arch=compute_90a,code=sm_90a .*code=compute_90 ' \
        "$scratch/tree/Makefile"; }
  ok '90a is compiled for, and counts as 90'
  configured 90a && grep -q '^#define GW_CUDA_LEAST 90$' "$scratch/tree/config.h"
  ok 'and alone is the least'
fi

# ---- the pack for machines with a GPU ----

# packed SONAME: what pack.sh makes, of a program that finds no GPU unless the
# library lies where the loader looks.
packed() {
  rm -rf "$scratch/pack" "$scratch/out"
  mkdir -p "$scratch/pack/lib" "$scratch/pack/tests/gpu"
  echo "$1" >"$scratch/pack/cublaslt"
  : | gzip >"$scratch/pack/lib/none.gz"
  cp "$source/tests/gpu/run.sh" "$scratch/pack/"
  printf '#!/bin/sh\necho cuda\n' >"$scratch/pack/gradweir"
  chmod +x "$scratch/pack/gradweir"
  cat >"$scratch/pack/tests/gpu/check.sh" <<CHECK
[ -e "\${LD_LIBRARY_PATH%%:*}/$1" ] || { echo '1..0 # SKIP no GPU: it does not load'; exit 0; }
echo 'ok 1 - loaded'
CHECK
}

# ran CODE ENVIRONMENT..
ran() {
  expected=$1
  shift
  env -u LD_LIBRARY_PATH -u CONDA_PREFIX -u CUBLASLT "PYTHON=$scratch/python" CUDA_HOME=/none \
    "OUT=$scratch/out" "$@" sh "$scratch/pack/run.sh" check >"$scratch/said" 2>&1
  [ $? -eq "$expected" ] && return 0
  sed 's/^/# /' "$scratch/said"
  return 1
}
# a python of which only the paths are asked
cat >"$scratch/python" <<PYTHON
#!/bin/sh
case \$2 in *prefix*) echo $scratch/prefix/lib ;; *) echo $scratch/site ;; esac
PYTHON
chmod +x "$scratch/python"
name=libcublasLt.so.99 # of which no machine has one
for at in site/nvidia/cublas/lib site/nvidia/cu99/lib site/torch/lib prefix/lib \
  conda/lib own; do
  packed $name
  mkdir -p "$scratch/$at"
  : >"$scratch/$at/$name"
  case $at in
  conda/lib) ran 0 "CONDA_PREFIX=$scratch/conda" ;;
  own) ran 0 "CUBLASLT=$scratch/own" ;;
  *) ran 0 ;;
  esac && grep -q '^ok 1 - loaded' "$scratch/said"
  ok "the pack finds cublasLt: $at"
  rm "$scratch/$at/$name"
done
packed $name
ran 77 && grep -q "^NOTHING RAN: no $name is here; get it .* pip install .* nvidia-cublas and" "$scratch/said"
ok 'where it is not, the pack says how to get it, and is no success'
packed libcublasLt.so.9 # which there never was, as CUDA 12 has it otherwise
ran 77 && grep -q 'pip install .* nvidia-cublas-cu9 and' "$scratch/said"
ok 'before CUDA 13 by the other name'

# ---- a GPU that cannot be used ----

mkdir "$scratch/smi"
printf '#!/bin/sh\necho "GPU 0: Some (UUID: GPU-0)"\n' >"$scratch/smi/nvidia-smi"
chmod +x "$scratch/smi/nvidia-smi"
# check CODE: what check-gpu comes to where no module is
check() {
  expected=$1
  shift
  env GRADWEIR_MODULES="$scratch" GW_SRCDIR="$source" GW_BUILDDIR="$build" "$@" \
    sh "$source/tests/gpu/check.sh" >"$scratch/said" 2>&1
  [ $? -eq "$expected" ] && grep -q '^1..0 # SKIP no GPU: ' "$scratch/said"
}
if nvidia-smi -L >/dev/null 2>&1; then
  skip 'check-gpu fails where a GPU cannot be used' 'a GPU is here'
else
  check 0 && check 77 PATH="$scratch/smi:$PATH"
  ok 'check-gpu fails where a GPU cannot be used'
fi

# ---- the oldest CUDA ----

cublas=$(sed -n 's/^CUDA_CPPFLAGS = -isystem *//p' "$build/Makefile")
cublas=${cublas:-/usr/include}

# fetched VERSION: its headers and its library are in $scratch/VERSION, else
# $why says why not.
fetched() {
  why='no python3 with pip'
  python3 -m pip --version >/dev/null 2>&1 || return 1
  why="no nvidia-cuda-runtime-cu12 $1 from a package index"
  timeout 60 python3 -m pip download -q --no-deps --disable-pip-version-check \
    --only-binary :all: -d "$scratch" "nvidia-cuda-runtime-cu12==$1" \
    >"$scratch/pip" 2>&1 || return 1
  python3 -m zipfile -e "$scratch"/nvidia_cuda_runtime_cu12-"$1"-*.whl "$scratch/$1" &&
    toolkit=$scratch/$1/nvidia/cuda_runtime
}

# cublasLt is 400 MB for a header, so its is the toolkit's own. Of its own
# runtime that only asks for two types, which nothing here uses.
compiles() {
  rm -rf "$scratch/objects"
  mkdir "$scratch/objects" "$scratch/objects/lt"
  cp "$cublas/cublasLt.h" "$cublas/cublas_api.h" "$scratch/objects/lt/"
  for file in "$source"/kernels/cuda/cuda_*.c; do
    "${GW_CC:-cc}" -std=c17 -Wall -Wextra -Werror -fPIC -I"$build" -I"$source" \
      -isystem "$toolkit/include" -isystem "$scratch/objects/lt" -DHAVE_CONFIG_H \
      -DcudaEmulationSpecialValuesSupport=int -DcudaEmulationMantissaControl=int \
      -c -o "$scratch/objects/$(basename "$file" .c).o" "$file" \
      >"$scratch/said" 2>&1 || {
      grep -m 3 error: "$scratch/said" | sed 's/^/# /'
      return 1
    }
  done
}

# links: each call of the runtime is in the old one.
links() {
  nm -D --defined-only "$toolkit"/lib/libcudart.so.12 |
    sed 's/.* //; s/@.*//' | sort -u >"$scratch/has"
  nm -u "$scratch"/objects/*.o | sed -n 's/.* \(cuda[A-Z].*\)$/\1/p' |
    sort -u >"$scratch/wants"
  [ -s "$scratch/wants" ] && ! comm -13 "$scratch/has" "$scratch/wants" |
    sed 's/^/# it has no /' | grep .
}

for version in 12.0.146 12.4.127; do
  name="the module's C compiles and links with CUDA $version"
  if [ ! -e "$cublas/cublasLt.h" ]; then
    skip "$name" "no cublasLt.h in $cublas"
  elif ! fetched $version; then
    skip "$name" "$why"
  else
    compiles && links
    ok "$name"
  fi
done
echo "1..$tests"
