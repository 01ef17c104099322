/* From the structs of control.h to the ones of protobuf-c: a function per
   STRUCT and MESSAGE of control.def. Only keys and members are copied. */
#include <config.h>

#include "proto/control_codec.h"

static char *text_out(const char *text)
{
    return (char *)(uintptr_t)(text ? text : "");
}

static ProtobufCBinaryData bytes_out(int there, const uint8_t *bytes, size_t n)
{
    return (ProtobufCBinaryData){.len = there ? n : 0,
                                 .data = (uint8_t *)(uintptr_t)bytes};
}

#define PACK(tag, Proto)                                                       \
    static int pack_##tag(const struct gw_##tag *from,                         \
                          struct gw_control_arena *arena, Gwpb__##Proto *to)

/* ---- structs that control.def does not have ---- */

PACK(key, Key)
{
    (void)arena;
    gwpb__key__init(to);
    to->name = text_out(from->name);
    to->dtype = from->dtype;
    to->group = from->group;
    to->rule = from->rule;
    to->type = from->type;
    to->n_shape = from->dims;
    to->shape = (uint64_t *)(uintptr_t)from->shape;
    return 1;
}

PACK(course, Course)
{
    (void)arena;
    gwpb__course__init(to);
    to->clock = from->clock;
    to->epoch = from->epoch;
    to->sample = from->sample;
    to->batch = from->batch;
    to->samples = from->samples;
    return 1;
}

/* ---- a field of each type ---- */

#define PACK_u8(name)                 to->name = from->name;
#define PACK_u8_from(name, low, high) to->name = from->name;
#define PACK_flag(name)               to->name = from->name;
#define PACK_u32(name)                to->name = from->name;
#define PACK_u32_to(name, most)       to->name = from->name;
#define PACK_u64(name)                to->name = from->name;
#define PACK_u64_to(name, most)       to->name = from->name;
#define PACK_clock(name)              to->name = from->name;
#define PACK_double(name)             to->name = from->name;
#define PACK_choice(name, type, last) to->name = from->name;
#define PACK_status(name)             to->name = (int32_t)from->name;
#define PACK_text(name)               to->name = text_out(from->name);
#define PACK_text_below(name, size)   to->name = text_out(from->name);
#define PACK_bytes(name, size)        to->name = bytes_out(1, from->name, size);
#define PACK_maybe_bytes(name, size)                                           \
    to->name = bytes_out(from->has_##name, from->name, size);
#define PACK_secret(name)                                                      \
    to->name = bytes_out(1, from->name.byte, GW_SECRET_BYTES);
#define PACK_maybe_secret(name)                                                \
    to->name = bytes_out(from->has_##name, from->name.byte, GW_SECRET_BYTES);
#define PACK_words(name)                                                       \
    if (from->name.n > GW_SIGHT_WORDS_MAX)                                     \
        return 0;                                                              \
    to->name = bytes_out(1, from->name.byte, from->name.n);
#define PACK_list(name, type)                                                  \
    to->n_##name = from->name##_n;                                             \
    to->name = (type *)(uintptr_t)from->name;
#define PACK_clocks(name) PACK_list(name, uint64_t)
#define PACK_sub(name, tag)                                                    \
    to->name = gw_arena_take(arena, sizeof *to->name);                         \
    if (!to->name || !pack_##tag(&from->name, arena, to->name))                \
        return 0;
#define PACK_needed(name, tag) PACK_sub(name, tag)
#define PACK_cut(name)                                                         \
    to->course = gw_arena_take(arena, sizeof *to->course);                     \
    if (!to->course || !pack_course(&from->name.course, arena, to->course))    \
        return 0;                                                              \
    to->clock = from->name.clock;
#define PACK_part(name, tag, Proto, most)                                      \
    to->name##_total = from->name##_total;                                     \
    to->name##_first = from->name##_first;                                     \
    to->n_##name = from->name##_n;                                             \
    to->name = gw_arena_take(arena, to->n_##name * sizeof *to->name);          \
    Gwpb__##Proto *name = gw_arena_take(arena, to->n_##name * sizeof *name);   \
    if (!to->name || !name)                                                    \
        return 0;                                                              \
    for (size_t i = 0; i < to->n_##name; i++) {                                \
        to->name[i] = &name[i];                                                \
        if (!pack_##tag(&from->name[i], arena, &name[i]))                      \
            return 0;                                                          \
    }

/* clang-format off */
#define STRUCT(NAME, tag, Proto)                                               \
    PACK(tag, Proto)                                                           \
    {                                                                          \
        (void)arena;                                                           \
        *to = (Gwpb__##Proto)GWPB__##NAME##__INIT;
#define MESSAGE(KIND, member, tag, Proto, words) STRUCT(KIND, tag, Proto)
#define FIELD(type, ...)                         PACK_##type(__VA_ARGS__)
#define END_FIELDS                                                             \
        return 1;                                                              \
    }
/* clang-format on */
#include "proto/control.def"

int gw_control_pack(const struct gw_message *from,
                    struct gw_control_arena *arena,
                    Gwpb__Control *to)
{
    *to = (Gwpb__Control)GWPB__CONTROL__INIT;
    to->body_case = (Gwpb__Control__BodyCase)from->kind;
    switch (from->kind) {
#define MESSAGE(KIND, member, tag, Proto, words)                               \
    case GW_MESSAGE_##KIND:                                                    \
        PACK_sub(member, tag);                                                 \
        return 1;
#include "proto/control.def"
    default:
        return 0;
    }
}
