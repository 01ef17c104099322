noinst_LIBRARIES += libserver.a
libserver_a_SOURCES = \
	%D%/behind.c \
	%D%/divide.c \
	%D%/due.c \
	%D%/due.h \
	%D%/each.c \
	%D%/follow.c \
	%D%/follow_fault.c \
	%D%/lend.c \
	%D%/load.c \
	%D%/measure.c \
	%D%/need.c \
	%D%/need.h \
	%D%/quorum.c \
	%D%/save.c \
	%D%/server.c \
	%D%/server.h \
	%D%/server_message.c \
	%D%/server_start.c \
	%D%/server_state.h \
	%D%/session.c \
	%D%/session_answer.c \
	%D%/session_open.c \
	%D%/session_update.c \
	%D%/shard.c \
	%D%/shard_arrays.c \
	%D%/shard.h \
	%D%/shard_update.c \
	%D%/shown.c \
	%D%/source.c \
	%D%/source.h \
	%D%/stall.c \
	%D%/step.c \
	%D%/sum.c \
	%D%/switch.c \
	%D%/tell.c \
	%D%/view.c \
	%D%/vote.c \
	%D%/want.c \
	%D%/want.h
include %D%/coordinator/local.mk
include %D%/policy/local.mk
include %D%/checkpoint/local.mk
EXTRA_DIST += %D%/configure.m4 %D%/README.md
