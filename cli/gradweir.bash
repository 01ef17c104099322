# Completion of gradweir for bash. Commands, options and keys are asked of the
# program itself, so this file knows none of them.

_gradweir_keys()
{
    "$1" config --keys 2>/dev/null | awk '/^[^ ]/ { print $1 "=" }'
}

# Processes whose jobs take commands, some of which may have died.
_gradweir_jobs()
{
    local socket
    for socket in "${GRADWEIR_SOCKET_DIR:-/nowhere}"/*.sock \
        "${XDG_RUNTIME_DIR:-/nowhere}"/gradweir/*.sock /tmp/gradweir-$UID/*.sock; do
        if [[ -S $socket ]]; then
            socket=${socket##*/}
            echo "${socket%.sock}"
        fi
    done
}

_gradweir()
{
    local program=$1 word=$2 before=$3 command=${COMP_WORDS[1]-}
    local words
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        words=$("$program" --help 2>/dev/null |
            awk '/^  [a-z]/ { print $1 } END { print "--help --version" }')
    elif [[ $before == --set ]]; then
        words=$(_gradweir_keys "$program")
        compopt -o nospace
    elif [[ $word == -* ]]; then
        words=$("$program" "$command" --help 2>/dev/null |
            awk '{ for (i = 1; i <= NF; i++) if ($i ~ /^\[?--[a-z]/) {
                       gsub(/[^-a-z]/, "", $i); print $i } }' | sort -u)
    elif [[ $command == ctl && $before == --job ]]; then
        words=$(_gradweir_jobs)
    elif [[ $command == ctl && $before == policy ]]; then
        return # a word of cluster.policy, which no command lists
    elif [[ $command == ctl && $before != --socket ]]; then
        # the second column of the help is a text: commands begin its lines
        words=$("$program" ctl --help 2>/dev/null | awk '/^  [a-z]/ { print $1 }')
    else
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
        compopt -o filenames
        return
    fi
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}

complete -F _gradweir gradweir
