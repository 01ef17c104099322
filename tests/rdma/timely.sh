# What takes how long, for the tests here; sourced after tests/run/lib.sh.
#
# A limit holds in seconds. Emulated processors are slow, though, and may be
# wanting: then time is counted in looks, each a process and a pause of 50 ms,
# of which as many must do as a second or two have where nobody else computes,
# but for no more than five times as long.

# Jobs of such processors, where nothing is to die: another machine may compute
# beside them, and a second without a word is soon over.
# shellcheck disable=SC2034
patient='--set cluster.silence=5'

# looks COMMAND..: until it succeeds, but 200 times at the most; $looked, how
# often, and $took, ms since $since.
looks() {
  looked=0
  until "$@"; do
    [ $looked -lt 200 ] || break
    looked=$((looked + 1))
    sleep 0.05
  done
  took=$(($(now_ms) - since))
  echo "# after $took ms, $looked looks: $*"
  "$@"
}

# timely SECONDS: what was looked for came within that.
timely() {
  [ $took -lt $(($1 * 1000)) ] ||
    { [ $looked -le $(($1 * 10)) ] && [ $took -lt $(($1 * 5000)) ]; }
}

# deleted DEVICE: rdma link delete, and $took, its ms
deleted() {
  since=$(now_ms)
  timeout 20 rdma link delete "$1"
  result=$?
  took=$(($(now_ms) - since))
  return $result
}

# removed DEVICE: the same within a second, or within some times of $unused, what
# it took when nobody used it.
removed() {
  deleted "$1"
  result=$?
  echo "# $1 is deleted in $took ms, unused in $unused ms"
  [ $result -eq 0 ] && { [ $took -lt 1000 ] || [ $took -lt $((10 * unused)) ]; }
}
