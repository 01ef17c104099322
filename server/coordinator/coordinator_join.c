/*
 * Who is there. Members join in any order; each gets the job at once, so that
 * workers can open their data meanwhile. When all are here they get the view,
 * and when the workers agree on keys and data, the start.
 */
#include "config.h"

#include "server/coordinator/coordinator_state.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/schedule.h"

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
    if (self->workers == all) {
        refuse(self, peer, GW_EREFUSED,
               "the job has its %u worker%s (cluster.workers)", all,
               gw_plural(all));
        return 0;
    }
    self->ranks_asked |= rank != GW_RANK_NONE;
    if (rank == GW_RANK_NONE)
        rank = gw_coordinator_free_rank(self, join->address);
    if (rank >= all) {
        refuse(self, peer, GW_EREFUSED,
               "rank %u is out of range: the job has ranks 0..%u", rank,
               all - 1);
        return 0;
    }
    const struct gw_roster *taken = gw_roster_find(self, GW_ROLE_WORKER, rank);
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

/* The number of a server process; threads of one process share it. */
static int place_server(struct gw_coordinator *self,
                        struct gw_peer *peer,
                        const struct gw_join *join,
                        uint32_t *server_p)
{
    uint32_t all = (uint32_t)self->config->cluster.servers, number = 0;
    while (number < self->servers &&
           self->server_process[number] != join->process)
        number++;
    if (number == all) {
        refuse(self, peer, GW_EREFUSED,
               "the job has its %u server%s (cluster.servers)", all,
               gw_plural(all));
        return 0;
    }
    for (const struct gw_roster *one = self->roster; one; one = one->next) {
        if (one->role != GW_ROLE_SERVER || one->process != join->process)
            continue;
        if (one->threads != join->threads || one->thread == join->thread) {
            refuse(self, peer, GW_EPROTO, "its threads do not add up");
            return 0;
        }
    }
    if (join->threads == 0 || join->thread >= join->threads) {
        refuse(self, peer, GW_EPROTO, "its threads do not add up");
        return 0;
    }
    if (number == self->servers) {
        self->server_process[number] = join->process;
        self->servers++;
    }
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
static void place_address(struct gw_roster *who, const char *address)
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

/* Shards are numbered by server, then by thread. 0 while one is missing. */
static uint32_t number_shards(struct gw_coordinator *self)
{
    uint32_t next = 0;
    for (uint32_t server = 0; server < self->servers; server++) {
        uint32_t first = next, threads = 0, found = 0;
        for (struct gw_roster *one = self->roster; one; one = one->next) {
            if (one->role != GW_ROLE_SERVER || one->server != server)
                continue;
            one->id = first + one->thread;
            threads = one->threads;
            found++;
        }
        if (found < threads)
            return 0;
        next += threads;
    }
    return next;
}

/* ---- everyone ---- */

static void name_member(struct gw_roster *one)
{
    uint32_t number = one->role == GW_ROLE_SERVER ? one->server : one->id;
    snprintf(one->peer->name, sizeof one->peer->name, "%s %u (%.40s, pid %u)",
             gw_role_name(one->role), number, one->host, one->pid);
}

static void name_members(struct gw_coordinator *self)
{
    for (struct gw_roster *one = self->roster; one; one = one->next) {
        one->peer->id = one->id;
        name_member(one);
    }
}

/* What computes: one line where it is the same everywhere. */
static void tell_devices(struct gw_coordinator *self)
{
    const struct gw_roster *first = gw_roster_find(self, GW_ROLE_WORKER, 0);
    unsigned same = 0;
    for (const struct gw_roster *one = self->roster; one; one = one->next)
        same += one->role == GW_ROLE_WORKER &&
                strcmp(one->device, first->device) == 0;
    if (same == self->workers) {
        gw_coordinator_note(self, "workers compute on %s", first->device);
        return;
    }
    for (const struct gw_roster *one = self->roster; one; one = one->next)
        if (one->role == GW_ROLE_WORKER)
            gw_coordinator_note(self, "%s computes on %s", one->peer->name,
                                one->device);
}

static void maybe_start(struct gw_coordinator *self);

/* All members are here and the workers agree: everyone may begin. */
static void start(struct gw_coordinator *self)
{
    struct gw_error error;
    if (!gw_splitter_hand_over(self, maybe_start))
        return;
    tell_devices(self);
    if (gw_origin_check(self, &error) != GW_OK) {
        gw_coordinator_end(self, error.status, "%s", error.text);
        return;
    }
    self->start =
        (struct gw_start){.total_steps = self->declare.total_steps,
                          .course = self->declare.course,
                          .test_samples = self->declare.test_samples,
                          .state = self->state,
                          .clocks = self->gather_each.first,
                          .clocks_n = (uint32_t)self->config->cluster.workers,
                          .silence_us = self->silence_us,
                          .resume = "",
                          .dir = "",
                          .token = ""};
    for (uint32_t rank = 0; rank < self->config->cluster.workers; rank++)
        self->gather_each.first[rank] = gw_origin_first_clock(self, rank);
    self->phase = GW_PHASE_STARTING;
    gw_origin_fill_start(self, &self->start);
    gw_splitter_fill_start(self, &self->start);
    if (gw_coordinator_group(self, &self->start, &error) != GW_OK)
        gw_coordinator_end(self, error.status, "%s", error.text);
    else
        gw_coordinator_tell_on(self);
}

static void maybe_start(struct gw_coordinator *self)
{
    if (self->phase == GW_PHASE_GATHERING && self->shards > 0 &&
        self->declared == self->config->cluster.workers &&
        self->keys_seen == self->declare.keys_total)
        start(self);
}

/* A fault of a whole host stops all of a job that is there, and no network
   between them can be slow. */
static void set_silence(struct gw_coordinator *self)
{
    int within_host = self->options.machine != 0;
    for (const struct gw_roster *one = self->roster; one; one = one->next)
        within_host &= one->machine == self->options.machine;
    self->silence_us = gw_config_silence_us(self->config, within_host);
    gw_member_set_silence(self->member, self->silence_us);
    gw_log_info(self->log, "a member that is silent for %.1f s is dead",
                (double)self->silence_us / 1e6);
}

static void maybe_complete(struct gw_coordinator *self)
{
    if (self->workers < self->config->cluster.workers ||
        self->servers < self->config->cluster.servers)
        return;
    uint32_t shards = number_shards(self);
    if (shards == 0)
        return;
    self->shards = shards;
    name_members(self);
    set_silence(self);
    gw_log_info(self->log, "all are here: %u worker%s, %u server%s, %u shard%s",
                self->workers, gw_plural(self->workers), self->servers,
                gw_plural(self->servers), self->shards,
                gw_plural(self->shards));
    if (gw_coordinator_tell_all(self) != GW_OK)
        gw_coordinator_end(self, GW_ENOMEM,
                           "the coordinator has no memory for %u members",
                           self->workers + self->shards);
    else
        maybe_start(self);
}

/* Where members are started by a launcher, nobody else is one: whoever may
   dial the port could be anybody of this host. */
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

static void keep_secret(struct gw_coordinator *self, struct gw_roster *who)
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

/* A place among the members; NULL: there is no memory. */
static struct gw_roster *make_roster(struct gw_coordinator *self,
                                     struct gw_peer *peer,
                                     const struct gw_join *join)
{
    struct gw_roster *who = calloc(1, sizeof *who);
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
    who->next = self->roster;
    self->roster = who;
    peer->owner = who;
    return who;
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
    if (self->phase >= GW_PHASE_ENDING) {
        struct gw_message end = {.kind = GW_MESSAGE_END,
                                 .end = {.status = self->final.status,
                                         .clock = self->step,
                                         .text = self->final_text}};
        gw_peer_tell(peer, &end);
        return;
    }
    if (!has_secret_of_job(self, peer, join)) {
        refuse(self, peer, GW_EREFUSED,
               "only the processes that gradweir train has started are members "
               "of this job");
        return;
    }
    if (self->phase != GW_PHASE_GATHERING || self->shards > 0) {
        refuse(self, peer, GW_EREFUSED, "the job has all its members");
        return;
    }
    if (join->cannot[0]) {
        gw_decline(self, peer, join);
        return;
    }
    if (gw_roster_of(self, peer) || join->role != peer->role ||
        (join->role == GW_ROLE_WORKER &&
         !place_worker(self, peer, join, &id)) ||
        (join->role == GW_ROLE_SERVER &&
         !place_server(self, peer, join, &server)))
        return;
    struct gw_roster *who = make_roster(self, peer, join);
    if (!who)
        return;
    who->id = id;
    who->server = server;
    name_member(who);
    keep_secret(self, who);
    gw_decline_replaced(self, who);
    self->workers += join->role == GW_ROLE_WORKER;
    struct gw_message message = {
        .kind = GW_MESSAGE_WELCOME,
        .welcome = {.rank = id,
                    .job = self->job_text,
                    .tuned = gw_origin_tuned(self, who),
                    .from = gw_origin_cut(self),
                    .silence_us = self->options.silence_us}};
    gw_coordinator_tell(self, peer, &message);
    gw_log_info(self->log,
                "%s has joined: %u of %" PRIu64 " worker%s and %u of %" PRIu64
                " server%s are here",
                peer->name, self->workers, self->config->cluster.workers,
                gw_plural(self->config->cluster.workers), self->servers,
                self->config->cluster.servers,
                gw_plural(self->config->cluster.servers));
    maybe_complete(self);
}

/* ---- keys ---- */

/* Rank 0's keys, part by part. */
static int take_keys(struct gw_coordinator *self,
                     const struct gw_declare *declare)
{
    if (!self->keys)
        self->keys = calloc(declare->keys_total + 1, sizeof *self->keys);
    if (!self->keys || declare->keys_total == 0 ||
        declare->keys_first != self->keys_seen)
        return 0;
    memcpy(self->keys + declare->keys_first, declare->keys,
           declare->keys_n * sizeof *self->keys);
    self->keys_seen += declare->keys_n;
    return 1;
}

static const char *difference(const struct gw_declare *a,
                              const struct gw_declare *b)
{
    if (a->keys_hash != b->keys_hash || a->keys_total != b->keys_total)
        return "another model (names, shapes or types of its keys)";
    if (a->course.samples != b->course.samples)
        return "another number of training samples";
    if (memcmp(a->data_digest, b->data_digest, GW_DIGEST_BYTES) != 0)
        return "other training data";
    if (a->test_samples != b->test_samples)
        return "another number of test samples";
    return "another number of steps";
}

/* The steps that the job has with so many samples, from where it goes on: what
   a worker comes to by itself. */
static int fits_job(const struct gw_coordinator *self,
                    const struct gw_declare *declare)
{
    const struct gw_config *config = self->config;
    const struct gw_course_cut from = gw_origin_cut(self);
    const struct gw_course course = gw_course_go_on(
        &from, gw_schedule_batch(config), declare->course.samples);
    uint64_t steps = config->train.steps
                         ? config->train.steps
                         : gw_course_end(&course, config->train.epochs);
    return declare->course.samples > 0 && declare->total_steps == steps &&
           gw_course_is_same(&declare->course, &course);
}

/* What all must have said alike, which shards are told too; no pointer into the
   message outlives it. */
static void keep_declare(struct gw_coordinator *self,
                         const struct gw_declare *first)
{
    self->declare = (struct gw_declare){
        .keys_hash = first->keys_hash,
        .course = first->course,
        .total_steps = first->total_steps,
        .test_samples = first->test_samples,
        .keys_total = first->keys_total,
        .device = "",
        .tuned = "",
        .note = "",
    };
    memcpy(self->declare.data_digest, first->data_digest, GW_DIGEST_BYTES);
    self->has_declare = 1;
}

/* How the data was read. */
static void note_data(struct gw_coordinator *self, const char *note)
{
    char text[GW_ERROR_TEXT_BYTES];
    snprintf(text, sizeof text, "%s", note);
    gw_text_clean(text);
    gw_coordinator_note(self, "%s", text);
}

void gw_coordinator_declared(struct gw_coordinator *self,
                             struct gw_roster *who,
                             const struct gw_declare *declare)
{
    if (who->role != GW_ROLE_WORKER || self->phase != GW_PHASE_GATHERING) {
        gw_peer_reject(who->peer, 0, "a declaration that nobody waits for");
        return;
    }
    if (!fits_job(self, declare)) {
        gw_coordinator_end(self, GW_EMISMATCH,
                           "worker %u on %s counts other steps than the job "
                           "has; give it the same program",
                           who->id, who->host);
        return;
    }
    if (!self->has_declare)
        keep_declare(self, declare);
    const struct gw_declare *known = &self->declare;
    if (declare->keys_hash != known->keys_hash ||
        declare->keys_total != known->keys_total ||
        !gw_course_is_same(&declare->course, &known->course) ||
        declare->total_steps != known->total_steps ||
        declare->test_samples != known->test_samples ||
        memcmp(declare->data_digest, known->data_digest, GW_DIGEST_BYTES)) {
        gw_coordinator_end(self, GW_EMISMATCH,
                           "worker %u on %s has %s than the others; give all "
                           "workers the same files and the same program",
                           who->id, who->host, difference(declare, known));
        return;
    }
    if (who->id == 0 && !take_keys(self, declare)) {
        gw_coordinator_end(self, GW_EPROTO, "rank 0 declares no usable keys");
        return;
    }
    snprintf(who->device, sizeof who->device, "%s", declare->device);
    gw_text_clean(who->device);
    snprintf(who->tuned, sizeof who->tuned, "%s", declare->tuned);
    gw_text_clean(who->tuned);
    who->shares = declare->shares;
    if (declare->note[0] && who->id == 0 && !who->declared)
        note_data(self, declare->note);
    self->declared += !who->declared;
    who->declared = 1;
    maybe_start(self);
}

void gw_coordinator_ready(struct gw_coordinator *self, struct gw_roster *who)
{
    if (who->role != GW_ROLE_SERVER) {
        gw_peer_reject(who->peer, 0, "message that its role does not send");
        return;
    }
    if (self->phase != GW_PHASE_STARTING || who->ready)
        return;
    who->ready = 1;
    if (++self->ready < self->shards)
        return;
    self->phase = GW_PHASE_RUNNING;
    self->options.events->running(self->options.owner);
    /* this may have come when all was over already, on a link that broke */
    gw_coordinator_maybe_done(self);
}

void gw_coordinator_forget(struct gw_coordinator *self)
{
    while (self->roster) {
        struct gw_roster *one = self->roster;
        self->roster = one->next;
        gw_files_close(one);
        free(one);
    }
    gw_decline_close(self);
    free(self->groups);
    free(self->keys);
    free(self->server_process);
}
