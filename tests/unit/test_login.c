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
    .proof = {0x4a, 0x28, 0xb1, 0xe0, 0xfe, 0xbb, 0xe2, 0x3b, 0x83, 0x85, 0xb9,
              0x42},
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

/* Written by hand from docs/PROTOCOL.md; CRCs and proofs by a few
   lines of Python, the secret of the dialling member being the bytes 1 to 32.
 */
/* clang-format off */
static const uint8_t golden_hello[GW_HELLO_BYTES] = {
    0x47, 0x57, 0x48, 0x45, 0x4c, 0x4c, 0x4f, 0x00, 0x02, 0x00, 0x60, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x31, 0x2e, 0x32, 0x2e, 0x33, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x03, 0x01, 0x02, 0x00, 0x07, 0x00, 0x00, 0x00,
    0x05, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x18, 0x17, 0x16, 0x15,
    0x14, 0x13, 0x12, 0x11, 0x28, 0x27, 0x26, 0x25, 0x24, 0x23, 0x22, 0x21,
    0x38, 0x37, 0x36, 0x35, 0x34, 0x33, 0x32, 0x31, 0x4a, 0x28, 0xb1, 0xe0,
    0xfe, 0xbb, 0xe2, 0x3b, 0x83, 0x85, 0xb9, 0x42, 0x6d, 0x3b, 0xb3, 0xa8,
};

static const uint8_t golden_reply[] = { /* up to the reason, then zeros */
    0x47, 0x57, 0x52, 0x45, 0x50, 0x4c, 0x59, 0x00, 0x02, 0x00, 0x00, 0x01,
    0x00, 0x00, 0x00, 0x00, 0x31, 0x2e, 0x32, 0x2e, 0x33, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0xdf, 0xff, 0xff, 0xff, 0x04, 0x03, 0x02, 0x01,
    0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x18, 0x17, 0x16, 0x15,
    0x14, 0x13, 0x12, 0x11, 0x28, 0x27, 0x26, 0x25, 0x24, 0x23, 0x22, 0x21,
    0x6e, 0x6f,
};

static const uint8_t golden_reply_crc[4] = {0x39, 0x11, 0xd7, 0xd1};

static const uint8_t golden_pair[GW_SECRET_BYTES] = { /* with `expects` */
    0x82, 0x59, 0x72, 0xd6, 0x36, 0x1f, 0x22, 0xa2, 0xf7, 0x79, 0x1b, 0xf9,
    0x61, 0xdb, 0x5a, 0x69, 0x9a, 0x98, 0xb6, 0x75, 0xdc, 0x88, 0x04, 0xa8,
    0xd0, 0x79, 0x73, 0xf1, 0xaa, 0x12, 0x3f, 0xd1,
};

/* The job's secret is the bytes 64 to 95, the coordinator is `incarnation`, the
   member `expects`. */
static const uint8_t golden_join[GW_PROOF_BYTES] = {
    0xed, 0xf2, 0x8f, 0xf3, 0xa6, 0x5f, 0x7e, 0xf3, 0xbe, 0x15, 0x75, 0x83,
    0x27, 0xfa, 0x77, 0x15, 0x55, 0x0f, 0xc8, 0xa2, 0x53, 0xa8, 0xad, 0x77,
    0x61, 0xc1, 0x29, 0xf6, 0xd8, 0x9b, 0x90, 0xbb,
};
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
    assert_int_equal(back.wire, GW_WIRE_VERSION);
    assert_memory_equal(back.proof, hello.proof, sizeof hello.proof);
}

static void secret_of_bytes(uint8_t first, struct gw_secret *secret)
{
    for (size_t i = 0; i < sizeof secret->byte; i++)
        secret->byte[i] = (uint8_t)(first + i);
}

static void proofs_are_golden(void **state)
{
    (void)state;
    struct gw_hello made = hello;
    struct gw_secret pair, of_job;
    struct gw_join_claim claim = {.job = hello.job,
                                  .coordinator = hello.incarnation,
                                  .member = hello.expects};
    uint8_t proof[GW_PROOF_BYTES];
    secret_of_bytes(1, &claim.own);
    secret_of_bytes(64, &of_job);
    assert_int_equal(gw_secret_of_pair(&claim.own, hello.expects, &pair),
                     GW_OK);
    assert_memory_equal(pair.byte, golden_pair, sizeof golden_pair);
    memset(made.proof, 0, sizeof made.proof);
    assert_int_equal(gw_hello_prove(&made, &pair), GW_OK);
    assert_memory_equal(made.proof, hello.proof, sizeof hello.proof);
    assert_int_equal(gw_join_prove(&of_job, &claim, proof), GW_OK);
    assert_memory_equal(proof, golden_join, sizeof golden_join);
    assert_true(gw_proof_is(proof, golden_join, sizeof proof));
    proof[31] ^= 1;
    assert_false(gw_proof_is(proof, golden_join, sizeof proof));
    gw_secret_forget(&pair);
    for (size_t i = 0; i < sizeof pair.byte; i++)
        assert_int_equal(pair.byte[i], 0);
}

/* A listener that has heard a hello cannot say anything else with its proof. */
static void a_proof_is_of_one_hello(void **state)
{
    (void)state;
    struct gw_secret pair, other;
    struct gw_hello proved = hello, changed[10];
    secret_of_bytes(1, &pair);
    secret_of_bytes(2, &other);
    assert_int_equal(gw_hello_prove(&proved, &pair), GW_OK);
    assert_int_equal(gw_hello_is_proved(&proved, &pair), GW_OK);
    assert_int_equal(gw_hello_is_proved(&proved, &other), GW_EREFUSED);
    for (size_t i = 0; i < 10; i++)
        changed[i] = proved;
    changed[0].role = GW_ROLE_SERVER;
    changed[1].link ^= 1;
    changed[2].links++;
    changed[3].generation++;
    changed[4].rank++;
    changed[5].epoch++;
    changed[6].job++;
    changed[7].incarnation++;
    changed[8].expects++;
    changed[9].proof[GW_HELLO_PROOF_BYTES - 1] ^= 1;
    for (size_t i = 0; i < 10; i++)
        assert_int_equal(gw_hello_is_proved(&changed[i], &pair), GW_EREFUSED);
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
    nobody = hello;
    nobody.generation = 0;
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
    assert_int_equal(hello_back.wire, GW_WIRE_VERSION + 1);
    gw_reply_encode(&reply, bytes);
    bytes[8] = GW_WIRE_VERSION + 1;
    memset(bytes + 40, 0xee, GW_REPLY_BYTES - 40);
    assert_int_equal(gw_reply_decode(bytes, &reply_back), GW_EVERSION);
    assert_string_equal(reply_back.version, "1.2.3");
    assert_int_equal(reply_back.wire, GW_WIRE_VERSION + 1);
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
        cmocka_unit_test(proofs_are_golden),
        cmocka_unit_test(a_proof_is_of_one_hello),
        cmocka_unit_test(reply_is_golden),
        cmocka_unit_test(every_flipped_bit_is_refused),
        cmocka_unit_test(wrong_content_is_refused),
        cmocka_unit_test(other_versions_are_named),
        cmocka_unit_test(texts_are_ended_and_printable),
    };
    return cmocka_run_group_tests_name("login", tests, NULL, NULL);
}
