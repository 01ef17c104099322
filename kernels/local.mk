noinst_LIBRARIES += libkernels.a
libkernels_a_SOURCES =
EXTRA_DIST += %D%/configure.m4
