/*
 * The keeper of checkpoints. For each cut every shard, and every worker that
 * keeps state, saves its file; then the keeper writes the manifest.
 *
 *   cut decided --> SAVED from each --> manifest --> STORED to shard 0
 *                                           \--> older ones removed
 */
#include "config.h"

#include "server/coordinator/coordinator_keep.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/digest.h"
#include "server/checkpoint/store.h"
#include "server/coordinator/coordinator_members.h"
#include "server/coordinator/coordinator_run.h"

#define CUTS_MAX 4
#define KEPT_MAX 1024

/* The time of a manifest in the simulator. */
#define WRITE_MODEL_US 1000

/* A cut that is being saved. */
struct cut {
    struct gw_keeper *keeper;
    int open;
    int recalled; /* its files may be gone */
    int decided;  /* 0: a member that knows of it was faster than shard 0, */
    const struct gw_seat *by; /* this one */
    struct gw_manifest manifest;
    uint32_t saved, by_workers;   /* files, and workers' files among them */
    uint32_t awaited;             /* known when it is decided, */
    const char *inner;            /* as is the optimizer that workers keep state
                                     of, or "" */
    uint64_t spare[CUTS_MAX + 1]; /* checkpoints to keep meanwhile */
    size_t spare_n;
    enum gw_status status;
    struct gw_error error;
    struct gw_work work;
};

struct gw_keeper {
    struct gw_coordinator *self;
    struct cut cut[CUTS_MAX];
    uint64_t newest;   /* the last cut's clock, + 1 */
    uint64_t recalled; /* cuts before it have been given up */
    uint64_t best_clock;
    int has_best;
    uint64_t progress; /* files saved, pieces of others', and manifests */
};

static const char *dir_of(const struct gw_coordinator *self)
{
    return self->config->checkpoint.dir;
}

int gw_keeper_is_busy(const struct gw_coordinator *self)
{
    const struct gw_keeper *keeper = self->keeper;
    for (size_t i = 0; keeper && i < CUTS_MAX; i++)
        if (keeper->cut[i].open && keeper->cut[i].decided)
            return 1;
    return 0;
}

int gw_keeper_may_finish(const struct gw_coordinator *self)
{
    for (size_t i = 0; i < CUTS_MAX; i++) {
        const struct cut *cut = &self->keeper->cut[i];
        if (cut->open && cut->decided && cut->saved >= cut->awaited)
            return 1;
    }
    return 0;
}

/* Servers tell how much of their files is written. */
uint64_t gw_keeper_progress(const struct gw_coordinator *self)
{
    uint64_t sum = self->keeper->progress;
    for (const struct gw_seat *one = gw_roster_first(self); one;
         one = one->next)
        if (one->role == GW_ROLE_SERVER)
            sum += one->counters.value[GW_METRIC_CHECKPOINT_BYTES];
    return sum;
}

void gw_keeper_grew(struct gw_coordinator *self)
{
    self->keeper->progress++;
}

/* The member has a part in the checkpoint. */
static int has_part(const struct cut *cut, const struct gw_seat *who)
{
    if (who->role == GW_ROLE_SERVER)
        return who->id != GW_RANK_NONE;
    return !cut->decided || cut->inner[0];
}

static int has_saved(const struct cut *cut, const char *file)
{
    for (size_t i = 0; i < cut->manifest.n_files; i++)
        if (strcmp(cut->manifest.files[i].name, file) == 0)
            return 1;
    return 0;
}

void gw_keeper_awaited(const struct gw_coordinator *self,
                       char *text,
                       size_t room)
{
    const struct cut *cut = self->keeper->cut;
    char name[GW_FILE_NAME_MAX];
    while (!cut->open || !cut->decided)
        cut++; /* one is: the keeper is busy */
    int n = snprintf(text, room,
                     "the checkpoint of step %" PRIu64 ", to be "
                     "written by ",
                     cut->manifest.state.clock);
    size_t used = n > 0 ? (size_t)n : 0;
    const char *comma = "";
    for (const struct gw_seat *one = gw_roster_first(self); one;
         one = one->next) {
        gw_roster_file_name(self, one, name);
        if (!has_part(cut, one) || has_saved(cut, name) || used >= room)
            continue;
        n = snprintf(text + used, room - used, "%s%s", comma, one->peer->name);
        used += n > 0 ? (size_t)n : 0;
        comma = ", ";
    }
    if (!comma[0] && used < room)
        snprintf(text + used, room - used, "the coordinator");
}

uint64_t gw_keeper_newest(const struct gw_coordinator *self)
{
    return self->keeper->newest;
}

int gw_keeper_has(const struct gw_coordinator *self, uint64_t clock)
{
    uint64_t newest;
    return !dir_of(self)[0] ||
           (gw_final_checkpoint(self, &newest) && newest == clock);
}

enum gw_status gw_keeper_open(struct gw_coordinator *self,
                              struct gw_error *error)
{
    struct gw_keeper *keeper = calloc(1, sizeof *keeper);
    if (!keeper)
        return gw_fail(error, GW_ENOMEM, "no memory for checkpoints");
    self->keeper = keeper;
    keeper->self = self;
    if (gw_final_checkpoint(self, &keeper->newest))
        keeper->newest++; /* the job goes on from it */
    keeper->has_best = gw_origin_state(self)->evaluations > 0;
    keeper->best_clock = gw_origin_state(self)->best_clock;
    return GW_OK;
}

static void remove_failed(struct cut *cut);

/* A checkpoint that will not be finished leaves nothing: a member that is still
   writing a part of it finds its file gone. */
void gw_keeper_close(struct gw_coordinator *self)
{
    struct gw_keeper *keeper = self->keeper;
    if (!keeper)
        return;
    for (size_t i = 0; i < CUTS_MAX; i++) {
        gw_loop_cancel(self->loop, &keeper->cut[i].work);
        if (keeper->cut[i].open && dir_of(self)[0])
            remove_failed(&keeper->cut[i]);
        gw_manifest_free(&keeper->cut[i].manifest);
    }
    free(keeper);
    self->keeper = NULL;
}

/* ---- cuts ---- */

static struct cut *find_cut(struct gw_keeper *keeper, uint64_t clock)
{
    for (size_t i = 0; i < CUTS_MAX; i++)
        if (keeper->cut[i].open && keeper->cut[i].manifest.state.clock == clock)
            return &keeper->cut[i];
    return NULL;
}

static enum gw_status fill_manifest(struct gw_coordinator *self,
                                    struct gw_manifest *manifest)
{
    manifest->keys_hash = gw_declaration(self)->keys_hash;
    manifest->course = gw_declaration(self)->course;
    manifest->n_keys = gw_declaration_keys(self);
    manifest->keys =
        calloc(gw_declaration_keys(self) + 1, sizeof *manifest->keys);
    manifest->job = strdup(self->job_text);
    manifest->n_ranks = self->config->cluster.workers;
    manifest->files = calloc(gw_roster_shards(self) + manifest->n_ranks,
                             sizeof *manifest->files);
    manifest->ranks = calloc(manifest->n_ranks, sizeof *manifest->ranks);
    if (!manifest->keys || !manifest->job || !manifest->files ||
        !manifest->ranks)
        return GW_ENOMEM;
    memcpy(manifest->keys, gw_declaration_key(self),
           gw_declaration_keys(self) * sizeof *manifest->keys);
    for (size_t i = 0; i < manifest->n_ranks; i++) {
        const struct gw_seat *who = gw_roster_last(self, (uint32_t)i);
        if (!who)
            continue;
        strcpy(manifest->ranks[i].device, who->device);
        strcpy(manifest->ranks[i].tuned, who->tuned);
    }
    return GW_OK;
}

static void conclude(struct gw_work *work);
static void concluded(struct gw_work *work);

/* Shard 0 waits for the cuts that it has decided: a member that names others
   lies. */
static void too_many(struct gw_coordinator *self)
{
    char name[GW_PEER_NAME_MAX] = "shard 0";
    for (size_t i = 0; i < CUTS_MAX; i++) {
        /* its peer may be closed by now, the seat stays */
        const struct gw_seat *by = self->keeper->cut[i].by;
        if (!self->keeper->cut[i].decided && by)
            gw_roster_print(by, name);
    }
    gw_coordinator_end(self, GW_EPROTO,
                       "%s speaks of checkpoints that cannot be: of more than "
                       "%d steps at once",
                       name, CUTS_MAX);
}

/* The cut of a clock: decisions and saved files meet there in any order. `by`:
   the member that has saved a file, NULL: it is decided. */
static struct cut *
open_cut(struct gw_coordinator *self, uint64_t clock, const struct gw_seat *by)
{
    struct gw_keeper *keeper = self->keeper;
    struct cut *cut = find_cut(keeper, clock);
    for (size_t i = 0; !cut && i < CUTS_MAX; i++) {
        if (keeper->cut[i].open)
            continue;
        cut = &keeper->cut[i];
        gw_manifest_free(&cut->manifest);
        *cut = (struct cut){.keeper = keeper,
                            .open = 1,
                            .by = by,
                            .inner = gw_inner_at(self, clock)};
        cut->manifest.state.clock = clock;
        cut->work = (struct gw_work){.run = conclude,
                                     .done = concluded,
                                     .owner = cut,
                                     .model_us = WRITE_MODEL_US};
        if (fill_manifest(self, &cut->manifest) != GW_OK) {
            gw_coordinator_end(self, GW_ENOMEM, "no memory for a manifest");
            return NULL;
        }
    }
    if (!cut)
        too_many(self);
    return cut;
}

/* The best one, and the ones that are being made just now. */
static void spare(struct cut *cut)
{
    const struct gw_keeper *keeper = cut->keeper;
    cut->spare_n = 0;
    if (keeper->has_best)
        cut->spare[cut->spare_n++] = keeper->best_clock;
    for (size_t i = 0; i < CUTS_MAX; i++)
        if (keeper->cut[i].open)
            cut->spare[cut->spare_n++] = keeper->cut[i].manifest.state.clock;
}

static int is_spared(const struct cut *cut, uint64_t clock)
{
    for (size_t i = 0; i < cut->spare_n; i++)
        if (cut->spare[i] == clock)
            return 1;
    return 0;
}

/* Removes checkpoints older than the newest `keep`. */
static void remove_old(struct cut *cut)
{
    struct gw_coordinator *self = cut->keeper->self;
    struct gw_disk *dir = gw_origin_dir(self);
    uint64_t clocks[KEPT_MAX];
    size_t n = gw_store_list(dir, clocks, KEPT_MAX), whole = 0;
    for (size_t i = 0; i < n; i++) {
        struct gw_manifest manifest;
        int complete =
            gw_store_manifest(dir, clocks[i], &manifest, NULL) == GW_OK;
        if (complete)
            gw_manifest_free(&manifest);
        whole += complete != 0;
        if (whole > self->config->checkpoint.keep && !is_spared(cut, clocks[i]))
            gw_store_remove(dir, clocks[i]);
    }
}

static enum gw_status write_manifest(struct cut *cut)
{
    struct gw_coordinator *self = cut->keeper->self;
    char *text = gw_manifest_print(&cut->manifest);
    if (!text)
        return gw_fail(&cut->error, GW_ENOMEM, "no memory to print a manifest");
    const struct gw_file_part part = {text, strlen(text)};
    struct gw_manifest_file own = {.name = GW_MANIFEST_NAME};
    enum gw_status status =
        gw_store_write(gw_origin_dir(self), cut->manifest.state.clock, &part, 1,
                       NULL, &own, &cut->error);
    free(text);
    return status;
}

/* A checkpoint that failed leaves nothing; one that was whole before stays. */
static void remove_failed(struct cut *cut)
{
    struct gw_coordinator *self = cut->keeper->self;
    struct gw_disk *dir = gw_origin_dir(self);
    uint64_t clock = cut->manifest.state.clock;
    struct gw_manifest before;
    if (gw_store_manifest(dir, clock, &before, NULL) == GW_OK)
        gw_manifest_free(&before);
    else
        gw_store_remove(dir, clock);
}

/* On another thread: touches the cut and the disk. */
static void conclude(struct gw_work *work)
{
    struct cut *cut = work->owner;
    if (cut->status == GW_OK && cut->recalled)
        cut->status = gw_store_has_files(gw_origin_dir(cut->keeper->self),
                                         &cut->manifest, &cut->error);
    if (cut->status == GW_OK)
        cut->status = write_manifest(cut);
    if (cut->status == GW_OK)
        remove_old(cut);
    else
        remove_failed(cut);
}

static void stored(struct cut *cut)
{
    struct gw_coordinator *self = cut->keeper->self;
    uint64_t clock = cut->manifest.state.clock;
    struct gw_seat *leader = gw_roster_leader(self);
    struct gw_message message = {
        .kind = GW_MESSAGE_STORED,
        .stored = {.clock = clock, .ok = cut->status == GW_OK}};
    cut->open = 0;
    cut->keeper->progress++;
    if (cut->status == GW_OK) {
        gw_final_add_checkpoint(self, clock);
        gw_log_info(self->log, "the checkpoint of step %" PRIu64 " is complete",
                    clock);
    } else {
        gw_coordinator_warn(self,
                            "the checkpoint of step %" PRIu64
                            " failed, the job goes on: %s",
                            clock, cut->error.text);
    }
    if (leader && self->phase < GW_PHASE_ENDING)
        gw_coordinator_tell_leader(self, &message);
    gw_saves_answer(self, clock, cut->status, cut->error.text);
    self->up->concluded(self);
}

static void concluded(struct gw_work *work)
{
    stored(work->owner);
}

/* When the cut is decided and every file is saved. */
static void maybe_write(struct cut *cut)
{
    struct gw_keeper *keeper = cut->keeper;
    struct gw_coordinator *self = keeper->self;
    if (!cut->decided || cut->saved < cut->awaited)
        return;
    if (cut->status == GW_OK && cut->manifest.best) {
        keeper->has_best = 1;
        keeper->best_clock = cut->manifest.state.clock;
    }
    spare(cut);
    gw_loop_work(self->loop, &cut->work);
}

/* Workers that keep nothing may not stand in for shards that have not saved. */
static void drop_workers(struct cut *cut)
{
    struct gw_coordinator *self = cut->keeper->self;
    struct gw_manifest *manifest = &cut->manifest;
    size_t kept = 0;
    for (size_t i = 0; i < manifest->n_files; i++) {
        char name[GW_FILE_NAME_MAX] = "";
        for (uint32_t s = 0; s < gw_roster_shards(self); s++) {
            gw_shard_file_name(s, gw_roster_shards(self), name);
            if (strcmp(name, manifest->files[i].name) == 0) {
                manifest->files[kept++] = manifest->files[i];
                break;
            }
        }
    }
    manifest->n_files = kept;
    cut->saved = (uint32_t)kept;
    cut->by_workers = 0;
}

/* The policy of a cut, which may be another one than that of its clock here:
   decisions run ahead of reports, and behind them. 0: the job ends. */
static int find_regime(struct gw_coordinator *self,
                       const struct gw_decision *decision,
                       uint64_t version,
                       struct gw_regime *regime)
{
    struct gw_policy_word word;
    struct gw_error error;
    enum gw_status status =
        gw_policy_word_parse(decision->policy, &word, &error);
    if (status == GW_OK)
        status = gw_config_check_word(self->config, &word, &error);
    if (status == GW_OK)
        status = gw_regime_make(self->config, &word, version, regime, &error);
    if (status != GW_OK)
        gw_coordinator_end(self, GW_EPROTO, "decision %" PRIu64 ": %s",
                           decision->number, error.text);
    return status == GW_OK;
}

void gw_keeper_cut(struct gw_coordinator *self,
                   const struct gw_decision *decision,
                   const struct gw_cut *what)
{
    struct cut *cut = open_cut(self, decision->clock, NULL);
    struct gw_regime regime;
    if (!cut || !find_regime(self, decision, what->version, &regime))
        return;
    cut->keeper->newest = decision->clock + 1;
    cut->manifest.state = what->state;
    snprintf(cut->manifest.optimizer, sizeof cut->manifest.optimizer, "%.31s",
             regime.optimizer->name);
    gw_policy_word_print(&regime.word, cut->manifest.policy);
    cut->inner = gw_inner_under(self, &regime.word);
    for (size_t i = 0; i < cut->manifest.n_ranks; i++) {
        struct gw_manifest_rank *rank = &cut->manifest.ranks[i];
        rank->data_cursor =
            i < decision->clocks_n ? decision->clocks[i] : decision->clock;
        snprintf(rank->inner, sizeof rank->inner, "%.31s", cut->inner);
    }
    gw_splitter_fill_cut(self, decision->clock, &cut->manifest);
    cut->manifest.best = decision->reason;
    cut->awaited = gw_roster_shards(self);
    if (cut->inner[0])
        cut->awaited += (uint32_t)cut->manifest.n_ranks;
    else if (cut->by_workers > 0)
        drop_workers(cut);
    cut->decided = 1;
    maybe_write(cut);
}

void gw_keeper_rejoin(struct gw_coordinator *self,
                      const struct gw_decision_state *state)
{
    self->keeper->has_best = state->evaluations > 0;
    self->keeper->best_clock = state->best_clock;
}

void gw_keeper_tell_stored(struct gw_coordinator *self)
{
    struct gw_message message = {.kind = GW_MESSAGE_STORED};
    struct gw_stored *stored = &message.stored;
    stored->ok = gw_final_checkpoint(self, &stored->clock) != 0;
    if (!gw_keeper_is_busy(self))
        gw_coordinator_tell_leader(self, &message);
}

/* Nobody waits for them any more; members may speak of them still. */
static void forget_before(struct gw_keeper *keeper, uint64_t clock)
{
    keeper->recalled = clock;
    for (size_t i = 0; i < CUTS_MAX; i++)
        if (keeper->cut[i].manifest.state.clock < clock)
            keeper->cut[i].open = 0;
}

/* Shard 0 may not have heard that it is complete. */
void gw_keeper_recall(struct gw_coordinator *self,
                      const struct gw_decision *decision,
                      const struct gw_cut *what)
{
    const struct gw_message message = {
        .kind = GW_MESSAGE_STORED,
        .stored = {.clock = decision->clock, .ok = 1}};
    uint64_t newest;
    forget_before(self->keeper, decision->clock);
    if (gw_final_checkpoint(self, &newest) && newest == decision->clock) {
        self->keeper->newest = decision->clock + 1;
        gw_coordinator_tell_leader(self, &message);
        return;
    }
    struct cut *cut = open_cut(self, decision->clock, NULL);
    if (!cut)
        return;
    cut->recalled = 1;
    gw_keeper_cut(self, decision, what);
}

int gw_keeper_awaits(struct gw_coordinator *self,
                     const struct gw_seat *who,
                     uint64_t clock,
                     const char *name)
{
    const struct cut *cut = NULL;
    char own[GW_FILE_NAME_MAX];
    gw_roster_file_name(self, who, own);
    if (!dir_of(self)[0] || self->phase < GW_PHASE_STARTING ||
        self->phase == GW_PHASE_REJOINING || self->phase >= GW_PHASE_ENDING ||
        strcmp(name, own) != 0)
        return 0;
    /* decisions and files of members arrive in any order */
    cut = find_cut(self->keeper, clock);
    if (!cut && (who->role == GW_ROLE_SERVER || gw_inner_is_expected(self)))
        cut = open_cut(self, clock, who);
    return cut && has_part(cut, who) && !has_saved(cut, own);
}

int gw_keeper_is_past(const struct gw_coordinator *self, uint64_t clock)
{
    struct gw_keeper *keeper = self->keeper;
    uint64_t newest;
    int is_complete = gw_final_checkpoint(self, &newest) && clock <= newest;
    int is_over = self->config->cluster.copies > 1 && clock < keeper->newest;
    if (!dir_of(self)[0])
        return 0;
    return clock < keeper->recalled ||
           (!find_cut(keeper, clock) && (is_complete || is_over));
}

void gw_keeper_saved(struct gw_coordinator *self,
                     struct gw_seat *who,
                     const struct gw_saved *saved)
{
    struct cut *cut = find_cut(self->keeper, saved->clock);
    char own[GW_FILE_NAME_MAX];
    gw_roster_file_name(self, who, own);
    if (self->phase >= GW_PHASE_ENDING ||
        gw_keeper_is_past(self, saved->clock) ||
        (cut && strcmp(saved->file, own) == 0 && has_saved(cut, own)))
        return; /* too late, or said already */
    if (!gw_keeper_awaits(self, who, saved->clock, saved->file)) {
        gw_peer_reject(who->peer, 0, "a saved file that nobody waits for");
        return;
    }
    cut = find_cut(self->keeper, saved->clock);
    self->keeper->progress++;
    struct gw_manifest_file *file = &cut->manifest.files[cut->saved++];
    strcpy(file->name, saved->file);
    file->bytes = saved->bytes;
    memcpy(file->sha256, saved->sha256, GW_DIGEST_BYTES);
    cut->manifest.n_files = cut->saved;
    cut->by_workers += who->role == GW_ROLE_WORKER;
    if (saved->status != GW_OK && cut->status == GW_OK)
        cut->status = gw_fail(&cut->error, saved->status, "%s: %s",
                              who->peer->name, gw_reason(saved->text));
    maybe_write(cut);
}
