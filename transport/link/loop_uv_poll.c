/*
 * Adaptive polling. Sources without a file descriptor (shm queues, completion
 * queues) are polled before the loop sleeps. When traffic is dense the loop
 * spins for up to SPIN_MOST_US first, because a wake-up costs more than several
 * messages. The time is adapted: a spin without a message halves it, a sleep
 * that a message ended early doubles it. Then the pollers are armed, and
 * something wakes the loop.
 *
 *   prepare   poll (and poll), or arm        then libuv sleeps, or not
 *   check     poll
 *
 * A caller that waits for the loop polls first and runs libuv now and then.
 */
#include "config.h"

#include "transport/link/loop_uv.h"

#include <stdatomic.h>

#define SPIN_MOST_US  100
#define SPIN_LEAST_US 5

/* Time of polling before libuv checks everything else. */
#define POLL_US 200

static struct gw_uv_loop *loop_of(struct gw_uv_polling *polling)
{
    return GW_CONTAINER(polling, struct gw_uv_loop, polling);
}

static void do_not_sleep(uv_idle_t *spin)
{
    (void)spin;
}

void gw_uv_poll_soon(struct gw_loop *loop)
{
    uv_idle_start(&gw_uv_loop_of(loop)->polling.spin, do_not_sleep);
}

/* Polls all sources once. A poller may be removed in between. */
static int poll_once(struct gw_uv_polling *polling, uint64_t now)
{
    struct gw_poller *next;
    int n = 0;
    for (struct gw_poller *one = polling->first; one; one = next) {
        next = one->next;
        n += one->poll(one, now);
    }
    return n;
}

/* A message came: if soon after arming, the spin was too short. */
static void has_seen(struct gw_uv_polling *polling, uint64_t now)
{
    polling->seen_us = now;
    if (polling->armed_us && now - polling->armed_us < SPIN_MOST_US)
        polling->spin_us = polling->spin_us * 2 < SPIN_MOST_US
                               ? polling->spin_us * 2
                               : SPIN_MOST_US;
    polling->armed_us = 0;
}

static void arm(struct gw_uv_polling *polling, uint64_t now)
{
    if (!polling->armed_us && polling->seen_us)
        polling->spin_us = polling->spin_us / 2 > SPIN_LEAST_US
                               ? polling->spin_us / 2
                               : SPIN_LEAST_US;
    polling->armed_us = now;
    for (struct gw_poller *one = polling->first; one; one = one->next)
        one->arm(one);
}

/* Non-zero if polling on is better than sleeping. */
static int is_busy(const struct gw_uv_polling *polling, uint64_t now)
{
    int waits = 0;
    for (const struct gw_poller *one = polling->first; one; one = one->next) {
        if (one->busy)
            return 1;
        waits |= one->waits;
    }
    return waits && now < polling->seen_us + polling->spin_us;
}

/* Polls until a message comes, if that is soon, but not after `end`, nor while
   a task waits. *now_p is kept up to date. */
static int
poll_until(struct gw_uv_polling *polling, uint64_t *now_p, uint64_t end)
{
    struct gw_uv_loop *self = loop_of(polling);
    struct gw_loop *loop = &self->base;
    int n = poll_once(polling, *now_p);
    while (n == 0 && *now_p < end && is_busy(polling, *now_p) &&
           !atomic_load(&self->tasks_wait)) {
        *now_p = gw_loop_now(loop);
        n = poll_once(polling, *now_p);
    }
    if (n > 0) {
        *now_p =
            gw_loop_now(loop); /* handling the messages may have taken long */
        has_seen(polling, *now_p);
    }
    return n;
}

/* Non-zero if a caller has the loop, or a caller or task waits for it. */
static int is_wanted(struct gw_uv_loop *self)
{
    return self->share.caller_drives ||
           atomic_load(&self->share.caller_wants) ||
           atomic_load(&self->tasks_wait);
}

static void on_prepare(uv_prepare_t *prepare)
{
    struct gw_uv_polling *polling = prepare->data;
    struct gw_uv_loop *self = loop_of(polling);
    gw_uv_turn_before_poll(self);
    uint64_t now = self->turn.began_us, end = now + POLL_US;
    int n;
    /* a caller polls by itself, and wants its messages at once */
    do
        n = poll_until(polling, &now, is_wanted(self) ? now : end);
    while (n > 0 && now < end && !is_wanted(self));
    gw_uv_turn_worked(self, now);
    if (n == 0 && !is_busy(polling, now)) {
        arm(polling, now);
        n = poll_once(
            polling,
            now); /* messages that came before the arming wake nothing */
    }
    if (n > 0 || is_busy(polling, now) || polling->fired)
        gw_uv_poll_soon(&self->base);
    else
        uv_idle_stop(&polling->spin);
    polling->fired = 0;
}

static void on_check(uv_check_t *check)
{
    struct gw_uv_polling *polling = check->data;
    uint64_t now = gw_loop_now(&loop_of(polling)->base);
    if (poll_once(polling, now) > 0)
        has_seen(polling, now);
}

int gw_uv_poll_quickly(struct gw_uv_loop *self)
{
    struct gw_uv_polling *polling = &self->polling;
    if (!polling->first)
        return 0;
    uint64_t now = gw_loop_now(&self->base);
    if (now >= polling->turned_us + POLL_US || atomic_load(&self->tasks_wait)) {
        polling->turned_us = now;
        return 0;
    }
    gw_uv_turn_begin(self, now);
    int n = poll_until(polling, &now, polling->turned_us + POLL_US);
    gw_uv_turn_end(self, now);
    if (n == 0)
        polling->turned_us = now;
    return n > 0;
}

void gw_uv_poller_add(struct gw_loop *loop, struct gw_poller *poller)
{
    struct gw_uv_polling *polling = &gw_uv_loop_of(loop)->polling;
    if (!polling->first) {
        uv_prepare_start(&polling->before, on_prepare);
        uv_check_start(&polling->after, on_check);
    }
    poller->next = polling->first;
    polling->first = poller;
}

void gw_uv_poller_remove(struct gw_loop *loop, struct gw_poller *poller)
{
    struct gw_uv_polling *polling = &gw_uv_loop_of(loop)->polling;
    struct gw_poller **at = &polling->first;
    while (*at && *at != poller)
        at = &(*at)->next;
    if (*at)
        *at = poller->next;
    if (polling->first)
        return;
    uv_prepare_stop(&polling->before);
    uv_check_stop(&polling->after);
    uv_idle_stop(&polling->spin);
}

void gw_uv_polling_open(struct gw_uv_loop *self)
{
    struct gw_uv_polling *polling = &self->polling;
    uv_prepare_init(&self->uv, &polling->before);
    uv_check_init(&self->uv, &polling->after);
    uv_idle_init(&self->uv, &polling->spin);
    polling->before.data = polling->after.data = polling;
    polling->spin_us = SPIN_MOST_US;
}

void gw_uv_polling_close(struct gw_uv_loop *self)
{
    struct gw_uv_polling *polling = &self->polling;
    uv_close((uv_handle_t *)&polling->before, NULL);
    uv_close((uv_handle_t *)&polling->after, NULL);
    uv_close((uv_handle_t *)&polling->spin, NULL);
}
