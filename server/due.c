#include "config.h"

#include "server/due.h"

enum gw_status gw_due_open(struct gw_due *due,
                           struct gw_loop *loop,
                           uint32_t chunks,
                           void (*look)(void *owner, uint32_t chunk),
                           void *owner)
{
    due->chunks.loop = loop;
    due->chunks.handle = look;
    due->chunks.owner = owner;
    return gw_backlog_open(&due->chunks, chunks);
}

void gw_due_close(struct gw_due *due)
{
    gw_backlog_close(&due->chunks);
}

void gw_due_add(struct gw_due *due, uint32_t chunk)
{
    gw_backlog_add(&due->chunks, chunk);
}

void gw_due_add_all(struct gw_due *due)
{
    gw_backlog_add_all(&due->chunks);
}

int gw_due_later(struct gw_due *due, uint64_t now, uint32_t chunk)
{
    if (!gw_loop_turn_is_over_at(due->chunks.loop, now))
        return 0;
    gw_due_add(due, chunk);
    return 1;
}

void gw_due_defer(struct gw_due *due)
{
    due->deferred++;
}

void gw_due_undefer(struct gw_due *due, uint32_t n)
{
    due->deferred -= n;
}

int gw_due_has_deferred(const struct gw_due *due)
{
    return due->deferred > 0;
}

void gw_due_want_waits(struct gw_due *due)
{
    due->wants_ahead = 1;
}

void gw_due_decided(struct gw_due *due)
{
    int waits = due->wants_ahead || due->deferred;
    due->wants_ahead = 0;
    if (waits)
        gw_due_add_all(due);
}
