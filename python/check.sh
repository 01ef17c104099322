#!/bin/sh
# The front end with PyPI's newest PyTorch and transformers: its tests, and the
# examples for a few steps. From a build directory: make check-python. It needs
# PyPI, 6 GB of disk, and minutes. Exit code 0: all passed.
#
# GW_PYTHON_VENV of the environment is an environment that has the packages.
set -u
source=$(cd "$(dirname "$0")/.." && pwd)
build=$PWD
venv=${GW_PYTHON_VENV:-$build/check-python}
packages='torch torchvision transformers accelerate peft lightning jax keras'
PATH=$venv/bin:$PATH
PYTHON=$venv/bin/python
PYTHONPATH=$source/python
GRADWEIR_LIBRARY=$build/libgradweir.so
GW_BUILDDIR=$build
GW_SRCDIR=$source
KERAS_BACKEND=jax
export PATH PYTHON PYTHONPATH GRADWEIR_LIBRARY GW_BUILDDIR GW_SRCDIR KERAS_BACKEND
failed=0

# timed NAME COMMAND..: a line with the seconds; what a failure printed.
timed() {
  name=$1
  shift
  began=$(date +%s)
  if "$@" >"$build/check-python.log" 2>&1; then
    result=ok
  else
    result='not ok'
    failed=$((failed + 1))
    tail -n 40 "$build/check-python.log" | sed 's/^/    /'
  fi
  printf '%-7s %4d s  %s\n' "$result" $(($(date +%s) - began)) "$name"
}

# example SCRIPT ARGUMENT: in two ranks, where it may leave files.
example() {
  timed "examples/python/$1 $2" \
    "$build/gradweir" run --workers 2 -- "$PYTHON" "$source/examples/python/$1" "$2"
}

if [ ! -x "$PYTHON" ]; then
  "${GW_PYTHON:-python3}" -m venv "$venv" || exit 1
  # several words
  # shellcheck disable=SC2086
  timed "pip install $packages" "$venv/bin/pip" install -q $packages
  [ "$failed" -eq 0 ] || exit 1
fi
# several words
# shellcheck disable=SC2086
"$PYTHON" - $packages <<'VERSIONS'
import sys
from importlib.metadata import version
print("python " + sys.version.split()[0] + "".join(f", {name} {version(name)}" for name in sys.argv[1:]))
VERSIONS

for test in "$source"/tests/python/test_*.py; do
  module=$(basename "$test" .py)
  timed "tests/python/$module" sh "$source/tests/run/python.sh" "$module"
done
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
example numpy_line.py ''
example fashion.py 1
example resnet18.py 5
example gpt2.py 60
example lora.py 20
example jax_mlp.py 100
example keras_mlp.py 1
echo "$failed failed"
[ "$failed" -eq 0 ]
