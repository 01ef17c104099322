/* proto/wire: the golden bytes, every refusal, CRC32C's known answer. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "proto/wire.h"

static const struct gw_frame example = {
    .kind = GW_FRAME_PUSH,
    .flags = GW_FLAG_WANT_ACK,
    .session = 0x01020304,
    .epoch = 0x05060708,
    .clock = 0x1112131415161718,
    .offset = 0x2122232425262728,
    .window = 0x31323334,
    .chunk = 0x35363738,
    .count = 0x41424344,
    .length = 0x00040000,
    .encoding = GW_ENCODING_RAW,
    .dtype = GW_DTYPE_F32,
    .decision = 0x51525354,
    .payload_crc = 0x61626364,
};

/* Written by hand from docs/PROTOCOL.md; the CRC by Python's crc32c. */
static const uint8_t golden[GW_FRAME_BYTES] = {
    0x47, 0x57, 0x49, 0x52, 0x02, 0x03, 0x02, 0x00, 0x04, 0x03, 0x02,
    0x01, 0x08, 0x07, 0x06, 0x05, 0x18, 0x17, 0x16, 0x15, 0x14, 0x13,
    0x12, 0x11, 0x28, 0x27, 0x26, 0x25, 0x24, 0x23, 0x22, 0x21, 0x34,
    0x33, 0x32, 0x31, 0x38, 0x37, 0x36, 0x35, 0x44, 0x43, 0x42, 0x41,
    0x00, 0x00, 0x04, 0x00, 0x00, 0x01, 0x40, 0x00, 0x54, 0x53, 0x52,
    0x51, 0x64, 0x63, 0x62, 0x61, 0xb5, 0xa4, 0x26, 0x63,
};

static void golden_bytes(void **state)
{
    (void)state;
    uint8_t bytes[GW_FRAME_BYTES];
    gw_frame_encode(&example, bytes);
    assert_memory_equal(bytes, golden, sizeof golden);

    struct gw_frame back;
    assert_int_equal(gw_frame_decode(bytes, &back), GW_OK);
    assert_int_equal(back.kind, example.kind);
    assert_int_equal(back.clock, example.clock);
    assert_int_equal(back.offset, example.offset);
    assert_int_equal(back.payload_crc, example.payload_crc);
    uint8_t again[GW_FRAME_BYTES];
    gw_frame_encode(&back, again);
    assert_memory_equal(again, bytes, sizeof again);
}

/* The low bits of a number tell it for as long as nobody is 2^31 behind. */
static void a_decision_is_the_nearest_one(void **state)
{
    const uint64_t round = (uint64_t)1 << 32;
    (void)state;
    assert_int_equal(gw_decision_near(0, 0), 0);
    assert_int_equal(gw_decision_near(0, 7), 7);
    assert_int_equal(gw_decision_near(7, 3), 3);
    assert_int_equal(gw_decision_near(round - 2, 1), round + 1);
    assert_int_equal(gw_decision_near(round + 1, UINT32_MAX), round - 1);
    assert_int_equal(gw_decision_near(5 * round + 9, 8), 5 * round + 8);
    /* of nobody: far ahead of all that was decided */
    assert_true(gw_decision_near(3, UINT32_MAX) > 5 * round);
}

static void every_flipped_bit_is_refused(void **state)
{
    (void)state;
    uint8_t bytes[GW_FRAME_BYTES];
    struct gw_frame back;
    gw_frame_encode(&example, bytes);
    for (size_t bit = 0; bit < 8 * sizeof bytes; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_not_equal(gw_frame_decode(bytes, &back), GW_OK);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    assert_int_equal(gw_frame_decode(bytes, &back), GW_OK);
}

/* A header whose CRC is right but whose content is none of ours. */
static enum gw_status decode_with(size_t at, uint8_t value)
{
    uint8_t bytes[GW_FRAME_BYTES];
    struct gw_frame back;
    gw_frame_encode(&example, bytes);
    bytes[at] = value;
    gw_put_u32(bytes + 60, gw_crc32c(0, bytes, 60));
    return gw_frame_decode(bytes, &back);
}

static void wrong_content_is_refused(void **state)
{
    (void)state;
    assert_int_equal(decode_with(0, 'X'), GW_EPROTO);
    assert_int_equal(decode_with(4, GW_WIRE_VERSION + 1), GW_EVERSION);
    assert_int_equal(decode_with(5, 0), GW_EPROTO);
    assert_int_equal(decode_with(5, 200), GW_EPROTO);
    assert_int_equal(decode_with(50, 65), GW_EPROTO);
    assert_int_equal(decode_with(47, 0x7f), GW_EPROTO); /* 2 GiB payload */
    assert_int_equal(decode_with(5, GW_FRAME_HEARTBEAT), GW_EPROTO);
}

static void limits_hold_for_each_kind(void **state)
{
    (void)state;
    uint8_t bytes[GW_FRAME_BYTES];
    struct gw_frame back, control = {.kind = GW_FRAME_CONTROL, .length = 1};
    gw_frame_encode(&control, bytes);
    assert_int_equal(gw_frame_decode(bytes, &back), GW_OK);
    control.length = GW_MESSAGE_BYTES_MAX + 1;
    gw_frame_encode(&control, bytes);
    assert_int_equal(gw_frame_decode(bytes, &back), GW_EPROTO);
    control.length = 0;
    gw_frame_encode(&control, bytes);
    assert_int_equal(gw_frame_decode(bytes, &back), GW_EPROTO);

    struct gw_frame put = {.kind = GW_FRAME_PUSH, .length = 4};
    gw_frame_encode(&put, bytes);
    assert_int_equal(gw_frame_decode(bytes, &back), GW_EPROTO);
    put.length = 0; /* a rank without samples */
    gw_frame_encode(&put, bytes);
    assert_int_equal(gw_frame_decode(bytes, &back), GW_OK);

    struct gw_frame shown = {.kind = GW_FRAME_EXPORTED,
                             .length = GW_EXPORTED_BYTES};
    gw_frame_encode(&shown, bytes);
    assert_int_equal(gw_frame_decode(bytes, &back), GW_OK);
    for (shown.length = 0; shown.length < 2 * GW_EXPORTED_BYTES;
         shown.length += GW_EXPORTED_BYTES + 1) {
        gw_frame_encode(&shown, bytes);
        assert_int_equal(gw_frame_decode(bytes, &back), GW_EPROTO);
    }
    shown.length = GW_EXPORTED_BYTES;
    shown.window = 9; /* nothing is put anywhere */
    gw_frame_encode(&shown, bytes);
    assert_int_equal(gw_frame_decode(bytes, &back), GW_EPROTO);
}

/* Written by hand from docs/PROTOCOL.md. */
static const uint8_t golden_brief[GW_BRIEF_BYTES] = {
    0x03, 0x00, 0x01, 0x00, 0x02, 0x00, 0x00, 0x00, 0x08, 0x07, 0x06, 0x05,
    0x34, 0x33, 0x32, 0x31, 0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11,
    0x28, 0x27, 0x26, 0x25, 0x24, 0x23, 0x22, 0x21, 0x38, 0x37, 0x36, 0x35,
    0x44, 0x43, 0x42, 0x41, 0x54, 0x53, 0x52, 0x51, 0x64, 0x63, 0x62, 0x61,
};

/* What it leaves out comes from the link. */
static void a_brief_header_round_trips(void **state)
{
    (void)state;
    uint8_t bytes[GW_BRIEF_BYTES], whole[GW_FRAME_BYTES];
    struct gw_frame back;
    gw_brief_encode(&example, bytes);
    assert_memory_equal(bytes, golden_brief, sizeof bytes);
    assert_int_equal(
        gw_brief_decode(bytes, example.session, example.length, &back), GW_OK);
    gw_frame_encode(&back, whole);
    assert_memory_equal(whole, golden, sizeof whole);
}

static void a_brief_header_is_judged(void **state)
{
    (void)state;
    static const size_t reserved[] = {3, 6, 7};
    uint8_t bytes[GW_BRIEF_BYTES];
    struct gw_frame back;
    for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++) {
        gw_brief_encode(&example, bytes);
        bytes[reserved[i]] = 1;
        assert_int_equal(gw_brief_decode(bytes, 1, 4, &back), GW_EPROTO);
    }
    gw_brief_encode(&example, bytes);
    bytes[0] = 0;
    assert_int_equal(gw_brief_decode(bytes, 1, 4, &back), GW_EPROTO);
    struct gw_frame ack = {.kind = GW_FRAME_ACK};
    gw_brief_encode(&ack, bytes);
    assert_int_equal(gw_brief_decode(bytes, 1, 0, &back), GW_OK);
    assert_int_equal(gw_brief_decode(bytes, 1, 4, &back), GW_EPROTO);
}

static void wants_round_trip(void **state)
{
    (void)state;
    struct gw_want want = {.chunk = 7,
                           .count = 3,
                           .value = 1ull << 40,
                           .offset = 1ull << 33,
                           .window = 9,
                           .priority = 2,
                           .condition = GW_WANT_MINIMUM,
                           .encoding = GW_ENCODING_BF16,
                           .slack = 5};
    struct gw_want back;
    uint8_t bytes[GW_WANT_BYTES];
    gw_want_encode(&want, bytes);
    assert_int_equal(gw_want_decode(bytes, &back), GW_OK);
    assert_int_equal(back.chunk, 7);
    assert_int_equal(back.count, 3);
    assert_int_equal(back.value, want.value);
    assert_int_equal(back.offset, want.offset);
    assert_int_equal(back.window, 9);
    assert_int_equal(back.priority, 2);
    assert_int_equal(back.condition, GW_WANT_MINIMUM);
    assert_int_equal(back.encoding, GW_ENCODING_BF16);
    assert_int_equal(back.slack, 5);
    bytes[33] = GW_ENCODINGS;
    assert_int_equal(gw_want_decode(bytes, &back), GW_EPROTO);
    bytes[33] = GW_ENCODING_BF16;
    bytes[32] = GW_WANT_NOW;
    assert_int_equal(gw_want_decode(bytes, &back), GW_EPROTO);
    bytes[33] = GW_ENCODING_RAW;
    assert_int_equal(gw_want_decode(bytes, &back), GW_OK);
    bytes[32] = GW_WANT_EXACT + 1;
    assert_int_equal(gw_want_decode(bytes, &back), GW_EPROTO);
    bytes[32] = 0;
    assert_int_equal(gw_want_decode(bytes, &back), GW_EPROTO);
    bytes[32] = GW_WANT_VERSION;
    memset(bytes + 4, 0, 4);
    assert_int_equal(gw_want_decode(bytes, &back), GW_EPROTO);
}

static void what_is_shown_round_trips(void **state)
{
    (void)state;
    static const uint8_t right[GW_EXPORTED_BYTES] = {0x31, 0x32, 0x33, 0x34,
                                                     7,    0,    0,    0};
    struct gw_exported shown = {.window = 0x34333231, .kind = GW_FRAME_SEED},
                       back;
    uint8_t bytes[GW_EXPORTED_BYTES];
    gw_exported_encode(&shown, bytes);
    assert_memory_equal(bytes, right, sizeof right);
    assert_int_equal(gw_exported_decode(bytes, &back), GW_OK);
    assert_true(back.window == shown.window && back.kind == shown.kind);
    bytes[4] = GW_FRAME_PUSH;
    assert_int_equal(gw_exported_decode(bytes, &back), GW_OK);
    bytes[4] = GW_FRAME_WEIGHTS;
    assert_int_equal(gw_exported_decode(bytes, &back), GW_EPROTO);
    bytes[4] = GW_FRAME_PUSH;
    bytes[6] = 1;
    assert_int_equal(gw_exported_decode(bytes, &back), GW_EPROTO);
    memset(bytes, 0, 4);
    bytes[6] = 0;
    assert_int_equal(gw_exported_decode(bytes, &back), GW_EPROTO);
}

static void crc32c_known_answer(void **state)
{
    (void)state;
    /* RFC 3720 B.4 and the catalogue's check value */
    uint8_t zeros[32] = {0};
    assert_int_equal(gw_crc32c(0, "123456789", 9), 0xE3069283);
    assert_int_equal(gw_crc32c(0, zeros, 32), 0x8A9136AA);
    uint32_t split = gw_crc32c(0, "1234", 4);
    assert_int_equal(gw_crc32c(split, "56789", 5), 0xE3069283);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_bytes),
        cmocka_unit_test(a_decision_is_the_nearest_one),
        cmocka_unit_test(every_flipped_bit_is_refused),
        cmocka_unit_test(wrong_content_is_refused),
        cmocka_unit_test(limits_hold_for_each_kind),
        cmocka_unit_test(a_brief_header_round_trips),
        cmocka_unit_test(a_brief_header_is_judged),
        cmocka_unit_test(wants_round_trip),
        cmocka_unit_test(what_is_shown_round_trips),
        cmocka_unit_test(crc32c_known_answer),
    };
    return cmocka_run_group_tests_name("wire", tests, NULL, NULL);
}
