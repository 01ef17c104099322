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
one='' rest=''
# shellcheck disable=SC2086
trap 'kill $one $rest 2>/dev/null; rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM
machine=$source/tests/rdma/machine.sh
points=0

# number FILE: its points, counted on.
number() {
  awk -v n="$points" '/^(ok|not ok) / {
      sub(/^ok [0-9]*/, "ok " ++n) || sub(/^not ok [0-9]*/, "not ok " n) }
    !/^1\.\./ { print }' "$1"
  points=$((points + $(grep -c '^ok \|^not ok ' "$1")))
}

# in_machines NAME "SCRIPTS" ARGUMENTS..: scripts of ours in emulated machines,
# one after the other; their output in $scratch/NAME.
in_machines() {
  out=$scratch/$1
  scripts=$2
  shift 2
  command=
  for script in $scripts; do
    command="$command sh '$source/tests/rdma/$script.sh';"
  done
  bash "$machine" "$@" -- sh -c "$command" >"$out" &
  # shellcheck disable=SC2064
  trap "kill $! 2>/dev/null; exit 1" TERM
  wait $!
  echo $? >"$out.code"
}

# has_come NAME "SCRIPTS": the points of that.
has_come() {
  if [ "$(cat "$scratch/$1.code")" -eq 77 ]; then
    why="no emulated machine: $(head -n 1 "$scratch/$1")"
    [ $points -gt 0 ] || skip "$why"
    points=$((points + 1))
    echo "ok $points - $2 # SKIP $why"
    return
  fi
  number "$scratch/$1"
  points=$((points + 1))
  # a script that broke off has no plan
  if [ "$(grep -c '^1\.\.' "$scratch/$1")" -eq "$(echo "$2" | wc -w)" ]; then
    echo "ok $points - came to the end: $2"
  else
    echo "not ok $points - came to the end: $2"
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
# The doctor's measurements are waiting for the most part, and so are the cases
# that "inside" begins with: side by side. Jobs, whose processes must be heard
# each second, have the processors for themselves, and so have two machines.
in_machines one 'inside rails' -t 900 &
one=$!
in_machines doctor 'doctor far' -t 700 &
rest=$!
wait $rest
rest=
wait $one
one=
in_machines two two -n 2 -t 400 &
rest=$!
wait $rest
rest=
has_come one 'inside rails'
has_come doctor 'doctor far'
has_come two two
echo "1..$points"
