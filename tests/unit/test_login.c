/* proto/login: the golden bytes, and every refusal. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "proto/login.h"
#include "proto/wire.h"

static const struct gw_hello hello = {
    .role = GW_ROLE_WORKER,
    .link = 1,
    .links = 2,
    .generation = 7,
    .rank = 5,
    .epoch = 2,
    .job = 0x1112131415161718,
    .incarnation = 0x2122232425262728,
    .expects = 0x3132333435363738,
    .version = "1.2.3",
};

static const struct gw_reply reply = {
    .status = GW_EREFUSED,
    .session = 0x01020304,
    .epoch = 2,
    .job = 0x1112131415161718,
    .incarnation = 0x2122232425262728,
    .version = "1.2.3",
    .reason = "no",
};

/* Written by hand from docs/PROTOCOL.md; the CRCs by a few lines of Python. */
/* clang-format off */
static const uint8_t golden_hello[GW_HELLO_BYTES] = {
    0x47, 0x57, 0x48, 0x45, 0x4c, 0x4c, 0x4f, 0x00, 0x01, 0x00, 0x60, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x31, 0x2e, 0x32, 0x2e, 0x33, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x03, 0x01, 0x02, 0x00, 0x07, 0x00, 0x00, 0x00,
    0x05, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x18, 0x17, 0x16, 0x15,
    0x14, 0x13, 0x12, 0x11, 0x28, 0x27, 0x26, 0x25, 0x24, 0x23, 0x22, 0x21,
    0x38, 0x37, 0x36, 0x35, 0x34, 0x33, 0x32, 0x31, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x4c, 0x0a, 0x0f, 0x18,
};

static const uint8_t golden_reply[] = { /* up to the reason, then zeros */
    0x47, 0x57, 0x52, 0x45, 0x50, 0x4c, 0x59, 0x00, 0x01, 0x00, 0x00, 0x01,
    0x00, 0x00, 0x00, 0x00, 0x31, 0x2e, 0x32, 0x2e, 0x33, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0xdf, 0xff, 0xff, 0xff, 0x04, 0x03, 0x02, 0x01,
    0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x18, 0x17, 0x16, 0x15,
    0x14, 0x13, 0x12, 0x11, 0x28, 0x27, 0x26, 0x25, 0x24, 0x23, 0x22, 0x21,
    0x6e, 0x6f,
};

static const uint8_t golden_reply_crc[4] = {0x6b, 0xfd, 0x8e, 0x87};
/* clang-format on */

static void hello_is_golden(void **state)
{
    (void)state;
    uint8_t bytes[GW_HELLO_BYTES];
    struct gw_hello back;
    gw_hello_encode(&hello, bytes);
    assert_memory_equal(bytes, golden_hello, sizeof bytes);
    assert_int_equal(gw_hello_decode(bytes, &back), GW_OK);
    assert_int_equal(back.role, hello.role);
    assert_int_equal(back.link, hello.link);
    assert_int_equal(back.links, hello.links);
    assert_int_equal(back.generation, hello.generation);
    assert_int_equal(back.rank, hello.rank);
    assert_int_equal(back.epoch, hello.epoch);
    assert_int_equal(back.job, hello.job);
    assert_int_equal(back.incarnation, hello.incarnation);
    assert_int_equal(back.expects, hello.expects);
    assert_string_equal(back.version, hello.version);
}

static void reply_is_golden(void **state)
{
    (void)state;
    uint8_t bytes[GW_REPLY_BYTES];
    struct gw_reply back;
    gw_reply_encode(&reply, bytes);
    assert_memory_equal(bytes, golden_reply, sizeof golden_reply);
    for (size_t i = sizeof golden_reply; i < sizeof bytes - 4; i++)
        assert_int_equal(bytes[i], 0);
    assert_memory_equal(bytes + sizeof bytes - 4, golden_reply_crc, 4);
    assert_int_equal(gw_reply_decode(bytes, &back), GW_OK);
    assert_int_equal(back.status, reply.status);
    assert_int_equal(back.session, reply.session);
    assert_int_equal(back.epoch, reply.epoch);
    assert_int_equal(back.job, reply.job);
    assert_int_equal(back.incarnation, reply.incarnation);
    assert_string_equal(back.version, reply.version);
    assert_string_equal(back.reason, reply.reason);
}

static void every_flipped_bit_is_refused(void **state)
{
    (void)state;
    uint8_t bytes[GW_REPLY_BYTES];
    struct gw_hello hello_back;
    struct gw_reply reply_back;
    gw_hello_encode(&hello, bytes);
    for (size_t bit = 0; bit < 8 * GW_HELLO_BYTES; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_not_equal(gw_hello_decode(bytes, &hello_back), GW_OK);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    gw_reply_encode(&reply, bytes);
    for (size_t bit = 0; bit < 8 * GW_REPLY_BYTES; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_not_equal(gw_reply_decode(bytes, &reply_back), GW_OK);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

/* A hello whose CRC is right but whose content is none of ours. */
static enum gw_status decode_with(size_t at, uint8_t value)
{
    uint8_t bytes[GW_HELLO_BYTES];
    struct gw_hello back;
    gw_hello_encode(&hello, bytes);
    bytes[at] = value;
    gw_put_u32(bytes + 92, gw_crc32c(0, bytes, 92));
    return gw_hello_decode(bytes, &back);
}

static void wrong_content_is_refused(void **state)
{
    (void)state;
    assert_int_equal(decode_with(40, GW_ROLE_OBSERVER), GW_OK);
    assert_int_equal(decode_with(40, 0), GW_EPROTO);
    assert_int_equal(decode_with(40, GW_ROLE_OBSERVER + 1), GW_EPROTO);
    assert_int_equal(decode_with(41, 2), GW_EPROTO); /* link >= links */
    assert_int_equal(decode_with(42, 0), GW_EPROTO);
    assert_int_equal(decode_with(42, GW_LINKS_MAX), GW_OK);
    assert_int_equal(decode_with(42, GW_LINKS_MAX + 1), GW_EPROTO);
    assert_int_equal(decode_with(10, 95), GW_EPROTO); /* size */
    assert_int_equal(decode_with(0, 'g'), GW_EPROTO);

    struct gw_hello nobody = hello, back;
    uint8_t bytes[GW_HELLO_BYTES];
    nobody.incarnation = 0;
    gw_hello_encode(&nobody, bytes);
    assert_int_equal(gw_hello_decode(bytes, &back), GW_EPROTO);
}

/* Another wire version is named, whatever its hello looks like behind. */
static void other_versions_are_named(void **state)
{
    (void)state;
    uint8_t bytes[GW_REPLY_BYTES];
    struct gw_hello hello_back;
    struct gw_reply reply_back;
    gw_hello_encode(&hello, bytes);
    bytes[8] = GW_WIRE_VERSION + 1;
    memset(bytes + 40, 0xee, GW_HELLO_BYTES - 40);
    assert_int_equal(gw_hello_decode(bytes, &hello_back), GW_EVERSION);
    assert_string_equal(hello_back.version, "1.2.3");
    gw_reply_encode(&reply, bytes);
    bytes[8] = GW_WIRE_VERSION + 1;
    memset(bytes + 40, 0xee, GW_REPLY_BYTES - 40);
    assert_int_equal(gw_reply_decode(bytes, &reply_back), GW_EVERSION);
    assert_string_equal(reply_back.version, "1.2.3");
}

/* What a stranger sends is shown to people. */
static void texts_are_ended_and_printable(void **state)
{
    (void)state;
    uint8_t bytes[GW_REPLY_BYTES];
    struct gw_reply back;
    gw_reply_encode(&reply, bytes);
    memset(bytes + 16, '\n', GW_VERSION_TEXT_MAX);
    memset(bytes + 72, 0x9b, GW_REASON_TEXT_MAX);
    gw_put_u32(bytes + 252, gw_crc32c(0, bytes, 252));
    assert_int_equal(gw_reply_decode(bytes, &back), GW_OK);
    assert_int_equal(strlen(back.version), GW_VERSION_TEXT_MAX - 1);
    assert_int_equal(strspn(back.version, "?"), GW_VERSION_TEXT_MAX - 1);
    assert_int_equal(strlen(back.reason), GW_REASON_TEXT_MAX - 1);
    assert_int_equal(strspn(back.reason, "?"), GW_REASON_TEXT_MAX - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hello_is_golden),
        cmocka_unit_test(reply_is_golden),
        cmocka_unit_test(every_flipped_bit_is_refused),
        cmocka_unit_test(wrong_content_is_refused),
        cmocka_unit_test(other_versions_are_named),
        cmocka_unit_test(texts_are_ended_and_printable),
    };
    return cmocka_run_group_tests_name("login", tests, NULL, NULL);
}
