/*
 * The backend for GPUs, built for the emulated CUDA of tests/cuda. All its
 * orders of execution are valid, so they must give the same bits.
 */
#ifndef GW_TESTS_TABLE_EMULATED_H
#define GW_TESTS_TABLE_EMULATED_H

#include "kernels/kernels.h"
#include "tests/cuda/emulation.h"

/* One order of execution. */
struct emulated_way {
    const char *name;
    enum emulated_order order;
    enum emulated_pace pace;
};
#define EMULATED_WAYS 3
extern const struct emulated_way emulated_ways[EMULATED_WAYS];

/*
 * The module's backend, with counted downloads; NULL with the reason in words
 * if this build has none.
 */
const struct gw_backend_ops *emulated_backend(char *why, size_t why_bytes);
/* The emulation's controls; after emulated_backend. */
const struct emulated_cuda *emulated_control(void);

/* Opens a device, or fails the test; the caller closes it. */
struct gw_device *emulated_open(const struct gw_backend_ops *ops,
                                enum gw_precision precision);

/* Fills in numbers of few bits, different for each `from`. */
void emulated_fill(float *host, size_t elems, unsigned from);

/* Digest of all bytes downloaded since the last call. */
uint64_t emulated_digest(void);

/* Fails the test if the device still has something after its close. */
void emulated_assert_nothing_left(void);

#endif
