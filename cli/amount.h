/* Numbers with units in option values. Pure, any thread. */
#ifndef GW_CLI_AMOUNT_H
#define GW_CLI_AMOUNT_H

#include "proto/status.h"

enum gw_amount_kind {
    GW_AMOUNT_BYTES,   /* "80 GiB", "16GB" */
    GW_AMOUNT_SECONDS, /* "12 ms" */
    GW_AMOUNT_RATE,    /* "20 GB/s" */
    GW_AMOUNT_FLOPS,   /* "0.2 TFLOP/s" */
    GW_AMOUNT_COUNT    /* "124M", "7 G", or without a unit */
};

/* Parses a number above 0 into the base unit: bytes, seconds and so on.
   GW_EUSAGE with a line for `option` that lists the units; *value_p is
   unchanged then. */
enum gw_status gw_amount_parse(const char *option,
                               const char *text,
                               enum gw_amount_kind kind,
                               double *value_p,
                               struct gw_error *error);

#endif
