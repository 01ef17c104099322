/*
 * The coordinator before, whose place this one takes: its list of members in
 * checkpoint.dir (coordinator_register.c writes it).
 */
#include "config.h"

#include "server/coordinator/coordinator_members.h"

#include <stdlib.h>
#include <string.h>

#include "server/checkpoint/store.h"

struct gw_before {
    struct gw_membership list;
    int is_back; /* there is one */
};

static int is_of_this_job(const struct gw_coordinator *self,
                          const struct gw_membership *list)
{
    uint8_t text[GW_DIGEST_BYTES];
    gw_membership_digest(self->job_text, strlen(self->job_text), text);
    return memcmp(text, list->text, sizeof text) == 0;
}

static enum gw_status nothing_runs(const struct gw_coordinator *self,
                                   struct gw_error *error)
{
    if (self->options.rejoin != GW_REJOIN_ONLY)
        return GW_OK;
    return gw_fail(error, GW_ENOENT,
                   "the job was ending when its coordinator died, so that "
                   "there is nothing to take over");
}

static enum gw_status find(struct gw_coordinator *self, struct gw_error *error)
{
    struct gw_before *before = self->before;
    struct gw_disk dir;
    enum gw_status status =
        gw_store_enter(self->loop->disk, self->config->checkpoint.dir,
                       self->config->checkpoint.access, &dir, NULL);
    if (status != GW_OK)
        return nothing_runs(self, error);
    status = gw_membership_read(&dir, &before->list, error);
    gw_store_leave(&dir);
    if (status == GW_ENOENT)
        return nothing_runs(self, error);
    if (status != GW_OK)
        return status;
    if (!is_of_this_job(self, &before->list))
        return gw_fail(error, GW_EMISMATCH,
                       "a job that was begun with another job file runs with "
                       "checkpoint.dir: give this coordinator the same file "
                       "and --set, or leave --rejoin out");
    if (before->list.servers != self->config->cluster.servers)
        return gw_fail(error, GW_ECORRUPT,
                       "%.200s/" GW_MEMBERSHIP_NAME " is damaged",
                       self->config->checkpoint.dir);
    before->is_back = 1;
    self->job = before->list.job;
    self->silence_us = before->list.silence_us;
    self->phase = GW_PHASE_REJOINING;
    return GW_OK;
}

enum gw_status gw_before_open(struct gw_coordinator *self,
                              struct gw_error *error)
{
    self->before = calloc(1, sizeof *self->before);
    if (!self->before)
        return gw_fail(error, GW_ENOMEM, "no memory for a coordinator");
    if (self->options.rejoin == GW_REJOIN_NEVER)
        return GW_OK;
    return self->config->checkpoint.dir[0] ? find(self, error)
                                           : nothing_runs(self, error);
}

void gw_before_close(struct gw_coordinator *self)
{
    if (!self->before)
        return;
    gw_membership_free(&self->before->list);
    free(self->before);
    self->before = NULL;
}

const struct gw_membership *gw_before(const struct gw_coordinator *self)
{
    return self->before->is_back ? &self->before->list : NULL;
}

int gw_coordinator_is_rejoining(const struct gw_coordinator *self)
{
    return self->before->is_back;
}

/* The wall clock may have been set meanwhile. */
uint64_t gw_coordinator_before_us(const struct gw_coordinator *self)
{
    uint64_t began_us = self->before->list.began_us;
    return began_us && began_us < self->options.unix_us
               ? self->options.unix_us - began_us
               : 0;
}
