/*
 * From the last join to the first step: when all members are here they get the
 * view; when the workers agree on keys and data, the start; when every shard
 * has its weights, the job runs.
 */
#include "config.h"

#include "server/coordinator/coordinator_members.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/schedule.h"
#include "server/coordinator/coordinator_end.h"
#include "server/coordinator/coordinator_keep.h"
#include "server/coordinator/coordinator_run.h"

static uint32_t count_declared(const struct gw_coordinator *self)
{
    uint32_t n = 0;
    for (const struct gw_seat *one = gw_roster_first(self); one;
         one = one->next)
        n += one->declared != 0;
    return n;
}

static uint32_t count_ready(const struct gw_coordinator *self)
{
    uint32_t n = 0;
    for (const struct gw_seat *one = gw_roster_first(self); one;
         one = one->next)
        n += one->ready != 0;
    return n;
}

uint64_t gw_start_progress(const struct gw_coordinator *self)
{
    return count_declared(self) + count_ready(self) + gw_declaration_keys(self);
}

/* ---- start ---- */

/* The device of each worker: one line where it is the same everywhere. */
static void tell_devices(struct gw_coordinator *self)
{
    const struct gw_seat *first = gw_roster_find(self, GW_ROLE_WORKER, 0);
    unsigned same = 0;
    for (const struct gw_seat *one = gw_roster_first(self); one;
         one = one->next)
        same += one->role == GW_ROLE_WORKER &&
                strcmp(one->device, first->device) == 0;
    if (same == gw_roster_workers(self)) {
        gw_coordinator_note(self, "workers compute on %s", first->device);
        return;
    }
    for (const struct gw_seat *one = gw_roster_first(self); one;
         one = one->next)
        if (one->role == GW_ROLE_WORKER)
            gw_coordinator_note(self, "%s computes on %s", one->peer->name,
                                one->device);
}

static void tell_program(struct gw_coordinator *self,
                         const struct gw_program *program,
                         int is_named)
{
    if (program->optimizer[0])
        gw_coordinator_note(self, "the job's optimizer is %s%s",
                            program->optimizer,
                            is_named ? ", as the program asks"
                                     : ", as neither the job nor the program "
                                       "names one");
    if (program->clip != 0)
        gw_coordinator_note(self, "%s is %g, as the program asks",
                            gw_config_clip_key(self->config), program->clip);
}

static struct gw_program program_of(const struct gw_coordinator *self)
{
    const struct gw_declare *declare = gw_declaration(self);
    const char *name = declare->optimizer;
    if (strcmp(name, self->config->optimizer.kind) == 0)
        name = "";
    else if (!name[0] && gw_config_optimizer_is_open(self->config))
        name = "momentum";
    return (struct gw_program){.optimizer = name, .clip = declare->clip};
}

enum gw_status gw_start_take_program(struct gw_coordinator *self,
                                     struct gw_error *error)
{
    const struct gw_program program = program_of(self);
    if (!program.optimizer[0] && program.clip == 0)
        return GW_OK;
    enum gw_status status = gw_config_take_program(&self->own, &program, error);
    if (status != GW_OK)
        return status;
    self->expects_inner = 0;
    status = gw_inner_open(self, error);
    return status == GW_OK ? gw_origin_take_program(self, error) : status;
}

static void maybe_start(struct gw_coordinator *self);

static void tell(struct gw_coordinator *self, const struct gw_start *start)
{
    gw_register_begin(self, start->groups_n > 0);
    gw_coordinator_tell_start(self, start);
}

/* All members are here and the workers agree: everyone may begin. */
static void start(struct gw_coordinator *self)
{
    struct gw_error error;
    const struct gw_declare *declare = gw_declaration(self);
    if (!gw_splitter_hand_over(self, maybe_start))
        return;
    const struct gw_program program = program_of(self);
    tell_devices(self);
    tell_program(self, &program, declare->optimizer[0] != '\0');
    if (gw_start_take_program(self, &error) != GW_OK ||
        gw_origin_check(self, &error) != GW_OK) {
        gw_coordinator_end(self, error.status, "%s", error.text);
        return;
    }
    struct gw_start start = {.total_steps = declare->total_steps,
                             .course = declare->course,
                             .test_samples = declare->test_samples,
                             .state = *gw_origin_state(self),
                             .clocks = gw_steps_first(self),
                             .clocks_n =
                                 (uint32_t)self->config->cluster.workers,
                             .silence_us = self->silence_us,
                             .optimizer = program.optimizer,
                             .clip = program.clip,
                             .resume = "",
                             .dir = "",
                             .token = "",
                             .outlives = gw_register_outlives(self) != 0};
    for (uint32_t rank = 0; rank < self->config->cluster.workers; rank++)
        gw_steps_set_first(self, rank, gw_origin_first_clock(self, rank));
    self->phase = GW_PHASE_STARTING;
    gw_origin_fill_start(self, &start);
    gw_splitter_fill_start(self, &start);
    if (gw_grouper_fill_start(self, &start, &error) != GW_OK)
        gw_coordinator_end(self, error.status, "%s", error.text);
    else
        tell(self, &start);
}

/* Workers with other keys than worker 0 are told its keys. */
static int tell_differences(struct gw_coordinator *self)
{
    int differ = 0;
    for (struct gw_seat *one = gw_roster_first(self); one; one = one->next)
        if (gw_declaration_is_other(self, one)) {
            gw_coordinator_tell_keys(self, one);
            differ = 1;
        }
    return differ;
}

static void maybe_start(struct gw_coordinator *self)
{
    if (self->phase == GW_PHASE_GATHERING && gw_roster_shards(self) > 0 &&
        gw_declaration_keys(self) > 0 &&
        gw_declaration_keys(self) == gw_declaration(self)->keys_total &&
        !tell_differences(self) &&
        count_declared(self) == self->config->cluster.workers)
        start(self);
}

/* ---- all are here ---- */

void gw_start_name_member(struct gw_seat *one)
{
    gw_roster_print(one, one->peer->name);
}

static void name_members(struct gw_coordinator *self)
{
    for (struct gw_seat *one = gw_roster_first(self); one; one = one->next) {
        one->peer->id = one->id;
        gw_start_name_member(one);
    }
}

/* A fault of a whole host stops all members of a job that runs within it, and
   no network between them can be slow. */
static void set_silence(struct gw_coordinator *self)
{
    int within_host = self->options.machine != 0;
    for (const struct gw_seat *one = gw_roster_first(self); one;
         one = one->next)
        within_host &= one->machine == self->options.machine;
    self->silence_us = gw_config_silence_us(self->config, within_host);
    gw_member_set_silence(self->member, self->silence_us);
    gw_log_info(self->log, "a member that is silent for %.1f s is dead",
                (double)self->silence_us / 1e6);
}

void gw_start_maybe_complete(struct gw_coordinator *self)
{
    uint32_t workers = gw_roster_workers(self),
             servers = gw_roster_servers(self);
    if (workers < self->config->cluster.workers ||
        servers < self->config->cluster.servers ||
        !gw_roster_number_shards(self))
        return;
    uint32_t shards = gw_roster_shards(self);
    gw_copies_place(self);
    if (self->phase >= GW_PHASE_ENDING)
        return;
    name_members(self);
    set_silence(self);
    gw_log_info(self->log, "all are here: %u worker%s, %u server%s, %u shard%s",
                workers, gw_plural(workers), servers, gw_plural(servers),
                shards, gw_plural(shards));
    if (gw_coordinator_tell_all(self) != GW_OK)
        gw_coordinator_end(self, GW_ENOMEM,
                           "the coordinator has no memory for %u members",
                           workers + shards);
    else
        maybe_start(self);
}

/* ---- declarations ---- */

/* A worker comes by itself to the steps that the job has with so many samples,
   from the cut that it goes on from. */
static int fits_job(const struct gw_coordinator *self,
                    const struct gw_declare *declare)
{
    const struct gw_config *config = self->config;
    if (gw_config_is_external(config))
        return gw_course_is_same(
                   &declare->course,
                   &(struct gw_course){.batch = declare->course.batch}) &&
               declare->course.batch > 0 &&
               declare->total_steps == gw_config_steps(config);
    const struct gw_course_cut from = gw_origin_cut(self);
    const struct gw_course course = gw_course_go_on(
        &from, gw_schedule_batch(config), declare->course.samples);
    uint64_t steps = config->train.steps
                         ? config->train.steps
                         : gw_course_end(&course, config->train.epochs);
    return declare->course.samples > 0 && declare->total_steps == steps &&
           gw_course_is_same(&declare->course, &course);
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
                             struct gw_seat *who,
                             const struct gw_declare *declare)
{
    if (who->again && who->role == GW_ROLE_WORKER &&
        self->phase == GW_PHASE_RUNNING) {
        gw_vacant_declared(self, who, declare);
        return;
    }
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
    const char *difference = gw_declaration_difference(self, who, declare);
    struct gw_error error;
    if (difference) {
        gw_coordinator_end(self, GW_EMISMATCH,
                           "worker %u on %s has %s than the others; give all "
                           "workers the same files and the same program",
                           who->id, who->host, difference);
        return;
    }
    if (gw_declaration_check_program(self, who, declare, &error) != GW_OK) {
        gw_coordinator_end(self, error.status, "%s", error.text);
        return;
    }
    if (who->id == 0 && !gw_declaration_add_keys(self, declare)) {
        gw_coordinator_end(self, GW_EPROTO, "rank 0 declares no usable keys");
        return;
    }
    gw_seat_declare(who, declare);
    if (declare->note[0] && who->id == 0 && !who->declared)
        note_data(self, declare->note);
    who->declared = 1;
    maybe_start(self);
}

/* ---- ready ---- */

void gw_coordinator_ready(struct gw_coordinator *self, struct gw_seat *who)
{
    if (!gw_seat_has_shard(who)) {
        gw_peer_reject(who->peer, 0, "message that its role does not send");
        return;
    }
    if (self->phase != GW_PHASE_STARTING || who->ready)
        return;
    who->ready = 1;
    if (count_ready(self) <
        gw_roster_shards(self) * self->config->cluster.copies)
        return;
    self->phase = GW_PHASE_RUNNING;
    gw_register_maybe_write(self);
    gw_stop_running(self);
    self->options.events->running(self->options.owner);
    /* this may have come when all was over already, on a link that broke */
    gw_coordinator_maybe_done(self);
}
