/*
 * Inside control*.c: converts between the structs of control.h and the ones of
 * protobuf-c, by the fields of control.def.
 */
#ifndef GW_PROTO_CONTROL_CODEC_H
#define GW_PROTO_CONTROL_CODEC_H

#include "proto/control.h"
#include "proto/control.pb-c.h"

/* A list's values: 64 KiB cannot hold more. */
#define GW_VALUES_MAX 65536

/* Aligned memory from the arena; NULL when it is used up. */
static inline void *gw_arena_take(struct gw_control_arena *arena, size_t bytes)
{
    const size_t align = 16;
    size_t at = (arena->used + align - 1) / align * align;
    if (at > sizeof arena->bytes || bytes > sizeof arena->bytes - at)
        return NULL;
    arena->used = at + bytes;
    return arena->bytes + at;
}

/* Sets the body of *to, in the arena; texts, bytes and lists stay where they
   are. 0: it does not fit, or is no kind that is sent. */
int gw_control_pack(const struct gw_message *from,
                    struct gw_control_arena *arena,
                    Gwpb__Control *to);

/* Sets *to, which points into the arena and to the memory of *from. 0: a value
   that control.def refuses. */
int gw_control_unpack(const Gwpb__Control *from,
                      struct gw_control_arena *arena,
                      struct gw_message *to);

#endif
