# Completion of gradweir for bash. The program itself lists its commands, options
# and keys, so this file names none of them.

# Options of a command, or with ^[a-z] the words that it knows.
_gradweir_options()
{
    "$1" help --options 2>/dev/null |
        awk -v command="${2,,}" -v kind="$3" \
            '/^[a-z]/ && $1 == command && $2 ~ kind { print $2 }'
}

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
        words="$(_gradweir_options "$program" "$command" ^--) --help"
    elif [[ $command == ctl && $before == --job ]]; then
        words=$(_gradweir_jobs)
    elif [[ $command == ctl && $before == policy ]]; then
        return # a word of cluster.policy, which no command lists
    elif [[ $command == ctl && $before != --socket ]]; then
        words=$(_gradweir_options "$program" ctl '^[a-z]')
    else
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
        compopt -o filenames
        return
    fi
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}

complete -F _gradweir gradweir
