noinst_LIBRARIES += libworker.a
libworker_a_SOURCES = \
	%D%/device.c \
	%D%/need.c \
	%D%/need.h \
	%D%/need_device.c \
	%D%/pass.c \
	%D%/step.c \
	%D%/tune.c \
	%D%/worker.c \
	%D%/worker.h \
	%D%/worker_state.h
include %D%/client/local.mk
include %D%/data/local.mk
include %D%/library/local.mk
include %D%/model/local.mk
include %D%/trainer/local.mk
EXTRA_DIST += %D%/configure.m4 %D%/README.md
