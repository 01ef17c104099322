/* The coordinator: opening and closing. */
#include "config.h"

#include "server/coordinator/coordinator_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/coordinator/coordinator_end.h"
#include "server/coordinator/coordinator_keep.h"
#include "server/coordinator/coordinator_members.h"
#include "server/coordinator/coordinator_run.h"

static void ending(struct gw_coordinator *self)
{
    gw_register_end(self);
    gw_ahead_recheck(self);
}

/* A shard that is asked where it stands has heard that it is one. */
static void registered(struct gw_coordinator *self)
{
    gw_rejoin_registered(self);
    gw_names_registered(self);
    gw_vacant_registered(self);
    if (gw_copies_registered(self) && !gw_moves_look(self))
        gw_copies_tell_all(self);
}

static const struct gw_upcalls upcalls = {
    .report = gw_coordinator_report_act,
    .registered = registered,
    .joined = gw_coordinator_joined,
    .concluded = gw_coordinator_maybe_done,
    .ending = ending,
    .over = gw_waits_stop,
};

/* The job as members are told it, and as a checkpoint keeps it. */
static enum gw_status print_job(struct gw_coordinator *self,
                                struct gw_error *error)
{
    struct gw_config *told = malloc(sizeof *told);
    if (!told)
        return gw_fail(error, GW_ENOMEM, "no memory for the job");
    *told = *self->config;
    gw_config_forget_own(told);
    if (!gw_config_is_external(told))
        gw_config_set_optimizer(told, gw_config_optimizer(self->config));
    size_t bytes = gw_config_print(told, 0, NULL, 0) + 1;
    self->job_text = malloc(bytes);
    if (self->job_text)
        gw_config_print(told, 0, self->job_text, bytes);
    free(told);
    if (!self->job_text || bytes > GW_JOB_TEXT_MAX)
        return gw_fail(error, GW_ENOMEM, "the job is too large to be sent");
    return GW_OK;
}

/* A job can do without orders. */
static void listen_locally(struct gw_coordinator *self)
{
    char address[GW_ADDRESS_MAX];
    struct gw_error error;
    const char *path = self->options.local;
    if (!path || !path[0])
        return;
    /* one that is cut off is too long for a socket as well */
    snprintf(address, sizeof address, "unix:%s", path);
    self->has_local = gw_member_listen(self->member, address, &error) == GW_OK;
    if (self->has_local)
        gw_log_info(self->log, "takes orders at %s", address);
    else
        gw_coordinator_warn(self, "gradweir ctl cannot reach this job: %s",
                            error.text);
}

/* Members dial the address of the coordinator before. */
static void place_listen(const struct gw_coordinator *self,
                         char listen[GW_ADDRESS_MAX])
{
    const struct gw_membership *before = gw_before(self);
    const char *given = self->options.listen, *port = strrchr(given, ':');
    const char *then = before ? strrchr(before->address, ':') : NULL;
    if (port && then && strcmp(port, ":0") == 0)
        snprintf(listen, GW_ADDRESS_MAX, "%.*s%s", (int)(port - given), given,
                 then);
    else
        snprintf(listen, GW_ADDRESS_MAX, "%s", given);
}

static enum gw_status open_member(struct gw_coordinator *self,
                                  struct gw_error *error)
{
    const struct gw_coordinator_options *options = &self->options;
    struct gw_member_options member = {
        .loop = options->loop,
        .transport = options->transport,
        .job = self->job,
        .role = GW_ROLE_COORDINATOR,
        .rank = GW_RANK_NONE,
        .silence_us = options->silence_us,
        .handler = &gw_coordinator_handler,
        .owner = self,
    };
    enum gw_status status = gw_member_open(&member, &self->member, error);
    if (status != GW_OK)
        return status;
    char listen[GW_ADDRESS_MAX];
    const struct gw_membership *before = gw_before(self);
    gw_member_set_epoch(self->member, before ? before->epoch : 1);
    if (before)
        gw_member_set_silence(self->member, before->silence_us);
    place_listen(self, listen);
    status = gw_member_listen(self->member, listen, error);
    if (status == GW_OK)
        listen_locally(self);
    return status;
}

static void close_member(struct gw_coordinator *self)
{
    gw_member_close(self->member);
    self->member = NULL;
}

static enum gw_status nothing_to_open(struct gw_coordinator *self,
                                      struct gw_error *error)
{
    (void)self;
    (void)error;
    return GW_OK;
}

static void nothing_to_close(struct gw_coordinator *self)
{
    (void)self;
}

/* Opened in this order, closed in the other one: members' links are closed
   before the memory that frames point to, and files of members before the
   directories of the origin. */
static const struct {
    enum gw_status (*open)(struct gw_coordinator *self, struct gw_error *error);
    void (*close)(struct gw_coordinator *self);
} parts[] = {
    {print_job, nothing_to_close},
    {gw_before_open, gw_before_close},
    {gw_register_open, gw_register_close},
    {gw_final_open, gw_final_close},
    {gw_steps_open, gw_steps_close},
    {gw_regimes_open, gw_regimes_close},
    {gw_decided_open, gw_decided_close},
    {gw_declaration_open, gw_declaration_close},
    {gw_gather_open, gw_gather_close},
    {gw_ahead_open, gw_ahead_close},
    {gw_inner_open, nothing_to_close},
    {gw_origin_open, gw_origin_close},
    {nothing_to_open, gw_register_settle},
    {gw_roster_open, gw_roster_close},
    {nothing_to_open, gw_files_close},
    {gw_keeper_open, gw_keeper_close},
    {gw_splitter_open, gw_splitter_close},
    {gw_decline_open, gw_decline_close},
    {gw_grouper_open, gw_grouper_close},
    {gw_stop_open, gw_stop_close},
    {gw_teller_open, gw_teller_close},
    {gw_vacant_open, gw_vacant_close},
    {gw_places_open, gw_places_close},
    {gw_depart_open, gw_depart_close},
    {gw_missing_open, gw_missing_close},
    {gw_early_open, gw_early_close},
    {gw_rejoin_open, gw_rejoin_close},
    {open_member, close_member},
    {gw_ending_open, gw_ending_close},
    {gw_look_open, gw_look_close},
    {gw_waits_open, gw_waits_close},
};

enum gw_status gw_coordinator_open(const struct gw_coordinator_options *options,
                                   struct gw_coordinator **coordinator_p,
                                   struct gw_error *error)
{
    struct gw_coordinator *self = calloc(1, sizeof *self);
    if (!self)
        return gw_fail(error, GW_ENOMEM, "no memory for a coordinator");
    self->options = *options;
    self->own = *options->config;
    self->config = self->options.config = &self->own;
    self->loop = options->loop;
    self->log = options->log;
    self->up = &upcalls;
    self->limit.per_second = 2;
    if (!self->loop->log)
        self->loop->log = options->log; /* for what strangers do */
    if (!self->loop->metrics)
        self->loop->metrics = options->metrics;
    while (self->job == 0)
        gw_loop_random(self->loop, &self->job, sizeof self->job);
    while (self->parts_n < sizeof parts / sizeof *parts) {
        enum gw_status status = parts[self->parts_n++].open(self, error);
        if (status != GW_OK) {
            gw_coordinator_close(self);
            return status;
        }
    }
    *coordinator_p = self;
    return GW_OK;
}

void gw_coordinator_close(struct gw_coordinator *self)
{
    if (!self)
        return;
    self->phase = GW_PHASE_OVER;
    while (self->parts_n > 0)
        parts[--self->parts_n].close(self);
    free(self->job_text);
    free(self);
}

const char *gw_coordinator_address(const struct gw_coordinator *self)
{
    return gw_member_address(self->member);
}

const char *gw_coordinator_local(const struct gw_coordinator *self)
{
    return self->has_local ? self->options.local : "";
}
