dnl kernels: device modules are loaded on demand.
AC_SEARCH_LIBS([dlopen], [dl])

dnl Any CBLAS works; OpenBLAS is the fastest one in Debian.
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
dnl It is loaded at run time, by the name that a program linked with it needs.
AC_CHECK_TOOL([READELF], [readelf], [:])
AC_MSG_CHECKING([for the file of $with_blas])
LIBS="-Wl,--as-needed $LIBS"
AC_LINK_IFELSE([AC_LANG_CALL([], [cblas_sgemm])],
  [gw_blas_file=$($READELF -d conftest$EXEEXT |
    sed -n ['s/.*(NEEDED).*\[\(.*\)\]/\1/p'] | grep -vE ['^(libc|libm|ld-.*)[.]'] | head -n 1)],
  [gw_blas_file=])
AC_MSG_RESULT([${gw_blas_file:-none}])
AS_IF([test -z "$gw_blas_file"],
  [AC_MSG_ERROR([$with_blas is no shared library, which the program loads: install one])])
AC_DEFINE_UNQUOTED([GW_BLAS_FILE], ["$gw_blas_file"], [The file of the CBLAS, as it is loaded])
CPPFLAGS=$gw_saved_CPPFLAGS LIBS=$gw_saved_LIBS
AM_CONDITIONAL([HAVE_OPENBLAS], [test "x$gw_openblas" = xyes])
gw_blas_version=$($PKG_CONFIG --modversion $with_blas)
AC_DEFINE_UNQUOTED([GW_BLAS_NAME], ["$with_blas $gw_blas_version"], [The CBLAS, in words])
AS_IF([test "x$gw_openblas" = xyes],
  [GW_REPORT([blas], [$with_blas $gw_blas_version])],
  [GW_REPORT([blas], [$with_blas $gw_blas_version (cannot set its threads: use its own variables)])])

dnl The backend of GPUs is a module that the program loads where a driver is: the
dnl program itself is linked with nothing of CUDA.
AC_ARG_WITH([cuda], [AS_HELP_STRING([--with-cuda=auto|yes|no|DIR],
  [the module for NVIDIA GPUs, with CUDA in DIR (default: auto, nvcc in PATH or in /usr/local/cuda)])],
  [], [with_cuda=auto])
AC_ARG_WITH([cuda-arch], [AS_HELP_STRING([--with-cuda-arch=LIST],
  [compute capabilities to compile for, such as 90 or 90a, the least first; the last one also for what comes after it (default: "80 90")])],
  [], [with_cuda_arch="80 90"])
dnl nvcc gets the letters (90a); only the numbers are compared.
gw_cuda_numbers=""
for gw_arch in $with_cuda_arch; do
  AS_CASE([$gw_arch], [@<:@1-9@:>@@<:@0-9@:>@|@<:@1-9@:>@@<:@0-9@:>@@<:@af@:>@|@<:@1-9@:>@@<:@0-9@:>@@<:@0-9@:>@|@<:@1-9@:>@@<:@0-9@:>@@<:@0-9@:>@@<:@af@:>@], [],
    [AC_MSG_ERROR([--with-cuda-arch="$with_cuda_arch": "$gw_arch" is no compute capability times ten, such as 80, 90 or 90a])])
  gw_arch=${gw_arch%@<:@af@:>@}
  AS_IF([test -n "$gw_cuda_numbers" && test "$gw_arch" -lt "$gw_cuda_most"],
    [AC_MSG_ERROR([--with-cuda-arch="$with_cuda_arch": name the least first])])
  gw_cuda_numbers="$gw_cuda_numbers${gw_cuda_numbers:+ }$gw_arch"
  gw_cuda_most=$gw_arch
done
AS_IF([test -z "$gw_cuda_numbers"], [AC_MSG_ERROR([--with-cuda-arch names no compute capability, such as 80])])
AC_ARG_VAR([NVCC], [CUDA's compiler])
AC_ARG_VAR([NVCCFLAGS], [flags of it, after our own])
gw_cuda=no gw_cuda_why="not asked for"
AS_CASE([$with_cuda],
  [no], [],
  [auto|yes], [gw_cuda=yes gw_cuda_where="PATH or /usr/local/cuda/bin"
    AC_PATH_PROG([NVCC], [nvcc], [], [$PATH:/usr/local/cuda/bin])],
  [gw_cuda=yes gw_cuda_where=$with_cuda/bin
    AC_PATH_PROG([NVCC], [nvcc], [], [$with_cuda/bin])])
AS_IF([test "x$gw_cuda" = xyes && test -z "$NVCC"],
  [gw_cuda=no gw_cuda_why="no nvcc in $gw_cuda_where"])
AS_IF([test "x$gw_cuda" = xyes], [
  gw_cuda_root=$(dirname "$(dirname "$(readlink -f "$NVCC")")")
  AS_IF([test -e "$gw_cuda_root/include/cublasLt.h" && test "x$gw_cuda_root" != x/usr],
    [CUDA_CPPFLAGS="-isystem $gw_cuda_root/include"])
  for gw_dir in lib64 targets/x86_64-linux/lib lib; do
    AS_IF([test -z "$gw_cuda_lib" && test -e "$gw_cuda_root/$gw_dir/libcublasLt.so"],
      [gw_cuda_lib=$gw_cuda_root/$gw_dir])
  done
  AS_CASE([$gw_cuda_lib], [""|/usr/lib*], [],
    [CUDA_LDFLAGS="-L$gw_cuda_lib -Wl,-rpath,$gw_cuda_lib"])
  CUDA_LIBS="-lcublasLt -lcudart_static -ldl -lrt -lpthread"
  GW_NVCCFLAGS="-std=c++17 -O3 -lineinfo"
  gw_cuda_archs=""
  for gw_arch in $with_cuda_arch; do
    GW_NVCCFLAGS="$GW_NVCCFLAGS -gencode arch=compute_$gw_arch,code=sm_$gw_arch"
    gw_cuda_archs="$gw_cuda_archs${gw_cuda_archs:+, }sm_$gw_arch"
  done
  dnl PTX for later GPUs: without a letter, which would restrict it to one GPU.
  GW_NVCCFLAGS="$GW_NVCCFLAGS -gencode arch=compute_$gw_cuda_most,code=compute_$gw_cuda_most"
  dnl The module must run without the C++ runtime.
  GW_NVCCFLAGS="$GW_NVCCFLAGS -Xcompiler -fPIC,-fvisibility=hidden,-fno-exceptions,-fno-rtti,-fno-threadsafe-statics,-Wall,-Wextra,-Wshadow"
  AS_IF([test "x$enable_werror" = xyes],
    [GW_NVCCFLAGS="$GW_NVCCFLAGS,-Werror -Werror all-warnings"])
  dnl Checks what only CUDA 12 has here, or the build would fail half-way.
  cat >conftest_cuda.cu <<'GW_END'
#include <cuda_runtime.h>
#if CUDART_VERSION < 12000
#error CUDA is older than 12.0
#endif
extern "C" cudaError_t gw_ready(cudaGraphExec_t *ready, cudaGraph_t graph)
{
    return cudaGraphInstantiate(ready, graph, 0);
}
static __global__ void one(float *x) { *x = 1; }
extern "C" int gw_launch(float *x)
{
    void *list@<:@@:>@ = {&x};
    return cudaLaunchKernel((const void *)one, dim3(1), dim3(1), list, 0, 0);
}
GW_END
  AC_MSG_CHECKING([whether $NVCC compiles for $gw_cuda_archs])
  AS_IF([AC_TRY_COMMAND([$NVCC $GW_NVCCFLAGS $NVCCFLAGS -c -o conftest_cuda.o conftest_cuda.cu >&AS_MESSAGE_LOG_FD 2>&1])],
    [AC_MSG_RESULT([yes])],
    [AC_MSG_RESULT([no])
     gw_cuda=no gw_cuda_why="$NVCC does not compile for $gw_cuda_archs, or is older than CUDA 12.0: see config.log"])])
AS_IF([test "x$gw_cuda" = xyes], [
  gw_saved_CPPFLAGS=$CPPFLAGS gw_saved_LIBS=$LIBS
  CPPFLAGS="$CPPFLAGS $CUDA_CPPFLAGS" LIBS="conftest_cuda.o $CUDA_LDFLAGS $CUDA_LIBS $LIBS"
  AC_MSG_CHECKING([whether programs link with cublasLt and cudart_static])
  AC_LINK_IFELSE([AC_LANG_PROGRAM([[
#include <cublasLt.h>
int gw_launch(float *x);
]], [[return gw_launch(0) || cublasLtGetVersion() == 0;]])],
    [AC_MSG_RESULT([yes])],
    [AC_MSG_RESULT([no])
     gw_cuda=no gw_cuda_why="cublasLt.h, libcublasLt or libcudart_static is not beside $NVCC: see config.log"])
  CPPFLAGS=$gw_saved_CPPFLAGS LIBS=$gw_saved_LIBS])
rm -f conftest_cuda.cu conftest_cuda.o
AS_IF([test "x$gw_cuda" = xno && test "x$with_cuda" != xno && test "x$with_cuda" != xauto],
  [AC_MSG_ERROR([--with-cuda was asked for, but $gw_cuda_why])])
AC_SUBST([GW_NVCCFLAGS])
AC_SUBST([CUDA_CPPFLAGS])
AC_SUBST([CUDA_LDFLAGS])
AC_SUBST([CUDA_LIBS])
AM_CONDITIONAL([HAVE_CUDA], [test "x$gw_cuda" = xyes])
AC_DEFINE_UNQUOTED([GW_CUDA_ARCHS], ["$gw_cuda_numbers"],
  [The compute capabilities that kernels are compiled for, times ten])
AC_DEFINE_UNQUOTED([GW_CUDA_LEAST], [${gw_cuda_numbers%% *}],
  [The least compute capability that kernels are compiled for, times ten])
AS_IF([test "x$gw_cuda" = xyes],
  [gw_cuda_version=$($NVCC --version | sed -n 's/^.*release \(@<:@0-9.@:>@*\).*$/\1/p')
   GW_REPORT([devices], [cpu, cuda (CUDA $gw_cuda_version, $gw_cuda_archs)])],
  [AS_IF([test "x$with_cuda" = xauto], [AC_MSG_WARN([no cuda ($gw_cuda_why)])])
   GW_REPORT([devices], [cpu, no cuda ($gw_cuda_why)])])
