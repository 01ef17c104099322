libtransport_a_SOURCES += \
	%D%/tcp.c \
	%D%/tcp.h \
	%D%/tcp_address.c \
	%D%/tcp_flight.c \
	%D%/tcp_flight.h \
	%D%/tcp_local.c \
	%D%/tcp_login.c \
	%D%/tcp_read.c \
	%D%/tcp_write.c
EXTRA_DIST += %D%/README.md
