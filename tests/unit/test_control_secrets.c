/* proto/control: digests and secrets, which are there whole or not at all. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "proto/control.h"
#include "proto/login.h"
#include "proto/wire.h"

static struct gw_control_arena encode_arena, decode_arena;
static uint8_t bytes[GW_MESSAGE_BYTES_MAX];

static void encode(const struct gw_message *message, size_t *n_p)
{
    assert_int_equal(
        gw_message_encode(message, &encode_arena, bytes, sizeof bytes, n_p),
        GW_OK);
}

static enum gw_status
decode(const uint8_t *from, size_t n, struct gw_message *message)
{
    return gw_message_decode(from, n, &decode_arena, message);
}

static void what_is_absent_is_no_zeros(void **state)
{
    (void)state;
    struct gw_message again;
    size_t n = 0;
    encode(&(struct gw_message){.kind = GW_MESSAGE_BYE}, &n);
    assert_int_equal(decode(bytes, n, &again), GW_OK);
    assert_false(again.bye.has_sha256);
    encode(&(struct gw_message){.kind = GW_MESSAGE_JOIN,
                                .join = {.host = "", .address = ""}},
           &n);
    assert_int_equal(decode(bytes, n, &again), GW_OK);
    assert_false(again.join.has_proof);
}

static void parts_of_them_are_refused(void **state)
{
    (void)state;
    /* kind, length, field, length, a byte */
    static const uint8_t bye[] = {0x82, 1, 3, 2 << 3 | 2, 1, 7};
    static const uint8_t secret[] = {1 << 3 | 2, 3, 11 << 3 | 2, 1, 7};
    static const uint8_t none[] = {1 << 3 | 2, 0};
    struct gw_message again;
    assert_int_equal(decode(bye, sizeof bye, &again), GW_EPROTO);
    assert_int_equal(decode(secret, sizeof secret, &again), GW_EPROTO);
    assert_int_equal(decode(none, sizeof none, &again), GW_EPROTO);
}

/* The rest of a message is for addresses and names, 40 KiB of them. */
static void the_largest_view_fits(void **state)
{
    (void)state;
    static struct gw_view_member member[GW_MEMBERS_PER_PART];
    const struct gw_message view = {
        .kind = GW_MESSAGE_VIEW,
        .view = {.epoch = UINT64_MAX,
                 .members_total = UINT32_MAX,
                 .members_first = UINT32_MAX - GW_MEMBERS_PER_PART,
                 .members_n = GW_MEMBERS_PER_PART,
                 .members = member}};
    struct gw_message again;
    size_t n = 0;
    for (size_t i = 0; i < GW_MEMBERS_PER_PART; i++)
        member[i] = (struct gw_view_member){
            .role = GW_ROLE_WORKER,
            .id = UINT32_MAX,
            .server = UINT32_MAX,
            .incarnation = UINT64_MAX,
            .address = "",
            .host = "",
            .machine = UINT64_MAX,
            .need = {GW_NEED_THREADS_MAX, UINT64_MAX, UINT64_MAX},
            .has_secret = 1,
            .secret = {{1, [GW_SECRET_BYTES - 1] = 255}}};
    encode(&view, &n);
    assert_in_range(n, 1, GW_MESSAGE_BYTES_MAX - (40 << 10));
    assert_int_equal(decode(bytes, n, &again), GW_OK);
    for (size_t i = 0; i < GW_MEMBERS_PER_PART; i++)
        assert_memory_equal(&again.view.members[i].secret, &member[i].secret,
                            GW_SECRET_BYTES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_absent_is_no_zeros),
        cmocka_unit_test(parts_of_them_are_refused),
        cmocka_unit_test(the_largest_view_fits),
    };
    return cmocka_run_group_tests_name("control secrets", tests, NULL, NULL);
}
