/*
 * From the structs of protobuf-c to the ones of control.h: a function per
 * STRUCT and MESSAGE of control.def. It checks the form of a message from
 * outside: sizes of digests, numbers of dimensions, counts that agree. The
 * receiver checks the sense.
 */
#include <config.h>

#include <string.h>

#include "proto/config.h"
#include "proto/control_codec.h"

static int u8_in(uint32_t from, uint32_t low, uint32_t high, uint8_t *to)
{
    *to = (uint8_t)from;
    return from >= low && from <= high;
}

static int is_clock(uint64_t clock)
{
    return clock < GW_CLOCK_MAX;
}

static int are_clocks(const uint64_t *clock, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!is_clock(clock[i]))
            return 0;
    return 1;
}

static int counts_agree(uint32_t total, uint32_t first, size_t n, uint32_t most)
{
    return total <= most && first <= total && n <= total - first;
}

static int bytes_in(const ProtobufCBinaryData *from, uint8_t *bytes, size_t n)
{
    if (from->len != n)
        return 0;
    memcpy(bytes, from->data, n);
    return 1;
}

/* All of them, or none. */
static int bytes_in_or_none(const ProtobufCBinaryData *from,
                            int *has_p,
                            uint8_t *bytes,
                            size_t n)
{
    memset(bytes, 0, n);
    *has_p = from->len > 0;
    return !*has_p || bytes_in(from, bytes, n);
}

static int words_in(const ProtobufCBinaryData *from, struct gw_sight_words *to)
{
    *to = (struct gw_sight_words){.n = 0};
    if (from->len > GW_SIGHT_WORDS_MAX)
        return 0;
    to->n = (uint32_t)from->len;
    if (to->n > 0)
        memcpy(to->byte, from->data, to->n);
    return 1;
}

#define UNPACK(tag, Proto)                                                     \
    static int unpack_##tag(const Gwpb__##Proto *from,                         \
                            struct gw_control_arena *arena,                    \
                            struct gw_##tag *to)

/* ---- structs that control.def does not have ---- */

UNPACK(key, Key)
{
    size_t name = strlen(from->name);
    (void)arena;
    if (name >= sizeof to->name || from->n_shape > GW_KEY_DIMS_MAX ||
        from->dtype > UINT8_MAX || from->group >= GW_KEY_GROUPS_MAX ||
        from->rule >= GW_KEY_RULES || from->type > UINT8_MAX)
        return 0;
    memset(to, 0, sizeof *to);
    memcpy(to->name, from->name, name);
    to->dtype = (uint8_t)from->dtype;
    to->group = from->group;
    to->rule = (uint8_t)from->rule;
    to->type = (uint8_t)from->type;
    to->dims = (uint8_t)from->n_shape;
    for (size_t d = 0; d < from->n_shape; d++)
        to->shape[d] = from->shape[d];
    return 1;
}

UNPACK(course, Course)
{
    (void)arena;
    *to = (struct gw_course){.clock = from->clock,
                             .epoch = from->epoch,
                             .sample = from->sample,
                             .batch = from->batch,
                             .samples = from->samples};
    return gw_course_is_valid(to);
}

/* ---- a field of each type ---- */

#define WANT(condition)                                                        \
    do {                                                                       \
        if (!(condition))                                                      \
            return 0;                                                          \
    } while (0)

#define UNPACK_flag(name)   to->name = from->name != 0;
#define UNPACK_u32(name)    to->name = from->name;
#define UNPACK_u64(name)    to->name = from->name;
#define UNPACK_double(name) to->name = from->name;
#define UNPACK_status(name) to->name = (enum gw_status)from->name;
#define UNPACK_text(name)   to->name = from->name;
#define UNPACK_u8(name)     UNPACK_u8_from(name, 0, UINT8_MAX)
#define UNPACK_u8_from(name, low, high)                                        \
    WANT(u8_in(from->name, low, high, &to->name));
#define UNPACK_u32_to(name, most)                                              \
    WANT(from->name <= (most));                                                \
    to->name = from->name;
#define UNPACK_u64_to(name, most) UNPACK_u32_to(name, most)
#define UNPACK_clock(name)                                                     \
    WANT(is_clock(from->name));                                                \
    to->name = from->name;
#define UNPACK_choice(name, type, last)                                        \
    WANT(from->name <= (last));                                                \
    to->name = (type)from->name;
#define UNPACK_text_below(name, size)                                          \
    WANT(strlen(from->name) < (size));                                         \
    to->name = from->name;
#define UNPACK_bytes(name, size) WANT(bytes_in(&from->name, to->name, size));
#define UNPACK_maybe_bytes(name, size)                                         \
    WANT(bytes_in_or_none(&from->name, &to->has_##name, to->name, size));
#define UNPACK_secret(name)                                                    \
    WANT(bytes_in(&from->name, to->name.byte, GW_SECRET_BYTES));
#define UNPACK_maybe_secret(name)                                              \
    WANT(bytes_in_or_none(&from->name, &to->has_##name, to->name.byte,         \
                          GW_SECRET_BYTES));
#define UNPACK_words(name) WANT(words_in(&from->name, &to->name));
#define UNPACK_list(name, type)                                                \
    WANT(from->n_##name <= GW_VALUES_MAX);                                     \
    to->name = from->name;                                                     \
    to->name##_n = (uint32_t)from->n_##name;
#define UNPACK_clocks(name)                                                    \
    WANT(are_clocks(from->name, from->n_##name));                              \
    UNPACK_list(name, uint64_t)
#define UNPACK_sub(name, tag)                                                  \
    memset(&to->name, 0, sizeof to->name);                                     \
    WANT(!from->name || unpack_##tag(from->name, arena, &to->name));
#define UNPACK_needed(name, tag)                                               \
    WANT(from->name != NULL);                                                  \
    UNPACK_sub(name, tag)
#define UNPACK_cut(name)                                                       \
    memset(&to->name, 0, sizeof to->name);                                     \
    WANT(!from->course ||                                                      \
         unpack_course(from->course, arena, &to->name.course));                \
    to->name.clock = from->clock;
#define UNPACK_part(name, tag, Proto, most)                                    \
    struct gw_##tag *name =                                                    \
        gw_arena_take(arena, from->n_##name * sizeof *name);                   \
    WANT(name != NULL);                                                        \
    WANT(counts_agree(from->name##_total, from->name##_first, from->n_##name,  \
                      most));                                                  \
    for (size_t i = 0; i < from->n_##name; i++)                                \
        WANT(unpack_##tag(from->name[i], arena, &name[i]));                    \
    to->name##_total = from->name##_total;                                     \
    to->name##_first = from->name##_first;                                     \
    to->name##_n = (uint32_t)from->n_##name;                                   \
    to->name = name;

/* clang-format off */
#define STRUCT(NAME, tag, Proto)                                               \
    UNPACK(tag, Proto)                                                         \
    {                                                                          \
        (void)arena;
#define MESSAGE(KIND, member, tag, Proto, words) STRUCT(KIND, tag, Proto)
#define FIELD(type, ...)                         UNPACK_##type(__VA_ARGS__)
#define END_FIELDS                                                             \
        return 1;                                                              \
    }
/* clang-format on */
#include "proto/control.def"

int gw_control_unpack(const Gwpb__Control *from,
                      struct gw_control_arena *arena,
                      struct gw_message *to)
{
    to->kind = (enum gw_message_kind)from->body_case;
    switch (to->kind) {
#define MESSAGE(KIND, member, tag, Proto, words)                               \
    case GW_MESSAGE_##KIND:                                                    \
        return unpack_##tag(from->member, arena, &to->member);
#include "proto/control.def"
    default:
        return 0;
    }
}
