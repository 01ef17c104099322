/* Hashes and digests against published values. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "proto/digest.h"
#include "proto/hash.h"
#include "proto/wire.h"

/* FNV-1a, from its authors' test vectors. */
static void hashes_are_fnv1a(void **state)
{
    (void)state;
    assert_true(gw_hash_bytes(GW_HASH_BEGIN, "", 0) == 0xcbf29ce484222325u);
    assert_true(gw_hash_bytes(GW_HASH_BEGIN, "a", 1) == 0xaf63dc4c8601ec8cu);
    assert_true(gw_hash_bytes(GW_HASH_BEGIN, "foobar", 6) ==
                0x85944171f73967e8u);
    /* the end is hashed too: two texts are not their concatenation */
    uint64_t ab = gw_hash_text(gw_hash_text(GW_HASH_BEGIN, "a"), "b");
    uint64_t whole = gw_hash_text(gw_hash_text(GW_HASH_BEGIN, "ab"), "");
    assert_true(ab != whole);
    assert_true(gw_hash_u64(GW_HASH_BEGIN, 1) !=
                gw_hash_u64(GW_HASH_BEGIN, 256));
}

/* SHA-256 of "abc", FIPS 180-2, in one piece and in three. */
static void digests_are_sha256(void **state)
{
    (void)state;
    static const char expected[] =
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    uint8_t out[GW_DIGEST_BYTES];
    char hex[2 * GW_DIGEST_BYTES + 1];
    for (size_t piece = 1; piece <= 3; piece += 2) {
        struct gw_digest *digest = gw_digest_begin();
        for (size_t at = 0; at < 3; at += piece)
            gw_digest_add(digest, &"abc"[at], piece);
        gw_digest_end(digest, out);
        gw_digest_hex(out, hex);
        assert_string_equal(hex, expected);
    }
}

/* The identity of a model: its fp32 bytes in key order, nothing else. */
static void the_digest_of_weights_is_of_their_bytes(void **state)
{
    (void)state;
    float first[] = {1, 2, 3, 4}, second[] = {-0.0f, 5};
    float *weights[] = {first, second}, *turned[] = {second, first};
    const struct gw_key keys[] = {
        {.name = "w", .dtype = GW_DTYPE_F32, .dims = 2, .shape = {2, 2}},
        {.name = "b", .dtype = GW_DTYPE_F32, .dims = 1, .shape = {2}}};
    const struct gw_key other[] = {keys[1], keys[0]};
    uint8_t a[GW_DIGEST_BYTES], b[GW_DIGEST_BYTES];
    struct gw_digest *digest = gw_digest_begin();
    gw_digest_add(digest, first, sizeof first);
    gw_digest_add(digest, second, sizeof second);
    gw_digest_end(digest, a);
    gw_digest_weights(weights, keys, 2, b);
    assert_memory_equal(a, b, sizeof a);
    gw_digest_weights(turned, other, 2, b);
    assert_memory_not_equal(a, b, sizeof a);
}

/* Sixty-four digits, and nothing that merely reads like a number. */
static void digits_are_a_digest_or_are_refused(void **state)
{
    (void)state;
    static const char good[] =
        "00ff7f80DEADbeef0123456789abcdef0123456789ABCDEFfedcba9876543210";
    static const char *const bad[] = {"  ", "+1", "-1", "0x",  "g0",
                                      "0g", " 1", "1 ", "\t1", "\xff"};
    uint8_t digest[GW_DIGEST_BYTES], same[GW_DIGEST_BYTES];
    char hex[2 * GW_DIGEST_BYTES + 2];
    assert_int_equal(gw_digest_from_hex(good, digest), 1);
    assert_int_equal(digest[0], 0);
    assert_int_equal(digest[1], 0xff);
    assert_int_equal(digest[GW_DIGEST_BYTES - 1], 0x10);
    gw_digest_hex(digest, hex);
    assert_int_equal(gw_digest_from_hex(hex, same), 1);
    assert_memory_equal(same, digest, sizeof same);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        for (size_t at = 0; at + 2 < sizeof good; at++) {
            memcpy(hex, good, sizeof good);
            memcpy(hex + at, bad[i], strlen(bad[i]));
            assert_int_equal(gw_digest_from_hex(hex, digest), 0);
        }
    assert_int_equal(gw_digest_from_hex("", digest), 0);
    assert_int_equal(gw_digest_from_hex(good + 1, digest), 0);
    memcpy(hex, good, sizeof good);
    memcpy(hex + sizeof good - 1, "0", 2);
    assert_int_equal(gw_digest_from_hex(hex, digest), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hashes_are_fnv1a),
        cmocka_unit_test(digests_are_sha256),
        cmocka_unit_test(the_digest_of_weights_is_of_their_bytes),
        cmocka_unit_test(digits_are_a_digest_or_are_refused),
    };
    return cmocka_run_group_tests_name("digest", tests, NULL, NULL);
}
