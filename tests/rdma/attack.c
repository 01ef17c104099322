#include "config.h"

#include "tests/rdma/attack.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "transport/rdma/rdma.h"

/* Nothing of that is wrong: an honest peer's put. */
static int put(struct hostile *peer, const struct attack *attack)
{
    if (hostile_ask(peer, attack->victim->window, 64) != 0)
        return -1;
    memset(peer->memory + 4096, 1, 64);
    victim_header(peer->session, attack->victim->window, 128, 64, peer->memory);
    return hostile_write(peer, 4096, 64, peer->offset + 128, peer->key, 0) ||
           hostile_write(peer, 0, GW_FRAME_BYTES, peer->ring, peer->ring_key,
                         hostile_value(GW_RDMA_PUT));
}

void attack_is_over(struct attack *attack)
{
    gw_loop_post(attack->victim->world.loop[0], &attack->over);
}

static void *attack_main(void *argument)
{
    struct attack *attack = argument;
    struct hostile peer;
    attack->result = hostile_login(&peer, victim_address(attack->victim),
                                   attack->incarnation) == 0
                         ? attack->run(&peer, attack)
                         : -2;
    /* stays until it is thrown out: its closing must not be what is told */
    if (attack->result == 0 && attack->run != put)
        hostile_linger(&attack->victim->down);
    hostile_close(&peer);
    attack_is_over(attack);
    return NULL;
}

static int is_over(void *owner)
{
    return ((struct attack *)owner)->done;
}

static void on_over(struct gw_task *task)
{
    struct attack *attack = task->owner;
    attack->done = 1;
}

/* Runs the attacker beside the victim's loop, to its end. */
void attack_run_thread(struct victim *victim,
                       struct attack *attack,
                       void *(*main)(void *))
{
    pthread_t thread;
    attack->victim = victim;
    atomic_store(&victim->down, 0);
    attack->over = (struct gw_task){.run = on_over, .owner = attack};
    assert_int_equal(pthread_create(&thread, NULL, main, attack), 0);
    world_run(&victim->world, is_over, attack);
    pthread_join(thread, NULL);
}

void attack_run(struct victim *victim, struct attack *attack)
{
    attack_run_thread(victim, attack, attack_main);
}

void attack_leaves_others(struct victim *victim, uint64_t incarnation)
{
    struct attack honest = {.run = put, .incarnation = incarnation};
    int frames = victim->frames;
    victim->downs = 0;
    attack_run(victim, &honest);
    victim_await(victim, &victim->downs, 1); /* is not counted later */
    assert_int_equal(honest.result, 0);
    assert_int_equal(victim->frames, frames + 1);
    assert_int_equal(victim_window(victim)[128], 1);
}
