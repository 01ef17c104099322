noinst_LIBRARIES += libworker.a
libworker_a_SOURCES = \
	%D%/need.c \
	%D%/need_device.c \
	%D%/need.h \
	%D%/plan.c \
	%D%/plan.h \
	%D%/report.c \
	%D%/step.c \
	%D%/trial.c \
	%D%/trial.h \
	%D%/tune.c \
	%D%/worker.c \
	%D%/worker.h \
	%D%/worker_state.h
include %D%/client/local.mk
include %D%/data/local.mk
include %D%/model/local.mk
include %D%/trainer/local.mk
EXTRA_DIST += %D%/configure.m4 %D%/README.md
