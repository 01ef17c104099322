# The text of tests/INDEX.md from all sources and tests; see tests/index.sh.
# A symbol begins with gw_ or gradweir_, is defined in a source and is not static: a function,
# whose head ends before a line "{", or a table "... = {". A test is a program
# (test_*, fuzz_*, a script); other files of tests/ are helpers, which programs
# include.

function base(path) { sub(/.*\//, "", path); sub(/\.[a-z]*$/, "", path); return path }
function without_room(path) { sub(/^tests\//, "", path); sub(/\.c$/, "", path); return path }
function folder_of(path) { sub(/\/[^\/]*$/, "", path); return path }
function is_program(path) { return base(path) ~ /^(test|fuzz)_/ || path ~ /\.sh$/ }
function define(name) {
  if ((name, FILENAME) in defined) return
  defined[name, FILENAME] = 1
  homes[name] = homes[name] " " FILENAME
}

FNR == 1 {
  head = ""
  is_test = FILENAME ~ /^tests\//
  is_script = FILENAME ~ /\.sh$/
  is_source = !is_test && FILENAME ~ /\.(c|cu)$/
  in_comment = 0
  if (is_source) sources[++n_sources] = FILENAME
  else if (is_test) is_a_test[FILENAME] = 1
}

# the subcommands that a script starts: "run 0 study", "$program" study, gradweir study
is_script {
  line = $0
  while (match(line, /(run [0-9]+|gradweir"?|program"?|exec) [a-z]+/)) {
    word = substr(line, RSTART, RLENGTH)
    sub(/.* /, "", word)
    starts[word, FILENAME] = 1
    line = substr(line, RSTART + RLENGTH)
  }
  next
}

/^ *# *include "tests\// {
  match($0, /"[^"]*"/)
  included = substr($0, RSTART + 1, RLENGTH - 2)
  sub(/\.h$/, ".c", included)
  includes[FILENAME] = includes[FILENAME] " " included
}

{
  line = $0
  gsub(/"([^"\\]|\\.)*"/, "", line)
  gsub(/\/\*.*\*\//, "", line)
  if (in_comment) {
    if (!sub(/^.*\*\//, "", line)) next
    in_comment = 0
  }
  if (sub(/\/\*.*$/, "", line)) in_comment = 1

  if (is_source) {
    if (line == "{" || line ~ /^extern "C" [{]$/) {
      if (head !~ /(^| )static / && match(head, /(gw|gradweir)_[a-z0-9_]+\(/))
        define(substr(head, RSTART, RLENGTH - 1))
      head = ""
    } else if (line ~ /^[a-z].*[^a-z0-9_]gw_[a-z0-9_]+(\[[A-Za-z0-9_]*\])? = / && line !~ /^static /) {
      name = line
      sub(/(\[[A-Za-z0-9_]*\])? = .*/, "", name)
      sub(/.*[^a-z0-9_]/, "", name)
      define(name)
    }
    if (line ~ /^[#}]/ || line ~ /;$/ || line == "") head = ""
    else head = head " " line
  }

  while (match(line, /(gw|gradweir)_[a-z0-9_]+/)) {
    name = substr(line, RSTART, RLENGTH)
    is_tag = substr(line, 1, RSTART - 1) ~ /(struct|enum|union) $/
    line = substr(line, RSTART + RLENGTH)
    if (is_tag || (name, FILENAME) in named) continue
    named[name, FILENAME] = 1
    users[name] = users[name] " " FILENAME
  }
}

# Sorts rows[1..n] as texts.
function sort(rows, n, i, j, row) {
  for (i = 2; i <= n; i++) {
    row = rows[i]
    for (j = i - 1; j > 0 && rows[j] > row; j--) rows[j + 1] = rows[j]
    rows[j + 1] = row
  }
}

# The tests of one source as a list: first those of its name, then those that
# name most of its symbols.
function list(source, n, test, key, rows, text, i, parts, rank) {
  n = 0
  for (key in weight) {
    split(key, parts, SUBSEP)
    if (parts[1] != source) continue
    test = parts[2]
    rank = index(base(test), base(source)) ? 0 : is_program(test) ? 1 : 2
    rows[++n] = sprintf("%d%03d %s", rank, 999 - weight[key], without_room(test))
  }
  sort(rows, n)
  for (i = 1; i <= n && i <= 5; i++) {
    sub(/^[0-9]* /, "", rows[i])
    text = text (i > 1 ? ", " : "") rows[i]
  }
  return text (n > 5 ? " and " n - 5 " more" : "")
}

# The nearest callers that tests name, up to three, those of its folder first.
function by_callers(source, level, next_level, seen, rows, n, i, m, callers, here) {
  level = source
  while (level != "") {
    m = split(level, here, " ")
    next_level = ""
    for (i = 1; i <= m; i++) next_level = next_level calls_me[here[i]]
    m = split(next_level, callers, " ")
    next_level = ""
    n = 0
    for (i = 1; i <= m; i++) {
      if (callers[i] in seen) continue
      seen[callers[i]] = 1
      if (callers[i] in has_none) next_level = next_level " " callers[i]
      else rows[++n] = (folder_of(callers[i]) == folder_of(source) ? 0 : 1) " " callers[i]
    }
    if (n > 0) return first_of(source, rows, n)
    level = next_level
  }
  return ""
}
function first_of(source, rows, n, i, text, name) {
  sort(rows, n)
  for (i = 1; i <= n && i <= 3; i++) {
    name = substr(rows[i], 3)
    text = text (i > 1 ? ", " : "") (folder_of(name) == folder_of(source) ? base(name) ".c" : name)
  }
  return text
}

END {
  for (name in homes) {
    n = split(homes[name], at, " ")
    m = split(users[name], by, " ")
    for (i = 1; i <= n; i++)
      for (j = 1; j <= m; j++)
        if (by[j] in is_a_test) weight[at[i], by[j]]++
        else if (by[j] ~ /\.(c|cu)$/ && by[j] != at[i] && !((at[i], by[j]) in known)) {
          known[at[i], by[j]] = 1
          calls_me[at[i]] = calls_me[at[i]] " " by[j]
        }
  }
  # a subcommand is tested by the scripts that start it
  for (key in starts) {
    split(key, parts, SUBSEP)
    for (i = 1; i <= n_sources; i++)
      if (base(sources[i]) == "cmd_" parts[1]) weight[sources[i], parts[2]]++
  }
  for (i = 1; i <= n_sources; i++) {
    text = list(sources[i])
    if (text == "") has_none[sources[i]] = 1
    tests_of[sources[i]] = text
  }

  print "# Which tests a source has"
  print ""
  print "Written by `make tests-index` from names in the text; `tests/check_style.sh` compares. A source"
  print "has the tests that name one of its functions or tables, at most five: first tests of its name,"
  print "then those that name most of them. Where no test names any, \"by\" has its nearest callers that"
  print "tests name; \"-\" has none, and is reached by whole programs (`run/`). `kernels/cuda` is loaded as a"
  print "module: `table/test_backend*`, `unit/test_cuda_*` and `gpu/` reach it through the table of"
  print "operations. Helpers, which several tests share, are at the end."
  # a room's own files before those of its folders
  for (i = 1; i <= n_sources; i++) sources[i] = folder_of(sources[i]) " " sources[i]
  sort(sources, n_sources)
  folder = ""
  for (i = 1; i <= n_sources; i++) {
    sub(/^[^ ]* /, "", sources[i])
    if (folder_of(sources[i]) != folder) {
      folder = folder_of(sources[i])
      printf "\n## %s\n\n| source | tests |\n|---|---|\n", folder
    }
    name = sources[i]
    sub(/.*\//, "", name)
    text = tests_of[sources[i]]
    if (text == "") {
      text = by_callers(sources[i])
      text = text == "" ? "-" : "by " text
    }
    printf "| %s | %s |\n", name, text
  }

  for (test in includes) {
    n = split(includes[test], by, " ")
    for (i = 1; i <= n; i++)
      if (by[i] != test) used_by[by[i]] = used_by[by[i]] " " test
  }
  print "\n## Helpers\n\n| helper | for |\n|---|---|"
  n = 0
  for (helper in used_by) rows[++n] = helper
  sort(rows, n)
  for (i = 1; i <= n; i++) {
    m = split(used_by[rows[i]], by, " ")
    sort(by, m)
    text = ""
    for (j = 1; j <= m && j <= 5; j++) text = text (j > 1 ? ", " : "") without_room(by[j])
    printf "| %s | %s |\n", without_room(rows[i]), text (m > 5 ? " and " m - 5 " more" : "")
  }
}
