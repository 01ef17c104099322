dnl kernels: modules of devices are loaded when they are wanted.
AC_SEARCH_LIBS([dlopen], [dl])

dnl any CBLAS will do; OpenBLAS is the fastest of what Debian ships.
AC_ARG_WITH([blas], [AS_HELP_STRING([--with-blas=MODULE],
  [pkg-config module of the CBLAS to link (default: openblas)])], [], [with_blas=openblas])
GW_NEED([BLAS], [$with_blas], [libopenblas-dev], [matrix products on the CPU])
gw_saved_CPPFLAGS=$CPPFLAGS gw_saved_LIBS=$LIBS
CPPFLAGS="$CPPFLAGS $BLAS_CFLAGS" LIBS="$BLAS_LIBS $LIBS"
AC_CHECK_FUNC([cblas_sgemm], [],
  [AC_MSG_ERROR([$with_blas has no cblas_sgemm: choose a CBLAS, such as --with-blas=openblas])])
gw_openblas=yes
AC_CHECK_DECLS([openblas_set_num_threads, openblas_get_corename],
  [], [gw_openblas=no], [[#include <cblas.h>]])
AC_CHECK_FUNC([openblas_get_corename], [], [gw_openblas=no])
CPPFLAGS=$gw_saved_CPPFLAGS LIBS=$gw_saved_LIBS
AM_CONDITIONAL([HAVE_OPENBLAS], [test "x$gw_openblas" = xyes])
gw_blas_version=$($PKG_CONFIG --modversion $with_blas)
AC_DEFINE_UNQUOTED([GW_BLAS_NAME], ["$with_blas $gw_blas_version"], [The CBLAS, in words])
AS_IF([test "x$gw_openblas" = xyes],
  [GW_REPORT([blas], [$with_blas $gw_blas_version])],
  [GW_REPORT([blas], [$with_blas $gw_blas_version (cannot set its threads: use its own variables)])])
GW_REPORT([devices], [cpu])
