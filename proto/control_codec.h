/*
 * Inside control*.c: one pair of functions per kind of message, between the
 * plain structs of control.h and those that protobuf-c made.
 */
#ifndef GW_PROTO_CONTROL_CODEC_H
#define GW_PROTO_CONTROL_CODEC_H

#include "proto/control.h"
#include "proto/control.pb-c.h"

/* Aligned memory from the arena; NULL when it is used up. */
void *gw_arena_take(struct gw_control_arena *arena, size_t bytes);

/* Sets the body of *out, in the arena. GW_ERANGE: does not fit. */
typedef enum gw_status gw_pack_fn(const struct gw_message *message,
                                  struct gw_control_arena *arena,
                                  Gwpb__Control *out);

/* Copies the body to *message, which may point into the arena. GW_EPROTO. */
typedef enum gw_status gw_unpack_fn(const Gwpb__Control *in,
                                    struct gw_control_arena *arena,
                                    struct gw_message *message);

#define GW_UNPACK(name)                                                        \
    enum gw_status name(const Gwpb__Control *in,                               \
                        struct gw_control_arena *arena,                        \
                        struct gw_message *message)

/* control_unpack_ask.c */
gw_unpack_fn gw_unpack_file_open;
gw_unpack_fn gw_unpack_file_reply;
gw_unpack_fn gw_unpack_status;
gw_unpack_fn gw_unpack_request;

static inline int gw_is_clock(uint64_t clock)
{
    return clock < GW_CLOCK_MAX;
}

/* Indexed by enum gw_message_kind. */
extern gw_pack_fn *const gw_pack_table[GW_MESSAGE_KINDS];
extern gw_unpack_fn *const gw_unpack_table[GW_MESSAGE_KINDS];

#endif
