#!/bin/bash
# Runs a command in emulated machines that have a real RDMA device: Debian's own
# kernel under qemu's software emulation, with soft-RoCE (rdma_rxe). Nothing is
# installed, and no right but the user's own is needed.
#
#   machine.sh [-n GUESTS] [-t SECONDS] -- COMMAND [ARGUMENT ..]
#
#   -n 1  one guest: rxe0 on interface d0, 10.77.0.1; the default
#   -n 2  two guests on one wire: rxe0 on eth0, 10.77.0.1 and 10.77.0.2. Both run
#         COMMAND; GW_GUEST is 1 or 2
#   -t    how long it may take, 240
#
# A guest sees the host's files; what it writes stays in its memory, but for
# /run/out, which the guests share, and which is a directory of the host that
# goes with this script. The commands' output comes in the order of the guests;
# the exit status is the first that is not 0. 77: it cannot be done here, and
# why is said. Of a guest that does not finish it is said what it did then: its
# processes, where in the kernel each of their threads is, and its console.
# Where an emulator or a guest's kernel breaks there is one more try, with -t
# seconds of its own.
set -u
guests=1 limit=240
while getopts n:t: option; do
  case $option in
  n) guests=$OPTARG ;;
  t) limit=$OPTARG ;;
  *) exit 2 ;;
  esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || { sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
cache=${GW_MACHINE_CACHE:-${GW_BUILDDIR:-$PWD}/rdma-machine}
memory=2560 # MiB of a guest
telling=30  # seconds that a guest has to say what it does, at the end
silence=90  # seconds after which a guest that says nothing hangs
[ "$limit" -gt $((2 * telling)) ] || telling=$((limit / 2))

cannot() { echo "$*"; exit 77; }

# ---- what it takes ----

for tool in qemu-system-x86_64 busybox modprobe depmod cpio apt-get dpkg-deb rdma flock; do
  PATH=$PATH:/usr/sbin:/sbin command -v "$tool" >/dev/null ||
    cannot "no $tool (packages qemu-system-x86, busybox-static, kmod, cpio, iproute2 of Debian or Ubuntu)"
done
PATH=$PATH:/usr/sbin:/sbin
[ "$(uname -m)" = x86_64 ] || cannot 'emulated machines are x86-64, as the program would have to be'

# The packages with a kernel and its modules, by distribution.
kernel_packages() {
  if apt-cache show linux-image-amd64 >/dev/null 2>&1; then
    apt-cache depends linux-image-amd64 |
      awk '/Depends: linux-image-[0-9]/ { print $2; exit }'
  else
    version=$(apt-cache depends linux-image-generic 2>/dev/null |
      sed -n 's/.*Depends: linux-image-\([0-9].*\)/\1/p' | head -n 1)
    [ "$version" ] && echo "linux-image-$version linux-modules-$version linux-modules-extra-$version"
  fi
}

# Fetched once, and unpacked beside the build.
get_kernel() {
  [ -e "$cache/vmlinuz" ] && return
  packages=$(kernel_packages)
  [ "$packages" ] || cannot 'no kernel package that apt-get knows'
  rm -rf "$cache" && mkdir -p "$cache/deb" || exit 1
  # shellcheck disable=SC2086
  (cd "$cache/deb" && apt-get -q download $packages) >"$cache/log" 2>&1 ||
    cannot "cannot fetch $packages: $(tail -n 1 "$cache/log")"
  for package in "$cache"/deb/*.deb; do
    dpkg-deb -x "$package" "$cache/tree" || exit 1
  done
  version=$(ls "$cache/tree/lib/modules")
  depmod -b "$cache/tree" "$version" 2>/dev/null
  cp "$cache"/tree/boot/vmlinuz-* "$cache/vmlinuz" && rm -rf "$cache/deb"
}

# The first process of a guest: modules, the host's files, a device, COMMAND.
write_init() {
  cat >"$1" <<'INIT'
#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
while read -r module; do insmod "/modules/$module" 2>/dev/null; done </modules/order
share='trans=virtio,version=9p2000.L,msize=1048576'
mkdir -p /host /over /root
mount -t 9p -o "$share,cache=loose,ro" host /host
mount -t tmpfs -o size=60% tmp /over
mkdir -p /over/upper /over/work
mount -t overlay -o lowerdir=/host,upperdir=/over/upper,workdir=/over/work all /root
for dir in proc sys dev; do mount --bind /$dir /root/$dir; done
mkdir -p /root/dev/shm /root/dev/pts
mount -t tmpfs tmp /root/dev/shm
mount -t devpts pts /root/dev/pts
mount -t tmpfs tmp /root/run
mkdir -p /root/run/out
mount -t 9p -o "$share" out /root/run/out
number=$(sed 's/.*gw_guest=\([0-9]*\).*/\1/' /proc/cmdline)
tell=$(sed 's/.*gw_tell=\([0-9]*\).*/\1/' /proc/cmdline)
# of each thread that is a program's, or that is not asleep: where it is; with
# no process of its own, which may take a second each
does() {
  read -r up </proc/uptime
  read -r load </proc/loadavg
  echo "after ${up% *} s, load $load"
  for task in /proc/[0-9]*/task/[0-9]*; do
    read -r stat <"$task/stat" || continue
    state=${stat##*) }
    state=${state%% *}
    line=
    read -r line <"$task/cmdline"
    [ "$line" ] || case $state in S | I) continue ;; esac
    echo "${stat%)*}) $state $line"
    while read -r line; do echo "  $line"; done <"$task/stack"
  done
  dmesg | tail -n 40
}
read -r up </proc/uptime # it counts from there
{ sleep $((tell - ${up%%.*})) && does >/root/run/out/does$number 2>/dev/null; } &
while :; do echo >/root/run/out/beat$number; sleep 5; done &
hostname guest$number
ip link set lo up
link=eth0
[ -e /sys/class/net/eth0 ] || { link=d0; ip link add d0 type dummy; }
ip addr add 10.77.0.$number/24 dev $link
ip link set $link up
GW_GUEST=$number GW_LINK=$link chroot /root /bin/bash /run/out/command \
  >/root/run/out/log$number 2>&1 </dev/null
echo $? >/root/run/out/code$number
sync
poweroff -f
INIT
  chmod +x "$1"
}

make_initrd() {
  [ -e "$cache/initrd" ] && [ "$cache/initrd" -nt "$0" ] && return
  root=$cache/root
  version=$(ls "$cache/tree/lib/modules")
  rm -rf "$root" && mkdir -p "$root"/{bin,dev,proc,sys,modules} || exit 1
  cp "$(command -v busybox)" "$root/bin/busybox"
  # rdma_rxe looks for crc32 when it is loaded
  for module in crc32_generic crc32_pclmul 9p 9pnet_virtio virtio_pci virtio_net \
    overlay dummy rdma_rxe rdma_ucm ib_uverbs sch_netem; do
    modprobe -d "$cache/tree" -S "$version" --show-depends "$module" 2>/dev/null |
      awk '/^insmod/ { print $2 }'
  done | awk '!seen[$0]++' | while read -r file; do
    case $file in # some kernels have them packed, which busybox cannot read
    *.zst) zstd -q -d "$file" -o "$root/modules/$(basename "$file" .zst)" ;;
    *.xz) xz -dc "$file" >"$root/modules/$(basename "$file" .xz)" ;;
    *) cp "$file" "$root/modules/" ;;
    esac
    name=$(basename "$file" .zst)
    basename "$name" .xz
  done >"$root/modules/order"
  [ -e "$root/modules/rdma_rxe.ko" ] || cannot 'that kernel has no soft-RoCE (rdma_rxe)'
  write_init "$root/init"
  (cd "$root" && find . | cpio -o -H newc --quiet | gzip -1) >"$cache/initrd.new" &&
    mv "$cache/initrd.new" "$cache/initrd"
}

# ---- running ----

out=$(mktemp -d) || exit 1
pids=
finish() {
  for pid in $pids; do kill -9 "$pid" 2>/dev/null; done
  rm -rf "$out"
}
trap finish EXIT
trap 'exit 1' HUP INT TERM

boot() {
  nic=(-nic none)
  if [ "$guests" -eq 2 ]; then
    server=on
    [ "$1" -eq 1 ] || server=off
    nic=(-netdev "stream,id=wire,server=$server,addr.type=unix,addr.path=$out/wire"
      -device "virtio-net-pci,netdev=wire,mac=52:54:00:77:00:0$1")
  fi
  exec qemu-system-x86_64 -accel tcg,thread=multi -cpu max -m $memory -smp 2 \
    -display none -monitor none -serial "file:$out/console$1" -no-reboot \
    -kernel "$cache/vmlinuz" -initrd "$cache/initrd" \
    -append "quiet console=ttyS0 panic=-1 tsc=reliable clocksource=tsc \
      gw_guest=$1 gw_tell=$((until - SECONDS - telling))" "${nic[@]}" \
    -virtfs local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap \
    -virtfs local,path="$out",mount_tag=out,security_model=none \
    </dev/null >"$out/qemu$1" 2>&1
}

# Several may begin at once, of which one fetches.
mkdir -p "$(dirname "$cache")"
exec 9>"$cache.lock"
flock 9
get_kernel
make_initrd
flock -u 9
exec 9>&-
{
  echo 'export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root'
  echo 'rdma link add rxe0 type rxe netdev $GW_LINK || exit 96'
  for name in GW_SRCDIR GW_BUILDDIR; do
    [ -z "${!name-}" ] || printf 'export %s=%q\n' "$name" "${!name}"
  done
  printf 'cd %q || exit 95\n' "$PWD"
  printf '%q ' "$@"
  echo
} >"$out/command"

boot_guests() {
  find "$out" -mindepth 1 ! -name command -exec rm -rf {} +
  pids=
  for guest in $(seq "$guests"); do
    touch "$out/beat$guest"
    boot "$guest" &
    pids="$pids $!"
    while [ "$guests" -eq 2 ] && [ ! -S "$out/wire" ] && kill -0 $! 2>/dev/null; do sleep 0.05; done
  done
}

# hangs GUEST: its kernel lets no process run any more.
hangs() {
  beat=$(stat -c %Y "$out/beat$1" 2>/dev/null) &&
    [ $(($(date +%s) - beat)) -gt $silence ]
}

# Until each guest has ended, or the time is over. False: a guest broke, how is
# in $broke, and they have all gone.
wait_for_guests() {
  while [ $SECONDS -lt $until ]; do
    running='' guest=0 broke=''
    for pid in $pids; do
      guest=$((guest + 1)) lives=''
      kill -0 "$pid" 2>/dev/null && lives=1
      if [ -s "$out/code$guest" ]; then
        continue # all else is its end
      elif [ ! "$lives" ]; then
        wait "$pid"
        broke="the emulator of guest $guest ended with $?"
      elif hangs $guest; then
        broke="the kernel of guest $guest hangs"
      fi
      running=1
    done
    [ "$running" ] || return 0
    [ -z "$broke" ] || break
    sleep 0.5
  done
  [ "$broke" ] || return 0 # it is slow
  # shellcheck disable=SC2086
  kill -9 $pids 2>/dev/null
  # shellcheck disable=SC2086
  wait $pids 2>/dev/null
  return 1
}

# begin: whether the guests ran until the end, or the end of the time.
begin() {
  until=$((SECONDS + limit))
  boot_guests
  wait_for_guests && return
  echo "# $broke after $((SECONDS - until + limit)) s"
  tr -d '\r' <"$out/console$guest" | tail -n 40 | sed 's/^/# console: /'
  return 1
}

# A guest that breaks says nothing of what is tried in it. Its emulator may: one
# processor's write while the other one moves a device, in a guest that begins,
# may find no memory region, and then qemu 7.2 ends by SIGSEGV. Its kernel may:
# no program may stop that, whatever it asks of a device.
unfinished="did not finish within $limit s"
begin || begin || unfinished="did not finish: $broke"

result=0
for guest in $(seq "$guests"); do
  cat "$out/log$guest" 2>/dev/null
  code=$(cat "$out/code$guest" 2>/dev/null)
  if [ -z "$code" ]; then
    echo "# guest $guest $unfinished"
    sed 's/^/# qemu: /' "$out/qemu$guest"
    sed 's/^/# does: /' "$out/does$guest" 2>/dev/null ||
      echo '# does: it could not say so any more'
    tr -d '\r' <"$out/console$guest" | tail -n 40 | sed 's/^/# console: /'
    code=1
  fi
  [ $result -ne 0 ] || result=$code
done
exit $result
