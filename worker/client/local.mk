libworker_a_SOURCES += \
	%D%/client.c \
	%D%/client.h \
	%D%/client_connect.c \
	%D%/client_control.c \
	%D%/client_data.c \
	%D%/client_even.c \
	%D%/client_far.c \
	%D%/client_files.c \
	%D%/client_landing.c \
	%D%/client_node.c \
	%D%/client_node.h \
	%D%/client_node_state.h \
	%D%/client_reduce.c \
	%D%/client_reduce.h \
	%D%/client_reduce_nvlink.c \
	%D%/client_reduce_shm.c \
	%D%/client_shown.c \
	%D%/client_split.c \
	%D%/client_state.h \
	%D%/client_sum.c \
	%D%/client_switch.c \
	%D%/client_wait.c
EXTRA_DIST += %D%/README.md
