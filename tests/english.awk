# How plain the English of comments is: for each top-level room, of comments of
# six words or more, the percentage that begins with a relative word, and such
# words per 100 words. Prints "room percent per100".
BEGIN {
  split("what who whose whom whoever whatever whether of where those that such which", list, " ")
  for (i in list) opens[list[i]] = 1
  split("what who whoever whatever such those beside anew whose whom", list, " ")
  for (i in list) is_such[list[i]] = 1
}
# One whole comment, without its marks.
function comment(text, n, i, words, word) {
  gsub(/[^A-Za-z']+/, " ", text)
  n = split(tolower(text), words, " ")
  if (n < 6) return
  comments[room]++
  total[room] += n
  if (words[1] in opens) opened[room]++
  for (i = 1; i <= n; i++) if (words[i] in is_such) such[room]++
}
FNR == 1 { inside = 0; room = FILENAME; sub(/\/.*/, "", room) }
{
  rest = $0
  while (rest != "") {
    if (inside) {
      at = index(rest, "*/")
      said = said " " (at ? substr(rest, 1, at - 1) : rest)
      rest = at ? substr(rest, at + 2) : ""
      if (at) { comment(said); inside = 0 }
    } else {
      at = index(rest, "/*")
      rest = at ? substr(rest, at + 2) : ""
      if (at) { inside = 1; said = "" }
    }
  }
}
END {
  for (room in comments)
    printf "%s %.1f %.2f\n", room, 100 * opened[room] / comments[room], 100 * such[room] / total[room]
}
