noinst_LIBRARIES += libworker.a
libworker_a_SOURCES = \
	%D%/client.c \
	%D%/client.h \
	%D%/client_connect.c \
	%D%/client_control.c \
	%D%/client_data.c \
	%D%/client_even.c \
	%D%/client_files.c \
	%D%/client_node.c \
	%D%/client_node.h \
	%D%/client_node_state.h \
	%D%/client_split.c \
	%D%/client_state.h \
	%D%/client_sum.c \
	%D%/client_switch.c \
	%D%/client_wait.c \
	%D%/dataset.c \
	%D%/dataset.h \
	%D%/dataset_batch.c \
	%D%/dataset_cifar.c \
	%D%/dataset_file.c \
	%D%/dataset_format.h \
	%D%/dataset_idx.c \
	%D%/dataset_npy.c \
	%D%/feed.c \
	%D%/feed.h \
	%D%/inner.c \
	%D%/inner.h \
	%D%/local.c \
	%D%/mirror.c \
	%D%/mirror.h \
	%D%/model.c \
	%D%/model.h \
	%D%/model_layers.c \
	%D%/model_layers.h \
	%D%/model_pass.c \
	%D%/need.c \
	%D%/need.h \
	%D%/pace.c \
	%D%/pace.h \
	%D%/plan.c \
	%D%/plan.h \
	%D%/step.c \
	%D%/worker.c \
	%D%/worker.h \
	%D%/worker_state.h
EXTRA_DIST += %D%/configure.m4
