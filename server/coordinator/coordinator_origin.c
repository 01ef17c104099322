/*
 * The origin of a job: the checkpoint that it goes on from, if there is one,
 * and the tokens by which members, and other jobs, know its directories.
 */
#include "config.h"

#include "server/coordinator/coordinator_keep.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/split.h"
#include "server/checkpoint/begin.h"
#include "server/checkpoint/store.h"
#include "server/coordinator/coordinator_members.h"
#include "server/coordinator/coordinator_run.h"

struct gw_origin {
    struct gw_begin begin;
    struct gw_decision_state state; /* with which the job begins */
    struct gw_disk dir;             /* checkpoint.dir, entered */
    struct gw_disk resume_dir; /* the one of --resume, if that is another */
    char token[GW_TOKEN_MAX]; /* contents of a file in both, while the job runs:
                               */
    struct gw_file *held, *held_resume;
};

static void note(void *owner, const char *text)
{
    gw_coordinator_note(owner, "%s", text);
}

/* The job has begun already; shard 0 tells where it stands. */
static void rejoin(struct gw_coordinator *self)
{
    struct gw_origin *origin = self->origin;
    const struct gw_membership *before = gw_before(self);
    uint64_t newest;
    origin->begin.resume = NULL;
    origin->begin.cut = before->from;
    origin->state.clock = before->begin;
    gw_steps_resume(self, before->begin);
    if (gw_begin_newest(self->loop->disk, self->config->checkpoint.dir,
                        &newest))
        gw_final_add_checkpoint(self, newest);
}

static enum gw_status find(struct gw_coordinator *self, struct gw_error *error)
{
    struct gw_begin *begin = &self->origin->begin;
    struct gw_decision_state *state = &self->origin->state;
    /* all begin with this one: workers multiply, shards divide by it */
    state->loss_scale = gw_loss_scale_first(self->config);
    *begin = (struct gw_begin){
        .disk = self->loop->disk,
        .dir = self->config->checkpoint.dir,
        .resume = self->options.resume,
        .config = self->config,
        .note = note,
        .owner = self,
    };
    if (gw_before(self)) {
        rejoin(self);
        return GW_OK;
    }
    enum gw_status status = gw_begin_find(begin, error);
    if (status != GW_OK)
        return status;
    if (begin->is_resumed) {
        *state = begin->from.state;
        state->pushes = gw_begin_pushes(begin);
        if (begin->anew)
            state->applied = 0;
        gw_steps_resume(self, state->clock);
        gw_final_add_checkpoint(self, state->clock);
        gw_decided_set_cut(self, state->clock);
    }
    gw_regimes_begin(self, &begin->regime, state->clock, state->pushes);
    return GW_OK;
}

enum gw_status gw_origin_take_program(struct gw_coordinator *self,
                                      struct gw_error *error)
{
    struct gw_origin *origin = self->origin;
    enum gw_status status = gw_begin_take_program(&origin->begin, error);
    if (status != GW_OK)
        return status;
    if (origin->begin.anew)
        origin->state.applied = 0;
    gw_regimes_begin(self, &origin->begin.regime, origin->state.clock,
                     origin->state.pushes);
    return GW_OK;
}

static int is_asked_to_resume(const struct gw_begin *begin)
{
    return begin->resume && begin->resume[0];
}

/* The job goes on from another directory than checkpoint.dir. */
static int comes_from_elsewhere(const struct gw_begin *begin)
{
    return begin->is_resumed && strcmp(begin->resume, begin->dir) != 0;
}

/* If the directory has no place for a token, files are read through us. */
static enum gw_status enter_resume(struct gw_coordinator *self,
                                   struct gw_error *error)
{
    struct gw_origin *origin = self->origin;
    const struct gw_begin *begin = &origin->begin;
    if (!comes_from_elsewhere(begin))
        return GW_OK;
    enum gw_status status = gw_store_enter(begin->disk, begin->resume,
                                           self->config->checkpoint.access,
                                           &origin->resume_dir, error);
    if (status != GW_OK)
        return gw_fail_in(error, "--resume");
    gw_store_put_token(&origin->resume_dir, origin->token, &origin->held_resume,
                       NULL);
    return GW_OK;
}

/* Shards that find it know that they see the directory; so does another job,
   which would write the same files. */
static enum gw_status make_token(struct gw_coordinator *self,
                                 struct gw_error *error)
{
    struct gw_origin *origin = self->origin;
    const struct gw_begin *begin = &origin->begin;
    enum gw_access access = self->config->checkpoint.access;
    uint64_t number;
    gw_loop_random(self->loop, &number, sizeof number);
    if (gw_before(self)) /* members have been told that one */
        snprintf(origin->token, sizeof origin->token, "%s",
                 gw_before(self)->token);
    else
        snprintf(origin->token, sizeof origin->token, "%016" PRIx64, number);
    enum gw_status status = enter_resume(self, error);
    if (status != GW_OK)
        return status;
    if (begin->dir[0])
        status = gw_store_enter_new(begin->disk, begin->dir, access,
                                    &origin->dir, error);
    if (status == GW_OK && begin->dir[0])
        status = gw_store_put_token(&origin->dir, origin->token, &origin->held,
                                    error);
    if (status != GW_OK)
        gw_fail_in(error, "checkpoint.dir");
    return status;
}

static void swept(void *owner, uint64_t clock)
{
    struct gw_coordinator *self = owner;
    gw_log_info(self->log,
                "removed what was left of the checkpoint of step %" PRIu64
                ", which was not finished",
                clock);
}

/* Files that are left there, and users that can put some there. */
static void look_around(struct gw_coordinator *self)
{
    struct gw_disk *dir = &self->origin->dir;
    char doubt[256];
    gw_store_sweep(dir, swept, self);
    if (dir->ops->doubt(dir, doubt, sizeof doubt))
        gw_coordinator_warn(self,
                            "checkpoint.dir: %s: its checkpoints can be "
                            "replaced, and --resume takes what is there",
                            doubt);
}

enum gw_status gw_origin_open(struct gw_coordinator *self,
                              struct gw_error *error)
{
    struct gw_origin *origin = calloc(1, sizeof *origin);
    if (!origin)
        return gw_fail(error, GW_ENOMEM, "no memory for checkpoints");
    self->origin = origin;
    enum gw_status status = find(self, error);
    if (status == GW_OK)
        status = make_token(self, error);
    /* nobody else can write there from now on; until now somebody may have */
    if (status != GW_OK || !origin->begin.dir[0] || gw_before(self))
        return status;
    if (!is_asked_to_resume(&origin->begin))
        status = gw_begin_check_empty(&origin->begin, error);
    if (status == GW_OK)
        look_around(self);
    return status;
}

void gw_origin_close(struct gw_coordinator *self)
{
    struct gw_origin *origin = self->origin;
    if (!origin)
        return;
    gw_store_remove_token(&origin->dir, origin->held);
    gw_store_remove_token(&origin->resume_dir, origin->held_resume);
    gw_store_leave(&origin->dir);
    gw_store_leave(&origin->resume_dir);
    gw_begin_free(&origin->begin);
    free(origin);
    self->origin = NULL;
}

const struct gw_decision_state *
gw_origin_state(const struct gw_coordinator *self)
{
    return &self->origin->state;
}

uint64_t gw_coordinator_first_step(const struct gw_coordinator *self)
{
    return self->origin->state.clock;
}

const char *gw_origin_token(const struct gw_coordinator *self)
{
    return self->origin->token;
}

struct gw_disk *gw_origin_dir(struct gw_coordinator *self)
{
    return &self->origin->dir;
}

struct gw_disk *gw_origin_resume_dir(struct gw_coordinator *self)
{
    struct gw_origin *origin = self->origin;
    return comes_from_elsewhere(&origin->begin) ? &origin->resume_dir
                                                : &origin->dir;
}

void gw_origin_note_device(struct gw_coordinator *self,
                           const struct gw_seat *who,
                           const char *device,
                           const char *tuned)
{
    if (strcmp(who->device, device) != 0)
        gw_coordinator_note(self,
                            "worker %u computed on \"%s\", now on \"%s\": the "
                            "bits may differ",
                            who->id, device, who->device);
    else if (strcmp(who->tuned, tuned) != 0)
        gw_coordinator_note(self,
                            "worker %u computes its products in other ways "
                            "than before (%s): the bits may differ",
                            who->id,
                            !who->tuned[0] ? "worker.autotune is off now"
                            : !tuned[0]    ? "worker.autotune was off"
                                           : "they have been timed anew");
}

/* Same keys, and a word where something else would change the bits. */
enum gw_status gw_origin_check(struct gw_coordinator *self,
                               struct gw_error *error)
{
    const struct gw_begin *begin = &self->origin->begin;
    const struct gw_manifest *from = &begin->from;
    gw_begin_note_steps(begin, gw_declaration(self)->total_steps,
                        &gw_declaration(self)->course);
    if (!begin->is_resumed)
        return GW_OK;
    self->origin->state.evaluations =
        gw_begin_evaluations(begin, &gw_declaration(self)->course);
    if (gw_begin_check_model(begin, gw_declaration(self)->keys_hash, error) !=
        GW_OK)
        return GW_EMISMATCH;
    if (from->n_ranks && from->n_ranks != self->config->cluster.workers)
        gw_coordinator_note(self,
                            "the checkpoint was made by %zu worker%s, this "
                            "job has %" PRIu64 ": the bits will differ",
                            from->n_ranks, gw_plural(from->n_ranks),
                            self->config->cluster.workers);
    for (uint32_t i = 0; i < from->n_ranks; i++) {
        const struct gw_seat *who = gw_roster_find(self, GW_ROLE_WORKER, i);
        if (who)
            gw_origin_note_device(self, who, from->ranks[i].device,
                                  from->ranks[i].tuned);
    }
    gw_inner_note(self, from);
    return GW_OK;
}

const char *gw_origin_tuned(const struct gw_coordinator *self,
                            const struct gw_seat *who)
{
    const struct gw_begin *begin = &self->origin->begin;
    if (who->role != GW_ROLE_WORKER)
        return "";
    const struct gw_seat *before = gw_roster_last(self, who->id);
    if (before)
        return before->tuned;
    if (!begin->is_resumed || who->id >= begin->from.n_ranks)
        return "";
    return begin->from.ranks[who->id].tuned;
}

void gw_origin_fill_start(struct gw_coordinator *self, struct gw_start *start)
{
    const struct gw_begin *begin = &self->origin->begin;
    if (begin->is_resumed)
        start->resume = begin->resume;
    start->has_inner =
        begin->is_resumed && gw_inner_goes_on(self, &begin->from);
    start->dir = begin->dir;
    start->token = self->origin->token;
}

struct gw_course_cut gw_origin_cut(const struct gw_coordinator *self)
{
    return self->origin->begin.cut;
}

uint64_t gw_origin_first_clock(const struct gw_coordinator *self, uint32_t rank)
{
    const struct gw_begin *begin = &self->origin->begin;
    return gw_begin_goes_apart(begin, &gw_declaration(self)->course)
               ? begin->from.ranks[rank].data_cursor
               : gw_origin_state(self)->clock;
}

int gw_origin_first_split(const struct gw_coordinator *self, uint32_t *weight)
{
    const struct gw_begin *begin = &self->origin->begin;
    const struct gw_manifest *from = &begin->from;
    uint32_t workers = (uint32_t)self->config->cluster.workers;
    if (!begin->is_resumed || from->n_ranks != workers)
        return 0;
    for (uint32_t rank = 0; rank < workers; rank++)
        weight[rank] = from->ranks[rank].split;
    return gw_split_is_whole(weight, workers);
}

int gw_origin_may_read(const struct gw_coordinator *self,
                       const struct gw_seat *who,
                       uint64_t clock,
                       const char *name)
{
    const struct gw_begin *begin = &self->origin->begin;
    const struct gw_manifest *from = &begin->from;
    char own[GW_FILE_NAME_MAX];
    gw_roster_file_name(self, who, own);
    if (!begin->is_resumed || from->state.clock != clock ||
        (who->role != GW_ROLE_SERVER && strcmp(name, own) != 0))
        return 0;
    for (size_t i = 0; i < from->n_files; i++)
        if (strcmp(from->files[i].name, name) == 0)
            return 1;
    return strcmp(name, GW_MANIFEST_NAME) == 0;
}
