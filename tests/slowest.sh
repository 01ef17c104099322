#!/bin/sh
# slowest.sh LOG..: the ten tests that took longest, with their seconds, as
# tests/tap.sh wrote them into the logs.
for log; do
  shift
  [ ! -r "$log" ] || set -- "$@" "$log"
done
[ $# -gt 0 ] || exit 0 # awk would read what is typed
awk '/^# took [0-9]+ s$/ { took[FILENAME] = $3 }
  END { for (file in took) print took[file], file }' "$@" |
  sort -k 1,1rn -k 2 | sed 's/\.log$//; s|^\([0-9]*\) .*tests/|\1 |; 10q' |
  awk 'NR == 1 { print "slowest tests, in seconds:" }
    { printf "%6d  %s\n", $1, $2 }'
