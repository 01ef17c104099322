noinst_LIBRARIES += libserver.a
libserver_a_SOURCES = \
	%D%/begin.c \
	%D%/begin.h \
	%D%/checkpoint.c \
	%D%/checkpoint.h \
	%D%/coordinator.c \
	%D%/coordinator.h \
	%D%/coordinator_end.c \
	%D%/coordinator_files.c \
	%D%/coordinator_inner.c \
	%D%/coordinator_join.c \
	%D%/coordinator_keep.c \
	%D%/coordinator_run.c \
	%D%/coordinator_state.h \
	%D%/coordinator_watch.c \
	%D%/decision.c \
	%D%/decision.h \
	%D%/decision_count.c \
	%D%/decision_meet.c \
	%D%/decision_state.h \
	%D%/each.c \
	%D%/exchange.c \
	%D%/follow.c \
	%D%/load.c \
	%D%/manifest.c \
	%D%/manifest.h \
	%D%/policy.c \
	%D%/policy.h \
	%D%/quorum.c \
	%D%/save.c \
	%D%/server.c \
	%D%/server.h \
	%D%/server_state.h \
	%D%/session.c \
	%D%/shard.c \
	%D%/shard.h \
	%D%/stall.c \
	%D%/step.c \
	%D%/store.c \
	%D%/store.h \
	%D%/store_write.c \
	%D%/tensors.c \
	%D%/tensors.h \
	%D%/want.c \
	%D%/want.h
EXTRA_DIST += %D%/configure.m4
