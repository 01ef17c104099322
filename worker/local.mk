noinst_LIBRARIES += libworker.a
libworker_a_SOURCES =
EXTRA_DIST += %D%/configure.m4
