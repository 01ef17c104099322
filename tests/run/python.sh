#!/bin/sh
# The Python front end, tests/python. PYTHON names the Python; without it, one
# that has torch is looked for. Prints TAP.
#
#   python.sh [MODULE ..]    all of them
GW_TEST_SECONDS=${GW_TEST_SECONDS:-900}
. "${GW_SRCDIR:-..}/tests/run/lib.sh"
source=$(cd "${GW_SRCDIR:-..}" && pwd)
build=$(cd "${GW_BUILDDIR:-.}" && pwd)
GW_BUILDDIR=$build
GW_TEST_MARK=$scratch # of every process, so that none is left
PYTHONPATH=$source/python
PYTHONDONTWRITEBYTECODE=1
GRADWEIR_LIBRARY=$build/libgradweir.so
TMPDIR=$scratch
export GW_BUILDDIR GW_TEST_MARK PYTHONPATH PYTHONDONTWRITEBYTECODE GRADWEIR_LIBRARY TMPDIR

for python in ${PYTHON:-python3 /usr/bin/python3} ''; do
  [ "$python" ] || break
  "$python" -c 'import numpy, torch' >/dev/null 2>&1 && break
done
if [ ! "$python" ]; then
  echo '1..0 # SKIP no Python here has torch and numpy (packages python3-torch, python3-numpy)'
  exit 0
fi
"$python" "$source/tests/python/all.py" "$@"
