/* Descriptions of pin.h's decisions, for logs and the doctor. Pure; any
   thread. */
#ifndef GW_CLI_PIN_PRINT_H
#define GW_CLI_PIN_PRINT_H

#include "cli/host/pin.h"

#define GW_PIN_TEXT_MAX 512

/* Names of the things that cores can be near to; "": none. */
struct gw_pin_names {
    const char *gpu;     /* PCI address */
    const char *network; /* interfaces */
};

void gw_pin_print_worker(const struct gw_pin_host *host,
                         const struct gw_colocated *colocated,
                         const struct gw_pin_names *names,
                         const struct gw_pin_worker *pin,
                         char text[GW_PIN_TEXT_MAX]);

void gw_pin_print_shard(const struct gw_pin_host *host,
                        const struct gw_colocated *colocated,
                        const struct gw_pin_names *names,
                        const struct gw_pin_shard *pin,
                        char text[GW_PIN_TEXT_MAX]);

#endif
