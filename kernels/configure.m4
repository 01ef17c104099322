dnl kernels: any CBLAS will do; OpenBLAS is the fastest of what Debian ships.
AC_ARG_WITH([blas], [AS_HELP_STRING([--with-blas=MODULE],
  [pkg-config module of the CBLAS to link (default: openblas)])], [], [with_blas=openblas])
GW_NEED([BLAS], [$with_blas], [libopenblas-dev], [matrix products on the CPU])
GW_REPORT([blas], [$with_blas $($PKG_CONFIG --modversion $with_blas)])
GW_REPORT([devices], [cpu])
