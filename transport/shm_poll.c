/*
 * Where the loop looks for what has come through shared memory. Before it would
 * sleep, every link is looked at, and looked at again for a while (look.h);
 * then the peers are told to wake it, by a word over the socket that libuv
 * polls. Whoever publishes looks whether the other side sleeps, and who goes to
 * sleep looks once more whether something was published: both in one order, so
 * that one of them sees the other.
 *
 *   prepare   look (and look), or tell the peers    then libuv sleeps, or not
 *   check     awake; look
 */
#include "config.h"

#include "transport/shm.h"

#include <sched.h>

/* So long, before libuv looks at everything else. */
#define LOOK_US 50

static void on_spin(uv_idle_t *spin)
{
    (void)spin;
}

void gw_shm_do_not_sleep(struct gw_shm *shm)
{
    if (!uv_is_closing((uv_handle_t *)&shm->spin))
        uv_idle_start(&shm->spin, on_spin);
}

/* What was published before a socket's end came before it; a peer that goes on
   publishing is not waited for. */
static void read_the_rest(struct gw_shm_link *link)
{
    gw_shm_read(link, GW_SHM_ENTRIES);
    if (link->state == GW_SHM_UP)
        gw_shm_fail(link, GW_ECLOSED, "closed by the peer");
}

static int look_at(struct gw_shm_link *link)
{
    int did = 0;
    if (link->broken) {
        gw_shm_fail(link, GW_ECLOSED, link->broken_why);
        return 1;
    }
    if (link->ended) {
        read_the_rest(link);
        return 1;
    }
    did += gw_shm_read(link, GW_SHM_TURN_ENTRIES);
    if (link->state == GW_SHM_UP)
        did += gw_shm_write(link);
    return did;
}

/* Handlers may end any link: the cursor moves on with those that go. */
static int look(struct gw_shm *shm)
{
    int did = 0;
    if (shm->looking)
        return 0;
    shm->looking = 1;
    struct gw_shm_link *link = shm->links;
    while (link) {
        shm->cursor = link->next;
        if (link->state == GW_SHM_UP)
            did += look_at(link);
        link = shm->cursor;
    }
    shm->looking = 0;
    if (did)
        gw_look_found(&shm->look, gw_loop_now(shm->base.loop));
    return did;
}

static void say_asleep(struct gw_shm *shm, int asleep)
{
    if (!asleep && !shm->asleep)
        return;
    shm->asleep = asleep;
    for (struct gw_shm_link *one = shm->links; one; one = one->next)
        if (one->state == GW_SHM_UP)
            atomic_store(&one->in.queue->asleep, (uint32_t)asleep);
}

static void on_prepare(uv_prepare_t *prepare)
{
    struct gw_shm *shm = prepare->data;
    struct gw_loop *loop = shm->base.loop;
    uint64_t now = gw_loop_now(loop), began = now;
    gw_shm_unfence(shm);
    int busy = look(shm);
    while (!busy && shm->links && gw_look_goes_on(&shm->look, now) &&
           now < began + LOOK_US) {
        sched_yield();
        busy = look(shm);
        now = gw_loop_now(loop);
    }
    if (!busy && !gw_look_goes_on(&shm->look, now)) {
        say_asleep(shm, 1);
        busy = look(shm);
        if (!busy)
            gw_look_sleeps(&shm->look, now);
        else
            say_asleep(shm, 0);
    }
    if (busy || (shm->links && gw_look_goes_on(&shm->look, now)))
        gw_shm_do_not_sleep(shm);
    else
        uv_idle_stop(&shm->spin);
}

static void on_check(uv_check_t *check)
{
    struct gw_shm *shm = check->data;
    say_asleep(shm, 0);
    look(shm);
}

void gw_shm_poll_open(struct gw_shm *shm)
{
    shm->uv = &gw_uv_loop_of(shm->base.loop)->uv;
    uv_prepare_init(shm->uv, &shm->before_poll);
    uv_check_init(shm->uv, &shm->after_poll);
    uv_idle_init(shm->uv, &shm->spin);
    shm->before_poll.data = shm->after_poll.data = shm->spin.data = shm;
    shm->handles = 3;
    uv_prepare_start(&shm->before_poll, on_prepare);
    uv_check_start(&shm->after_poll, on_check);
}

static void on_closed(uv_handle_t *handle)
{
    gw_shm_handle_gone(handle->data);
}

void gw_shm_poll_close(struct gw_shm *shm)
{
    uv_close((uv_handle_t *)&shm->before_poll, on_closed);
    uv_close((uv_handle_t *)&shm->after_poll, on_closed);
    uv_close((uv_handle_t *)&shm->spin, on_closed);
}
