#!/bin/sh
# Which tests are of some kinds: select.sh 'unit table' TEST.. prints them. A
# kind is a directory of tests/; style is tests/check_style.sh.
kinds=" $1 "
shift
for test in "$@"; do
  kind=${test%/*}
  kind=${kind##*/}
  case $test in */check_style.sh) kind=style ;; esac
  case $kinds in *" $kind "*) echo "$test" ;; esac
done
