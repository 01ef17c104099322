dnl transport: libuv carries the loop; rdma-core is welcome, and can be absent.
GW_NEED([UV], [libuv >= 1.44], [libuv1-dev], [the event loop])
AC_ARG_WITH([rdma], [AS_HELP_STRING([--with-rdma=auto|yes|no],
  [the rdma transport, over librdmacm and libibverbs (default: auto)])], [], [with_rdma=auto])
gw_rdma=no gw_rdma_why="not asked for"
AS_IF([test "x$with_rdma" != xno], [
  PKG_CHECK_MODULES([RDMA], [librdmacm libibverbs], [gw_rdma=yes],
    [gw_rdma_why="librdmacm and libibverbs are missing: apt-get install librdmacm-dev libibverbs-dev"])])
AS_IF([test "x$gw_rdma" = xyes], [
  gw_saved_LIBS=$LIBS
  LIBS="$RDMA_LIBS $LIBS"
  AC_CHECK_FUNCS([rdma_establish ibv_reg_mr_iova ibv_reg_dmabuf_mr], [],
    [gw_rdma=no gw_rdma_why="rdma-core is too old: 34 is needed"])
  LIBS=$gw_saved_LIBS])
AS_IF([test "x$with_rdma" = xyes && test "x$gw_rdma" = xno],
  [AC_MSG_ERROR([--with-rdma was asked for, but $gw_rdma_why])])
AS_IF([test "x$gw_rdma" = xno], [RDMA_CFLAGS="" RDMA_LIBS=""])
AC_SUBST([RDMA_CFLAGS])
AC_SUBST([RDMA_LIBS])
AM_CONDITIONAL([HAVE_RDMA], [test "x$gw_rdma" = xyes])
AS_IF([test "x$gw_rdma" = xyes],
  [gw_rdma_words="rdma (rdma-core $($PKG_CONFIG --modversion libibverbs | sed "s/^1\.@<:@0-9@:>@*\.//"))"],
  [gw_rdma_words="no rdma ($gw_rdma_why)"
   AS_IF([test "x$with_rdma" = xauto], [AC_MSG_WARN([$gw_rdma_words])])])
GW_REPORT([transports], [shm, tcp (libuv $($PKG_CONFIG --modversion libuv)), sim, $gw_rdma_words])
