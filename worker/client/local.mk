libworker_a_SOURCES += \
	%D%/client.c \
	%D%/client.h \
	%D%/client_catch_up.c \
	%D%/client_chunk.c \
	%D%/client_connect.c \
	%D%/client_cut.c \
	%D%/client_decision.c \
	%D%/client_files.c \
	%D%/client_handler.c \
	%D%/client_host_group.c \
	%D%/client_host_group.h \
	%D%/client_host_group_state.h \
	%D%/client_landing.c \
	%D%/client_options.h \
	%D%/client_out.c \
	%D%/client_policy.c \
	%D%/client_push.c \
	%D%/client_reduce.c \
	%D%/client_reduce.h \
	%D%/client_reduce_nvlink.c \
	%D%/client_reduce_shm.c \
	%D%/client_report.c \
	%D%/client_save.c \
	%D%/client_session.c \
	%D%/client_shard.c \
	%D%/client_split.c \
	%D%/client_stall.c \
	%D%/client_state.h \
	%D%/client_sum.c \
	%D%/client_tell.c \
	%D%/client_terms.c \
	%D%/client_terms.h \
	%D%/client_wait.c \
	%D%/client_want.c \
	%D%/client_weights.c
EXTRA_DIST += %D%/README.md
