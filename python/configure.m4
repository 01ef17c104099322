dnl python: modules that are installed where there is a Python; nothing is built.
AM_PATH_PYTHON([3.9], [], [:])
AM_CONDITIONAL([HAVE_PYTHON], [test "x$PYTHON" != x:])
dnl Below the prefix, where that Python looks by itself: Debian's has other names
dnl than automake expects. Elsewhere PYTHONPATH is needed.
AM_COND_IF([HAVE_PYTHON], [
  gw_prefix=$prefix
  AS_IF([test "x$gw_prefix" = xNONE], [gw_prefix=$ac_default_prefix])
  gw_site=$($PYTHON -c ['import site, sys
here = [path for path in site.getsitepackages() if path.startswith(sys.argv[1] + "/")]
print("${prefix}" + min(here, key=len)[len(sys.argv[1]):] if here else "")'] "$gw_prefix" 2>/dev/null)
  AS_IF([test -n "$gw_site"], [pythondir=$gw_site])
  GW_REPORT([python], [modules are installed in $pythondir])
], [GW_REPORT([python], [modules are not installed: no Python 3.9 or newer])])
