#include "config.h"

#include "server/recent.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/server_state.h"

static struct gw_recent_one *one_of(struct gw_recent *recent, uint64_t number)
{
    return &recent->one[number % GW_RECENT];
}

/* The decision with its values and text in place. */
static struct gw_decision told_of(struct gw_recent *recent, uint64_t number)
{
    struct gw_recent_one *one = one_of(recent, number);
    struct gw_decision decision = one->decision;
    decision.values = one->values;
    decision.ranks = one->ranks;
    decision.policy = one->policy;
    return decision;
}

void gw_recent_open(struct gw_server *server,
                    void (*follow)(struct gw_server *server,
                                   const struct gw_decision *decision))
{
    server->recent.follow = follow;
}

static int keep_lists(struct gw_recent_one *one,
                      const struct gw_decision *decision)
{
    size_t values = decision->values_n * sizeof *one->values;
    size_t ranks = decision->ranks_n * sizeof *one->ranks;
    double *more_values = realloc(one->values, values + sizeof *one->values);
    if (more_values)
        one->values = more_values;
    uint32_t *more_ranks = realloc(one->ranks, ranks + sizeof *one->ranks);
    if (more_ranks)
        one->ranks = more_ranks;
    if (!more_values || !more_ranks)
        return 0;
    if (values > 0)
        memcpy(one->values, decision->values, values);
    if (ranks > 0)
        memcpy(one->ranks, decision->ranks, ranks);
    return 1;
}

/* Decisions have no clocks where all ranks make each step together. */
void gw_recent_add(struct gw_server *server, const struct gw_decision *decision)
{
    struct gw_recent *recent = &server->recent;
    struct gw_recent_one *one = one_of(recent, decision->number);
    if (one->decision.number > decision->number)
        return;
    if (!keep_lists(one, decision)) {
        gw_server_finish(server, GW_ENOMEM, "no memory for a decision");
        return;
    }
    one->decision = *decision;
    one->decision.clocks = NULL;
    one->decision.clocks_n = 0;
    snprintf(one->policy, sizeof one->policy, "%s",
             decision->policy ? decision->policy : "");
    if (decision->number > recent->last)
        recent->last = decision->number;
}

void gw_recent_close(struct gw_server *server)
{
    for (size_t i = 0; i < GW_RECENT; i++) {
        free(server->recent.one[i].values);
        free(server->recent.one[i].ranks);
    }
}

void gw_recent_taken(struct gw_server *server, uint64_t number)
{
    struct gw_recent *recent = &server->recent;
    int waited = gw_recent_waits(server);
    while (gw_recent_waits(server) && recent->taken < number) {
        const struct gw_decision next = told_of(recent, ++recent->taken);
        recent->follow(server, &next);
    }
    if (waited && !gw_recent_waits(server))
        gw_due_add_all(&server->due);
}

int gw_recent_waits(const struct gw_server *server)
{
    return server->leader && server->recent.taken < server->recent.last;
}

uint64_t gw_recent_first(const struct gw_server *server)
{
    uint64_t last = server->recent.last;
    return last > GW_RECENT ? last - GW_RECENT + 1 : 1;
}

/* A worker that begins here has heard of none before, and needs none. */
static void
tell_passed(struct gw_server *server, struct gw_peer *peer, uint64_t number)
{
    const struct gw_decision passed = {.kind = GW_DECIDE_PASSED,
                                       .number = number,
                                       .stands_for = (uint32_t)number};
    if (number > 0)
        gw_tell_decision(server, peer, &passed);
}

void gw_recent_tell(struct gw_server *server, struct gw_peer *peer)
{
    struct gw_recent *recent = &server->recent;
    if (peer->role == GW_ROLE_WORKER)
        tell_passed(server, peer, gw_recent_first(server) - 1);
    for (uint64_t number = gw_recent_first(server); number <= recent->last;
         number++) {
        const struct gw_decision decision = told_of(recent, number);
        if (decision.number == number)
            gw_tell_decision(server, peer, &decision);
    }
}
