libserver_a_SOURCES += \
	%D%/begin.c \
	%D%/begin.h \
	%D%/begin_steps.c \
	%D%/checkpoint.c \
	%D%/checkpoint.h \
	%D%/exchange.c \
	%D%/json.c \
	%D%/json.h \
	%D%/manifest.c \
	%D%/manifest.h \
	%D%/membership.c \
	%D%/membership.h \
	%D%/store.c \
	%D%/store.h \
	%D%/store_list.c \
	%D%/store_write.c \
	%D%/tensors.c \
	%D%/tensors.h
EXTRA_DIST += %D%/README.md
