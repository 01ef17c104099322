/*
 * Members join, in any order. Each gets the job at once, so that workers can
 * open their data meanwhile.
 */
#include "config.h"

#include "server/coordinator/coordinator_members.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/coordinator/coordinator_end.h"
#include "server/coordinator/coordinator_keep.h"

/* Turns one peer away; the job is not touched. */
static void __attribute__((format(printf, 4, 5)))
refuse(struct gw_coordinator *self,
       struct gw_peer *peer,
       enum gw_status status,
       const char *format,
       ...)
{
    char text[GW_ERROR_TEXT_BYTES];
    va_list args;
    va_start(args, format);
    gw_text_print(text, sizeof text, format, args);
    va_end(args);
    struct gw_message message = {.kind = GW_MESSAGE_END,
                                 .end = {.status = status, .text = text}};
    gw_log_limited(self->log, &self->limit, GW_LOG_WARN, "%s may not join: %s",
                   peer->name, text);
    gw_peer_tell(peer, &message);
}

/* ---- workers ---- */

static int place_worker(struct gw_coordinator *self,
                        struct gw_peer *peer,
                        const struct gw_join *join,
                        uint32_t *rank_p)
{
    uint32_t all = (uint32_t)self->config->cluster.workers;
    uint32_t rank = join->rank;
    if (gw_roster_workers(self) == all) {
        refuse(self, peer, GW_EREFUSED,
               "the job has its %u worker%s (cluster.workers)", all,
               gw_plural(all));
        return 0;
    }
    if (rank == GW_RANK_NONE)
        rank = gw_grouper_free_rank(self, join->address);
    else
        gw_grouper_asked(self);
    if (rank >= all) {
        refuse(self, peer, GW_EREFUSED,
               "rank %u is out of range: the job has ranks 0..%u", rank,
               all - 1);
        return 0;
    }
    const struct gw_seat *taken = gw_roster_find(self, GW_ROLE_WORKER, rank);
    if (taken) {
        refuse(self, peer, GW_EREFUSED,
               "rank %u is taken by a worker on %s; give every worker its own "
               "--rank, or none of them one",
               rank, taken->host);
        return 0;
    }
    *rank_p = rank;
    return 1;
}

/* ---- servers ---- */

/* Every thread of a process has the same number, and each joins once. */
static int fits_process(const struct gw_coordinator *self,
                        const struct gw_join *join)
{
    for (const struct gw_seat *one = gw_roster_first(self); one;
         one = one->next)
        if (gw_seat_has_shard(one) && one->process == join->process &&
            (one->threads != join->threads || one->thread == join->thread))
            return 0;
    return join->threads > 0 && join->thread < join->threads &&
           join->threads % self->config->cluster.copies == 0;
}

/* The number of a server process. */
static int place_server(struct gw_coordinator *self,
                        struct gw_peer *peer,
                        const struct gw_join *join,
                        uint32_t *server_p)
{
    uint32_t all = (uint32_t)self->config->cluster.servers;
    uint32_t number = gw_roster_server(self, join->process);
    if (number == all) {
        refuse(self, peer, GW_EREFUSED,
               "the job has its %u server%s (cluster.servers)", all,
               gw_plural(all));
        return 0;
    }
    if (!fits_process(self, join)) {
        refuse(self, peer, GW_EPROTO, "its threads do not add up");
        return 0;
    }
    gw_roster_place_server(self, number, join->process, join->threads);
    *server_p = number;
    return 1;
}

/* Appends what fits. */
static void append(char text[GW_ADDRESSES_MAX], const char *more, size_t n)
{
    size_t used = strlen(text);
    if (used + n < GW_ADDRESSES_MAX) {
        memcpy(text + used, more, n);
        text[used + n] = '\0';
    }
}

/*
 * A server that listens on every interface names none; others reach it where
 * this process sees it come from, over each of its transports.
 */
static void place_address(struct gw_seat *who, const char *address)
{
    static const char *const any[] = {"0.0.0.0:", "[::]:"};
    const char *seen = who->peer->address;
    const char *port = strrchr(seen, ':');
    size_t host = port ? (size_t)(port - seen) : 0;
    who->address[0] = '\0';
    while (*address) {
        size_t none = 0; /* bytes of a host that is none */
        for (size_t i = 0; host > 0 && i < sizeof any / sizeof *any; i++)
            if (strncmp(address, any[i], strlen(any[i])) == 0)
                none = strlen(any[i]) - 1;
        if (none > 0)
            append(who->address, seen, host);
        else
            append(who->address, address, 1);
        address += none > 0 ? none : 1;
    }
}

/* ---- everyone ---- */

/* If a launcher starts the members, nobody else is one: any process of this
   host could dial the port. */
static int has_secret_of_job(const struct gw_coordinator *self,
                             const struct gw_peer *peer,
                             const struct gw_join *join)
{
    uint8_t proof[GW_PROOF_BYTES];
    const struct gw_join_claim claim = {.job = gw_member_job(self->member),
                                        .coordinator =
                                            gw_member_incarnation(self->member),
                                        .member = peer->incarnation,
                                        .own = join->secret};
    if (!self->options.secret)
        return 1;
    return join->has_proof &&
           gw_join_prove(self->options.secret, &claim, proof) == GW_OK &&
           gw_proof_is(join->proof, proof, sizeof proof);
}

static void keep_secret(struct gw_coordinator *self, struct gw_seat *who)
{
    struct gw_secret pair;
    if (gw_secret_of_pair(&who->secret, gw_member_incarnation(self->member),
                          &pair) == GW_OK)
        gw_peer_expect(who->peer, &pair);
    else
        gw_coordinator_end(self, GW_ENOMEM, "no memory for %s",
                           who->peer->name);
    gw_secret_forget(&pair);
}

/* NULL: there is no memory. */
static struct gw_seat *make_seat(struct gw_coordinator *self,
                                 struct gw_peer *peer,
                                 const struct gw_join *join)
{
    struct gw_seat *who = calloc(1, sizeof *who);
    if (!who) {
        refuse(self, peer, GW_ENOMEM, "the coordinator has no memory");
        return NULL;
    }
    who->peer = peer;
    who->role = join->role;
    who->process = join->process;
    who->machine = join->machine;
    who->need = join->need;
    who->pid = join->pid;
    who->threads = join->threads;
    who->thread = join->thread;
    who->incarnation = peer->incarnation;
    who->secret = join->secret;
    snprintf(who->host, sizeof who->host, "%s", join->host);
    gw_text_clean(who->host);
    place_address(who, join->address);
    gw_roster_add(self, who);
    peer->owner = who;
    return who;
}

static void welcome(struct gw_coordinator *self, const struct gw_seat *who)
{
    const struct gw_config *config = self->config;
    uint32_t workers = gw_roster_workers(self),
             servers = gw_roster_servers(self);
    struct gw_message message = {
        .kind = GW_MESSAGE_WELCOME,
        .welcome = {.rank = who->id,
                    .job = self->job_text,
                    .tuned = gw_origin_tuned(self, who),
                    .from = gw_origin_cut(self),
                    .silence_us = self->options.silence_us}};
    gw_coordinator_tell(self, who->peer, &message);
    gw_log_info(self->log,
                "%s has joined: %u of %" PRIu64 " worker%s and %u of %" PRIu64
                " server%s are here",
                who->peer->name, workers, config->cluster.workers,
                gw_plural(config->cluster.workers), servers,
                config->cluster.servers, gw_plural(config->cluster.servers));
}

/* 0: it may not join. */
static int tell_final(struct gw_coordinator *self, struct gw_peer *peer)
{
    const struct gw_message end = gw_final_message(self);
    gw_peer_tell(peer, &end);
    return 0;
}

/* In the place of a worker, or of a server, that has died, or has as it turns
   out. */
static int may_join_late(struct gw_coordinator *self,
                         struct gw_peer *peer,
                         const struct gw_join *join)
{
    int is_open = 0;
    if (join->role == GW_ROLE_WORKER && !join->cannot[0]) {
        gw_coordinator_asked_for(self, join->rank);
        is_open = gw_vacant_is_open(self);
    } else if (!join->cannot[0]) {
        gw_moves_joined(self, join);
        if (self->phase >= GW_PHASE_ENDING)
            return tell_final(self, peer);
        if (!gw_places_may_join(self, join))
            gw_coordinator_asked_to_serve(self, join->threads);
        is_open = gw_places_may_join(self, join) && fits_process(self, join);
    }
    if (!is_open)
        refuse(self, peer, GW_EREFUSED, "the job has all its members");
    return is_open && join->role == peer->role;
}

/* 0: the process may not join, cannot, or is heard later; else it is told so.
 */
static int may_join(struct gw_coordinator *self,
                    struct gw_peer *peer,
                    const struct gw_join *join)
{
    if (self->phase >= GW_PHASE_ENDING)
        return tell_final(self, peer);
    if (!has_secret_of_job(self, peer, join)) {
        refuse(self, peer, GW_EREFUSED,
               "only the processes that gradweir train has started are members "
               "of this job");
        return 0;
    }
    if (self->phase == GW_PHASE_REJOINING && join->epoch == 0 &&
        !join->cannot[0] && gw_early_keep(self, peer, join)) {
        gw_rejoin_asked_for(self, join);
        return 0;
    }
    if (self->phase == GW_PHASE_REJOINING || join->epoch > 0) {
        const char *fault = gw_rejoin_fault(self, peer, join);
        if (fault)
            refuse(self, peer, GW_EREFUSED, "%s", fault);
        return !fault && join->role == peer->role;
    }
    if (self->phase != GW_PHASE_GATHERING || gw_roster_shards(self) > 0)
        return may_join_late(self, peer, join);
    if (join->cannot[0]) {
        gw_decline(self, peer, join);
        return 0;
    }
    return join->role == peer->role;
}

static int place(struct gw_coordinator *self,
                 struct gw_peer *peer,
                 const struct gw_join *join,
                 uint32_t *id_p,
                 uint32_t *server_p)
{
    if (self->phase == GW_PHASE_REJOINING)
        return 1; /* the register has it */
    if (join->role == GW_ROLE_SERVER && gw_roster_shards(self) > 0) {
        *server_p = gw_places_number(self, join);
        return 1;
    }
    return join->role == GW_ROLE_WORKER
               ? place_worker(self, peer, join, id_p)
               : place_server(self, peer, join, server_p);
}

void gw_coordinator_joined(struct gw_coordinator *self,
                           struct gw_peer *peer,
                           const struct gw_join *join)
{
    uint32_t id = GW_RANK_NONE, server = 0;
    if (gw_decline_is_of(peer)) {
        gw_peer_reject(peer, 0, "a join of who cannot join");
        return;
    }
    if (!may_join(self, peer, join) || !place(self, peer, join, &id, &server))
        return;
    struct gw_seat *who = make_seat(self, peer, join);
    if (!who)
        return;
    keep_secret(self, who);
    if (self->phase == GW_PHASE_REJOINING) {
        gw_rejoin_taken(self, who, join->epoch);
        return;
    }
    who->id = id;
    who->server = server;
    gw_start_name_member(who);
    gw_decline_replaced(self, who);
    welcome(self, who);
    if (gw_roster_shards(self) > 0 && who->role == GW_ROLE_SERVER)
        gw_places_taken(self, who);
    else if (gw_roster_shards(self) > 0)
        gw_vacant_taken(self, who);
    else
        gw_start_maybe_complete(self);
}
