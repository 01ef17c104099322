/*
 * The length of a turn of the loop. It begins when libuv has checked its
 * timers. Each of its two parts, before the poll and after it, has GW_TURN_US;
 * the counter has both together, without the sleep between them.
 *
 *   timers --> begin: poll --> libuv, asleep or not --> sockets, tasks, poll
 *
 * libuv notes the time of its wake-up in milliseconds, which is exact enough.
 */
#include "config.h"

#include "transport/link/loop_uv.h"

#include "proto/metrics.h"

void gw_uv_turn_begin(struct gw_uv_loop *self, uint64_t now_us)
{
    self->turn.polls = 0;
    self->turn.began_us = now_us;
    self->turn.before_us = self->turn.spent_us = 0;
    self->turn.polled = 0;
    self->turn.lasts = 1;
}

/* Once: if libuv polls several times in a turn, the first poll counts. */
static void note_wake(struct gw_uv_loop *self)
{
    uint64_t woke_us = uv_now(&self->uv) * 1000;
    if (self->turn.polled ||
        woke_us <= self->turn.began_us + self->turn.before_us)
        return;
    self->turn.began_us = woke_us;
    self->turn.spent_us = self->turn.before_us;
    self->turn.polled = 1;
}

uint64_t gw_uv_turn_began_us(struct gw_loop *loop)
{
    struct gw_uv_loop *self = gw_uv_loop_of(loop);
    if (!self->turn.lasts)
        gw_uv_turn_begin(self, gw_loop_now(loop));
    note_wake(self);
    return self->turn.began_us;
}

void gw_uv_turn_end(struct gw_uv_loop *self, uint64_t now_us)
{
    struct gw_metrics *metrics = self->base.metrics;
    if (self->turn.lasts && metrics)
        gw_metrics_raise(metrics, GW_METRIC_LONGEST_TURN_US,
                         self->turn.spent_us + now_us - self->turn.began_us);
    self->turn.lasts = 0;
}

void gw_uv_turn_before_poll(struct gw_uv_loop *self)
{
    if (self->turn.polls)
        return;
    uint64_t now = gw_loop_now(&self->base);
    gw_uv_turn_end(self, now);
    gw_uv_turn_begin(self, now);
    self->turn.polls = 1;
}

void gw_uv_turn_worked(struct gw_uv_loop *self, uint64_t now_us)
{
    self->turn.before_us = now_us - self->turn.began_us;
}

static void on_prepare(uv_prepare_t *prepare)
{
    gw_uv_turn_before_poll(prepare->data);
}

/* From here on libuv's time is not that of the wake-up any more. */
static void on_check(uv_check_t *check)
{
    struct gw_uv_loop *self = check->data;
    note_wake(self);
    self->turn.polled = 1;
    self->turn.polls = 0;
}

/* The handles keep no loop running. */
void gw_uv_turn_open(struct gw_uv_loop *self)
{
    struct gw_uv_turn *turn = &self->turn;
    uv_prepare_init(&self->uv, &turn->before);
    uv_check_init(&self->uv, &turn->after);
    turn->before.data = turn->after.data = self;
    uv_prepare_start(&turn->before, on_prepare);
    uv_check_start(&turn->after, on_check);
    uv_unref((uv_handle_t *)&turn->before);
    uv_unref((uv_handle_t *)&turn->after);
}

void gw_uv_turn_close(struct gw_uv_loop *self)
{
    uv_close((uv_handle_t *)&self->turn.before, NULL);
    uv_close((uv_handle_t *)&self->turn.after, NULL);
}
