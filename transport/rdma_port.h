/*
 * What only the device itself says of its ports, for `gradweir doctor`; what
 * else there is to know stands in files of the system.
 */
#ifndef GW_TRANSPORT_RDMA_PORT_H
#define GW_TRANSPORT_RDMA_PORT_H

/*
 * The path MTU in bytes that a port has now, and the largest that it can have.
 * 0: it cannot be asked, as in a program without rdma-core. Thread: any.
 */
unsigned
gw_rdma_port_mtu(const char *device, unsigned number, unsigned *most_p);

#endif
