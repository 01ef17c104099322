libworker_a_SOURCES += \
	%D%/dataset.c \
	%D%/dataset.h \
	%D%/dataset_batch.c \
	%D%/dataset_cifar.c \
	%D%/dataset_file.c \
	%D%/dataset_format.h \
	%D%/dataset_idx.c \
	%D%/dataset_kind.c \
	%D%/dataset_npy.c \
	%D%/dataset_number.c \
	%D%/dataset_number.h \
	%D%/feed.c \
	%D%/feed.h
EXTRA_DIST += %D%/README.md
