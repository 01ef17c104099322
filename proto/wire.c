#include <config.h>

#include "proto/wire.h"

#include <isa-l/crc.h>
#include <limits.h>

void gw_put_u16(uint8_t *out, uint16_t value)
{
    out[0] = (uint8_t)value;
    out[1] = (uint8_t)(value >> 8);
}

void gw_put_u32(uint8_t *out, uint32_t value)
{
    gw_put_u16(out, (uint16_t)value);
    gw_put_u16(out + 2, (uint16_t)(value >> 16));
}

void gw_put_u64(uint8_t *out, uint64_t value)
{
    gw_put_u32(out, (uint32_t)value);
    gw_put_u32(out + 4, (uint32_t)(value >> 32));
}

uint16_t gw_get_u16(const uint8_t *in)
{
    return (uint16_t)(in[0] | in[1] << 8);
}

uint32_t gw_get_u32(const uint8_t *in)
{
    return (uint32_t)gw_get_u16(in) | (uint32_t)gw_get_u16(in + 2) << 16;
}

uint64_t gw_get_u64(const uint8_t *in)
{
    return (uint64_t)gw_get_u32(in) | (uint64_t)gw_get_u32(in + 4) << 32;
}

/* isa-l counts in int, works on the complemented register, takes no const. */
uint32_t gw_crc32c(uint32_t crc, const void *bytes, size_t n)
{
    const uint8_t *at = bytes;
    uint32_t state = ~crc;
    while (n > 0) {
        size_t part = n < INT_MAX ? n : INT_MAX;
        state = crc32_iscsi((unsigned char *)(uintptr_t)at, (int)part, state);
        at += part;
        n -= part;
    }
    return ~state;
}

int gw_frame_is_put(uint8_t kind)
{
    switch (kind) {
    case GW_FRAME_PUSH:
    case GW_FRAME_WEIGHTS:
    case GW_FRAME_SEED:
    case GW_FRAME_FILE:
    case GW_FRAME_SUM:
    case GW_FRAME_COPY:
        return 1;
    default:
        return 0;
    }
}

const char *gw_frame_kind_name(uint8_t kind)
{
    switch (kind) {
#define GW_FRAME_NAME(name, value, text)                                       \
    case name:                                                                 \
        return text;
        GW_FRAME_KINDS(GW_FRAME_NAME)
#undef GW_FRAME_NAME
    default:
        return "unknown";
    }
}

void gw_frame_encode(const struct gw_frame *frame, uint8_t out[GW_FRAME_BYTES])
{
    gw_put_u32(out, GW_FRAME_MAGIC);
    out[4] = GW_WIRE_VERSION;
    out[5] = frame->kind;
    gw_put_u16(out + 6, frame->flags);
    gw_put_u32(out + 8, frame->session);
    gw_put_u32(out + 12, frame->epoch);
    gw_put_u64(out + 16, frame->clock);
    gw_put_u64(out + 24, frame->offset);
    gw_put_u32(out + 32, frame->window);
    gw_put_u32(out + 36, frame->chunk);
    gw_put_u32(out + 40, frame->count);
    gw_put_u32(out + 44, frame->length);
    out[48] = frame->encoding;
    out[49] = frame->dtype;
    gw_put_u16(out + 50, GW_FRAME_BYTES);
    gw_put_u32(out + 52, frame->decision);
    gw_put_u32(out + 56, frame->payload_crc);
    gw_put_u32(out + 60, gw_crc32c(0, out, 60));
}

static int kind_is_known(uint8_t kind)
{
    switch (kind) {
#define GW_FRAME_KNOWN(name, value, text) case name:
        GW_FRAME_KINDS(GW_FRAME_KNOWN)
#undef GW_FRAME_KNOWN
        return 1;
    default:
        return 0;
    }
}

/* Limits of every frame of a kind, at any receiver. */
static int shape_is_legal(uint8_t kind, uint32_t window, uint32_t length)
{
    if (gw_frame_is_put(kind))
        return length <= GW_PAYLOAD_BYTES_MAX &&
               (window != GW_WINDOW_NONE || length == 0);
    if (window != GW_WINDOW_NONE)
        return 0;
    if (kind == GW_FRAME_CONTROL || kind == GW_FRAME_WANT ||
        kind == GW_FRAME_PARTS || kind == GW_FRAME_TERMS ||
        kind == GW_FRAME_NOTE)
        return length > 0 && length <= GW_MESSAGE_BYTES_MAX;
    if (kind == GW_FRAME_EXPORTED)
        return length == GW_EXPORTED_BYTES;
    return length == 0;
}

enum gw_status gw_frame_decode(const uint8_t in[GW_FRAME_BYTES],
                               struct gw_frame *frame)
{
    if (gw_get_u32(in) != GW_FRAME_MAGIC)
        return GW_EPROTO;
    if (gw_crc32c(0, in, 60) != gw_get_u32(in + 60))
        return GW_ECRC;
    if (in[4] != GW_WIRE_VERSION)
        return GW_EVERSION;
    if (gw_get_u16(in + 50) != GW_FRAME_BYTES || !kind_is_known(in[5]) ||
        !shape_is_legal(in[5], gw_get_u32(in + 32), gw_get_u32(in + 44)))
        return GW_EPROTO;
    *frame = (struct gw_frame){
        .kind = in[5],
        .flags = gw_get_u16(in + 6),
        .session = gw_get_u32(in + 8),
        .epoch = gw_get_u32(in + 12),
        .clock = gw_get_u64(in + 16),
        .offset = gw_get_u64(in + 24),
        .window = gw_get_u32(in + 32),
        .chunk = gw_get_u32(in + 36),
        .count = gw_get_u32(in + 40),
        .length = gw_get_u32(in + 44),
        .encoding = in[48],
        .dtype = in[49],
        .decision = gw_get_u32(in + 52),
        .payload_crc = gw_get_u32(in + 56),
    };
    return GW_OK;
}

void gw_brief_encode(const struct gw_frame *frame, uint8_t out[GW_BRIEF_BYTES])
{
    out[0] = frame->kind;
    out[1] = frame->encoding;
    out[2] = frame->dtype;
    out[3] = 0;
    gw_put_u16(out + 4, frame->flags);
    gw_put_u16(out + 6, 0);
    gw_put_u32(out + 8, frame->epoch);
    gw_put_u32(out + 12, frame->window);
    gw_put_u64(out + 16, frame->clock);
    gw_put_u64(out + 24, frame->offset);
    gw_put_u32(out + 32, frame->chunk);
    gw_put_u32(out + 36, frame->count);
    gw_put_u32(out + 40, frame->decision);
    gw_put_u32(out + 44, frame->payload_crc);
}

enum gw_status gw_brief_decode(const uint8_t in[GW_BRIEF_BYTES],
                               uint32_t session,
                               uint32_t length,
                               struct gw_frame *frame)
{
    if (in[3] != 0 || gw_get_u16(in + 6) != 0 || !kind_is_known(in[0]) ||
        !shape_is_legal(in[0], gw_get_u32(in + 12), length))
        return GW_EPROTO;
    *frame = (struct gw_frame){
        .kind = in[0],
        .flags = gw_get_u16(in + 4),
        .session = session,
        .epoch = gw_get_u32(in + 8),
        .clock = gw_get_u64(in + 16),
        .offset = gw_get_u64(in + 24),
        .window = gw_get_u32(in + 12),
        .chunk = gw_get_u32(in + 32),
        .count = gw_get_u32(in + 36),
        .length = length,
        .encoding = in[1],
        .dtype = in[2],
        .decision = gw_get_u32(in + 40),
        .payload_crc = gw_get_u32(in + 44),
    };
    return GW_OK;
}

void gw_want_encode(const struct gw_want *want, uint8_t out[GW_WANT_BYTES])
{
    gw_put_u32(out, want->chunk);
    gw_put_u32(out + 4, want->count);
    gw_put_u64(out + 8, want->value);
    gw_put_u64(out + 16, want->offset);
    gw_put_u32(out + 24, want->window);
    gw_put_u32(out + 28, want->priority);
    out[32] = want->condition;
    out[33] = want->encoding;
    out[34] = want->nth;
    out[35] = want->of;
    gw_put_u32(out + 36, want->slack);
}

enum gw_status gw_want_decode(const uint8_t in[GW_WANT_BYTES],
                              struct gw_want *want)
{
    if (in[32] < GW_WANT_VERSION || in[32] > GW_WANT_EXACT ||
        in[33] >= GW_ENCODINGS ||
        (in[32] == GW_WANT_NOW && in[33] != GW_ENCODING_RAW) ||
        gw_get_u32(in + 4) == 0 || (in[34] > 0 && in[34] >= in[35]))
        return GW_EPROTO;
    *want = (struct gw_want){
        .chunk = gw_get_u32(in),
        .count = gw_get_u32(in + 4),
        .value = gw_get_u64(in + 8),
        .offset = gw_get_u64(in + 16),
        .window = gw_get_u32(in + 24),
        .priority = gw_get_u32(in + 28),
        .condition = in[32],
        .encoding = in[33],
        .nth = in[34],
        .of = in[35],
        .slack = gw_get_u32(in + 36),
    };
    return GW_OK;
}

void gw_exported_encode(const struct gw_exported *exported,
                        uint8_t out[GW_EXPORTED_BYTES])
{
    gw_put_u32(out, exported->window);
    gw_put_u32(out + 4, exported->kind);
}

enum gw_status gw_exported_decode(const uint8_t in[GW_EXPORTED_BYTES],
                                  struct gw_exported *exported)
{
    uint32_t window = gw_get_u32(in), kind = gw_get_u32(in + 4);
    if (window == GW_WINDOW_NONE ||
        (kind != GW_FRAME_PUSH && kind != GW_FRAME_SEED))
        return GW_EPROTO;
    *exported = (struct gw_exported){.window = window, .kind = (uint8_t)kind};
    return GW_OK;
}
