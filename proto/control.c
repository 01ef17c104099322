/* The envelope of control messages and the fixed memory they are made in. */
#include <config.h>

#include "proto/control.h"

#include <string.h>

#include "proto/control_codec.h"
#include "proto/wire.h"

static void *allocator_take(void *context, size_t bytes)
{
    return gw_arena_take(context, bytes);
}

static void allocator_free(void *context, void *memory)
{
    /* the arena is emptied as a whole */
    (void)context;
    (void)memory;
}

uint32_t gw_keys_in_part(const struct gw_key *keys, uint32_t n)
{
    uint32_t some = 0;
    for (size_t bytes = 0; some < n && some < GW_KEYS_PER_PART; some++) {
        bytes += strnlen(keys[some].name, GW_KEY_NAME_MAX) + 1;
        if (bytes > GW_KEY_NAMES_PER_PART)
            break;
    }
    return some;
}

int gw_decision_is_of_each_step(const struct gw_decision *decision)
{
    return decision->kind == GW_DECIDE_COUNT ||
           decision->kind == GW_DECIDE_TRUST ||
           decision->kind == GW_DECIDE_PASSED ||
           (decision->kind == GW_DECIDE_STEP && decision->apply);
}

#define MESSAGE(KIND, member, tag, Proto, words)                               \
    _Static_assert((int)GW_MESSAGE_##KIND == (int)GWPB__CONTROL__BODY_##KIND,  \
                   "control.h and control.proto number " words);
#include "proto/control.def"

const char *gw_message_name(enum gw_message_kind kind)
{
    static const char *const names[GW_MESSAGE_KINDS] = {
#define MESSAGE(KIND, member, tag, Proto, words) [GW_MESSAGE_##KIND] = words,
#include "proto/control.def"
    };
    if (kind <= 0 || kind >= GW_MESSAGE_KINDS || !names[kind])
        return "unknown";
    return names[kind];
}

enum gw_status gw_message_encode(const struct gw_message *message,
                                 struct gw_control_arena *arena,
                                 uint8_t *out,
                                 size_t room,
                                 size_t *bytes_p)
{
    Gwpb__Control control;
    arena->used = 0;
    if (!gw_control_pack(message, arena, &control))
        return GW_ERANGE;
    size_t bytes = gwpb__control__get_packed_size(&control);
    if (bytes > room || bytes > GW_MESSAGE_BYTES_MAX)
        return GW_ERANGE;
    *bytes_p = gwpb__control__pack(&control, out);
    return GW_OK;
}

enum gw_status gw_message_decode(const uint8_t *bytes,
                                 size_t n,
                                 struct gw_control_arena *arena,
                                 struct gw_message *message)
{
    ProtobufCAllocator allocator = {.alloc = allocator_take,
                                    .free = allocator_free,
                                    .allocator_data = arena};
    struct gw_message result;
    arena->used = 0;
    if (n > GW_MESSAGE_BYTES_MAX)
        return GW_EPROTO;
    Gwpb__Control *control = gwpb__control__unpack(&allocator, n, bytes);
    if (!control || !gw_control_unpack(control, arena, &result))
        return GW_EPROTO;
    *message = result;
    return GW_OK;
}
