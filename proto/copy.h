/*
 * Copies of a shard (cluster.copies). The server that answers, the primary,
 * sends what it has to the standby of its shard, chunk by chunk: first the
 * arrays as they are, GW_FRAME_COPY, then the sum of each step, GW_FRAME_SUM.
 * Behind either comes a GW_FRAME_NOTE, on the same link, which says what to
 * make of the bytes; a GW_FRAME_ACK with the chunk's version answers it. Pure
 * functions, any thread.
 */
#ifndef GW_PROTO_COPY_H
#define GW_PROTO_COPY_H

#include <stdint.h>

#include "proto/status.h"
#include "proto/terms.h"

enum gw_copy_kind {
    GW_COPY_WHOLE = 1, /* weights and states have come */
    GW_COPY_STEP,      /* a sum has: the optimizer's next step */
    GW_COPY_SKIP,      /* a step without a gradient of any rank */
    GW_COPY_SUM,       /* a sum has, for a step that shard 0 decides */
    GW_COPY_NO_SUM,    /* the same without a gradient of any rank */
};

/* A note of that kind is about a step that shard 0 decides: the chunk stays at
   its version. */
static inline int gw_copy_is_undecided(uint8_t kind)
{
    return kind == GW_COPY_SUM || kind == GW_COPY_NO_SUM;
}

struct gw_copy_note {
    uint8_t kind; /* enum gw_copy_kind */
    /* the chunk, as it is then */
    uint64_t version;
    uint64_t updates, skipped, pushes;
    /* of a step: the arguments of the update; of a sum: the terms, */
    float scale;
    uint64_t t;
    struct gw_terms terms;
    /* its samples, and those of them that do not count */
    uint64_t samples, uncounted;
    /* now and then: CRC-32C of the weights from which the step is made */
    int has_digest;
    uint32_t digest;
};

#define GW_COPY_NOTE_BYTES 120

/* Steps from one digest to the next. */
#define GW_COPY_DIGEST_EVERY 100

/* Arrays of a copy, as a WINDOW and a GW_FRAME_COPY number them: the weights,
   those of the version before, the optimizer's states. */
enum gw_copy_array {
    GW_COPY_WEIGHTS,
    GW_COPY_BEFORE,
    GW_COPY_STATES, /* and from here on */
    GW_COPY_ARRAYS = 4
};

void gw_copy_note_encode(const struct gw_copy_note *note,
                         uint8_t out[GW_COPY_NOTE_BYTES]);

/* GW_EPROTO: another kind, a version or a count that cannot be, a step with
   arguments that no job has, or a reserved byte that is not 0. *note is set
   only on GW_OK. */
enum gw_status gw_copy_note_decode(const uint8_t in[GW_COPY_NOTE_BYTES],
                                   struct gw_copy_note *note);

#endif
