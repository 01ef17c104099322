#!/bin/sh
# worker.pin and server.pin: threads of real jobs are where their logs say that
# they are bound. Prints TAP.
# shellcheck disable=SC2086 # pins and more are many words
. "${GW_SRCDIR:-..}/tests/run/lib.sh"
make_data
unset HWLOC_XMLFILE HWLOC_SYNTHETIC LOCAL_RANK SLURM_LOCALID OMPI_COMM_WORLD_LOCAL_RANK MPI_LOCALRANKID CUDA_VISIBLE_DEVICES
pins='--set worker.pin=true --set server.pin=true'

# finds PATTERN: a line of $scratch/out.
finds() {
  grep -qE "$1" "$scratch/out" && return 0
  echo "# not found: $1"
  sed 's/^/# /' "$scratch/out" "$scratch/err"
  return 1
}

if "$program" --version | grep -q '^cores *no hwloc'; then
  run 1 train "$job" $pins &&
    says 'worker.pin: this program was built without hwloc (configure says why) and binds no threads to cores: install libhwloc-dev and build it again, or set it to false'
  ok 'a job that asks for it is refused'
  run 1 train "$job" --set server.pin=true && says 'server.pin: this program was built without hwloc'
  ok 'for a server as well'
  run 1 doctor --set worker.pin=true && finds '^fix +pin +worker.pin: this program was built without hwloc'
  ok 'and the doctor says it'
  run 0 doctor --set cluster.port=0
  finds '^note +pin +worker.pin and server.pin are false: .*no hwloc'
  ok 'where nobody asks it is no harm'
  echo "1..$tests"
  exit 0
fi

# Cpus that a thread may run on.
allowed() { sed -n 's/^Cpus_allowed_list:[^0-9]*//p' "/proc/$1/task/$2/status"; }

# log_of PID: where a process writes.
log_of() { ls "$scratch"/logs/*-"$1".log; }

# said PID PATTERN: what stands for the one \(..\) of it in the process' log.
said() { sed -n "s/.* info $2.*/\\1/p" "$(log_of "$1")"; }

# begin COMMAND..: a long job, with logs, under a command or none.
begin() {
  rm -rf "$scratch/logs" "$scratch/t.out" # what an earlier one said
  mkdir "$scratch/logs"
  GW_TEST_MARK=$scratch "$@" "$program" train "$job" $pins $more \
    --set train.steps=1000000 --set train.eval_every=never \
    --set "log.dir=$scratch/logs" >"$scratch/t.out" 2>"$scratch/t.err" &
  started=$!
  await 20 grep -qs '^step [1-9]' "$scratch/t.out" && return 0
  sed 's/^/# /' "$scratch/t.out" "$scratch/t.err" "$scratch"/logs/*
  return 1
}

end() {
  kill "$started"
  wait "$started"
  await 10 nobody_left
}

# worker_is_bound PID: computing, communicating and the rest, as it says.
worker_is_bound() {
  compute=$(said "$1" 'worker.pin: compute on cpu \([0-9,-]*[0-9]\)')
  talks=$(said "$1" 'worker.pin: compute on .*, communication [a-z ]* cpu \([0-9,-]*[0-9]\)')
  left=$(said "$1" 'worker.pin: [a-z]* on cpu \([0-9,-]*[0-9]\)')
  [ "$compute$left" ] || {
    echo "# worker $1 does not say where it is"
    sed 's/^/# /' "$scratch/t.err" "$scratch"/logs/worker*
    return 1
  }
  [ "$(allowed "$1" "$1")" = "${compute:-$left}" ] || {
    echo "# computes on $(allowed "$1" "$1"), says ${compute:-$left}"
    return 1
  }
  [ "$(threads_on "$1" "${talks:-$left}")" -ge 1 ] && return 0
  echo "# no thread of worker $1 is on ${talks:-$left}"
  return 1
}

# threads_on PID CPUS: how many of its threads may run there, and only there.
threads_on() {
  for task in /proc/"$1"/task/*; do allowed "$1" "${task##*/}"; done |
    grep -cxF "$2"
}

# shards_are_bound PID: each shard has a thread where it says.
shards_are_bound() {
  said "$1" 'server.pin: [a-z ]*on cpu \([0-9,-]*[0-9]\)' >"$scratch/wanted"
  [ "$(wc -l <"$scratch/wanted")" -eq "$2" ] || { cat "$(log_of "$1")"; return 1; }
  for task in /proc/"$1"/task/*; do allowed "$1" "${task##*/}"; done |
    sort >"$scratch/found"
  sort -u "$scratch/wanted" | while read -r cpus; do
    [ "$(grep -cxF "$cpus" "$scratch/found")" -ge \
      "$(grep -cxF "$cpus" "$scratch/wanted")" ] || echo "# shards of $1 not on $cpus"
  done >"$scratch/bad"
  [ ! -s "$scratch/bad" ] || { cat "$scratch/bad"; return 1; }
}

# --- a job on all that there is ---
more='--set cluster.servers=1 --set server.threads=2'
begin env
ok 'a job that is bound'
worker_is_bound "$(pid_of worker 1)" && worker_is_bound "$(pid_of worker 2)" &&
  shards_are_bound "$(pid_of server)" 2
ok 'its threads are where it says'
one=$(said "$(pid_of worker 1)" 'worker.pin: compute on cpu \([0-9,-]*[0-9]\)')
other=$(said "$(pid_of worker 2)" 'worker.pin: compute on cpu \([0-9,-]*[0-9]\)')
shared='worker.pin: \([a-z]*\) on cpu '
case ${one:+bound}-${other:+bound} in
  bound-bound) [ "$one" != "$other" ] ;;
  -) [ "$(said "$(pid_of worker 1)" "$shared")" ] && [ "$(said "$(pid_of worker 2)" "$shared")" ] ;;
  *) false ;;
esac
ok 'two workers compute on different cores'
end

more='--set cluster.servers=1 --set cluster.workers=1'
begin env && worker_is_bound "$(pid_of worker)" && shards_are_bound "$(pid_of server)" 1
ok 'a worker and a server'
if [ "$(nproc)" -ge 2 ]; then
  shard=$(said "$(pid_of server)" 'server.pin: on cpu \([0-9,-]*[0-9]\)')
  compute=$(said "$(pid_of worker)" 'worker.pin: compute on cpu \([0-9,-]*[0-9]\)')
  [ "$shard" ] && [ "$compute" ] && [ "$shard" != "$compute" ] ||
    [ "$(gradweir doctor $pins $more | grep -c 'pin .*all that it may use')" -gt 0 ]
  ok 'which do not meet'
fi
end

# --- this host, as if it had two nodes, the network at the second ---
# two_nodes FIRST SECOND CORES DEVICE DEVICE: packages of so many cores, which
# are the cpus from FIRST and SECOND on, with such devices.
two_nodes() {
  awk -v first="$1" -v second="$2" -v cores="$3" -v one="$4" -v other="$5" 'BEGIN {
    at[0] = first; at[1] = second
    device[0] = one; device[1] = other
    every = (2 ^ cores - 1) * 2 ^ first + (2 ^ cores - 1) * 2 ^ second
    print "<?xml version=\"1.0\" encoding=\"UTF-8\"?>"
    # hwloc without its libxml2 plugin wants the two on lines of their own
    print "<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">"
    print "<topology version=\"2.0\">"
    set("Machine", 0, every, 3, 1)
    for (p = 0; p < 2; p++) {
      all = (2 ^ cores - 1) * 2 ^ at[p]
      set("Package", p, all, 2 ^ p, 10 + p)
      set("NUMANode", p, all, 2 ^ p, 20 + p)
      print "</object>"
      for (c = at[p]; c < at[p] + cores; c++) {
        set("Core", c, 2 ^ c, 2 ^ p, 100 + c)
        set("PU", c, 2 ^ c, 2 ^ p, 200 + c)
        print "</object></object>"
      }
      bus = "c" 2 - p
      printf "<object type=\"Bridge\" gp_index=\"%d\" bridge_type=\"0-1\" depth=\"0\" bridge_pci=\"0000:[%s-%s]\">", 50 + p, bus, bus
      printf "<object type=\"PCIDev\" gp_index=\"%d\" pci_busid=\"0000:%s:00.0\" pci_type=\"%s [10de:2330] [10de:1626] a1\" pci_link_speed=\"63.0\">\n", 60 + p, bus, device[p] == "gpu" ? "0302" : "0200"
      if (device[p] != "gpu")
        printf "<object type=\"OSDev\" gp_index=\"%d\" name=\"%s\" osdev_type=\"2\"/>", 70 + p, device[p]
      print "</object></object></object>"
    }
    print "</object></topology>"
  }
  function set(type, number, cpus, nodes, index_) {
    printf "<object type=\"%s\" os_index=\"%d\" cpuset=\"0x%08x\" complete_cpuset=\"0x%08x\" allowed_cpuset=\"0x%08x\" nodeset=\"0x%08x\" complete_nodeset=\"0x%08x\" allowed_nodeset=\"0x%08x\" gp_index=\"%d\">\n", type, number, cpus, cpus, cpus, nodes, nodes, nodes, index_
  }' >"$scratch/two.xml"
}

# cpus: those that we may use, one a line.
cpus() {
  allowed $$ $$ | tr , '\n' |
    awk -F- '{ for (c = $1; c <= ($2 == "" ? $1 : $2); c++) print c }'
}
first=$(cpus | sed -n 1p) second=$(cpus | sed -n 2p)
if [ "$second" ] && [ "$second" -lt 31 ]; then
  two_nodes "$first" "$second" 1 gpu lo
  begin env HWLOC_XMLFILE="$scratch/two.xml" HWLOC_THISSYSTEM=1
  pid=$(pid_of worker)
  [ "$(said "$pid" 'worker.pin: \(.*\)')" = "compute on cpu $first (node 0), communication anywhere on cpu $second (node 1, near lo), no core is left for it" ] &&
    [ "$(allowed "$pid" "$pid")" = "$first" ] &&
    [ "$(threads_on "$pid" "$second")" -eq 1 ] &&
    [ "$(threads_on "$pid" "$first")" -eq $(($(ls "/proc/$pid/task" | wc -l) - 1)) ]
  ok 'one thread communicates near the network, the others are with the worker'
  pid=$(pid_of server)
  [ "$(said "$pid" 'server.pin: \(.*\)')" = "on cpu $second (node 1, near lo)" ] &&
    [ "$(ls "/proc/$pid/task" | wc -l)" -gt 1 ] &&
    [ "$(threads_on "$pid" "$second")" -eq "$(ls "/proc/$pid/task" | wc -l)" ]
  ok 'all of a server is near the network, also what was there before'
  end
fi

# --- inside what a launcher has left ---
if command -v taskset >/dev/null; then
  first=$(allowed $$ $$ | sed 's/[,-].*//')
  more=
  begin taskset -c "$first"
  for role in worker server; do
    for n in 1 2; do
      pid=$(pid_of $role $n)
      for task in /proc/"$pid"/task/*; do
        [ "$(allowed "$pid" "${task##*/}")" = "$first" ] || echo "# $role $n, ${task##*/}"
      done
    done
  done >"$scratch/bad"
  [ ! -s "$scratch/bad" ] || { cat "$scratch/bad"; false; }
  ok 'under taskset of one cpu nobody leaves it'
  [ "$(said "$(pid_of worker 1)" 'worker.pin: left on cpu \([0-9]*\), all that it may use')" = "$first" ] &&
    [ "$(said "$(pid_of server 1)" 'server.pin: anywhere on cpu \([0-9]*\): 2 shards and 2 workers of 1 thread are more than the 1 core here')" = "$first" ]
  ok 'and it is said that nothing was bound, and why'
  end
fi

# --- the same bits ---
run 0 train "$job" && expected=$(digest) &&
  run 0 train "$job" $pins && [ "$(digest)" = "$expected" ]
ok 'a job that is bound comes to the same weights'

# --- another machine's cores ---
HWLOC_SYNTHETIC='pack:2 [numa] core:4 pu:2'
export HWLOC_SYNTHETIC
run 0 train "$job" $pins && [ "$(digest)" = "$expected" ] &&
  for who in 'worker 0 warn worker.pin: .* to be: compute on cpu 0 (node 0)' \
    'worker 1 warn worker.pin: .* to be: compute on cpu 8 (node 1)' \
    'server 0 warn server.pin: .* to be: on cpu 6-7 (node 0)' \
    'server 1 warn server.pin: cannot bind a thread (HWLOC_XMLFILE or HWLOC_SYNTHETIC shows another machine), it stays where the kernel puts it; it was to be: on cpu 14-15 (node 1)'; do
    grep -q "$who" "$scratch/err" || echo "$who"
  done >"$scratch/bad" && [ ! -s "$scratch/bad" ] ||
  { sed 's/^/# /' "$scratch/bad" "$scratch/err"; false; }
ok 'members know their places, and what cannot be bound is one line'
run 1 doctor "$job" $pins && finds '^fix +pin +HWLOC_XMLFILE or HWLOC_SYNTHETIC is set' &&
  finds '^ok +pin +worker 0 of 2 here: compute on cpu 0 \(node 0\), communication on cpu 4-5 \(node 0\)$' &&
  finds '^ok +pin +worker 1 of 2 here: compute on cpu 8 \(node 1\), communication on cpu 12-13 \(node 1\)$' &&
  finds '^ok +pin +shard 1 of 2 here: on cpu 14-15 \(node 1\)$'
ok 'the doctor shows the layout'
unset HWLOC_SYNTHETIC
run 0 doctor "$job" --set worker.pin=true && finds '^ok +pin +worker 0 of 2 here: ' &&
  finds '^note +pin +server.pin is false'
ok 'and that of this host'
run 0 doctor "$job" && finds '^note +pin +worker.pin and server.pin are false: .*hwloc'
ok 'or that nothing is bound'

# --- near a GPU, which is emulated ---
modules=${GW_BUILDDIR:-.}/tests/cuda
name='workers are near their GPUs'
if [ -e "$modules/gradweir-cuda.so" ]; then
  two_nodes 0 3 3 gpu gpu
  export HWLOC_XMLFILE="$scratch/two.xml" HWLOC_THISSYSTEM=0
  # on_gpus COMMAND..: where there are two
  on_gpus() {
    GRADWEIR_MODULES=$modules LD_LIBRARY_PATH=$modules \
      GW_FAKE_CUDA='devices=2 helper=1' "$@"
  }
  gpus='--set cluster.servers=1 --set worker.device=cuda'
  on_gpus run 1 doctor "$job" $pins $gpus
  finds 'worker 0 of 2 here: compute on cpu 3 \(node 1, near GPU 0000:c1:00.0\)' &&
    finds 'worker 1 of 2 here: compute on cpu 0 \(node 0, near GPU 0000:c2:00.0\)'
  ok "$name"
  # near_gpus CPU: where each of two workers is to be, and where it is not.
  near_gpus() {
    on_gpus run 0 train "$job" $pins $gpus --set train.steps=2 &&
      for wanted in "$@"; do
        grep -q "worker . warn worker.pin: .* to be: compute on cpu $wanted" "$scratch/err" ||
          { echo "# not found: $wanted"; sed 's/^/# /' "$scratch/err"; return 1; }
      done
  }
  near_gpus '3 (node 1, near GPU 0000:c1:00.0)' '0 (node 0, near GPU 0000:c2:00.0)'
  ok 'in a job each says which GPU it has'
  LOCAL_RANK=1
  export LOCAL_RANK
  near_gpus '0 (node 0, near GPU 0000:c2:00.0)' '1 (node 0, near GPU 0000:c2:00.0)'
  ok 'and two at one GPU are on different cores'
  unset HWLOC_XMLFILE HWLOC_THISSYSTEM LOCAL_RANK
  more="$gpus --set cluster.workers=1"
  if [ "$second" ]; then
    on_gpus begin env
    pid=$(pid_of worker)
    compute=$(said "$pid" 'worker.pin: compute on cpu \([0-9,-]*[0-9]\)')
    helper=$(grep -lx cuda-helper /proc/"$pid"/task/*/comm | cut -d/ -f5)
    echo "# computes on ${compute:-what is left}, the helper is on $(allowed "$pid" "$helper")"
    [ "$helper" ] && [ "$(allowed "$pid" "$helper")" != "$compute" ]
    ok "CUDA's own threads are not on the core that computes"
    end
  fi
else
  tests=$((tests + 1))
  echo "ok $tests - $name # SKIP the emulated CUDA is not built"
fi
echo "1..$tests"
