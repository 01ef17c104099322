/*
 * train.split = speed at the coordinator: the split with which a job begins,
 * the splits that shard 0 is to repeat, and the one in force, for people, for
 * records and for manifests.
 *
 *   --json lines of a run --> splits --> shard 0, before the start
 *   the manifest's, or an even one   --> everybody, with the start
 *   decisions of shard 0             --> a line, an object, the manifest
 */
#include "config.h"

#include "server/coordinator/coordinator_run.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/coordinator/coordinator_keep.h"
#include "server/policy/splits.h"

/* Between messages that shard 0 could not take. */
#define HAND_OVER_US 10000

/* Ranks that a line for people names. */
#define SHOWN_MAX 16

struct gw_splitter {
    struct gw_coordinator *self;
    struct gw_splits repeat; /* decisions that shard 0 is to repeat */
    size_t handed;           /* of them, to shard 0 */
    struct gw_timer timer;
    void (*again)(struct gw_coordinator *self);
    uint64_t clock[2];   /* the split in force and the one to come, in any */
    uint32_t *weight[2]; /* [workers] order */
    uint64_t *samples;   /* [workers] of the step that is told */
};

static enum gw_status read_repeat(struct gw_coordinator *self,
                                  struct gw_error *error)
{
    struct gw_splitter *splitter = self->splitter;
    const char *path = self->config->train.split_from;
    uint32_t workers = (uint32_t)self->config->cluster.workers;
    if (!path[0])
        return GW_OK;
    enum gw_status status =
        gw_splits_read(self->loop->disk, path, workers,
                       gw_origin_state(self)->clock, &splitter->repeat, error);
    if (status != GW_OK)
        return status;
    memcpy(splitter->weight[0],
           gw_splits_at(&splitter->repeat, gw_origin_state(self)->clock),
           workers * sizeof *splitter->weight[0]);
    return GW_OK;
}

enum gw_status gw_splitter_open(struct gw_coordinator *self,
                                struct gw_error *error)
{
    uint32_t workers = (uint32_t)self->config->cluster.workers;
    if (!gw_config_splits_by_speed(self->config))
        return GW_OK;
    struct gw_splitter *splitter = calloc(1, sizeof *splitter);
    self->splitter = splitter;
    if (!splitter)
        return gw_fail(error, GW_ENOMEM, "no memory for splits");
    splitter->self = self;
    splitter->samples = calloc(workers, sizeof *splitter->samples);
    for (size_t i = 0; i < 2; i++)
        splitter->weight[i] = calloc(workers, sizeof *splitter->weight[i]);
    if (!splitter->samples || !splitter->weight[0] || !splitter->weight[1])
        return gw_fail(error, GW_ENOMEM, "no memory for splits");
    if (!gw_origin_first_split(self, splitter->weight[0]))
        gw_split_even(workers, splitter->weight[0]);
    splitter->clock[0] = gw_origin_state(self)->clock;
    splitter->clock[1] = UINT64_MAX;
    return read_repeat(self, error);
}

void gw_splitter_close(struct gw_coordinator *self)
{
    struct gw_splitter *splitter = self->splitter;
    if (!splitter)
        return;
    gw_timer_stop(self->loop, &splitter->timer);
    gw_splits_free(&splitter->repeat);
    free(splitter->weight[0]);
    free(splitter->weight[1]);
    free(splitter->samples);
    free(splitter);
    self->splitter = NULL;
}

/* ---- splits to be repeated ---- */

static enum gw_status tell_some(struct gw_splitter *splitter,
                                struct gw_peer *leader)
{
    const struct gw_splits *repeat = &splitter->repeat;
    double values[GW_VALUES_PER_PART];
    size_t n = GW_VALUES_PER_PART / repeat->ranks;
    if (n > repeat->n - splitter->handed)
        n = repeat->n - splitter->handed;
    for (size_t i = 0; i < n * repeat->ranks; i++)
        values[i] = repeat->weight[splitter->handed * repeat->ranks + i];
    const struct gw_message message = {
        .kind = GW_MESSAGE_DECISION,
        .decision = {.kind = GW_DECIDE_SPLIT,
                     .values = values,
                     .values_n = (uint32_t)(n * repeat->ranks),
                     .clocks = repeat->clock + splitter->handed,
                     .clocks_n = (uint32_t)n}};
    enum gw_status status = gw_peer_tell(leader, &message);
    if (status == GW_OK)
        splitter->handed += n;
    return status;
}

static void on_timer(struct gw_timer *timer)
{
    struct gw_splitter *splitter = timer->owner;
    splitter->again(splitter->self);
}

int gw_splitter_hand_over(struct gw_coordinator *self,
                          void (*again)(struct gw_coordinator *self))
{
    struct gw_splitter *splitter = self->splitter;
    struct gw_peer *leader = gw_roster_leader(self)->peer;
    enum gw_status status = GW_OK;
    if (!splitter || splitter->repeat.n == 0)
        return 1;
    while (splitter->handed < splitter->repeat.n && status == GW_OK)
        status = tell_some(splitter, leader);
    if (status != GW_OK && status != GW_EAGAIN && status != GW_ECLOSED) {
        gw_coordinator_end(self, status, "%s cannot be told of splits: %s",
                           leader->name, gw_status_text(status));
        return 0;
    }
    if (splitter->handed == splitter->repeat.n && gw_peer_flushed(leader))
        return 1;
    splitter->again = again;
    splitter->timer.fire = on_timer;
    splitter->timer.owner = splitter;
    gw_timer_start(self->loop, &splitter->timer, HAND_OVER_US);
    return 0;
}

/* ---- the split in force ---- */

static size_t newest(const struct gw_splitter *splitter)
{
    return splitter->clock[1] != UINT64_MAX &&
           splitter->clock[1] > splitter->clock[0];
}

static const uint32_t *weights_at(const struct gw_splitter *splitter,
                                  uint64_t clock)
{
    size_t at = newest(splitter);
    if (splitter->clock[at] > clock && splitter->clock[!at] <= clock)
        at = !at;
    return splitter->weight[at];
}

static void tell(struct gw_splitter *splitter, size_t at)
{
    struct gw_coordinator *self = splitter->self;
    const struct gw_split_report report = {
        .step = splitter->clock[at],
        .weight = splitter->weight[at],
        .workers = self->config->cluster.workers,
    };
    self->options.events->split(self->options.owner, &report);
}

void gw_splitter_fill_start(struct gw_coordinator *self, struct gw_start *start)
{
    struct gw_splitter *splitter = self->splitter;
    if (!splitter)
        return;
    start->split = splitter->weight[0];
    start->split_n = (uint32_t)self->config->cluster.workers;
    tell(splitter, 0);
}

/* For people: percents, of the first ones where there are many. */
static void note(struct gw_splitter *splitter, size_t at)
{
    struct gw_coordinator *self = splitter->self;
    uint64_t workers = self->config->cluster.workers;
    char text[SHOWN_MAX * 8 + 16] = "";
    size_t used = 0;
    for (uint64_t rank = 0; rank < workers && rank < SHOWN_MAX; rank++) {
        int n = snprintf(text + used, sizeof text - used, "%s%.1f",
                         rank ? ", " : "",
                         100.0 * splitter->weight[at][rank] / GW_SPLIT_TOTAL);
        used += n > 0 ? (size_t)n : 0;
    }
    gw_coordinator_note(self,
                        "from step %" PRIu64 " on workers have %s%s %% of each "
                        "step's samples",
                        splitter->clock[at], text,
                        workers > SHOWN_MAX ? ", .." : "");
}

void gw_splitter_decided(struct gw_coordinator *self,
                         const struct gw_decision *decision)
{
    struct gw_splitter *splitter = self->splitter;
    uint32_t workers = (uint32_t)self->config->cluster.workers;
    size_t at = splitter ? !newest(splitter) : 0;
    if (!splitter || decision->values_n != workers ||
        !gw_split_from_values(decision->values, workers,
                              splitter->weight[at])) {
        gw_coordinator_end(self, GW_EPROTO,
                           "shard 0 decided on a split that makes no sense");
        return;
    }
    splitter->clock[at] = decision->clock;
    tell(splitter, at);
    note(splitter, at);
}

void gw_splitter_fill_cut(const struct gw_coordinator *self,
                          uint64_t clock,
                          struct gw_manifest *manifest)
{
    if (!self->splitter)
        return;
    const uint32_t *weight = weights_at(self->splitter, clock);
    for (size_t rank = 0; rank < manifest->n_ranks; rank++)
        manifest->ranks[rank].split = weight[rank];
}

const uint64_t *gw_splitter_samples(struct gw_coordinator *self,
                                    const struct gw_score *part)
{
    struct gw_splitter *splitter = self->splitter;
    if (!splitter || !part)
        return NULL;
    for (size_t rank = 0; rank < self->config->cluster.workers; rank++)
        splitter->samples[rank] = part[rank].samples;
    return splitter->samples;
}
