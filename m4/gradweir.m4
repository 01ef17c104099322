dnl Macros shared by the rooms' configure.m4 files.

dnl GW_NEED(VARIABLE, MODULE, DEBIAN-PACKAGE, WHAT-FOR)
dnl A library without which there is no program: stop, and name the package, or
dnl the version that is too old.
AC_DEFUN([GW_NEED], [
  PKG_CHECK_MODULES([$1], [$2], [],
    [gw_module="$2"
     gw_found=$($PKG_CONFIG --modversion ${gw_module%% *} 2>/dev/null)
     AS_IF([test -n "$gw_found"],
       [AC_MSG_ERROR([$2 is needed for $4; here is $gw_found, Debian 12 and Ubuntu 24.04 have a newer one])],
       [AC_MSG_ERROR([$2 is missing: it is needed for $4. On Debian or Ubuntu: apt-get install $3])])])
])

dnl GW_REPORT(NAME, WHAT): one line of the summary at the end.
AC_DEFUN([GW_REPORT], [gw_report="$gw_report
  $(printf '%-14s' '$1') $2"])

AC_DEFUN([GW_SUMMARY], [
AC_MSG_NOTICE([
gradweir $PACKAGE_VERSION
$gw_report

Now: make, make check, make install.
])])

dnl GW_SWITCH(NAME, HELP, FLAG): a sanitizer switch, tried at link time so that
dnl a missing runtime is named here and not in the middle of the build.
AC_DEFUN([GW_SWITCH], [
  AC_ARG_ENABLE([$1], [AS_HELP_STRING([--enable-$1], [$2])], [], [enable_$1=no])
  AS_IF([test "x$enable_$1" = xyes], [
    gw_saved_CFLAGS=$CFLAGS
    CFLAGS="$CFLAGS $3"
    AC_MSG_CHECKING([whether programs link with $3])
    AC_LINK_IFELSE([AC_LANG_PROGRAM([], [])], [AC_MSG_RESULT([yes])],
      [AC_MSG_RESULT([no])
       AC_MSG_ERROR([--enable-$1 was asked for, but $CC cannot link with $3; install its runtime])])
    CFLAGS=$gw_saved_CFLAGS
    GW_CFLAGS="$GW_CFLAGS $3"
    gw_sanitizers="$gw_sanitizers $1"
  ])
])

dnl Flags of our own stay in GW_CFLAGS; the user's CFLAGS come last and win.
AC_DEFUN([GW_COMPILER], [
  GW_CFLAGS="-std=c17 -O3 -g -fno-strict-overflow -fno-math-errno -ffp-contract=off -fstack-protector-strong -fPIC -fvisibility=hidden"
  GW_WARNINGS="-Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wconversion -Wvla"
  AC_ARG_ENABLE([werror], [AS_HELP_STRING([--enable-werror],
    [make warnings errors (default: only in a git checkout)])], [],
    [AS_IF([test -e "$srcdir/.git"], [enable_werror=yes], [enable_werror=no])])
  AS_IF([test "x$enable_werror" = xyes], [GW_WARNINGS="$GW_WARNINGS -Werror"])
  gw_report=""
  gw_sanitizers=""
  GW_SWITCH([asan], [build with the address sanitizer], [-fsanitize=address -fno-omit-frame-pointer])
  GW_SWITCH([ubsan], [build with the undefined-behaviour sanitizer], [-fsanitize=undefined -fno-sanitize-recover=undefined])
  GW_SWITCH([tsan], [build with the thread sanitizer], [-fsanitize=thread])
  AC_SUBST([GW_CFLAGS])
  AC_SUBST([GW_WARNINGS])
  dnl A shared object must not have undefined symbols; sanitizers' are in the program.
  GW_SHARED_LDFLAGS="-shared"
  AS_IF([test "x$gw_sanitizers" = x && test "x$enable_fuzz" != xyes],
    [GW_SHARED_LDFLAGS="$GW_SHARED_LDFLAGS -Wl,-z,defs"])
  AC_SUBST([GW_SHARED_LDFLAGS])
  GW_REPORT([compiler], [$CC, sanitizers:${gw_sanitizers:- none}])
])

dnl A build for another machine than this one: programs cannot run here, unless
dnl something is named that runs them.
AC_DEFUN([GW_CROSS], [
  AC_ARG_WITH([emulator], [AS_HELP_STRING([--with-emulator=COMMAND],
    [what runs programs of a cross build here, for the manual page and the tests, such as "qemu-aarch64 -L DIR" (default: none)])],
    [], [with_emulator=no])
  GW_EMULATOR=""
  AS_CASE([$with_emulator], [yes], [AC_MSG_ERROR([--with-emulator takes a command])],
    [no], [], [GW_EMULATOR=$with_emulator])
  AC_SUBST([GW_EMULATOR])
  AM_CONDITIONAL([RUNS_HERE],
    [test "x$cross_compiling" != xyes || test -n "$GW_EMULATOR"])
  AS_IF([test "x$cross_compiling" = xyes],
    [AS_IF([test -n "$GW_EMULATOR"],
      [GW_REPORT([cross build], [for $host_alias, run by $GW_EMULATOR])],
      [GW_REPORT([cross build], [for $host_alias: no manual page, no tests here (--with-emulator=COMMAND)])])])
])
