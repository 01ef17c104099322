#!/bin/sh
# Plants each defect of defects.list in a copy of the sources and wants the
# program and seed that are named there to fail; without a defect they pass.
# Takes minutes, so it is run by hand: make check-defects. Prints TAP.
sources=${GW_SRCDIR:-.}
list=$sources/tests/sim/defects.list
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE
tests=0
failed=0

# ok NAME: the status of the command before decides.
ok() {
  if [ $? -eq 0 ]; then result=ok; else result='not ok' failed=1; fi
  tests=$((tests + 1))
  echo "$result $tests - $1"
}

# build PROGRAM: of the copy as it is.
build() {
  make -C "$scratch/build" CFLAGS=-Wno-error "tests/sim/$1" \
    >"$scratch/log" 2>&1 || { sed 's/^/# /' "$scratch/log"; return 1; }
}
# passes PROGRAM SEED
passes() {
  (cd "$scratch/build" && GW_SIM_SEED=$2 GW_SRCDIR=$scratch/source \
    timeout 120 "./tests/sim/$1" >"$scratch/log" 2>&1)
}

mkdir "$scratch/build" && cp -R "$sources" "$scratch/source" &&
  (cd "$scratch/build" && "$scratch/source/configure" -q) \
    >"$scratch/log" 2>&1 && make -C "$scratch/build" CFLAGS=-Wno-error \
    >"$scratch/log" 2>&1 || { sed 's/^/# /' "$scratch/log"; exit 1; }

while IFS='|' read -r name file script program seed; do
  case $name in '#'* | '') continue ;; esac
  name=${name% } file=${file# } file=${file% }
  script=${script# } script=${script% }
  program=${program# } program=${program% } seed=${seed# }
  build "$program" && passes "$program" "$seed"
  ok "$program, seed $seed: passes"
  cp "$scratch/source/$file" "$scratch/whole"
  sed -i "$script" "$scratch/source/$file"
  ! cmp -s "$scratch/source/$file" "$scratch/whole" && build "$program" &&
    ! passes "$program" "$seed"
  ok "$name: found"
  cp "$scratch/whole" "$scratch/source/$file"
done <"$list"
echo "1..$tests"
exit $failed
