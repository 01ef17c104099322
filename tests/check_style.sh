#!/bin/sh
# The rules of the house that a machine can see, over every source that git
# tracks (in a tarball: over every source there is). Prints TAP. By hand, from a
# build directory: GW_SRCDIR=.. ../tests/check_style.sh
source=${GW_SRCDIR:-.}
build=${GW_BUILDDIR:-$PWD}
cc=${GW_CC:-cc}
cppflags=${GW_CPPFLAGS:--I$build -I$source}
export LC_ALL=C

rooms='proto transport kernels server worker cli'
# Headers that are a part of one source and stand in the middle of it.
parts='
kernels/cpu/cpu_sums_isa.h
kernels/operations.h
'
# Symbols that may change while the program runs: "symbol reason" per line.
mutable='
'
# How plain the English of comments is, in each room (tests/english.awk): of a
# hundred comments so many may begin with a relative word, and of a hundred words
# so many may be such. docs/style.md says how we write.
english_openers=3
english_words=0.7
lines_hard=80 # of a function
lines_look=60
file_look=600

scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
cd "$source" || exit 1
tests=0

# result NAME FILE: fails, and shows FILE, unless it is empty.
result() {
  tests=$((tests + 1))
  if [ -s "$2" ]; then
    sed 's/^/# /' "$2"
    echo "not ok $tests - $1"
  else
    echo "ok $tests - $1"
  fi
}

skip() {
  tests=$((tests + 1))
  echo "ok $tests - $1 # SKIP $2"
}

if git ls-files --error-unmatch configure.ac >/dev/null 2>&1; then
  git ls-files >"$scratch/tracked"
else
  # shellcheck disable=SC2086
  find $rooms include tests docs m4 configure.ac Makefile.am -type f >"$scratch/tracked"
fi
grep -E '\.(c|h|cu)$' "$scratch/tracked" | grep -v '\.pb-c\.[ch]$' |
  while read -r file; do
    [ -e "$file" ] && echo "$file" # deleted, but not yet committed
  done >"$scratch/files"
[ -s "$scratch/files" ] || { echo "Bail out! no sources in $source"; exit 1; }

# --- format ---
format=
for candidate in clang-format-14 clang-format; do
  if "$candidate" --version 2>/dev/null | grep -q 'version 14\.'; then
    format=$candidate
    break
  fi
done
if [ "$format" ] && [ -e .clang-format ]; then
  grep -v '\.cu$' "$scratch/files" |
    xargs "$format" --dry-run -Werror 2>&1 |
    sed -n 's/^\([^: ]*:[0-9]*\):.*code should be.*/\1: not as clang-format has it/p' \
      >"$scratch/bad"
  result 'sources are as clang-format 14 has them' "$scratch/bad"
else
  skip 'sources are as clang-format 14 has them' 'no clang-format 14'
fi

# --- length of functions and files ---
if ctags --version 2>/dev/null | grep -q 'Universal Ctags'; then
  xargs ctags --languages=C --langmap=C:+.cu --kinds-C=f --fields=+ne -f - \
    <"$scratch/files" 2>/dev/null |
    awk -F'\t' '{
      for (i = 4; i <= NF; i++) {
        if ($i ~ /^line:/) first = substr($i, 6)
        if ($i ~ /^end:/) last = substr($i, 5)
      }
      print last - first + 1, $2 ":" first ": " $1
    }' | sort -rn >"$scratch/functions"
  awk -v look=$lines_look -v hard=$lines_hard \
    '$1 > look && $1 <= hard { print "# look at " $2 " " $3 ", " $1 " lines" }' \
    "$scratch/functions"
  awk -v hard=$lines_hard '$1 > hard { print $2 " " $3 " has " $1 " lines" }' \
    "$scratch/functions" >"$scratch/bad" 2>&1
  [ -s "$scratch/functions" ] || echo 'ctags found none' >"$scratch/bad"
  result "no function is longer than $lines_hard lines" "$scratch/bad"
else
  skip "no function is longer than $lines_hard lines" 'no universal-ctags'
fi
while read -r file; do
  lines=$(wc -l <"$file")
  [ "$lines" -le $file_look ] || echo "# look at $file, $lines lines"
done <"$scratch/files"

# --- English ---
grep -v '^tests/' "$scratch/files" | xargs awk -f tests/english.awk |
  sort >"$scratch/english"
sed 's/^/# English of /; s/ \([^ ]*\)$/ % begin with a relative word, \1 such words per 100/' \
  "$scratch/english"
awk -v openers=$english_openers -v words=$english_words '
  $2 + 0 > openers { print $1 ": " $2 " % of its comments begin with a relative word, " openers " % may" }
  $3 + 0 > words { print $1 ": " $3 " relative words per 100, " words " may be" }
  ' "$scratch/english" >"$scratch/bad"
[ -s "$scratch/english" ] || echo 'no comments' >"$scratch/bad"
result 'comments are in plain English' "$scratch/bad"

# --- rooms: their READMEs say what they may include, and which headers are doors ---
# In a room's README "Door:" names headers for other rooms, "Inner door:" those
# of its top folder for its own folders; in a folder's, "Door:" names headers for
# the rest of its room. "none" and "all" are words.
rooms_re=$(echo "$rooms" | tr ' ' '|')
grep -E "^($rooms_re)(/[a-z]+)?/README\.md$" "$scratch/tracked" |
  while read -r file; do
    awk -v folder="${file%/README.md}" '
      /^$/ { kind = "" }
      /^(Door|Inner door|May include):/ {
        kind = $1 == "May" ? "may" : $1 == "Inner" || folder ~ /\// ? "inner" : "door"
        sub(/^[^:]*:/, "")
      }
      kind { for (i = 1; i <= NF; i++) if ($i != "none") print kind, folder, $i }' "$file"
  done >"$scratch/rooms"
# every folder with sources says it, and names nothing that is not there
grep -E "^($rooms_re)/" "$scratch/files" | sed 's|/[^/]*$||' | sort -u |
  while read -r folder; do
    for line in Door 'May include'; do
      grep -q "^$line:" "$folder/README.md" 2>/dev/null ||
        echo "$folder/README.md has no line \"$line: ..\""
    done
  done >"$scratch/bad"
while read -r kind folder name; do
  case $kind in
  may) [ -e "$name/README.md" ] || echo "$folder may include $name, which is no room" ;;
  *) [ "$name" = all ] || [ -e "$folder/$name" ] ||
    echo "$folder/README.md: there is no door $folder/$name" ;;
  esac
done <"$scratch/rooms" >>"$scratch/bad"
result 'rooms say what they are, and name doors that exist' "$scratch/bad"

xargs grep -Hn '^ *# *include' <"$scratch/files" >"$scratch/includes"
awk -v rooms="$rooms" '
  BEGIN {
    n = split(rooms, list)
    for (i = 1; i <= n; i++) is_room[list[i]] = 1
  }
  function room_of(folder) { return substr(folder, 1, index(folder "/", "/") - 1) }
  FNR == NR {
    if ($1 == "may") may[$2, $3] = 1
    else if ($3 == "all") all[$2] = 1
    else door[$1, $2 "/" $3] = 1
    next
  }
  {
    colon = index($0, ":")
    file = substr($0, 1, colon - 1)
    rest = substr($0, colon + 1)
    number = substr(rest, 1, index(rest, ":") - 1)
    from = file
    sub(/\/[^\/]*$/, "", from)
    if (!match(rest, /"[^"]*"/)) next
    name = substr(rest, RSTART + 1, RLENGTH - 2)
    to = name
    sub(/\/[^\/]*$/, "", to)
    where = file ":" number ": "
    # whom another room may include, its folders may not say otherwise
    other = room_of(to)
    if (name == "config.h") {
      # in quotes it would be proto/config.h there
      if (from == "proto") print where "write #include <config.h> in proto"
    } else if (other == "tests" && room_of(from) == "tests") {
    } else if (name == "include/gradweir.h") {
      if (from != "worker/library" && room_of(from) != "tests")
        print where "only worker/library and tests include " name
    } else if (!(other in is_room)) {
      print where "\"" name "\" names no room; project headers are \"room/name.h\""
    } else if (room_of(from) == "tests" || from == to) {
    } else if (room_of(from) == other) {
      if (!((from, to) in may)) print where from " may not include " to " (" name ")"
      else if (!(("inner", name) in door)) print where name " is private to " to
    } else if (!((from, other) in may) || !((room_of(from), other) in may)) {
      print where from " may not include " other " (" name ")"
    } else if (!(other in all) && !(("door", name) in door)) {
      print where name " is private to " other
    }
  }' "$scratch/rooms" "$scratch/includes" >"$scratch/bad" 2>&1
result 'rooms include only whom they may' "$scratch/bad"

# --- what is said of files: in documents, comments and the maps of *_state.h ---
there() {
  for one in $1 "$1".[ch] "$1".cu "$1".cuh; do
    [ -e "$one" ] && return
  done
  return 1
}
grep -E '\.(c|h|cu|cuh|md)$' "$scratch/tracked" | grep -v '^CHANGELOG' |
  xargs grep -oHnE "(^|[^A-Za-z0-9_./-])($rooms_re)/[a-z0-9_/]*[a-z0-9_*](\.[a-z]+)?" |
  sed -E "s/^([^:]*:[0-9]*):.?(($rooms_re)\/)/\1 \2/" | grep -v 'proto/control\.pb$' |
  while read -r where name; do
    there "$name" || echo "$where: there is no $name"
  done >"$scratch/bad"
grep '_state\.h$' "$scratch/files" |
  xargs grep -oHE '^ \*   *[a-z0-9_]+\.[ch]( |$)' | tr -d ' *' |
  while IFS=: read -r map name; do
    [ -e "${map%/*}/$name" ] || echo "$map: there is no $name beside it"
  done >>"$scratch/bad"
result 'files that are named are there' "$scratch/bad"

# --- names of the code in documents; gw_noun and gw_noun_verb are examples ---
grep -E '\.(c|h|cu|cuh|def|mk|ac|am|sh)$' "$scratch/tracked" |
  xargs grep -ohE '\b(gw|GW)_[A-Za-z0-9_]+' | sort -u >"$scratch/names"
grep '\.md$' "$scratch/tracked" | grep -v '^CHANGELOG' |
  xargs grep -oHnE '`(struct |enum )?(gw|GW)_[A-Za-z0-9_]+(\(\))?`' |
  sed -E 's/`(struct |enum )?([A-Za-z0-9_]+)(\(\))?`/\2/' |
  while IFS=: read -r file line name; do
    case $name in gw_noun | gw_noun_verb) continue ;; esac
    grep -qxF "$name" "$scratch/names" || echo "$file:$line: there is no $name"
  done >"$scratch/bad"
result 'names of code in documents are there' "$scratch/bad"

# examples are built by users, without our config.h
grep '\.c$' "$scratch/files" | grep -v '^examples/' | while read -r file; do
  first=$(grep -m1 '^#' "$file")
  case $first in
  '#include "config.h"' | '#include <config.h>') ;;
  *) echo "$file: begins with $first, not with #include \"config.h\"" ;;
  esac
done >"$scratch/bad"
result 'every source includes config.h first' "$scratch/bad"

# --- headers ---
printf '%s' "$parts" | sed '/^$/d' >"$scratch/parts"
grep '\.h$' "$scratch/files" | grep -vxFf "$scratch/parts" |
  while read -r header; do
    printf '#include "%s"\n#include "%s"\n' "$header" "$header" \
      >"$scratch/alone.c"
    # cppflags are many words
    # shellcheck disable=SC2086
    (cd "$build" && $cc $cppflags -std=gnu17 -Wall -Wextra -Werror \
      -fsyntax-only "$scratch/alone.c") >"$scratch/log" 2>&1 ||
      { echo "$header:"; head -n 5 "$scratch/log"; }
  done >"$scratch/bad"
result 'each header compiles alone, and twice' "$scratch/bad"

# --- no mutable state ---
name='no archive keeps state of its own'
case "${GW_CFLAGS-}" in
*-fsanitize* | *--coverage*)
  skip "$name" 'sanitizers add some' ;;
*)
  # by section: constants that hold addresses are in .data.rel.ro, which nm's
  # letters do not tell from .data
  for archive in "$build"/lib*.a; do
    nm --format=sysv "$archive" 2>/dev/null |
      awk -F'|' -v archive="${archive##*/}" '
        /\[.*\]:$/ { object = $0; sub(/^.*\[/, "", object); sub(/\].*/, "", object) }
        NF == 7 {
          gsub(/ /, "")
          if ($7 ~ /^\.data\.rel\.ro/) next
          if ($7 ~ /^\.t?(data|bss)/ || $7 == "*COM*")
            print $1, archive ":" object ": " $1 " can change"
        }'
  done >"$scratch/state" 2>&1
  echo "$mutable" | awk 'NF > 1 { print $1 }' >"$scratch/mutable"
  grep -vwFf "$scratch/mutable" "$scratch/state" |
    sed 's/^[^ ]* //' >"$scratch/bad" 2>&1
  ls "$build"/lib*.a >/dev/null 2>&1 || echo 'no archives' >"$scratch/bad"
  result "$name" "$scratch/bad" ;;
esac

# --- processes ---
grep -E '^(proto|transport|kernels|server|worker|cli)/.*\.c$' "$scratch/files" |
  grep -vxF cli/child.c |
  xargs grep -HnE '(^|[^a-z_>.])(v?fork|uv_spawn|posix_spawnp?|popen|system)\(' \
    >"$scratch/bad"
result 'nobody but cli/child makes a process' "$scratch/bad"

# --- the scripts that make check runs ---
sed -n '/^dist_check_SCRIPTS/,/[^\\]$/s,%D%,tests,p' tests/local.mk |
  grep -o 'tests/[^ ]*\.sh' |
  while read -r script; do
    [ -x "$script" ] || echo "$script: may not be executed: chmod +x"
  done >"$scratch/bad"
result 'each script of tests may be executed' "$scratch/bad"

# --- the index of tests ---
sh tests/index.sh | diff tests/INDEX.md - >"$scratch/bad" 2>&1
[ ! -s "$scratch/bad" ] || echo 'run: make tests-index' >>"$scratch/bad"
result 'tests/INDEX.md is what make tests-index writes' "$scratch/bad"

# --- loose ends ---
grep -E '\.(c|h|cu|m4|ac|mk|am|sh|awk|bash|py|md|proto)$|quickstart$' \
  "$scratch/tracked" | grep -v 'tests/check_style\.sh$' |
  while read -r file; do
    [ -e "$file" ] && grep -Hnw -E 'TODO|FIXME|XXX' "$file"
  done >"$scratch/bad"
result 'nothing is marked as unfinished' "$scratch/bad"

echo "1..$tests"
