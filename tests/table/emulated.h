/*
 * The backend for GPUs as built for the emulated CUDA of tests/cuda. Its orders
 * of execution are all right, so they must give the same bits.
 */
#ifndef GW_TESTS_TABLE_EMULATED_H
#define GW_TESTS_TABLE_EMULATED_H

#include "kernels/kernels.h"
#include "tests/cuda/emulation.h"

/* One way to execute what is queued. */
struct emulated_way {
    const char *name;
    enum emulated_order order;
    enum emulated_pace pace;
};
#define EMULATED_WAYS 3
extern const struct emulated_way emulated_ways[EMULATED_WAYS];

/*
 * The module's backend, whose downloads are counted; NULL with the reason in
 * words: this build has none.
 */
const struct gw_backend_ops *emulated_backend(char *why, size_t why_bytes);
/* What steers it, after that. */
const struct emulated_cuda *emulated_control(void);

/* A device of it, or the test fails; the caller's to close. */
struct gw_device *emulated_open(const struct gw_backend_ops *ops,
                                enum gw_precision precision);

/* Numbers of few bits, others for another `from`. */
void emulated_fill(float *host, size_t elems, unsigned from);

/* Of all bytes that were downloaded since the last call. */
uint64_t emulated_digest(void);

/* Fails the test if something is left on the device: after its close. */
void emulated_assert_nothing_left(void);

#endif
