noinst_LIBRARIES += libkernels.a
libkernels_a_SOURCES = \
	%D%/isa.h \
	%D%/measure.c \
	%D%/measure.h \
	%D%/update.c \
	%D%/update.h \
	%D%/update_isa.c \
	%D%/update_isa.h
EXTRA_DIST += %D%/configure.m4
