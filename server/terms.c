/*
 * A rank sends the terms of a clock over each of its links before its first
 * push of that clock, so they are here when a push is, except for the sum of a
 * host: that comes over another rank's link, and says whose terms change
 * (push.c defers it until they are here).
 *
 * Terms are kept as long as a push may need them. A rank pushes a chunk again
 * when it has the chunk's next weights, so pushes that are not applied are of
 * two clocks at most: the one before the oldest of them, and two more, are all
 * that a rank can have here. Where workers take the steps, no push needs any,
 * and the newest are kept for the policy after that.
 */
#include "config.h"

#include "server/terms.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/schedule.h"
#include "server/server_state.h"

#define KEPT 4

/* ---- tables ---- */

static void free_rows(struct gw_terms_rows *rows)
{
    for (uint32_t i = 0; rows->row && i <= KEPT; i++) {
        free(rows->row[i].of);
        free(rows->row[i].has);
    }
    free(rows->row);
    *rows = (struct gw_terms_rows){.n = 0};
}

/* One more than is kept, for the newest before another one goes. */
static int make_rows(struct gw_terms_rows *rows, uint32_t groups)
{
    if (rows->row)
        return 1;
    rows->row = calloc(KEPT + 1, sizeof *rows->row);
    int made = rows->row != NULL;
    for (uint32_t i = 0; made && i <= KEPT; i++) {
        struct gw_terms_row *row = &rows->row[i];
        row->of = calloc(groups, sizeof *row->of);
        row->has = calloc(groups, sizeof *row->has);
        made = row->of && row->has;
    }
    if (!made)
        free_rows(rows);
    return made;
}

void gw_terms_close(struct gw_server *server)
{
    for (uint32_t rank = 0; server->session && rank < server->ranks; rank++)
        free_rows(&server->session[rank].terms);
}

/* Row `from` goes to place `to`, those between make room. */
static void move_row(struct gw_terms_rows *rows, uint32_t from, uint32_t to)
{
    struct gw_terms_row moved = rows->row[from];
    for (; from < to; from++)
        rows->row[from] = rows->row[from + 1];
    for (; from > to; from--)
        rows->row[from] = rows->row[from - 1];
    rows->row[to] = moved;
}

static void drop_row(struct gw_terms_rows *rows, uint32_t i)
{
    move_row(rows, i, --rows->n);
}

/* The row of a clock, which is new or comes again. There is room. */
static struct gw_terms_row *row_for(struct gw_terms_rows *rows, uint64_t clock)
{
    uint32_t at = 0;
    while (at < rows->n && rows->row[at].clock < clock)
        at++;
    if (at == rows->n || rows->row[at].clock != clock)
        move_row(rows, rows->n++, at);
    rows->row[at].clock = clock;
    return &rows->row[at];
}

/* ---- in ---- */

/* No push of the rank that may still be applied has an earlier clock. */
static uint64_t least_clock(const struct gw_server *server, uint32_t rank)
{
    uint64_t least = UINT64_MAX;
    if (server->regime.outer || server->shard->chunks == 0)
        return UINT64_MAX;
    if (server->regime.per_push)
        return server->session[rank].clock;
    for (uint32_t i = 0; i < server->shard->chunks; i++)
        if (server->shard->chunk[i].version < least)
            least = server->shard->chunk[i].version;
    return least;
}

/* Rows of a decision that is to come may be of clocks that are numbered anew.
 */
static void drop_unneeded(struct gw_server *server, uint32_t rank)
{
    struct gw_terms_rows *rows = &server->session[rank].terms;
    uint64_t least = least_clock(server, rank);
    while (rows->n > 1 && rows->row[1].clock <= least &&
           rows->row[0].decision <= server->decision)
        drop_row(rows, 0);
}

/* Returns the fault of the payload, in words, or NULL. */
static const char *take(struct gw_terms_row *row,
                        uint32_t groups,
                        const uint8_t *payload,
                        uint32_t bytes,
                        char why[GW_PEER_FAULT_MAX])
{
    struct gw_group_terms terms;
    double value;
    memset(row->has, 0, groups);
    for (uint32_t at = 0; at < bytes; at += GW_TERMS_BYTES) {
        gw_terms_decode(payload + at, &terms);
        if (terms.group >= groups || row->has[terms.group])
            return "terms of a group that is not there, or twice";
        const char *fault = gw_terms_fault(&terms.terms, &value);
        if (fault) {
            snprintf(why, GW_PEER_FAULT_MAX, "terms of group %u whose %s is %g",
                     terms.group, fault, value);
            return why;
        }
        row->of[terms.group] = terms.terms;
        row->has[terms.group] = 1;
    }
    return NULL;
}

void gw_terms_frame(struct gw_server *server,
                    struct gw_peer *peer,
                    unsigned link,
                    const struct gw_frame *frame,
                    const uint8_t *payload)
{
    struct gw_terms_rows *rows = &server->session[peer->id].terms;
    uint32_t groups = server->map->groups;
    uint64_t decision = gw_session_decision(server, frame);
    char why[GW_PEER_FAULT_MAX];
    if (gw_switch_renumbered(server, decision))
        return; /* sent again; the newest are here */
    if (frame->length % GW_TERMS_BYTES != 0) {
        gw_peer_reject(peer, link, "terms that are cut off");
        return;
    }
    if (!make_rows(rows, groups)) {
        gw_server_finish(server, GW_ENOMEM, "no memory for terms of %u groups",
                         groups);
        return;
    }
    struct gw_terms_row *row = row_for(rows, frame->clock);
    row->decision = decision;
    const char *fault = take(row, groups, payload, frame->length, why);
    if (fault)
        drop_row(rows, (uint32_t)(row - rows->row));
    drop_unneeded(server, peer->id);
    if (!fault && rows->n > KEPT) {
        fault = "terms of more clocks than it can push";
        drop_row(rows, rows->n - 1);
    }
    server->has_terms = 1;
    if (fault)
        gw_peer_reject(peer, link, fault);
    else if (gw_due_has_deferred(&server->due))
        gw_due_add_all(&server->due);
}

void gw_terms_renumber(struct gw_server *server,
                       uint64_t decision,
                       uint64_t clock)
{
    for (uint32_t rank = 0; rank < server->ranks; rank++) {
        struct gw_terms_rows *rows = &server->session[rank].terms;
        uint32_t old = 0;
        /* a rank may have gone on before this shard knew */
        for (uint32_t i = 0; i < rows->n; i++)
            if (rows->row[i].decision < decision)
                move_row(rows, i, old++);
        for (; old > 1; old--)
            drop_row(rows, 0);
        if (old == 1) /* the clock itself is for terms that are set there */
            rows->row[0].clock = clock > 0 ? clock - 1 : 0;
    }
}

/* ---- questions ---- */

int gw_terms_are_here(const struct gw_server *server,
                      uint32_t rank,
                      uint64_t clock)
{
    const struct gw_terms_rows *rows = &server->session[rank].terms;
    for (uint32_t i = 0; i < rows->n; i++)
        if (rows->row[i].clock == clock)
            return 1;
    return 0;
}

static uint32_t group_of(const struct gw_server *server, uint32_t index)
{
    uint32_t global = server->shard->chunk[index].global;
    return server->map->key[server->map->chunk[global].key].group;
}

static struct gw_terms of_job(const struct gw_server *server, uint32_t index)
{
    const struct gw_config *config = &server->config;
    const struct gw_shard_chunk *chunk = &server->shard->chunk[index];
    return (struct gw_terms){
        .lr = gw_schedule_lr(config, &server->start.course,
                             chunk->pushes / server->ranks,
                             server->start.total_steps),
        .weight_decay = config->optimizer.weight_decay,
        .momentum = config->optimizer.momentum,
        .beta1 = config->optimizer.beta1,
        .beta2 = config->optimizer.beta2,
        .eps = config->optimizer.eps,
    };
}

/* NULL: the rank has set none for the chunk's group by that clock. */
static const struct gw_terms *set_by(const struct gw_server *server,
                                     uint32_t rank,
                                     uint32_t index,
                                     uint64_t clock)
{
    const struct gw_terms_rows *rows = &server->session[rank].terms;
    uint32_t group = group_of(server, index), n = rows->n;
    while (n > 0 && rows->row[n - 1].clock > clock)
        n--;
    return n > 0 && rows->row[n - 1].has[group] ? &rows->row[n - 1].of[group]
                                                : NULL;
}

static struct gw_terms of_rank(const struct gw_server *server,
                               uint32_t rank,
                               uint32_t index,
                               uint64_t clock)
{
    const struct gw_terms *set = server->has_terms && !server->regime.outer
                                     ? set_by(server, rank, index, clock)
                                     : NULL;
    return set ? *set : of_job(server, index);
}

struct gw_terms
gw_terms_of_push(const struct gw_server *server, uint32_t rank, uint32_t index)
{
    return of_rank(server, rank, index,
                   gw_shard_slot(server->shard, rank, index)->mark);
}

/* A rank from `rank` on with samples in the chunk's step. */
static uint32_t
next_with_samples(const struct gw_server *server, uint32_t rank, uint32_t index)
{
    while (rank < server->ranks) {
        const struct gw_shard_slot *slot =
            gw_shard_slot(server->shard, rank, index);
        if (slot->held && slot->samples > 0)
            break;
        rank++;
    }
    return rank;
}

struct gw_terms gw_terms_of_step(const struct gw_server *server, uint32_t index)
{
    uint32_t rank = next_with_samples(server, 0, index);
    return rank < server->ranks ? of_rank(server, rank, index,
                                          server->shard->chunk[index].version)
                                : of_job(server, index);
}

int gw_terms_agree(struct gw_server *server, uint32_t index)
{
    const struct gw_shard_chunk *chunk = &server->shard->chunk[index];
    double values[2];
    if (!server->has_terms || server->regime.outer || chunk->mean)
        return 1;
    uint32_t first = next_with_samples(server, 0, index), rank = first;
    const struct gw_terms terms = gw_terms_of_step(server, index);
    while (rank < server->ranks) {
        const struct gw_terms its =
            of_rank(server, rank, index, chunk->version);
        const char *name = gw_terms_difference(&terms, &its, values);
        if (name) {
            gw_server_finish(server, GW_EMISMATCH,
                             "step %" PRIu64 ", group %u: %s is %g on worker "
                             "%u (%s) and %g on worker %u (%s); give all ranks "
                             "the same",
                             chunk->version, group_of(server, index), name,
                             values[0], first, server->session[first].host,
                             values[1], rank, server->session[rank].host);
            return 0;
        }
        rank = next_with_samples(server, rank + 1, index);
    }
    return 1;
}
