noinst_LIBRARIES += libtransport.a
libtransport_a_SOURCES = \
	%D%/address.c \
	%D%/address.h \
	%D%/backlog.c \
	%D%/backlog.h \
	%D%/channel.c \
	%D%/channel.h \
	%D%/disk_posix.c \
	%D%/door.c \
	%D%/door.h \
	%D%/fiber_tell.h \
	%D%/heap.c \
	%D%/heap.h \
	%D%/interface.c \
	%D%/interface.h \
	%D%/life.c \
	%D%/life.h \
	%D%/loop.c \
	%D%/loop.h \
	%D%/loop_uv.c \
	%D%/loop_uv.h \
	%D%/loop_uv_look.c \
	%D%/loop_uv_share.c \
	%D%/loop_uv_turn.c \
	%D%/member.c \
	%D%/member.h \
	%D%/member_peer.c \
	%D%/member_peer_way.c \
	%D%/member_state.h \
	%D%/member_way.c \
	%D%/memory.c \
	%D%/memory.h \
	%D%/rdma_choose.c \
	%D%/rdma_flight.c \
	%D%/rdma_flight.h \
	%D%/rdma_memory.h \
	%D%/rdma_port.h \
	%D%/remote.c \
	%D%/remote.h \
	%D%/settle.c \
	%D%/settle.h \
	%D%/shm.c \
	%D%/shm.h \
	%D%/shm_host.c \
	%D%/shm_login.c \
	%D%/shm_memory.c \
	%D%/shm_poll.c \
	%D%/shm_read.c \
	%D%/shm_socket.c \
	%D%/shm_write.c \
	%D%/sim.c \
	%D%/sim.h \
	%D%/sim_disk.c \
	%D%/sim_fiber.c \
	%D%/sim_flight.c \
	%D%/sim_host.c \
	%D%/sim_link.c \
	%D%/sim_link.h \
	%D%/sim_login.c \
	%D%/sim_loop.c \
	%D%/sim_mail.c \
	%D%/sim_queue.c \
	%D%/sim_region.c \
	%D%/sim_window.c \
	%D%/sim_world.h \
	%D%/socket.c \
	%D%/socket.h \
	%D%/tcp.c \
	%D%/tcp.h \
	%D%/tcp_address.c \
	%D%/tcp_flight.c \
	%D%/tcp_flight.h \
	%D%/tcp_local.c \
	%D%/tcp_login.c \
	%D%/tcp_read.c \
	%D%/tcp_write.c \
	%D%/transport.c \
	%D%/transport.h \
	%D%/window.c \
	%D%/window.h
if HAVE_RDMA
libtransport_a_SOURCES += \
	%D%/rdma.c \
	%D%/rdma.h \
	%D%/rdma_device.c \
	%D%/rdma_domain.c \
	%D%/rdma_end.c \
	%D%/rdma_host.c \
	%D%/rdma_login.c \
	%D%/rdma_memory.c \
	%D%/rdma_poll.c \
	%D%/rdma_read.c \
	%D%/rdma_write.c
else
libtransport_a_SOURCES += %D%/rdma_absent.c
endif
EXTRA_DIST += %D%/configure.m4
