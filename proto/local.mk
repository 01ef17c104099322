noinst_LIBRARIES += libproto.a
libproto_a_SOURCES = \
	%D%/login.c \
	%D%/login.h \
	%D%/random.c \
	%D%/random.h \
	%D%/status.c \
	%D%/status.h \
	%D%/wire.c \
	%D%/wire.h
EXTRA_DIST += %D%/configure.m4
