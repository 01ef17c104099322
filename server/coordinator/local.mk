libserver_a_SOURCES += \
	%D%/coordinator.c \
	%D%/coordinator.h \
	%D%/coordinator_ahead.c \
	%D%/coordinator_ctl.c \
	%D%/coordinator_decline.c \
	%D%/coordinator_end.c \
	%D%/coordinator_fault.c \
	%D%/coordinator_files.c \
	%D%/coordinator_group.c \
	%D%/coordinator_inner.c \
	%D%/coordinator_join.c \
	%D%/coordinator_keep.c \
	%D%/coordinator_look.c \
	%D%/coordinator_origin.c \
	%D%/coordinator_run.c \
	%D%/coordinator_split.c \
	%D%/coordinator_tell.c \
	%D%/coordinator_state.h \
	%D%/coordinator_strangers.c \
	%D%/coordinator_switch.c \
	%D%/coordinator_watch.c
EXTRA_DIST += %D%/README.md
