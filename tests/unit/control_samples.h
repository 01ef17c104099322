/* Control messages for tests: one of each kind, every field with a value of its
   own. */
#ifndef GW_TESTS_UNIT_CONTROL_SAMPLES_H
#define GW_TESTS_UNIT_CONTROL_SAMPLES_H

#include "proto/control.h"

#define CONTROL_SAMPLES (GW_MESSAGE_KINDS - 2) /* from 1 on, and 18 is free */

extern const struct gw_message control_samples[CONTROL_SAMPLES];

/* The places of some. */
enum {
    CONTROL_JOIN = 0,
    CONTROL_WELCOME = 1,
    CONTROL_DECLARE = 2,
    CONTROL_VIEW = 3,
    CONTROL_START = 4,
    CONTROL_VOTE = 8
};

#endif
