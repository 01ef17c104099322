#!/bin/sh
# RDMA for real: in machines that are emulated, and where a device is really
# here, over that. Prints TAP. Everything is skipped, with the reason, where
# neither can be had.
source=${GW_SRCDIR:-..}
build=${GW_BUILDDIR:-.}
skip() {
  echo "1..0 # SKIP $1"
  exit 0
}
case $("$build/gradweir" --version) in
*'built without rdma-core'*) skip 'built without rdma-core' ;;
esac
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
machine=$source/tests/rdma/machine.sh
points=0

# number FILE: its points, counted on.
number() {
  awk -v n="$points" '/^(ok|not ok) / {
      sub(/^ok [0-9]*/, "ok " ++n) || sub(/^not ok [0-9]*/, "not ok " n) }
    !/^1\.\./ { print }' "$1"
  points=$((points + $(grep -c '^ok \|^not ok ' "$1")))
}

# in_machines "SCRIPTS" ARGUMENTS..: scripts of ours in emulated machines, one
# after the other.
in_machines() {
  scripts=$1
  shift
  command=
  wanted=0
  for script in $scripts; do
    command="$command sh '$source/tests/rdma/$script.sh';"
    wanted=$((wanted + 1))
  done
  bash "$machine" "$@" -- sh -c "$command" >"$scratch/out"
  if [ $? -eq 77 ]; then
    [ $points -gt 0 ] || skip "no emulated machine: $(head -n 1 "$scratch/out")"
  fi
  number "$scratch/out"
  points=$((points + 1))
  # a script that broke off has no plan
  if [ "$(grep -c '^1\.\.' "$scratch/out")" -eq $wanted ]; then
    echo "ok $points - came to the end: $scripts"
  else
    echo "not ok $points - came to the end: $scripts"
  fi
}

# A device that is here: nothing is taken away from it.
if "$build/gradweir" --version | grep '^transports' | grep -q 'rdma,'; then
  for cases in transport member member_login; do
    CMOCKA_MESSAGE_OUTPUT=TAP GW_TRANSPORT=rdma \
      "$build/tests/table/test_$cases" >"$scratch/here"
    number "$scratch/here"
  done
fi
in_machines 'doctor inside' -t 480
in_machines rails -t 300
in_machines two -n 2 -t 240
echo "1..$points"
