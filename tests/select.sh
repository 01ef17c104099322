#!/bin/sh
# Which tests are of some kinds: select.sh 'unit table' TEST.. prints them, and
# with -v in front all the others. A kind is a directory of tests/; style is
# tests/check_style.sh. Where there is none it prints a name that make finds no
# test for, rather than let it run none.
wanted=yes
if [ "$1" = -v ]; then
  wanted=no
  shift
fi
kinds=" $1 "
shift
none=no-test-is-of-these-kinds
for test in "$@"; do
  kind=${test%/*}
  kind=${kind##*/}
  case $test in */check_style.sh) kind=style ;; esac
  case $kinds in
  *" $kind "*) is=yes ;;
  *) is=no ;;
  esac
  if [ $is = $wanted ]; then
    echo "$test"
    none=
  fi
done
[ -z "$none" ] || echo $none
