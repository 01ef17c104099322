#!/bin/sh
# examples/python: four lines make a script of a single process one of a job, and
# both train. And what packages of the front end are made from. Prints TAP.
# PYTHON names the Python; without it, one that has torch is looked for.
. "${GW_SRCDIR:-..}/tests/run/lib.sh"
source=$(cd "${GW_SRCDIR:-..}" && pwd)
build=$(cd "${GW_BUILDDIR:-.}" && pwd)
program=$build/gradweir
examples=$source/examples/python
OMP_NUM_THREADS=1
PYTHONPATH=$source/python
PYTHONDONTWRITEBYTECODE=1
GRADWEIR_LIBRARY=$build/libgradweir.so
GW_DATA_DIR=$scratch/data
export OMP_NUM_THREADS PYTHONPATH PYTHONDONTWRITEBYTECODE GRADWEIR_LIBRARY GW_DATA_DIR

# ---- packages ----

(cd "$source" && find python/gradweir -name '*.py' -o -name py.typed) | sort >"$scratch/files"
sed -n 's|^[[:space:]]*%D%/\(gradweir/[a-z_/]*\.[a-z]*\).*|python/\1|p' \
  "$source/python/local.mk" | sort | diff "$scratch/files" - | sed 's/^/# /' >"$scratch/bad"
cat "$scratch/bad"
[ -s "$scratch/files" ] && [ ! -s "$scratch/bad" ]
ok 'every module is installed'

version=$(sed -n 's/^__version__ = "\(.*\)"/\1/p' "$source/python/gradweir/__init__.py")
"$program" --version | grep -q "^gradweir $version\$"
ok 'the front end has the version of the program'

# ---- examples ----

# Four lines at most, each to be left out by itself.
for script in fashion resnet18 gpt2 lora; do
  marked=$(grep -c '# gradweir$' "$examples/$script.py")
  all=$(sed '1,/^"""$/d' "$examples/$script.py" | grep -c gradweir)
  [ "$marked" -le 4 ] && [ "$marked" -eq "$all" ] ||
    echo "# $script.py: $marked lines are marked, $all name gradweir"
done >"$scratch/bad"
cat "$scratch/bad"
[ ! -s "$scratch/bad" ]
ok 'at most four lines differ from the script of a single process'

for python in ${PYTHON:-python3 /usr/bin/python3}; do
  "$python" -c 'import torch' 2>/dev/null && break
done
if ! "$python" -c 'import numpy' 2>/dev/null; then
  skip 'the examples' 'no numpy'
  echo "1..$tests"
  exit
fi

# finds POLICY: on each rank both numbers are within 0.05 of y = 3 x - 1.
finds() {
  run 0 run --workers 2 --set "cluster.policy=$1" -- "$python" "$examples/numpy_line.py" &&
    await 3 nobody_left && awk '/\] y = / {
      found++
      slope = $4 - 3
      offset = $6 + 1
      good += slope * slope < 0.0025 && offset * offset < 0.0025
    }
    END { exit !(found == 2 && good == 2) }' "$scratch/out" && return 0
  sed 's/^/# /' "$scratch/out" "$scratch/err"
  return 1
}
for policy in sync ssp:2 async local:4; do
  finds $policy
  ok "numpy_line.py: $policy"
done

if ! "$python" -c 'import torch' 2>/dev/null; then
  skip 'fashion.py' 'no torch'
  echo "1..$tests"
  exit
fi
make_pictures "$scratch/data" 28
for part in train t10k; do
  gzip -c "$scratch/data/images" >"$scratch/data/$part-images-idx3-ubyte.gz"
  gzip -c "$scratch/data/labels" >"$scratch/data/$part-labels-idx1-ubyte.gz"
done
(cd "$examples" && sed '/# gradweir$/d' fashion.py | "$python" - 2) >"$scratch/out" 2>&1 &&
  grep -q '^epoch 1: loss .*, accuracy' "$scratch/out"
ok 'fashion.py without its four lines: a script of a single process'
run 0 run --workers 2 -- "$python" "$examples/fashion.py" 2 && await 3 nobody_left &&
  [ "$(sed -n 's/^\[[01]\] epoch 1: .*accuracy //p' "$scratch/out" | uniq -c |
    awk '{ print $1 }')" = 2 ] &&
  grep -q '^done  *finished at step 2$' "$scratch/out"
ok 'fashion.py: two ranks, one accuracy'

echo "1..$tests"
