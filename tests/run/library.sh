#!/bin/sh
# The shared library as a stranger finds it: its header, its symbols, what it
# needs, and how it is installed. Prints TAP.
. "${GW_SRCDIR:-..}/tests/run/lib.sh"
source=$(cd "${GW_SRCDIR:-..}" && pwd)
build=$(cd "${GW_BUILDDIR:-.}" && pwd)
header=$source/include/gradweir.h
library=$build/libgradweir.so
cc=${GW_CC:-cc}

# ---- the header ----
echo '#include <gradweir.h>' >"$scratch/header.c"
# shellcheck disable=SC2086
$cc -std=c99 -pedantic-errors -Wall -Wextra -Werror -fsyntax-only \
  -I"$source/include" "$scratch/header.c"
ok 'the header is C99'
cxx=${GW_CXX:-c++}
if echo | $cxx -fsyntax-only -x c++ - 2>/dev/null; then
  for standard in c++11 c++17; do
    # shellcheck disable=SC2086
    $cxx -std=$standard -pedantic-errors -Wall -Wextra -Werror -fsyntax-only \
      -I"$source/include" -x c++ "$scratch/header.c"
    ok "the header is C++ ($standard)"
  done
else
  skip 'the header is C++' 'no C++ compiler'
fi
[ "$(grep -h '^ *# *include' "$header" | sort | xargs)" = '#include <stddef.h> #include <stdint.h>' ]
ok 'the header includes stddef.h and stdint.h alone'

# ---- structs and numbers ----
if [ "$(getconf LONG_BIT)" = 64 ]; then
  # to change on purpose: a struct grows at its end, and a number stays
  $cc -std=c99 -I"$source/include" -I"$build" -o "$scratch/structs" "$source/tests/run/structs.c" &&
    "$scratch/structs" >"$scratch/out" &&
    diff "$source/tests/reference/gradweir.structs" "$scratch/out" >"$scratch/err" ||
    { sed 's/^/# /' "$scratch/err" && false; }
  ok 'its structs and numbers are those of tests/reference/gradweir.structs'
else
  skip 'its structs and numbers are those of tests/reference/gradweir.structs' 'not 64 bits'
fi
# comments away, a field or a number a line
sed -e ':a' -e 's,/\*[^*]*\*\(/\|[^/][^*]*\*/\),,' -e 'ta' "$header" | tr '\n' ' ' |
  sed -e 's,/\*\([^*]\|\*[^/]\)*\*/,,g' >"$scratch/plain"
{
  grep -o 'struct gradweir_[a-z]* {[^}]*}' "$scratch/plain" |
    sed -e 's/.*{//' -e 's/}//' | tr ';' '\n' | sed -e 's/\[.*//' | awk 'NF { print "  " $NF }'
  grep -o 'enum gradweir_[a-z]* {[^}]*}' "$scratch/plain" | grep -o 'GRADWEIR_[A-Z0-9_]*'
} | tr -d '*' | sort -u >"$scratch/named"
awk '$1 != "struct" { sub(/ [-0-9 ]*$/, ""); print }' "$source/tests/reference/gradweir.structs" |
  grep -v 'ANY_RANK\|DIMS_MAX' | sort -u | diff "$scratch/named" - >"$scratch/err" ||
  { sed 's/^/# /' "$scratch/err" && false; }
ok 'the list has all of the header'

# ---- the manual ----
manual=$build/docs/gradweir.3
awk '/^GRADWEIR_API/ { on = 1 } on { sub(/^GRADWEIR_API/, ""); print } /;/ { on = 0 }' "$header" |
  tr -d ' \n' | tr ';' '\n' >"$scratch/declared"
sed -n '/^\.SH SYNOPSIS/,/^\.SH DESCRIPTION/p' "$manual" | grep '^\\' | sed 's/\\f[A-Z]//g' |
  tr -d ' \n' | tr ';' '\n' >"$scratch/out"
[ "$(wc -l <"$scratch/declared")" -gt 20 ] && diff "$scratch/declared" "$scratch/out" >"$scratch/err" ||
  { sed 's/^/# /' "$scratch/err" && false; }
ok 'gradweir(3) has the calls of the header'
if command -v groff >/dev/null; then
  groff -man -Tascii -ww "$manual" 2>&1 >/dev/null | sed 's/^/# /' | { ! grep .; }
  ok 'gradweir(3) is sound'
fi

# ---- symbols ----
if command -v nm >/dev/null && command -v readelf >/dev/null; then
  # to change on purpose: a name that was released stays
  nm -D --defined-only "$library" | awk '{ print $NF }' | sort >"$scratch/symbols" &&
    diff "$source/tests/reference/gradweir.symbols" "$scratch/symbols" >"$scratch/out" ||
    { sed 's/^/# /' "$scratch/out" && false; }
  ok 'its symbols are those of tests/reference/gradweir.symbols'
  sed -n 's/@@.*//p' "$scratch/symbols" | while read -r name; do
    grep -qw "$name" "$header" || echo "# $name is not in the header"
  done | { ! grep .; }
  ok 'each of them is in the header'
  readelf -d "$library" >"$scratch/dynamic"
  grep -q 'SONAME.*\[libgradweir\.so\.0\]' "$scratch/dynamic"
  ok 'its name for the loader is libgradweir.so.0'
  ! grep -E 'TEXTREL' "$scratch/dynamic"
  ok 'its code is shared between processes'
  ! grep NEEDED "$scratch/dynamic" | grep -iE 'verbs|rdmacm|blas|cuda|hwloc'
  ok 'it needs no library of a device, and no BLAS'
else
  for name in 'its symbols are those of tests/reference/gradweir.symbols' \
    'each of them is in the header' 'its name for the loader is libgradweir.so.0' \
    'its code is shared between processes' 'it needs no library of a device, and no BLAS'; do
    skip "$name" 'no nm, or no readelf'
  done
fi
case ${GW_CFLAGS-} in
*-fsanitize* | *--coverage*)
  for name in 'it keeps no state of its own' \
    'make install: the library, its links, a module of pkg-config, manual and examples' \
    'a program is compiled by pkg-config, and runs' 'it loads, and unloads' \
    'make uninstall leaves nothing'; do
    skip "$name" 'sanitizers add to a library'
  done
  echo "1..$tests"
  exit 0
  ;;
esac
# by section, as tests/check_style.sh does; names of the compiler and the linker aside
nm --format=sysv "$library" | awk -F'|' '
  NF == 7 {
    gsub(/ /, "")
    if ($7 ~ /^\.t?(data|bss)/ && $7 !~ /^\.data\.rel\.ro/ && $1 !~ /^(_|completed)/)
      print "# " $1 " can change"
  }' >"$scratch/state" && ! grep . "$scratch/state"
ok 'it keeps no state of its own'

# ---- installed ----
at=$scratch/at
# with nothing of a make that runs this
install_to() {
  env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -s -C "$build" "$@" DESTDIR="$at" \
    >"$scratch/make" 2>&1 || { sed 's/^/# /' "$scratch/make" && false; }
}
install_to install && where=$(dirname "$(find "$at" -name libgradweir.so)") &&
  [ "$(readlink "$where/libgradweir.so")" = libgradweir.so.0 ] &&
  [ -f "$where/$(readlink "$where/libgradweir.so.0")" ] && [ -e "$where/pkgconfig/gradweir.pc" ] &&
  [ -e "$(find "$at" -path '*man3/gradweir.3')" ] && [ -e "$(find "$at" -path '*examples/line.c')" ]
ok 'make install: the library, its links, a module of pkg-config, manual and examples'
cat >"$scratch/user.c" <<'C'
#include <gradweir.h>
#include <stdio.h>
int main(void) { return puts(gradweir_version()) < 0; }
C
export PKG_CONFIG_LIBDIR="$where/pkgconfig" PKG_CONFIG_SYSROOT_DIR="$at"
version=$(sed -n 's/^PACKAGE_VERSION = //p' "$build/Makefile")
if command -v pkg-config >/dev/null; then
  # many words
  # shellcheck disable=SC2046
  [ "$(pkg-config --modversion gradweir)" = "$version" ] &&
    $cc -o "$scratch/user" "$scratch/user.c" $(pkg-config --cflags --libs gradweir) &&
    [ "$(LD_LIBRARY_PATH=$where "$scratch/user")" = "$version" ]
  ok 'a program is compiled by pkg-config, and runs'
else
  skip 'a program is compiled by pkg-config, and runs' 'no pkg-config'
fi
cat >"$scratch/load.c" <<'C'
#include <dlfcn.h>
#include <stdio.h>
int main(int n, char **word)
{
    for (int i = 0; i < 20; i++) {
        void *library = dlopen(word[n - 1], RTLD_NOW | RTLD_LOCAL);
        if (!library || !dlsym(library, "gradweir_version"))
            return puts(dlerror());
        if (dlclose(library) != 0)
            return 2;
    }
    return dlopen(word[n - 1], RTLD_NOW | RTLD_NOLOAD) != NULL;
}
C
$cc -o "$scratch/load" "$scratch/load.c" -ldl && "$scratch/load" "$where/libgradweir.so.0"
ok 'it loads, and unloads'
install_to uninstall && ! find "$at" -name '*gradweir*' ! -type d | sed 's/^/# /' | grep .
ok 'make uninstall leaves nothing'
echo "1..$tests"
