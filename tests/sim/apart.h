/*
 * A device of the simulator's workers: it computes as the cpu does, in memory
 * of its own, which those of other workers see. What is queued is done at once.
 */
#ifndef GW_TESTS_SIM_APART_H
#define GW_TESTS_SIM_APART_H

#include "kernels/kernels.h"

/* Until the end of the process. */
const struct gw_backend_ops *apart_device(void);

/* How often one has copied what another had. */
uint64_t apart_takes(void);

#endif
