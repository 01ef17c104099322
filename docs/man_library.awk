# The parts of gradweir(3) that its header has: @OVERVIEW@, the first comment;
# @NAMES@ and @SYNOPSIS@ of the calls; @STATUS@, the numbers; @TYPES@; @CALLS@,
# the calls with their comments. man.awk, which comes behind, prints the rest.
# Usage: awk -v version=... -v header=... -f man_library.awk -f man.awk page.in

# Blocks of the header end with an empty line: a comment, then declarations.
function read_header(    before, end) {
    before = RS
    RS = ""
    while ((getline block[++blocks] < header) > 0) {
        end = block[blocks] ~ /^\/\*/ ? index(block[blocks], "*/") + 2 : 0
        comment[blocks] = substr(block[blocks], 1, end)
        code[blocks] = substr(block[blocks], end + (end > 0))
        sub(/^\n/, "", code[blocks])
    }
    RS = before
    if (close(header) != 0 || blocks < 3)
        exit 1
}

# Paragraphs; lines that stand further in stay as they are.
function print_comment(text,    n, i, line, is_picture, indents) {
    gsub(/ *\*\/\n?$/, "", text)
    n = split(text, line, "\n")
    for (i = 1; i <= n; i++) {
        sub(/^(\/\*| \*|  ) ?/, "", line[i])
        indents = line[i] ~ /^ /
        if (indents != is_picture)
            print indents ? ".RS\n.nf" : ".fi\n.RE"
        is_picture = indents
        if (line[i] != "")
            print roff(line[i])
        else if (i > 1 && i < n)
            print ".PP"
    }
}

# A call in lines of at most 72 columns, its parameters in italics.
function print_call(text,    n, i, word, line, columns) {
    gsub(/[ \n]+/, " ", text)
    sub(/^ ?GRADWEIR_API /, "", text)
    sub(/\( /, "(", text)
    n = split(roff(text), word, ", ")
    for (i = 1; i <= n; i++) {
        columns += length(word[i]) + 2
        line = line (i == 1 ? "" : columns > 72 ? ",\n    " : ", ") word[i]
        if (columns > 72)
            columns = length(word[i]) + 6
    }
    gsub(/[a-z_]+[,)]/, "\\fI&", line)
    gsub(/[,)]/, "\\fB&", line)
    gsub(/\\fIvoid/, "void", line)
    gsub(/\n/, "\\fR\n\\fB", line)
    print "\\fB" line ";\\fR"
}

function print_calls(code,    n, i, call) {
    n = split(code, call, ";")
    for (i = 1; i < n; i++)
        print_call(call[i])
}

function print_names(code,    n, i, call) {
    n = split(code, call, ";")
    for (i = 1; i < n; i++) {
        sub(/\(.*/, "", call[i])
        sub(/.*[ *\n]/, "", call[i])
        printf ", %s", call[i]
    }
}

# "NAME = NUMBER, /* TEXT */"
function print_status(code,    n, i, line, name, text) {
    n = split(code, line, "\n")
    for (i = 1; i <= n; i++) {
        if (line[i] !~ / = /)
            continue
        name = text = line[i]
        gsub(/^ *|,? *(\/\*.*)?$/, "", name)
        gsub(/.*\/\* *| *\*\/.*/, "", text)
        print ".TP\n.B " roff(name) "\n" roff(line[i] ~ /\/\*/ ? text : "no failure")
    }
}

function print_code(code) {
    gsub(/\\/, "\\\\", code)
    gsub(/-/, "\\-", code)
    print ".PP\n.nf\n.RS\n" code "\n.RE\n.fi"
}

function is_call(i) {
    return code[i] ~ /^GRADWEIR_API/
}

function is_status(i) {
    return code[i] ~ /^enum gradweir_status/
}

function is_type(i) {
    return code[i] ~ /^(struct|enum|typedef|#define GRADWEIR_[A-Z_]+ +[^ ])/ && !is_status(i)
}

/^@[A-Z]+@$/ {
    if (!blocks)
        read_header()
    if ($0 == "@NAMES@")
        printf "gradweir"
    if ($0 == "@OVERVIEW@")
        print_comment(comment[1])
    for (i = 1; i <= blocks; i++) {
        if ($0 == "@NAMES@" && is_call(i))
            print_names(code[i])
        if ($0 == "@SYNOPSIS@" && is_call(i))
            print_calls(code[i])
        if ($0 == "@STATUS@" && is_status(i))
            print_status(code[i])
        if ($0 == "@TYPES@" && is_type(i)) {
            print ".PP"
            print_comment(comment[i])
            print_code(code[i])
        }
        if ($0 == "@CALLS@" && is_call(i)) {
            print ".PP\n.nf"
            print_calls(code[i])
            print ".fi\n.RS"
            print_comment(comment[i])
            print ".RE"
        }
    }
    if ($0 == "@NAMES@")
        print ""
    next
}
