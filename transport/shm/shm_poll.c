/*
 * Shared memory is polled by the loop: every link, and before the loop sleeps
 * the peers are told to wake it, by a message over the socket, which libuv
 * polls. See loop_uv_poll.c. A publisher checks if the other side sleeps, and a
 * side that goes to sleep checks once more for published entries: both in one
 * order, so that one of them sees the other.
 */
#include "config.h"

#include "transport/shm/shm.h"

#include <sched.h>

/* Polls for which the peers are told that we sleep: the one right after arming,
   and the one after the sleep. */
#define POLLS_ASLEEP 2

/* Entries published before the socket's end came before it; a peer that goes on
   publishing is not waited for. */
static void read_the_rest(struct gw_shm_link *link)
{
    gw_shm_read(link, GW_SHM_ENTRIES);
    if (link->base.up)
        gw_shm_fail(link, GW_ECLOSED, "closed by the peer");
}

static int poll_link(struct gw_shm_link *link)
{
    if (link->broken) {
        gw_shm_fail(link, GW_ECLOSED, link->broken_why);
        return 1;
    }
    if (link->ended) {
        read_the_rest(link);
        return 1;
    }
    int did = gw_shm_read(link, GW_SHM_TURN_ENTRIES);
    if (link->base.up)
        did += gw_shm_write(link);
    return did;
}

static void say_asleep(struct gw_shm *shm, int polls)
{
    shm->asleep = polls;
    for (const struct gw_connection *one = shm->connections.newest; one;
         one = one->next)
        if (one->state == GW_CONNECTION_UP)
            atomic_store(&gw_shm_link_of(one->link)->in.queue->asleep,
                         polls > 0);
}

/* Handlers may end any link: the cursor moves on with those that go. When the
   loop's turn is over it stays, and the next poll goes on from there, so that
   all links have their turn. */
static int poll_links(struct gw_shm *shm)
{
    int did = 0;
    if (!shm->cursor)
        shm->cursor = shm->connections.newest;
    while (shm->cursor) {
        struct gw_connection *one = shm->cursor;
        shm->cursor = one->next;
        if (one->state == GW_CONNECTION_UP)
            did += poll_link(gw_shm_link_of(one->link));
        if (did && shm->cursor && gw_loop_turn_is_over(shm->base.loop))
            break;
    }
    return did;
}

/* A handler that turns the loop does not poll again. */
static int poll_shm(struct gw_poller *poller, uint64_t now_us)
{
    struct gw_shm *shm = GW_CONTAINER(poller, struct gw_shm, poller);
    if (shm->polling)
        return 0;
    shm->polling = 1;
    shm->now_us = now_us;
    gw_shm_unfence(shm);
    int did = poll_links(shm);
    shm->polling = 0;
    if (shm->asleep && (did || --shm->asleep == 0))
        say_asleep(shm, 0);
    poller->waits = shm->connections.newest != NULL;
    poller->busy = shm->busy && poller->waits;
    /* between vain polls other threads may have the processor */
    if (!did && shm->in_vain && poller->waits)
        sched_yield();
    shm->in_vain = !did;
    return did;
}

static void arm(struct gw_poller *poller)
{
    say_asleep(GW_CONTAINER(poller, struct gw_shm, poller), POLLS_ASLEEP);
}

void gw_shm_poll_open(struct gw_shm *shm)
{
    shm->uv = &gw_uv_loop_of(shm->base.loop)->uv;
    shm->now_us = gw_loop_now(shm->base.loop);
    shm->poller.poll = poll_shm;
    shm->poller.arm = arm;
    gw_uv_poller_add(shm->base.loop, &shm->poller);
}

void gw_shm_poll_close(struct gw_shm *shm)
{
    gw_uv_poller_remove(shm->base.loop, &shm->poller);
}
