#!/bin/sh
# What the documents say, held against the program: jobs are jobs, keys are
# keys, links lead somewhere, and the protocol names every part of the wire.
# Prints TAP.
program=${GW_BUILDDIR:-$PWD}/gradweir
source=${GW_SRCDIR:-.}
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
export LC_ALL=C
tests=0
cd "$source" || exit 1
documents='README.md CHANGELOG.md CONTRIBUTING.md docs/manual.md
docs/policies.md docs/design.md docs/hacking.md docs/style.md
docs/OPERATIONS.md docs/PROTOCOL.md docs/library.md docs/python.md'
studies=$(echo docs/studies/*.md)
documents="$documents $studies"

# result NAME: fails, and shows $scratch/bad, unless it is empty.
result() {
  tests=$((tests + 1))
  if [ -s "$scratch/bad" ]; then
    sed 's/^/# /' "$scratch/bad"
    echo "not ok $tests - $1"
  else
    echo "ok $tests - $1"
  fi
}

# Blocks of README and manual that begin like a job file.
awk -v dir="$scratch" '
  /^```/ { inside = !inside; first = inside; file = ""; next }
  inside && first && /^data = {/ { file = dir "/job" ++n }
  { first = 0 }
  file { print >file }' README.md docs/manual.md
for job in "$scratch"/job*; do
  "$program" config "$job" >/dev/null
done >"$scratch/bad" 2>&1
[ -e "$scratch/job2" ] || echo 'fewer than two jobs' >>"$scratch/bad"
result 'jobs of README and manual are jobs'

"$program" config --keys | sed -n 's/^\([a-z]*\.[a-z_0-9]*\) = .*/\1/p' \
  >"$scratch/keys"
sections=$(sed 's/\..*//' "$scratch/keys" | sort -u | paste -s -d '|' -)
# shellcheck disable=SC2086
grep -ohE "(\`|--set )($sections)\.[a-z_0-9]+" $documents |
  sed -E 's/^(`|--set )//' | sort -u >"$scratch/named"
grep -vxFf "$scratch/keys" "$scratch/named" >"$scratch/bad"
[ -s "$scratch/named" ] || echo 'no key is named' >"$scratch/bad"
result 'keys that are named are keys'

for document in README.md docs/manual.md; do
  "$program" --help | awk '/^  [a-z]/ { print $1 }' | while read -r command; do
    grep -qE "gradweir $command([^a-z]|$)" $document || echo "$document: $command"
  done
done >"$scratch/bad"
result 'README and manual name every command'

for document in $documents; do
  grep -oE '\]\([^)#]+' "$document" | sed 's/^](//' | while read -r link; do
    case $link in *:*) continue ;; esac
    [ -e "$(dirname "$document")/$link" ] || echo "$document: $link"
  done
done >"$scratch/bad"
result 'links lead somewhere'

# Lines that begin with gradweir: the command and its options are some.
# shellcheck disable=SC2086
for document in README.md docs/manual.md docs/hacking.md docs/OPERATIONS.md docs/library.md docs/python.md \
  $studies; do
  sed -n '/^```/,/^```/s/^\(host[a-z]\$ \)\{0,1\}gradweir \([a-z]*\)\(.*\)/\2\3/p' $document |
    while read -r command rest; do
      "$program" "$command" --help >"$scratch/help" 2>&1 ||
        echo "$document: $command is no command"
      for word in $rest; do
        case $word in
        --*) grep -q -e "$word" "$scratch/help" || echo "$document: $command $word" ;;
        esac
      done
    done
done >"$scratch/bad"
result 'commands that are shown are ones, with their options'

# A page of a study has the command that makes it, and a study has its page.
for page in $studies; do
  grep -ohE '^gradweir study [^ ]+' "$page" | while read -r _ _ file; do
    [ -e "$file" ] || echo "$page: $file"
  done
done >"$scratch/bad"
for study in examples/studies/*.study; do
  page=docs/studies/$(basename "$study" .study).md
  grep -q "^gradweir study $study" "$page" || echo "$study: no command in $page"
  grep -q "($(basename "$page"))" docs/studies/README.md || echo "$page: not listed"
done >>"$scratch/bad" 2>&1
result 'ready studies have their pages, with the commands'

# named NAMES: those of standard input that the protocol does not name.
unnamed() {
  while read -r name; do
    grep -qwF "$name" docs/PROTOCOL.md || echo "$1 $name"
  done
}
{
  sed -n '/oneof body/,/}/s/^ *\([A-Z][A-Za-z]*\) .*/\1/p' proto/control.proto |
    unnamed message
  sed -n '/GW_FRAME_KINDS(X)/,/^$/s/.*GW_FRAME_[A-Z]*, *[0-9]*, "\(.*\)").*/\1/p' \
    proto/wire.h | unnamed kind
  sed -n '/GW_METRIC_TABLE(X)/,/^\/\* clang-format on/s/^ *X([A-Z_]*, *\([a-z_]*\),.*/\1/p' \
    proto/metrics.h | unnamed counter
} >"$scratch/bad"
result 'the protocol names every message, kind of frame and counter'

echo "1..$tests"
