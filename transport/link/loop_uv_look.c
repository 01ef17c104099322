/*
 * Who cannot be told by a descriptor of what comes, or would be told too late,
 * is looked at: before the loop would sleep, and where messages come one soon
 * after the other, for a while again and again, since to be woken takes longer
 * than many of them. How long is learnt: a wait that was in vain halves it, one
 * that was too short by little doubles it. Then the lookers are armed, and
 * something wakes the loop.
 *
 *   prepare   look (and look), or arm        then libuv sleeps, or not
 *   check     look
 *
 * A caller that waits for the loop looks first and turns libuv now and then.
 */
#include "config.h"

#include "transport/link/loop_uv.h"

#include <stdatomic.h>

#define SPIN_MOST_US  100
#define SPIN_LEAST_US 5

/* So long, before libuv looks at everything else. */
#define LOOK_US 200

static struct gw_uv_loop *loop_of(struct gw_uv_look *look)
{
    return GW_CONTAINER(look, struct gw_uv_loop, look);
}

static void do_not_sleep(uv_idle_t *spin)
{
    (void)spin;
}

void gw_uv_look_soon(struct gw_loop *loop)
{
    uv_idle_start(&gw_uv_loop_of(loop)->look.spin, do_not_sleep);
}

/* What has come, to all of them. One of them may go in between. */
static int look_once(struct gw_uv_look *look, uint64_t now)
{
    struct gw_looker *next;
    int n = 0;
    for (struct gw_looker *one = look->first; one; one = next) {
        next = one->next;
        n += one->look(one, now);
    }
    return n;
}

/* The next message came: soon after the loop had armed, to sleep? */
static void has_seen(struct gw_uv_look *look, uint64_t now)
{
    look->seen_us = now;
    if (look->armed_us && now - look->armed_us < SPIN_MOST_US)
        look->spin_us =
            look->spin_us * 2 < SPIN_MOST_US ? look->spin_us * 2 : SPIN_MOST_US;
    look->armed_us = 0;
}

static void arm(struct gw_uv_look *look, uint64_t now)
{
    if (!look->armed_us && look->seen_us)
        look->spin_us = look->spin_us / 2 > SPIN_LEAST_US ? look->spin_us / 2
                                                          : SPIN_LEAST_US;
    look->armed_us = now;
    for (struct gw_looker *one = look->first; one; one = one->next)
        one->arm(one);
}

/* Whether it is worth while to look again, and not to sleep. */
static int is_busy(const struct gw_uv_look *look, uint64_t now)
{
    int waits = 0;
    for (const struct gw_looker *one = look->first; one; one = one->next) {
        if (one->busy)
            return 1;
        waits |= one->waits;
    }
    return waits && now < look->seen_us + look->spin_us;
}

/* Looks until something has come, where that is soon, but not after `end`, nor
   while a task waits. *now_p is kept up to date. */
static int look_on(struct gw_uv_look *look, uint64_t *now_p, uint64_t end)
{
    struct gw_uv_loop *self = loop_of(look);
    struct gw_loop *loop = &self->base;
    int n = look_once(look, *now_p);
    while (n == 0 && *now_p < end && is_busy(look, *now_p) &&
           !atomic_load(&self->tasks_wait)) {
        *now_p = gw_loop_now(loop);
        n = look_once(look, *now_p);
    }
    if (n > 0) {
        *now_p = gw_loop_now(loop); /* what has come may take its time */
        has_seen(look, *now_p);
    }
    return n;
}

/* Whether a caller has the loop, or somebody is waiting for it. */
static int is_wanted(struct gw_uv_loop *self)
{
    return self->share.caller_drives ||
           atomic_load(&self->share.caller_wants) ||
           atomic_load(&self->tasks_wait);
}

static void on_prepare(uv_prepare_t *prepare)
{
    struct gw_uv_look *look = prepare->data;
    struct gw_uv_loop *self = loop_of(look);
    gw_uv_turn_before_poll(self);
    uint64_t now = self->turn.began_us, end = now + LOOK_US;
    int n;
    /* a caller looks by himself, and wants what has come at once */
    do
        n = look_on(look, &now, is_wanted(self) ? now : end);
    while (n > 0 && now < end && !is_wanted(self));
    gw_uv_turn_worked(self, now);
    if (n == 0 && !is_busy(look, now)) {
        arm(look, now);
        n = look_once(look, now); /* what came before that tells nobody */
    }
    if (n > 0 || is_busy(look, now) || look->fired)
        gw_uv_look_soon(&self->base);
    else
        uv_idle_stop(&look->spin);
    look->fired = 0;
}

static void on_check(uv_check_t *check)
{
    struct gw_uv_look *look = check->data;
    uint64_t now = gw_loop_now(&loop_of(look)->base);
    if (look_once(look, now) > 0)
        has_seen(look, now);
}

int gw_uv_look_quickly(struct gw_uv_loop *self)
{
    struct gw_uv_look *look = &self->look;
    if (!look->first)
        return 0;
    uint64_t now = gw_loop_now(&self->base);
    if (now >= look->turned_us + LOOK_US || atomic_load(&self->tasks_wait)) {
        look->turned_us = now;
        return 0;
    }
    gw_uv_turn_begin(self, now);
    int n = look_on(look, &now, look->turned_us + LOOK_US);
    gw_uv_turn_end(self, now);
    if (n == 0)
        look->turned_us = now;
    return n > 0;
}

void gw_uv_look_begin(struct gw_loop *loop, struct gw_looker *looker)
{
    struct gw_uv_look *look = &gw_uv_loop_of(loop)->look;
    if (!look->first) {
        uv_prepare_start(&look->before, on_prepare);
        uv_check_start(&look->after, on_check);
    }
    looker->next = look->first;
    look->first = looker;
}

void gw_uv_look_end(struct gw_loop *loop, struct gw_looker *looker)
{
    struct gw_uv_look *look = &gw_uv_loop_of(loop)->look;
    struct gw_looker **at = &look->first;
    while (*at && *at != looker)
        at = &(*at)->next;
    if (*at)
        *at = looker->next;
    if (look->first)
        return;
    uv_prepare_stop(&look->before);
    uv_check_stop(&look->after);
    uv_idle_stop(&look->spin);
}

void gw_uv_look_open(struct gw_uv_loop *self)
{
    struct gw_uv_look *look = &self->look;
    uv_prepare_init(&self->uv, &look->before);
    uv_check_init(&self->uv, &look->after);
    uv_idle_init(&self->uv, &look->spin);
    look->before.data = look->after.data = look;
    look->spin_us = SPIN_MOST_US;
}

void gw_uv_look_close(struct gw_uv_loop *self)
{
    struct gw_uv_look *look = &self->look;
    uv_close((uv_handle_t *)&look->before, NULL);
    uv_close((uv_handle_t *)&look->after, NULL);
    uv_close((uv_handle_t *)&look->spin, NULL);
}
