noinst_LIBRARIES += libtransport.a
libtransport_a_SOURCES =
include %D%/link/local.mk
include %D%/member/local.mk
include %D%/tcp/local.mk
include %D%/shm/local.mk
include %D%/rdma/local.mk
include %D%/sim/local.mk
EXTRA_DIST += %D%/configure.m4 %D%/README.md
