libtransport_a_SOURCES += \
	%D%/rdma_choose.c \
	%D%/rdma_flight.c \
	%D%/rdma_flight.h \
	%D%/rdma_memory.h \
	%D%/rdma_port.h
if HAVE_RDMA
libtransport_a_SOURCES += \
	%D%/rdma.c \
	%D%/rdma.h \
	%D%/rdma_complete.c \
	%D%/rdma_device.c \
	%D%/rdma_domain.c \
	%D%/rdma_end.c \
	%D%/rdma_fail.c \
	%D%/rdma_host.c \
	%D%/rdma_library.c \
	%D%/rdma_library.h \
	%D%/rdma_link.c \
	%D%/rdma_login.c \
	%D%/rdma_memory.c \
	%D%/rdma_poll.c \
	%D%/rdma_read.c \
	%D%/rdma_sent.c \
	%D%/rdma_write.c
else
libtransport_a_SOURCES += %D%/rdma_absent.c
endif
EXTRA_DIST += %D%/README.md
