/*
 * A peer in shared memory that ends: what it had published is heard before its
 * end is told, also by a side that had just something to say to it.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/unit/shm_peer.h"

/* More than are read in one turn. */
#define FRAMES (GW_SHM_TURN_ENTRIES + 10)

static void login(struct victim *victim, struct shm_peer *peer)
{
    victim_open(victim, "shm", GW_MEMORY_SHARED);
    shm_peer_begin_login(peer, victim_address(victim));
    victim_await(victim, &victim->ups, 1);
    shm_peer_end_login(peer);
}

/* Publishes its frames, and is gone before the loop turns. */
static void say_all_and_end(struct shm_peer *peer, const struct victim *victim)
{
    uint8_t header[GW_FRAME_BYTES];
    victim_header(peer->session, victim->window, 0, 16, header);
    for (int i = 0; i < FRAMES; i++)
        shm_peer_publish(peer, GW_SHM_FRAME, 0, 16, header);
    close(peer->fd);
    peer->fd = -1;
}

static void all_is_heard(struct victim *victim, struct shm_peer *peer)
{
    victim_await(victim, &victim->downs, 1);
    assert_int_equal(victim->frames, FRAMES);
    assert_int_equal(victim->status, GW_ECLOSED);
    assert_string_equal(victim->why, "closed by the peer");
    shm_peer_close(peer);
    victim_close(victim);
}

static void by_who_shows_it_memory(void **state)
{
    (void)state;
    struct victim victim;
    struct shm_peer peer;
    login(&victim, &peer);
    say_all_and_end(&peer, &victim);
    assert_int_equal(gw_shm_export(victim.link, victim.window), GW_ECLOSED);
    all_is_heard(&victim, &peer);
}

static void by_who_grants_it_memory(void **state)
{
    (void)state;
    struct victim victim;
    struct shm_peer peer;
    uint8_t header[GW_FRAME_BYTES];
    login(&victim, &peer);
    victim_header(peer.session, victim.window, 0, 16, header);
    shm_peer_publish(&peer, GW_SHM_ASK, 0, 0, header);
    say_all_and_end(&peer, &victim);
    struct gw_shm_link *link = gw_shm_link_of(victim.link);
    gw_shm_read(link, GW_SHM_TURN_ENTRIES);
    assert_in_range(victim.frames, 1, FRAMES - 1);
    gw_shm_write(link);
    all_is_heard(&victim, &peer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_who_shows_it_memory),
        cmocka_unit_test(by_who_grants_it_memory),
    };
    return cmocka_run_group_tests_name("shm ends", tests, NULL, NULL);
}
