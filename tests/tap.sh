#!/bin/sh
# tap.sh PROGRAM ARGUMENT..: its TAP and its exit status, but that cmocka 1.1.5
# says "not ok" of what is skipped, which the harness takes for a failure. What
# the program leaves behind, and tells nothing, is not waited for: it has none of
# these pipes.
exec 3>&1
status=$({ { "$@" 3>&- 4>&-; echo $? >&4; } | sed -u 's/^not ok\( [0-9]* # SKIP\)/ok\1/' >&3; } 4>&1)
exit "$status"
