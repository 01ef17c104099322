dnl tests: cmocka runs the unit tests; without it the program still builds.
PKG_CHECK_MODULES([CMOCKA], [cmocka >= 1.1.5], [have_cmocka=yes], [have_cmocka=no])
AM_CONDITIONAL([HAVE_CMOCKA], [test "x$have_cmocka" = xyes])
AS_IF([test "x$have_cmocka" = xyes],
  [GW_REPORT([tests], [yes (cmocka)])],
  [GW_REPORT([tests], [no: cmocka is missing (apt-get install libcmocka-dev)])])
