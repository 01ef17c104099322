noinst_LIBRARIES += libserver.a
libserver_a_SOURCES =
EXTRA_DIST += %D%/configure.m4
