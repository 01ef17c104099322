noinst_LIBRARIES += libserver.a
libserver_a_SOURCES = \
	%D%/safetensors.c \
	%D%/safetensors.h
EXTRA_DIST += %D%/configure.m4
