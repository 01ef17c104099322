#!/bin/sh
# quickstart on machines that are not this one: a PATH of its own decides what
# is installed, who we are and what apt-get does, and the tree has a configure
# that takes no time. Prints TAP.
source=$(cd "${GW_SRCDIR:-.}" && pwd) || exit 1
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
tests=0
tree="$scratch/a b" # a space in the path
bin=$scratch/bin
out=$scratch/out
modules='libuv libprotobuf-c openblas libconfig jansson libisal libcrypto zlib
cmocka librdmacm libibverbs hwloc'
commands='autoreconf automake cc protoc-c clang-format-14 ctags gnuplot
qemu-system-x86_64 busybox cpio modprobe rdma ib_write_bw aarch64-linux-gnu-gcc
qemu-aarch64 python3'
GW_DATA_DIR=$scratch/data
export GW_DATA_DIR
unset http_proxy https_proxy no_proxy CC PYTHON

# ok NAME: the status of the command before decides.
ok() {
  if [ $? -eq 0 ]; then
    result=ok
  else
    result='not ok'
    sed 's/^/# /' "$out"
  fi
  tests=$((tests + 1))
  echo "$result $tests - $1"
}

# shim NAME: a program of the machine, its text from standard input.
shim() {
  { echo "#!/bin/sh"; cat; } >"$bin/$1"
  chmod +x "$bin/$1"
}

# machine: one with everything, where we are root.
machine() {
  rm -rf "$bin" "$scratch/have" "$scratch/called" "$tree" "$scratch/data"
  mkdir -p "$bin" "$scratch/have" "$tree/tests" "$scratch/data"
  for tool in sh sed awk grep sort paste tail date mkdir rm cat find env \
    dirname make nproc cp chmod ls ln; do
    ln -s "$(command -v $tool)" "$bin/$tool"
  done
  for module in $modules; do : >"$scratch/have/$module"; done
  for command in $commands; do echo 'exit 0' | shim "$command"; done
  : >"$scratch/libclang_rt.fuzzer.a"
  echo "echo '$scratch'" | shim clang
  echo "[ -e '$scratch/have/'\"\$2\" ]" | shim pkg-config
  echo 'echo 0' | shim id
  shim apt-get <<SHIM
echo "apt-get \$* proxy=\$http_proxy" >>'$scratch/called'
case "\$*" in
*" install "*clang-format-14*) exit 100 ;;
*" install "*) cp '$scratch'/later/* '$scratch/have/' ;;
esac
SHIM
  mkdir -p "$scratch/later"
  for module in $modules; do : >"$scratch/later/$module"; done
  for file in train-images-idx3-ubyte.gz train-labels-idx1-ubyte.gz \
    t10k-images-idx3-ubyte.gz t10k-labels-idx1-ubyte.gz; do
    : >"$scratch/data/$file"
  done
  cp "$source/quickstart" "$tree/quickstart"
  cp "$source/tests/slowest.sh" "$tree/tests/slowest.sh"
  cat >"$tree/configure" <<'CONFIGURE'
#!/bin/sh
# cmocka as configure leaves it, and a build that takes no time
pkg-config --exists cmocka && dash= || dash='#'
echo "S[\"HAVE_CMOCKA_TRUE\"]=\"$dash\"" >config.status
cp ../makefile Makefile
CONFIGURE
  cat >"$tree/makefile" <<'MAKEFILE'
all: gradweir
gradweir:
	printf '#!/bin/sh\necho "gradweir $$*"\nexit 7\n' >$@
	chmod +x $@
check: # TESTS= builds the tests and runs none
	@test '$(origin TESTS)' = 'command line'
check-sim:
	@test ! -e ../run-sims || sh ../run-sims
check-real:
	@sh ../run-tests
MAKEFILE
  chmod +x "$tree/configure"
}

# run CODE ARGUMENTS..: from elsewhere, with nothing but the machine's PATH.
run() {
  code=$1
  shift
  (cd / && PATH=$bin exec "$tree/quickstart" "$@") >"$out" 2>&1 </dev/null
  got=$?
  [ $got -eq "$code" ] && return
  echo "exit code $got and not $code" >>"$out"
  return 1
}

says() { grep -qE "$1" "$out"; }
called() { grep -qE "$1" "$scratch/called" 2>/dev/null; }
missing() { for name in "$@"; do rm -f "$scratch/have/$name"; done; }

machine
run 0 build && says '^packages +all here$' && says '^configure +[0-9]+ s$' &&
  says '^build +[0-9]+ s, build/gradweir$' && [ ! -e "$scratch/called" ]
ok 'everything is here: apt-get is never called'
run 0 build && ! says configure
ok 'a second run configures no more'
run 7 && says '^train .*examples/fashion-cnn.job$' &&
  says "^gradweir train examples/fashion-cnn.job --set data.train=$GW_DATA_DIR/train-images"
ok 'trains the example, and ends as it ends'

missing libuv
run 0 build && called '^apt-get .*update' &&
  called '^apt-get .*install --no-install-recommends libuv1-dev proxy=$' &&
  says '^packages +installs libuv1-dev$' &&
  says '^packages +[0-9]+ s, installed$' && says '^configure '
ok 'root: installs what is missing, and configures again'

missing libuv
echo 'echo 1000' | shim id
shim sudo <<SHIM
echo "sudo \$*" >>'$scratch/called'
[ "\$1" != -n ] || exit 0
exec env -i "PATH=\$PATH" "\$@"
SHIM
http_proxy='http://user:secret@proxy:3128'
export http_proxy
run 0 build && called "^apt-get .*libuv1-dev proxy=$http_proxy\$" &&
  ! grep -q secret "$tree/build/quickstart.log"
ok 'sudo: the proxy is kept, and not in the log'
unset http_proxy

machine
missing libuv jansson
echo 'echo 1000' | shim id
run 1 build && says 'apt-get install libjansson-dev libuv1-dev$' &&
  [ ! -e "$scratch/called" ]
ok 'no right to install: the packages are named'
echo "[ \"\$1\" != -n ] && echo asked >>'$scratch/called'; exit 1" | shim sudo
run 1 build && says 'apt-get install libjansson-dev libuv1-dev$' &&
  [ ! -e "$scratch/called" ]
ok 'sudo that would ask and nobody to answer: the packages are named'

machine
missing libuv libcrypto
rm "$bin/apt-get" "$bin/protoc-c"
run 1 check && says 'dnf install libuv-devel openssl-devel protobuf-c-compiler$' &&
  says 'pacman -S libuv openssl protobuf-c$' &&
  says 'brew install libuv openssl@3 protobuf-c$'
ok 'no apt-get: the packages are named as other systems call them'
machine
rm "$bin/apt-get"
run 0 build && says '^packages +all here$'
ok 'no apt-get, but everything is here'

machine
rm -r "$scratch/data"
rm "$bin/apt-get"
run 1 && says '^build ' && says 'no data in' && says 't10k-labels-idx1-ubyte.gz' &&
  says 'dataset-fashion-mnist'
ok 'no data: builds, and says where to put it'
missing libuv
run 1 && says 'apt-get install libuv1-dev dataset-fashion-mnist$'
ok 'no right to install, and no data: its package is named, too'

machine
echo 'echo deep trouble; exit 1' | shim protoc-c
printf 'all:\n\t@protoc-c\n' >"$tree/makefile"
run 1 build && says '^build +failed' && says 'deep trouble'
ok 'a build that fails shows why'
run 1 check && says 'deep trouble' &&
  [ "$(tail -n 1 "$out")" = '0 passed, 1 failed, 0 skipped' ]
ok 'check ends with its line all the same'

# points CODE LINE..: a `make check-real` with these results of test points.
points() {
  code=$1
  shift
  {
    for line in "$@"; do echo "echo ':test-result: $line' >>t.trs"; done
    echo "echo '# took 7 s' >>t.log"
    echo "exit $code"
  } >"$tree/run-tests"
}

machine
points 0 'PASS 1 - a' 'PASS 2 - b' 'SKIP 3 - c' 'XFAIL 4 - d'
run 0 check && [ "$(tail -n 1 "$out")" = '3 passed, 0 failed, 1 skipped' ]
ok 'check counts what passed'
[ "$(tail -n 3 "$out" | head -n 2)" = "$(printf 'slowest tests, in seconds:\n     7  build/t')" ]
ok 'and says before how long the slowest tests took'
run 0 check && [ "$(tail -n 1 "$out")" = '3 passed, 0 failed, 1 skipped' ]
ok 'check does not count the run before'
points 1 'PASS 1 - a' 'FAIL 2 - b' 'ERROR - c'
run 1 check && [ "$(tail -n 1 "$out")" = '1 passed, 2 failed, 0 skipped' ]
ok 'check fails with a test'
points 1 'PASS 1 - a'
run 1 check && [ "$(tail -n 1 "$out")" = '1 passed, 1 failed, 0 skipped' ]
ok 'check fails when make does, whatever passed'
points 0
run 1 check && [ "$(tail -n 1 "$out")" = '0 passed, 0 failed, 0 skipped' ]
ok 'no test is no pass'
points 1 'PASS 1 - v'
mv "$tree/run-tests" "$tree/run-sims"
points 0 'PASS 1 - a'
run 1 check && [ "$(tail -n 1 "$out")" = '2 passed, 1 failed, 0 skipped' ]
ok 'check counts tests in virtual time too, and fails with them'
rm "$tree/run-sims"

machine
missing cmocka
points 0 'PASS 1 - a'
run 0 build && says '^configure ' && run 0 check && says '^configure ' &&
  called 'libcmocka-dev'
ok 'check installs cmocka, and configures again'
machine
missing cmocka
points 0 'PASS 1 - a'
run 0 build && : >"$scratch/have/cmocka" && run 0 check && says '^configure '
ok 'check configures again when somebody else installed cmocka'
machine
points 0 'PASS 1 - a'
rm "$bin/clang-format-14"
run 0 check && says '^packages .*all but clang-format-14$'
ok 'what is only for style may be missing'
machine
points 0 'PASS 1 - a'
rm "$scratch/libclang_rt.fuzzer.a"
run 0 check && called ' install .* libclang-rt-dev proxy=$'
ok 'libFuzzer is asked for where clang has none'

# A machine whose python3 has torch or not, and makes venvs.
python_machine() {
  machine
  : >"$scratch/have/torch"
  : >"$scratch/later/torch"
  PYTHON=python3 # and not the one of the machine that this is
  export PYTHON
  shim python3 <<SHIM
case "\$*" in
*'import torch') [ -e '$scratch/have/torch' ] ;;
*' venv '*)
  echo "venv \$*" >>'$scratch/called'
  mkdir -p build/python/bin
  cp '$bin/python3' build/python/bin/python ;;
esac
SHIM
}

python_machine
run 7 python && says '^python +[0-9]+ s, build/python$' &&
  says '^train .* build/python/bin/python examples/python/fashion.py$' &&
  says '^gradweir run --workers 2 -- build/python/bin/python ' &&
  called 'venv -m venv --clear --system-site-packages build/python$'
ok 'python: a venv, and the first example in PyTorch'
: >"$scratch/called"
run 7 python && ! called 'venv -m'
ok 'python: a venv that is there stays'
python_machine
missing torch
run 7 python && called '^apt-get .*install .*python3-torch proxy=$'
ok 'python: torch is installed'
python_machine
missing torch
run 0 build && [ ! -e "$scratch/called" ]
ok 'python: nothing else needs it'
rm "$bin/apt-get"
run 1 python && says 'apt-get install python3-torch$' &&
  says 'PYTHON=its/bin/python ./quickstart python$'
ok 'python: no right to install: the packages are named, and another way'
unset PYTHON

# A venv with PyTorch, as a user has it, of the Python that this machine has.
python_of_user() {
  "$python" -m venv --without-pip "$scratch/user venv" || return
  user=$scratch/user\ venv/bin/python
  packages=$("$user" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  for module in torch numpy; do echo "origin = 'user'" >"$packages/$module.py"; done
  mkdir -p "$tree/python/gradweir" && : >"$tree/python/gradweir/torch.py"
}
origin='import gradweir.torch, numpy, torch; print(torch.origin, numpy.origin)'
machine
python=$(command -v python3)
if "$python" -c 'import ensurepip' 2>/dev/null; then
  python_of_user && echo "exec '$user' \"\$@\"" | shim python3 &&
    run 7 python && says '^python +[0-9]+ s, build/python$' &&
    [ "$("$tree/build/python/bin/python" -c "$origin")" = 'user user' ]
  ok 'python: PyTorch of a venv that is active is found in the new one'
  echo 'exit 1' | shim python3
  rm "$bin/apt-get"
  run 7 python && says '^packages +all here$' &&
    [ "$("$tree/build/python/bin/python" -c "$origin")" = 'user user' ]
  ok 'python: and later, without it'
else
  for name in 'python: PyTorch of a venv that is active is found in the new one' \
    'python: and later, without it'; do
    ok "$name # SKIP no venv here"
  done
fi

machine
run 2 bild && says '^  ./quickstart build'
ok 'wrong usage'
run 0 --help && says '^  ./quickstart check'
ok '--help'

echo "1..$tests"
