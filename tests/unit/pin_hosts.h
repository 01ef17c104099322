/* Artificial hosts, for tests of pin.h. */
#ifndef GW_TESTS_PIN_HOSTS_H
#define GW_TESTS_PIN_HOSTS_H

#include "cli/host/pin.h"

/* Cpus as Linux numbers them: first every core's first, then the siblings.
   Until the next call. */
const struct gw_pin_host *
host_of(uint32_t nodes, uint32_t cores, uint32_t siblings);

/* As gw_cpus_print has them. */
void check_cpus(const struct gw_cpus *cpus, const char *wanted);

uint32_t count_cpus(const struct gw_cpus *cpus);

#endif
