#!/bin/sh
# Puts over RDMA beside perftest's, on the same device and in turns: 64 KiB and
# 1 MiB without checksum and update against ib_write_bw, with one queue pair
# each; 64 bytes and a notification against ib_write_lat, both polling; then the
# training path beside tcp's. By hand: make bench-rdma, in an emulated machine,
# whose absolute figures mean nothing, as long as nothing else runs on its host;
# or this script where a device is, with its address. ROUNDS: 5.
address=${1:-10.77.0.1}
rounds=${ROUNDS:-5}
gradweir=${GW_BUILDDIR:-build}/gradweir
for tool in ib_write_bw ib_write_lat; do
  command -v $tool >/dev/null || { echo "no $tool (package perftest)"; exit 1; }
done

# perf TOOL COLUMN ARGUMENTS..: of the one line of figures that it prints
perf() {
  tool=$1 column=$2
  shift 2
  $tool -F "$@" >/dev/null 2>&1 &
  server=$!
  sleep 1 # it listens; it has no way to say so
  $tool -F "$@" "$address" 2>/dev/null | awk -v c="$column" '/^ *[0-9]/ { print $c }'
  wait $server
}

# p50 ARGUMENTS..: the median of a bench's last row, in us
p50() {
  "$gradweir" bench --json - "$@" |
    sed -n 's/.*"p50_us":\([0-9.e-]*\).*/\1/p' | tail -n 1
}
ours() { p50 put --transport rdma --busy "$@"; }

median() { sort -g | awk '{ x[NR] = $1 } END { print x[int((NR + 1) / 2)] }'; }

# report NAME THEIRS OURS: files with a figure of each round
report() {
  printf '%-22s perftest %10.3f  gradweir %10.3f  ratio %.3f (median of %d)\n' \
    "$1" "$(median <"$2")" "$(median <"$3")" \
    "$(paste "$3" "$2" | awk '{ print $1 / $2 }' | median)" "$rounds"
}

scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT

# bandwidth NAME MESSAGE TENSOR COUNT: a chunk is a 64th of TENSOR bytes
bandwidth() {
  : >"$scratch/theirs"
  : >"$scratch/ours"
  for round in $(seq "$rounds"); do
    perf ib_write_bw 4 -s "$2" -n "$4" | awk '{ print $1 * 1.048576 }' >>"$scratch/theirs"
    ours --op push --rounds 1 --sizes "$3" | awk -v n="$3" '{ print n / $1 }' >>"$scratch/ours"
  done
  report "put $1, MB/s" "$scratch/theirs" "$scratch/ours"
}
bandwidth '64 KiB' 65536 $((4 << 20)) 512
bandwidth '1 MiB' 1048576 $((64 << 20)) 64

: >"$scratch/theirs"
: >"$scratch/ours"
for round in $(seq "$rounds"); do
  perf ib_write_lat 5 -s 64 -n 2000 >>"$scratch/theirs"
  ours --op push+pull --sizes 64 | awk '{ print $1 / 2 }' >>"$scratch/ours"
done
report 'put+notify 64 B, us' "$scratch/theirs" "$scratch/ours"

: >"$scratch/tcp"
: >"$scratch/rdma"
for round in $(seq "$rounds"); do
  for transport in tcp rdma; do
    p50 network --transport $transport --op push+pull --rounds 1 --sizes 4MiB |
      awk '{ print (4 * 1048576) / $1 }' >>"$scratch/$transport"
  done
done
printf '%-22s tcp %15.3f  rdma %14.3f  ratio %.3f (median of %d)\n' \
  'training 4 MiB, MB/s' "$(median <"$scratch/tcp")" "$(median <"$scratch/rdma")" \
  "$(paste "$scratch/rdma" "$scratch/tcp" | awk '{ print $1 / $2 }' | median)" "$rounds"
