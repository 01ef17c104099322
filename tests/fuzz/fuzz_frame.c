/*
 * Frame headers and wants from anyone: what is taken keeps to the limits, and
 * comes back the same.
 */
#include "config.h"

#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "proto/wire.h"
#include "transport/link/window.h"

#define CRC_AT 60

static void read_wants(const uint8_t *data, size_t n)
{
    for (; n >= GW_WANT_BYTES; data += GW_WANT_BYTES, n -= GW_WANT_BYTES) {
        struct gw_want want, again;
        uint8_t out[GW_WANT_BYTES];
        if (gw_want_decode(data, &want) != GW_OK)
            continue;
        FUZZ_PROMISE(want.count > 0);
        gw_want_encode(&want, out);
        FUZZ_PROMISE(gw_want_decode(out, &again) == GW_OK);
        FUZZ_PROMISE(want.offset == again.offset && want.value == again.value);
    }
}

/* A header may only ever lead into the window that it names. */
static void place(const struct gw_frame *frame)
{
    static const size_t bytes = 4096;
    uint8_t memory[4096];
    struct gw_windows windows = {0};
    uint32_t id;
    FUZZ_PROMISE(gw_window_open(&windows, GW_FRAME_PUSH, memory, bytes, &id) ==
                 GW_OK);
    uint8_t *at = gw_window_at(&windows, frame->kind, frame->window,
                               frame->offset, frame->length);
    FUZZ_PROMISE(!at || (frame->window == id && frame->kind == GW_FRAME_PUSH &&
                         at == memory + frame->offset &&
                         frame->offset + frame->length <= bytes));
    at =
        gw_window_at(&windows, GW_FRAME_PUSH, id, frame->offset, frame->length);
    FUZZ_PROMISE(!at || (frame->offset <= bytes &&
                         frame->length <= bytes - frame->offset));
}

/* Of a brief header everything comes back, but for what the link knows. */
static void read_brief(const uint8_t *data, size_t n)
{
    struct gw_frame frame;
    uint8_t out[GW_BRIEF_BYTES];
    if (n < GW_BRIEF_BYTES ||
        gw_brief_decode(data, 1, (uint32_t)(n - GW_BRIEF_BYTES), &frame) !=
            GW_OK)
        return;
    FUZZ_PROMISE(strcmp(gw_frame_kind_name(frame.kind), "unknown") != 0);
    place(&frame);
    gw_brief_encode(&frame, out);
    FUZZ_PROMISE(memcmp(data, out, sizeof out) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    uint8_t in[GW_FRAME_BYTES] = {0}, out[GW_FRAME_BYTES];
    struct gw_frame frame, again;
    if (n == 0)
        return 0;
    int put_right = data[0] & 1;
    read_wants(data + 1, n - 1);
    read_brief(data + 1, n - 1);
    memcpy(in, data + 1, n - 1 < sizeof in ? n - 1 : sizeof in);
    if (put_right)
        gw_put_u32(in + CRC_AT, gw_crc32c(0, in, CRC_AT));
    if (gw_frame_decode(in, &frame) != GW_OK)
        return 0;
    FUZZ_PROMISE(frame.length <= (frame.window == GW_WINDOW_NONE
                                      ? GW_MESSAGE_BYTES_MAX
                                      : GW_PAYLOAD_BYTES_MAX));
    FUZZ_PROMISE(strcmp(gw_frame_kind_name(frame.kind), "unknown") != 0);
    place(&frame);
    gw_frame_encode(&frame, out);
    FUZZ_PROMISE(gw_frame_decode(out, &again) == GW_OK);
    FUZZ_PROMISE(memcmp(in, out, sizeof in) == 0);
    return 0;
}
