#include "config.h"

#include "tests/unit/pin_hosts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

const struct gw_pin_host *
host_of(uint32_t nodes, uint32_t cores, uint32_t siblings)
{
    static struct gw_pin_host host;
    uint32_t all = nodes * cores;
    memset(&host, 0, sizeof host);
    host.nodes = nodes;
    host.cores = all;
    for (uint32_t i = 0; i < nodes; i++)
        host.number[i] = i;
    for (uint32_t i = 0; i < all; i++) {
        host.core[i].node = (uint8_t)(i / cores);
        host.core[i].cpus = (uint8_t)siblings;
        for (uint32_t s = 0; s < siblings; s++)
            host.core[i].cpu[s] = (uint16_t)(i + s * all);
    }
    return &host;
}

void check_cpus(const struct gw_cpus *cpus, const char *wanted)
{
    char text[128];
    gw_cpus_print(cpus, text, sizeof text);
    assert_string_equal(text, wanted);
}

uint32_t count_cpus(const struct gw_cpus *cpus)
{
    uint32_t n = 0;
    for (uint32_t cpu = 0; cpu < GW_PIN_CPUS_MAX; cpu++)
        n += (uint32_t)gw_cpus_has(cpus, cpu);
    return n;
}
