/* The envelope of control messages and the fixed memory they are made in. */
#include <config.h>

#include "proto/control.h"

#include "proto/control_codec.h"
#include "proto/wire.h"

#define ARENA_ALIGN 16

void *gw_arena_take(struct gw_control_arena *arena, size_t bytes)
{
    size_t at = (arena->used + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
    if (at > sizeof arena->bytes || bytes > sizeof arena->bytes - at)
        return NULL;
    arena->used = at + bytes;
    return arena->bytes + at;
}

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

int gw_decision_is_of_each_step(const struct gw_decision *decision)
{
    return decision->kind == GW_DECIDE_COUNT ||
           decision->kind == GW_DECIDE_TRUST ||
           decision->kind == GW_DECIDE_PASSED ||
           (decision->kind == GW_DECIDE_STEP && decision->apply);
}

const char *gw_message_name(enum gw_message_kind kind)
{
    static const char *const names[GW_MESSAGE_KINDS] = {
        [GW_MESSAGE_JOIN] = "join",
        [GW_MESSAGE_WELCOME] = "welcome",
        [GW_MESSAGE_DECLARE] = "declare",
        [GW_MESSAGE_VIEW] = "view",
        [GW_MESSAGE_START] = "start",
        [GW_MESSAGE_READY] = "ready",
        [GW_MESSAGE_WINDOW] = "window",
        [GW_MESSAGE_DECISION] = "decision",
        [GW_MESSAGE_VOTE] = "vote",
        [GW_MESSAGE_SETTLED] = "settled",
        [GW_MESSAGE_ARRIVED] = "arrived",
        [GW_MESSAGE_SPEED] = "speed",
        [GW_MESSAGE_SIGHT] = "sight",
        [GW_MESSAGE_FAULT] = "fault",
        [GW_MESSAGE_POLL] = "poll",
        [GW_MESSAGE_SCORE] = "score",
        [GW_MESSAGE_REPORT] = "report",
        [GW_MESSAGE_STOP] = "stop",
        [GW_MESSAGE_SAVED] = "saved",
        [GW_MESSAGE_STORED] = "stored",
        [GW_MESSAGE_END] = "end",
        [GW_MESSAGE_BYE] = "bye",
        [GW_MESSAGE_STALL] = "stall",
        [GW_MESSAGE_FILE_OPEN] = "file open",
        [GW_MESSAGE_FILE_REPLY] = "file reply",
        [GW_MESSAGE_STATUS] = "status",
        [GW_MESSAGE_REQUEST] = "request",
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
    Gwpb__Control control = GWPB__CONTROL__INIT;
    arena->used = 0;
    control.body_case = (Gwpb__Control__BodyCase)message->kind;
    enum gw_status status =
        gw_pack_table[message->kind](message, arena, &control);
    if (status != GW_OK)
        return status;
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
    if (!control || control->body_case <= 0 ||
        (int)control->body_case >= GW_MESSAGE_KINDS)
        return GW_EPROTO;
    result.kind = (enum gw_message_kind)control->body_case;
    enum gw_status status =
        gw_unpack_table[result.kind](control, arena, &result);
    if (status == GW_OK)
        *message = result;
    return status;
}
