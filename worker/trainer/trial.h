/*
 * The test of a device that is to read another worker's device. On some
 * machines memory of another GPU opens and is read without an error, but the
 * bytes are others (PCIe behind an IOMMU or with ACS); on some host memory is
 * the faster way. So each worker leaves numbers of a nonce in memory that it
 * shows, and each reads the numbers of all others in both ways in which sums
 * read them, and compares, before it says that it finds them.
 */
#ifndef GW_WORKER_TRIAL_H
#define GW_WORKER_TRIAL_H

#include "kernels/kernels.h"
#include "transport/link/loop.h"

#define GW_TRIAL_BYTES ((size_t)4 << 20)

/* Zeroed, it is not open. */
struct gw_trial {
    const struct gw_backend_ops *ops;
    struct gw_device *device;
    void *numbers; /* GW_TRIAL_BYTES on the device */
    uint64_t nonce;
    uint8_t words[GW_MEMORY_WORDS]; /* for others to see them */
};

/* Non-zero if there is anything to try: devices with memory of their own.
   Processors read arenas in host memory as they read all else. */
int gw_trial_is_due(const struct gw_backend_ops *ops);

/* Leaves the numbers on that device. 0: it has no memory for them, or shows it
   to nobody; nothing is open then. */
int gw_trial_open(struct gw_trial *trial,
                  const struct gw_backend_ops *ops,
                  struct gw_device *device);
/* Called when all have read them. */
void gw_trial_close(struct gw_trial *trial);

/*
 * Reads the numbers of another worker, in some milliseconds on a device, and
 * far more on an emulated one: `loop`, in a turn of which it is called, sends
 * heartbeats between its passes. GW_EUNSUPPORTED with a line: the device does
 * not reach them, reads other numbers there, or is slower than through host
 * memory; GW_ENOMEM and GW_EIO, of the device. The group then sums in another
 * way.
 */
enum gw_status gw_trial_read(const struct gw_backend_ops *ops,
                             struct gw_device *device,
                             const uint8_t words[GW_MEMORY_WORDS],
                             uint64_t nonce,
                             struct gw_loop *loop,
                             struct gw_error *error);

#endif
