dnl cli: hwloc says where cores, GPUs and NICs are, for worker.pin and server.pin.
AC_ARG_WITH([hwloc], [AS_HELP_STRING([--with-hwloc=auto|yes|no],
  [binding threads to cores, over hwloc (default: auto)])], [], [with_hwloc=auto])
dnl a folder, or a slip, is asked for as well
AS_CASE([$with_hwloc], [auto|no], [], [with_hwloc=yes])
gw_hwloc=no gw_hwloc_why="not asked for"
AS_IF([test "x$with_hwloc" != xno], [
  PKG_CHECK_MODULES([HWLOC], [hwloc], [gw_hwloc=yes],
    [gw_hwloc_why="hwloc is missing: apt-get install libhwloc-dev"])])
AS_IF([test "x$gw_hwloc" = xyes], [
  gw_saved_LIBS=$LIBS
  LIBS="$HWLOC_LIBS $LIBS"
  AC_CHECK_FUNCS([hwloc_cpukinds_get_by_cpuset hwloc_topology_set_components], [],
    [gw_hwloc=no gw_hwloc_why="hwloc is too old: 2.4 is needed"])
  LIBS=$gw_saved_LIBS])
AS_IF([test "x$with_hwloc" = xyes && test "x$gw_hwloc" = xno],
  [AC_MSG_ERROR([--with-hwloc was asked for, but $gw_hwloc_why])])
AS_IF([test "x$gw_hwloc" = xno], [HWLOC_CFLAGS="" HWLOC_LIBS=""])
AC_SUBST([HWLOC_CFLAGS])
AC_SUBST([HWLOC_LIBS])
AM_CONDITIONAL([HAVE_HWLOC], [test "x$gw_hwloc" = xyes])
AS_IF([test "x$gw_hwloc" = xyes],
  [gw_hwloc_version=$($PKG_CONFIG --modversion hwloc)
   AC_DEFINE_UNQUOTED([GW_HWLOC_NAME], ["hwloc $gw_hwloc_version"], [The hwloc, in words])
   GW_REPORT([cores], [worker.pin, server.pin (hwloc $gw_hwloc_version)])],
  [AS_IF([test "x$with_hwloc" = xauto], [AC_MSG_WARN([no worker.pin, server.pin ($gw_hwloc_why)])])
   GW_REPORT([cores], [no worker.pin, server.pin ($gw_hwloc_why)])])
