dnl tests: cmocka runs the unit tests; without it the program still builds.
PKG_CHECK_MODULES([CMOCKA], [cmocka >= 1.1.5], [have_cmocka=yes], [have_cmocka=no])
AM_CONDITIONAL([HAVE_CMOCKA], [test "x$have_cmocka" = xyes])
AS_IF([test "x$have_cmocka" = xyes],
  [GW_REPORT([tests], [yes (cmocka)])],
  [GW_REPORT([tests], [no: cmocka is missing (apt-get install libcmocka-dev)])])

dnl libFuzzer drives the fuzz targets; all archives carry its instrumentation.
dnl Without it the targets are built all the same and replay their corpora.
AC_ARG_ENABLE([fuzz], [AS_HELP_STRING([--enable-fuzz],
  [build the fuzz targets for libFuzzer (needs clang)])], [], [enable_fuzz=no])
AS_IF([test "x$enable_fuzz" = xyes], [
  gw_fuzz_flags="-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer"
  gw_saved_CFLAGS=$CFLAGS
  CFLAGS="$CFLAGS $gw_fuzz_flags -fsanitize=fuzzer"
  AC_MSG_CHECKING([whether $CC links fuzz targets])
  AC_LINK_IFELSE([AC_LANG_SOURCE([[
#include <stddef.h>
int LLVMFuzzerTestOneInput(const unsigned char *data, size_t n);
int LLVMFuzzerTestOneInput(const unsigned char *data, size_t n)
{ return data == NULL && n > 0; }
]])], [AC_MSG_RESULT([yes])],
    [AC_MSG_RESULT([no])
     AC_MSG_ERROR([--enable-fuzz needs clang and its runtime: configure with CC=clang; on Debian or Ubuntu: apt-get install clang libclang-rt-dev])])
  CFLAGS=$gw_saved_CFLAGS
  GW_CFLAGS="$GW_CFLAGS $gw_fuzz_flags"
])
dnl Instrumented loops are not vectorised, and clang would say so of each; in
dnl other builds the same words are a warning worth having.
AS_IF([test "x$enable_fuzz$gw_sanitizers" != xno], [
  AC_DEFINE([GW_SANITIZED], [1],
    [Defined in a sanitizer's build: malloc is its, and all is slower.])
  AC_COMPILE_IFELSE([AC_LANG_SOURCE([[
#ifndef __clang__
#error another compiler
#endif
]])], [GW_WARNINGS="$GW_WARNINGS -Wno-pass-failed"])
])
AM_CONDITIONAL([ENABLE_FUZZ], [test "x$enable_fuzz" = xyes])
GW_REPORT([fuzz targets], [$(test "x$enable_fuzz" = xyes && echo "libFuzzer with asan, ubsan: make check-fuzz" || echo "replay their corpora (--enable-fuzz with CC=clang for more)")])

dnl The module for GPUs also runs on an emulated CUDA (tests/cuda), whose kernels
dnl are C++ of the host, linked with C. What a GPU would refuse traps.
: ${CXXFLAGS=""}
AC_PROG_CXX
gw_emulated_cuda=yes gw_emulated_cuda_why="no C++17 compiler (apt-get install g++)"
AC_LANG_PUSH([C++])
GW_EMULATED_CXXFLAGS="-std=c++17 -O2 -g -fPIC -fvisibility=hidden -fno-exceptions -fno-rtti -ffp-contract=off -Wall -Wextra -fsanitize=alignment,bounds -fsanitize-undefined-trap-on-error"
gw_saved_CXXFLAGS=$CXXFLAGS CXXFLAGS="$GW_EMULATED_CXXFLAGS $CXXFLAGS"
AC_MSG_CHECKING([whether $CXX compiles kernels for the emulated CUDA])
AC_COMPILE_IFELSE([AC_LANG_SOURCE([[
#include <tuple>
#include <type_traits>
extern "C" int gw_kernel(int *x);
int gw_kernel(int *x) { return std::is_pointer_v<int *> && *x ? 0 : __builtin_LINE(); }
]])],
  [cp conftest.$OBJEXT conftest_kernel.$OBJEXT], [gw_emulated_cuda=no])
AC_MSG_RESULT([$gw_emulated_cuda])
CXXFLAGS=$gw_saved_CXXFLAGS
AC_LANG_POP([C++])
dnl a cross build finds this machine's compiler where the other's is not here
AS_IF([test "x$gw_emulated_cuda" = xyes], [
  gw_saved_LIBS=$LIBS LIBS="conftest_kernel.$OBJEXT $LIBS"
  AC_MSG_CHECKING([whether $CC links what $CXX compiles])
  AC_LINK_IFELSE([AC_LANG_PROGRAM([[int gw_kernel(int *x);]],
      [[int one = 1; return gw_kernel(&one);]])], [],
    [gw_emulated_cuda=no gw_emulated_cuda_why="$CC links nothing that $CXX compiles (CXX=)"])
  AC_MSG_RESULT([$gw_emulated_cuda])
  LIBS=$gw_saved_LIBS])
rm -f conftest_kernel.$OBJEXT
AS_IF([test "x$enable_werror" = xyes],
  [GW_EMULATED_CXXFLAGS="$GW_EMULATED_CXXFLAGS -Werror"])
AC_SUBST([GW_EMULATED_CXXFLAGS])
AM_CONDITIONAL([HAVE_EMULATED_CUDA], [test "x$gw_emulated_cuda" = xyes])
AS_IF([test "x$gw_emulated_cuda" = xyes],
  [GW_REPORT([emulated CUDA], [yes, for tests])],
  [GW_REPORT([emulated CUDA], [no: $gw_emulated_cuda_why])])
