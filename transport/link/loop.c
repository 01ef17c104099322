#include "config.h"

#include "transport/link/loop.h"

static struct gw_timer *timer_of(const struct gw_heap_node *node)
{
    return GW_CONTAINER(node, struct gw_timer, node);
}

/* Timers due at the same time fire in the order in which they were started. */
static int timer_before(const struct gw_heap_node *a,
                        const struct gw_heap_node *b)
{
    const struct gw_timer *first = timer_of(a), *second = timer_of(b);
    if (first->due_us != second->due_us)
        return first->due_us < second->due_us;
    return first->order < second->order;
}

uint64_t gw_loop_now(struct gw_loop *loop)
{
    return loop->ops->now_us(loop);
}

void gw_timer_start(struct gw_loop *loop,
                    struct gw_timer *timer,
                    uint64_t delay_us)
{
    loop->timers.before = timer_before;
    if (timer->active)
        gw_heap_remove(&loop->timers, &timer->node);
    timer->active = 1;
    timer->due_us = gw_loop_now(loop) + delay_us;
    timer->order = loop->timer_order++;
    gw_heap_insert(&loop->timers, &timer->node);
    loop->ops->timers_changed(loop);
}

void gw_timer_stop(struct gw_loop *loop, struct gw_timer *timer)
{
    if (!timer->active)
        return;
    timer->active = 0;
    gw_heap_remove(&loop->timers, &timer->node);
    loop->ops->timers_changed(loop);
}

uint64_t gw_loop_next_due(const struct gw_loop *loop)
{
    const struct gw_heap_node *first = gw_heap_first(&loop->timers);
    return first ? timer_of(first)->due_us : UINT64_MAX;
}

/* A timer that is started again while firing waits for the next round. */
void gw_loop_fire_timers(struct gw_loop *loop)
{
    uint64_t now = gw_loop_now(loop), round = loop->timer_order;
    for (;;) {
        struct gw_heap_node *first = gw_heap_first(&loop->timers);
        if (!first)
            break;
        struct gw_timer *timer = timer_of(first);
        if (timer->due_us > now || timer->order >= round)
            break;
        timer->active = 0;
        gw_heap_remove(&loop->timers, first);
        timer->fire(timer);
    }
    loop->ops->timers_changed(loop);
}

static void beat_all(struct gw_loop *loop, uint64_t now)
{
    for (struct gw_pulse *one = loop->pulses; one; one = one->next)
        one->beat(one, now);
}

int gw_loop_turn_is_over_at(struct gw_loop *loop, uint64_t now_us)
{
    beat_all(loop, now_us);
    return now_us >= loop->ops->turn_began_us(loop) + GW_TURN_US;
}

int gw_loop_turn_is_over(struct gw_loop *loop)
{
    return gw_loop_turn_is_over_at(loop, gw_loop_now(loop));
}

void gw_loop_pulse(struct gw_loop *loop)
{
    beat_all(loop, gw_loop_now(loop));
}

void gw_loop_pulse_begin(struct gw_loop *loop, struct gw_pulse *pulse)
{
    pulse->next = loop->pulses;
    loop->pulses = pulse;
}

void gw_loop_pulse_end(struct gw_loop *loop, struct gw_pulse *pulse)
{
    struct gw_pulse **at = &loop->pulses;
    while (*at && *at != pulse)
        at = &(*at)->next;
    if (*at)
        *at = pulse->next;
}

void gw_loop_worked(struct gw_loop *loop, uint64_t bytes)
{
    loop->ops->worked(loop, bytes);
}

void gw_loop_post(struct gw_loop *loop, struct gw_task *task)
{
    if (atomic_exchange(&task->queued, 1))
        return;
    loop->ops->post(loop, task);
}

void gw_loop_unpost(struct gw_loop *loop, struct gw_task *task)
{
    loop->ops->unpost(loop, task);
    atomic_store(&task->queued, 0);
}

int gw_tasks_remove(struct gw_task **first,
                    struct gw_task ***last_p,
                    struct gw_task *task)
{
    struct gw_task **place = first;
    while (*place && *place != task)
        place = &(*place)->next;
    if (!*place)
        return 0;
    *place = task->next;
    if (!*place)
        *last_p = place;
    return 1;
}

void gw_loop_work(struct gw_loop *loop, struct gw_work *work)
{
    loop->ops->work(loop, work);
}

void gw_loop_cancel(struct gw_loop *loop, struct gw_work *work)
{
    if (work->job)
        loop->ops->cancel(loop, work);
}

void gw_loop_random(struct gw_loop *loop, void *bytes, size_t n)
{
    loop->ops->random(loop, bytes, n);
}

void gw_loop_run(struct gw_loop *loop)
{
    loop->ops->run(loop);
}

void gw_loop_stop(struct gw_loop *loop)
{
    loop->ops->stop(loop);
}

enum gw_status gw_loop_share(struct gw_loop *loop, struct gw_error *error)
{
    return loop->ops->share(loop, error);
}

void gw_loop_unshare(struct gw_loop *loop)
{
    loop->ops->unshare(loop);
}

int gw_loop_thread(struct gw_loop *loop, pthread_t *thread_p)
{
    return loop->ops->thread(loop, thread_p);
}

void gw_loop_enter(struct gw_loop *loop)
{
    loop->ops->enter(loop);
}

void gw_loop_computed(struct gw_loop *loop, const struct gw_computed *part)
{
    loop->ops->computed(loop, part);
}

void gw_loop_interrupt(struct gw_loop *loop)
{
    loop->ops->interrupt(loop);
}

void gw_loop_turn(struct gw_loop *loop)
{
    loop->ops->turn(loop, NULL, NULL);
}

void gw_loop_await(struct gw_loop *loop, int (*done)(void *owner), void *owner)
{
    while (!done(owner))
        loop->ops->turn(loop, done, owner);
}

void gw_loop_leave(struct gw_loop *loop)
{
    loop->ops->leave(loop);
}

void gw_loop_close(struct gw_loop *loop)
{
    if (loop)
        loop->ops->close(loop);
}
