#!/bin/sh
# Builds for aarch64 on x86-64. Usage: build.sh DIR [TARGET...]
#
#   DIR/root   libraries of Debian's or Ubuntu's arm64, as their packages have
#              them: apt fetches them with a configuration of its own, so that
#              the system's packages have no other architecture than before
#   DIR/build  the build; make's targets, by default the program
#
# Needs gcc-aarch64-linux-gnu, and qemu-user for the manual page and tests.
# What is there already is kept. Where something is missing: a line, and 77; so
# where packages have not come within GW_FETCH_SECONDS, 90. GW_MAKE_SECONDS: for
# make, 900.
set -u
unset CDPATH MAKEFLAGS MFLAGS MAKELEVEL
[ $# -gt 0 ] || { sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; exit 2; }
source=$(cd "$(dirname "$0")/../.." && pwd) || exit 1
mkdir -p "$1" && cd "$1" || exit 1
here=$PWD
shift
host=aarch64-linux-gnu
libraries='libc6-dev libuv1-dev libprotobuf-c-dev libopenblas-dev libconfig-dev
libjansson-dev libisal-dev libssl-dev zlib1g-dev librdmacm-dev libibverbs-dev
libhwloc-dev libcmocka-dev'

fetch_seconds=${GW_FETCH_SECONDS:-90}
make_seconds=${GW_MAKE_SECONDS:-900}

cannot() { echo "$*"; exit 77; }

# ---- libraries ----

# The user's settings, such as a proxy, without what runs besides, for packages
# of another architecture in folders of ours.
configure_apt() {
  mkdir -p apt/state/lists/partial apt/cache/archives/partial && : >apt/status
  apt-config dump | grep -v -e Invoke -e Pre-Install-Pkgs -e '^APT::Architecture' \
    >apt/conf
  cat >>apt/conf <<CONF
Dir::Etc::main "/dev/null";
Dir::Etc::parts "/dev/null";
Dir::State "$here/apt/state";
Dir::State::status "$here/apt/status";
Dir::Cache "$here/apt/cache";
APT::Architecture "arm64";
APT::Architectures { "arm64"; };
APT::Install-Recommends "false";
APT::Sandbox::User "";
Acquire::Languages "none";
CONF
}

# in_time COMMAND..: within what is left of the time to fetch; 124 where that is
# over.
in_time() {
  seconds=$((fetch_until - $(date +%s)))
  [ $seconds -gt 0 ] || return 124
  timeout -k 5 $seconds "$@"
}

# Sources without that architecture, or out of reach, stop nothing.
# shellcheck disable=SC2086
fetch_libraries() {
  fetch_until=$(($(date +%s) + fetch_seconds))
  configure_apt || return 1
  APT_CONFIG=$here/apt/conf
  export APT_CONFIG
  in_time apt-get -q update
  in_time apt-get -q -y --download-only install $libraries
}

# Links of the packages lead from the root; OpenBLAS's name is an alternative.
unpack_libraries() {
  rm -rf root root.new && mkdir root.new || return 1
  for package in apt/cache/archives/*.deb; do
    dpkg-deb -x "$package" root.new || return 1
  done
  (cd root.new && find . -type l -lname '/*' | while read -r link; do
    up=$(dirname "$link" | sed 's|^\./||; s|[^/][^/]*|..|g')
    ln -sfn "$up$(readlink "$link")" "$link" || exit 1
  done) &&
    ln -s openblas-pthread/libopenblas.so.0 root.new/usr/lib/$host/ &&
    echo "$libraries" >root.new/libraries && rm -rf apt && mv root.new root
}

has_libraries() { [ "$(cat root/libraries 2>/dev/null)" = "$libraries" ]; }

# ---- build ----

# Modules of the libraries there, and no others; also for make, which may
# configure again.
use_modules() {
  modules=$here/root/usr/lib/$host
  PKG_CONFIG=${PKG_CONFIG:-pkg-config}
  PKG_CONFIG_PATH=
  PKG_CONFIG_LIBDIR=$modules/pkgconfig:$modules/openblas-pthread/pkgconfig
  PKG_CONFIG_SYSROOT_DIR=$here/root
  export PKG_CONFIG PKG_CONFIG_PATH PKG_CONFIG_LIBDIR PKG_CONFIG_SYSROOT_DIR
}

configure_build() {
  emulator=no
  command -v qemu-aarch64 >/dev/null && emulator="qemu-aarch64 -L $here/root"
  (cd build && "$source/configure" --host=$host --with-cuda=no \
    CC="$host-gcc --sysroot=$here/root" CXX=$host-g++ \
    --with-emulator="$emulator")
}

for tool in $host-gcc apt-get dpkg-deb; do
  command -v "$tool" >/dev/null || cannot "no $tool"
done
if ! has_libraries; then
  fetch_libraries >fetch.log 2>&1
  case $? in
  0) ;;
  124 | 137) cannot "apt has not fetched arm64 packages within $fetch_seconds s" ;;
  *) cannot "apt has no arm64 packages here ($here/fetch.log)" ;;
  esac
  unpack_libraries >>fetch.log 2>&1 || { tail -n 5 fetch.log; exit 1; }
fi
use_modules
mkdir -p build || exit 1
if [ ! -e build/config.status ]; then
  [ ! -e "$source/config.status" ] ||
    cannot "$source is configured itself, and no other build can be: make distclean there"
  configure_build >configure.log 2>&1 || { tail -n 5 configure.log; exit 1; }
fi
jobs=$(nproc 2>/dev/null || echo 1)
timeout --foreground -k 5 "$make_seconds" \
  make -C build -j "$jobs" "${@:-gradweir}" >make.log 2>&1
case $? in
0) ;;
124 | 137)
  echo "make has not ended within $make_seconds s"
  exit 1
  ;;
*)
  grep -E 'error|Error|undefined' make.log | head -n 5
  exit 1
  ;;
esac
