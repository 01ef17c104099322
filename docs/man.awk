# Completes a manual page: @VERSION@, @KEYS@ from `gradweir config --keys`, and
# @OPTIONS COMMAND@ from `gradweir help --options`.
# Usage: awk -v version=... -v keys=COMMAND -v options=COMMAND -f man.awk page.in
function roff(text) {
    gsub(/\\/, "\\\\", text)
    gsub(/-/, "\\-", text)
    if (text ~ /^[.']/)
        text = "\\&" text
    return text
}

# A paragraph's text, whose lines begin with spaces.
function print_text(line) {
    sub(/^ +/, "", line)
    print roff(line)
}

# "COMMAND --NAME ARGUMENT" and its text, for each option of the command.
function print_options(command,    line, mine, written, name) {
    print ".RS"
    while ((options | getline line) > 0) {
        if (line ~ /^ /) {
            if (mine)
                print_text(line)
            continue
        }
        mine = index(line, command " --") == 1
        if (!mine)
            continue
        written++
        sub(/^[^ ]+ /, "", line)
        name = line
        sub(/ .*/, "", name)
        sub(/^[^ ]+/, "", line)
        print ".TP"
        print "\\fB" roff(name) "\\fR" (line ? "\\fI" roff(line) "\\fR" : "")
    }
    print ".RE"
    if (close(options) != 0 || !written)
        exit 1
}

$0 == "@KEYS@" {
    while ((keys | getline line) > 0) {
        written++
        if (line ~ /^ /) {
            print_text(line)
        } else {
            print ".TP"
            print ".B " roff(line)
        }
    }
    if (close(keys) != 0 || !written)
        exit 1
    next
}

/^@OPTIONS [a-z]+@$/ {
    sub(/@$/, "", $2)
    print_options($2)
    next
}

{
    gsub(/@VERSION@/, version)
    print
}
