/*
 * What shared memory is to the loop: it looks at every link, and where it would
 * sleep, the peers are told to wake it, by a word over the socket that libuv
 * polls. See loop_uv_look.c. Whoever publishes looks whether the other side
 * sleeps, and who goes to sleep looks once more whether something was
 * published: both in one order, so that one of them sees the other.
 */
#include "config.h"

#include "transport/shm/shm.h"

#include <sched.h>

/* How long it is said to be asleep: over the look that follows at once, and
   until the one that follows the sleep. */
#define LOOKS_ASLEEP 2

/* What was published before a socket's end came before it; a peer that goes on
   publishing is not waited for. */
static void read_the_rest(struct gw_shm_link *link)
{
    gw_shm_read(link, GW_SHM_ENTRIES);
    if (link->base.up)
        gw_shm_fail(link, GW_ECLOSED, "closed by the peer");
}

static int look_at(struct gw_shm_link *link)
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

static void say_asleep(struct gw_shm *shm, int looks)
{
    shm->asleep = looks;
    for (const struct gw_life *one = shm->lives.newest; one; one = one->next)
        if (one->state == GW_LIFE_UP)
            atomic_store(&gw_shm_link_of(one->link)->in.queue->asleep,
                         looks > 0);
}

/* Handlers may end any link: the cursor moves on with those that go. Where the
   loop's turn is over it stays, and the next look goes on from there, so that
   all links have their turn. */
static int look_at_links(struct gw_shm *shm)
{
    int did = 0;
    if (!shm->cursor)
        shm->cursor = shm->lives.newest;
    while (shm->cursor) {
        struct gw_life *one = shm->cursor;
        shm->cursor = one->next;
        if (one->state == GW_LIFE_UP)
            did += look_at(gw_shm_link_of(one->link));
        if (did && shm->cursor && gw_loop_turn_is_over(shm->base.loop))
            break;
    }
    return did;
}

/* One that turns the loop does not look again. */
static int look(struct gw_looker *looker, uint64_t now_us)
{
    struct gw_shm *shm = GW_CONTAINER(looker, struct gw_shm, looker);
    if (shm->looking)
        return 0;
    shm->looking = 1;
    shm->now_us = now_us;
    gw_shm_unfence(shm);
    int did = look_at_links(shm);
    shm->looking = 0;
    if (shm->asleep && (did || --shm->asleep == 0))
        say_asleep(shm, 0);
    looker->waits = shm->lives.newest != NULL;
    looker->busy = shm->busy && looker->waits;
    /* between looks in vain others get the processor, if they wait for it */
    if (!did && shm->in_vain && looker->waits)
        sched_yield();
    shm->in_vain = !did;
    return did;
}

static void arm(struct gw_looker *looker)
{
    say_asleep(GW_CONTAINER(looker, struct gw_shm, looker), LOOKS_ASLEEP);
}

void gw_shm_poll_open(struct gw_shm *shm)
{
    shm->uv = &gw_uv_loop_of(shm->base.loop)->uv;
    shm->now_us = gw_loop_now(shm->base.loop);
    shm->looker.look = look;
    shm->looker.arm = arm;
    gw_uv_look_begin(shm->base.loop, &shm->looker);
}

void gw_shm_poll_close(struct gw_shm *shm)
{
    gw_uv_look_end(shm->base.loop, &shm->looker);
}
