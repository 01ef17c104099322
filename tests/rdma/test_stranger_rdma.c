/*
 * What a peer can do over RDMA before it has logged in: write nowhere, and get
 * no link by a false greeting.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "tests/rdma/attack.h"
#include "transport/rdma/rdma.h"

/* A peer that did not log in may write nowhere, also where it knows the key. */
static void *stranger_main(void *argument)
{
    struct attack *attack = argument;
    struct hostile friend = {.id = NULL}, stranger = {.id = NULL};
    uint8_t greeting[GW_RDMA_PRIVATE_BYTES];
    hostile_greeting(attack->incarnation, greeting);
    attack->result = 1;
    if (hostile_login(&friend, victim_address(attack->victim),
                      attack->incarnation) == 0 &&
        hostile_ask(&friend, attack->victim->window, 64) == 0 &&
        hostile_connect(&stranger, victim_address(attack->victim), greeting,
                        sizeof greeting) == 0)
        attack->result = hostile_write(&stranger, 0, 64, friend.offset,
                                       friend.key, 0) == IBV_WC_SUCCESS;
    hostile_close(&stranger);
    hostile_close(&friend);
    attack_is_over(attack);
    return NULL;
}

static void a_stranger_writes_nowhere(void **state)
{
    (void)state;
    struct victim victim;
    struct attack attack = {.incarnation = 77};
    victim_open(&victim, "rdma", GW_MEMORY_HOST);
    attack_run_thread(&victim, &attack, stranger_main);
    assert_int_equal(attack.result, 0);
    for (size_t i = 0; i < VICTIM_WINDOW; i++)
        assert_int_equal(victim_window(&victim)[i], VICTIM_FILLED);
    victim_close(&victim);
}

static void *greeting_main(void *argument)
{
    struct attack *attack = argument;
    uint8_t greeting[GW_RDMA_PRIVATE_BYTES];
    struct hostile peer;
    attack->result = 0;
    for (int i = 0; i < 4; i++) {
        hostile_greeting(42, greeting);
        greeting[i * 4] ^= 1; /* magic, version, incarnation */
        int failed = hostile_connect(&peer, victim_address(attack->victim),
                                     greeting, i == 3 ? 5 : sizeof greeting);
        if (!failed && i < 2)
            attack->result = -1;
        /* another incarnation in the hello than in the greeting */
        if (!failed && i == 2) {
            hostile_hello(&peer, 42, peer.memory);
            hostile_send(&peer, hostile_value(GW_RDMA_HELLO),
                         GW_RDMA_HELLO_BYTES);
            if (hostile_receive(&peer) != 0)
                attack->result = -1;
        }
        hostile_close(&peer);
    }
    attack_is_over(attack);
    return NULL;
}

static void a_false_greeting_is_refused(void **state)
{
    (void)state;
    struct victim victim;
    struct attack attack = {.incarnation = 42};
    victim_open(&victim, "rdma", GW_MEMORY_HOST);
    attack_run_thread(&victim, &attack, greeting_main);
    assert_int_equal(attack.result, 0);
    assert_int_equal(victim.ups, 0);
    attack_leaves_others(&victim, 9);
    victim_close(&victim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stranger_writes_nowhere),
        cmocka_unit_test(a_false_greeting_is_refused),
    };
    return cmocka_run_group_tests_name("stranger rdma", tests, NULL, NULL);
}
