libtransport_a_SOURCES += \
	%D%/fiber_tell.h \
	%D%/sim.c \
	%D%/sim.h \
	%D%/sim_call.c \
	%D%/sim_caller.c \
	%D%/sim_disk.c \
	%D%/sim_draw.c \
	%D%/sim_fiber.c \
	%D%/sim_flight.c \
	%D%/sim_host.c \
	%D%/sim_incoming.c \
	%D%/sim_link.c \
	%D%/sim_link.h \
	%D%/sim_login.c \
	%D%/sim_loop.c \
	%D%/sim_mail.c \
	%D%/sim_process.c \
	%D%/sim_queue.c \
	%D%/sim_region.c \
	%D%/sim_window.c \
	%D%/sim_world.h
EXTRA_DIST += %D%/README.md
