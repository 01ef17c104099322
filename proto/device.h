/*
 * Names of devices: "auto", "cpu", "cuda", "cuda:1"; and the size of the text
 * that is kept of a tuned one. Pure, any thread.
 */
#ifndef GW_PROTO_DEVICE_H
#define GW_PROTO_DEVICE_H

#include "proto/status.h"

/* Bytes of the text that names the tuned ways of a device's products
   (kernels.h, tuned). */
#define GW_TUNED_BYTES 512

enum gw_device_kind {
    GW_DEVICE_AUTO, /* the fastest that works here */
    GW_DEVICE_CPU,
    GW_DEVICE_CUDA
};

struct gw_device_name {
    enum gw_device_kind kind;
    int numbered; /* one of several was named: */
    unsigned number;
};

/* "auto", "cpu" or "cuda". */
const char *gw_device_kind_name(enum gw_device_kind kind);

/* GW_EUSAGE with the names that may stand there. */
enum gw_status gw_device_parse(const char *text,
                               struct gw_device_name *name_p,
                               struct gw_error *error);

#endif
