libtransport_a_SOURCES += \
	%D%/shm.c \
	%D%/shm.h \
	%D%/shm_export.c \
	%D%/shm_host.c \
	%D%/shm_link.c \
	%D%/shm_login.c \
	%D%/shm_memory.c \
	%D%/shm_poll.c \
	%D%/shm_read.c \
	%D%/shm_receive.c \
	%D%/shm_socket.c \
	%D%/shm_write.c
EXTRA_DIST += %D%/README.md
