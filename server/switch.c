/*
 * From one policy to the next, where all chunks have one clock.
 *
 * Between policies whose pushes are applied together the switch is decided one
 * exchange before its clock. A rank that pushes for that exchange has heard of
 * it, so it is known wherever a chunk gets to that clock. A shard goes over
 * when its last chunk is there; nobody can have pushed more by then.
 *
 * From per-push policies it is decided where all ranks stand still. Clocks are
 * numbered anew: every rank and every chunk is at the step of the switch. A
 * push from before it, sent again over a link that broke, is a duplicate.
 *
 * A checkpoint of that clock is of the policy that begins there.
 */
#include "config.h"

#include "server/commit.h"

#include <inttypes.h>

enum gw_status gw_switch_follow_rounds(struct gw_server *server,
                                       struct gw_error *error)
{
    const struct gw_regime *regime = &server->regime;
    const struct gw_rounds rounds = gw_rounds_of(
        &server->config, &regime->word, server->switches.base_clock,
        regime->until, server->start.total_steps, &server->start.course);
    return gw_shard_follow(server->shard, &rounds, error);
}

/* There are none of members that follow the protocol. */
static void forget_pushes(struct gw_server *server)
{
    for (uint32_t rank = 0; rank < server->ranks; rank++)
        for (uint32_t i = 0; i < server->shard->chunks; i++) {
            gw_due_undefer(&server->due,
                           gw_shard_slot(server->shard, rank, i)->landed);
            gw_shard_unhold(server->shard, rank, i);
        }
}

/* Every chunk is where the next policy begins. */
static void go_over(struct gw_server *server)
{
    struct gw_error error;
    struct gw_switch next = server->switches.next;
    server->switches.next = server->switches.after;
    server->switches.after = (struct gw_switch){0};
    server->regime = next.regime;
    gw_switch_start(server, next.clock, next.pushes);
    gw_commit_of(server)->begin(server);
    gw_deregister_copies(server);
    if (gw_shard_keep(server->shard, next.regime.arrays, next.regime.optimizer,
                      &error) != GW_OK ||
        gw_switch_follow_rounds(server, &error) != GW_OK) {
        gw_server_finish(server, error.status, "%s", error.text);
        return;
    }
    gw_register_arrays(server);
    gw_shard_renumber(server->shard, next.clock);
    if (gw_switch_renumbers(server, next.decision))
        gw_terms_renumber(server, next.decision, next.clock);
    for (uint32_t rank = 0; rank < server->ranks; rank++) {
        server->session[rank].clock = next.clock;
        server->session[rank].pushed = 0;
    }
    forget_pushes(server);
    if (next.cut)
        gw_save_cut(server, next.cut - 1, next.clock);
    gw_due_add_all(&server->due);
}

void gw_switch_reached(struct gw_server *server)
{
    if (!server->switches.next.decision || gw_commit_of(server)->quiesces)
        return;
    for (uint32_t i = 0; i < server->shard->chunks; i++)
        if (server->shard->chunk[i].version != server->switches.next.clock)
            return;
    go_over(server);
}

int gw_switch_delays_cut(struct gw_server *server,
                         uint64_t clock,
                         uint64_t version)
{
    if (!server->switches.next.decision ||
        server->switches.next.clock != version)
        return 0;
    server->switches.next.cut = clock + 1;
    return 1;
}

void gw_switch_decided(struct gw_server *server,
                       const struct gw_decision *decision)
{
    struct gw_error error;
    struct gw_policy_word word;
    struct gw_switch next = {.decision = decision->number,
                             .clock = decision->clock};
    if (decision->values_n > 0)
        gw_decision_count(decision->values[0], &next.pushes);
    enum gw_status status =
        gw_policy_word_parse(decision->policy, &word, &error);
    if (status == GW_OK)
        status = gw_config_check_word(&server->config, &word, &error);
    if (status == GW_OK)
        status = gw_regime_make(&server->config, &word, decision->clock,
                                &next.regime, &error);
    if (status != GW_OK) {
        gw_server_finish(server, status == GW_ENOMEM ? status : GW_EPROTO,
                         "decision %" PRIu64 " of shard 0: %s",
                         decision->number, error.text);
        return;
    }
    if (server->switches.next.decision) {
        server->switches.after = next;
        return;
    }
    server->switches.next = next;
    if (!gw_commit_of(server)->quiesces) {
        gw_switch_reached(server);
        return;
    }
    gw_commit_of(server)->quiesce(server);
    server->switches.renumbered = decision->number;
    go_over(server);
}

void gw_switch_start(struct gw_server *server, uint64_t clock, uint64_t pushes)
{
    server->switches.base_clock = clock;
    server->switches.base_pushes = pushes;
}

void gw_switch_fill_standing(const struct gw_server *server,
                             struct gw_standing *standing)
{
    standing->base_clock = server->switches.base_clock;
    standing->base_pushes = server->switches.base_pushes;
    standing->renumbered = server->switches.renumbered;
}

uint64_t gw_switch_last_begun(const struct gw_server *server)
{
    uint64_t next = server->switches.next.decision;
    return next ? next - 1 : UINT64_MAX;
}

uint64_t gw_switch_base_clock(const struct gw_server *server)
{
    return server->switches.base_clock;
}

const struct gw_regime *gw_switch_next(const struct gw_server *server)
{
    const struct gw_switch *next = &server->switches.next;
    return next->decision ? &next->regime : NULL;
}

const struct gw_regime *gw_switch_last(const struct gw_server *server)
{
    const struct gw_switches *all = &server->switches;
    const struct gw_switch *last =
        all->after.decision ? &all->after : &all->next;
    return last->decision ? &last->regime : &server->regime;
}

int gw_switch_may_follow(const struct gw_server *server, uint64_t clock)
{
    const struct gw_switches *all = &server->switches;
    uint64_t last = all->next.decision ? all->next.clock : 0;
    return !all->after.decision && clock > last;
}

int gw_switch_forbids(const struct gw_server *server, uint64_t clock)
{
    const struct gw_switch *next = &server->switches.next;
    return next->decision && clock >= next->clock;
}

int gw_switch_renumbered(const struct gw_server *server, uint64_t decision)
{
    return decision < server->switches.renumbered;
}

int gw_switch_renumbers(const struct gw_server *server, uint64_t decision)
{
    return decision == server->switches.renumbered;
}
