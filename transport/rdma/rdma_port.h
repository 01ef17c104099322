/*
 * Facts about ports that only the device can tell, for `gradweir doctor`; all
 * others are in files of the system.
 */
#ifndef GW_TRANSPORT_RDMA_PORT_H
#define GW_TRANSPORT_RDMA_PORT_H

#include <stddef.h>

#include "proto/status.h"

/*
 * The path MTU in bytes that a port has now, and the largest that it can have.
 * 0: it cannot be asked, as in a program without rdma-core. Thread: any.
 */
unsigned
gw_rdma_port_mtu(const char *device, unsigned number, unsigned *most_p);

/*
 * Tells how a device takes a GPU's memory, with a dma-buf or without. GW_OK:
 * `text` is the name of the way (rdma_memory.h); the device and the kernel were
 * asked, no GPU was. GW_EUNSUPPORTED: it does not, with the reason. GW_EIO: it
 * cannot be asked, with the reason. Thread: any.
 */
enum gw_status gw_rdma_gpu_memory(const char *device,
                                  int has_dma_buf,
                                  char *text,
                                  size_t text_bytes);

#endif
