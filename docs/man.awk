# Completes a manual page: @VERSION@, and @KEYS@ from `gradweir config --keys`.
# Usage: awk -v version=... -v keys=COMMAND -f man.awk page.in
function roff(text) {
    gsub(/\\/, "\\\\", text)
    gsub(/-/, "\\-", text)
    if (text ~ /^[.']/)
        text = "\\&" text
    return text
}

$0 == "@KEYS@" {
    while ((keys | getline line) > 0) {
        written++
        if (line ~ /^ /) {
            sub(/^ +/, "", line)
            print roff(line)
        } else {
            print ".TP"
            print ".B " roff(line)
        }
    }
    if (close(keys) != 0 || !written)
        exit 1
    next
}

{
    gsub(/@VERSION@/, version)
    print
}
