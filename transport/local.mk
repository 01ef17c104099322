noinst_LIBRARIES += libtransport.a
libtransport_a_SOURCES =
EXTRA_DIST += %D%/configure.m4
