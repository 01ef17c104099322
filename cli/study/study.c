/* Runs of a study: grids become runs, and runs jobs. */
#include "config.h"

#include "cli/study/study.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/lab/network.h"
#include "transport/link/paths.h"
#include "cli/lab/placement.h"
#include "cli/lab/straggle.h"
#include "cli/study/study_grid.h"
#include "proto/digest.h"

/* An axis, and the key of the job that it sets; NULL: none. */
static const struct {
    const char *name, *key;
} axes[GW_STUDY_AXES] = {
    [GW_STUDY_VARY] = {"vary", NULL},
    [GW_STUDY_POLICY] = {"policy", "cluster.policy"},
    [GW_STUDY_WORKERS] = {"workers", "cluster.workers"},
    [GW_STUDY_SERVERS] = {"servers", "cluster.servers"},
    [GW_STUDY_OPTIMIZER] = {"optimizer", "optimizer.kind"},
    [GW_STUDY_LR] = {"lr", "optimizer.lr"},
    [GW_STUDY_STRAGGLER] = {"straggler", NULL},
    [GW_STUDY_NETWORK] = {"network", NULL},
    [GW_STUDY_PLACEMENT] = {"placement", NULL},
    [GW_STUDY_SEED] = {"seed", "train.seed"},
};

const char *gw_study_axis_name(enum gw_study_axis axis)
{
    return axes[axis].name;
}

/* ---- memory ---- */

struct block {
    struct block *next;
    max_align_t bytes[];
};

void *gw_study_keep(struct gw_study *study, size_t bytes)
{
    struct block *block = calloc(1, sizeof *block + bytes);
    if (!block)
        return NULL;
    block->next = study->memory;
    study->memory = block;
    return block->bytes;
}

char *gw_study_keep_text(struct gw_study *study, const char *text)
{
    char *copy = gw_study_keep(study, strlen(text) + 1);
    return copy ? strcpy(copy, text) : NULL;
}

enum gw_status gw_study_no_memory(struct gw_error *error)
{
    return gw_fail(error, GW_ENOMEM, "no memory for a study");
}

/* ---- runs ---- */

static enum gw_status set_all(struct gw_config *config,
                              const char *const *set,
                              struct gw_error *error)
{
    for (; set && *set; set++)
        if (gw_config_set(config, *set, error) != GW_OK)
            return error->status;
    return GW_OK;
}

/* Refuses axes of simulations in a study of processes. */
static enum gw_status check_real(const struct gw_study_run *run,
                                 struct gw_error *error)
{
    for (size_t axis = GW_STUDY_STRAGGLER; axis <= GW_STUDY_PLACEMENT; axis++)
        if (run->value[axis])
            return gw_fail(error, GW_EUSAGE,
                           "%s: needs run = \"simulated\"; real processes "
                           "have the hosts, the network and the stragglers of "
                           "their machine",
                           axes[axis].name);
    return GW_OK;
}

static enum gw_status check_placement(const char *text,
                                      const struct gw_config *config,
                                      struct gw_error *error)
{
    struct gw_placement placement;
    enum gw_status status = gw_placement_parse(text, &placement, error);
    return status ? status
                  : gw_placement_fits(&placement,
                                      (uint32_t)config->cluster.workers, error);
}

static enum gw_status check_run(const struct gw_study *study,
                                const struct gw_study_run *run,
                                const struct gw_config *config,
                                struct gw_error *error)
{
    const char *law = run->value[GW_STUDY_STRAGGLER];
    const char *network = run->value[GW_STUDY_NETWORK];
    const char *placement = run->value[GW_STUDY_PLACEMENT];
    struct gw_straggle *straggle = NULL;
    struct gw_sim_host_options host;
    enum gw_status status = study->simulated ? GW_OK : check_real(run, error);
    if (status == GW_OK && network)
        status = gw_network_parse(network, &host, error);
    if (status == GW_OK && placement)
        status = check_placement(placement, config, error);
    if (status == GW_OK && law)
        status = gw_straggle_parse(law, study->file, &straggle, error);
    if (status == GW_OK && straggle)
        status = gw_straggle_fits(straggle, (uint32_t)config->cluster.workers,
                                  error);
    gw_straggle_free(straggle);
    return status;
}

enum gw_status gw_study_config(const struct gw_study *study,
                               const struct gw_study_run *run,
                               struct gw_config *config,
                               struct gw_error *error)
{
    const struct gw_cli_job job = {.file = study->job};
    enum gw_status status = gw_cli_job_load(&job, config, error);
    if (status == GW_OK)
        status = set_all(config, study->set, error);
    if (status == GW_OK)
        status = set_all(config, run->set, error);
    for (size_t axis = 0; axis < GW_STUDY_AXES && status == GW_OK; axis++) {
        char text[GW_STRING_MAX + 64];
        if (!axes[axis].key || !run->value[axis])
            continue;
        snprintf(text, sizeof text, "%s=%s", axes[axis].key, run->value[axis]);
        status = gw_config_set(config, text, error);
    }
    if (status == GW_OK)
        status = gw_paths_root(config, study->file, error);
    if (status == GW_OK && study->simulated)
        status = gw_config_set(config, "cluster.transport=sim", error);
    if (status == GW_OK)
        status = gw_config_check(config, error);
    return status;
}

void gw_study_describe(const struct gw_study_run *run, char *text, size_t room)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t axis = 0; axis < GW_STUDY_AXES && used < room; axis++)
        if (run->value[axis])
            used += (size_t)snprintf(text + used, room - used, "%s%s %s",
                                     used ? ", " : "", axes[axis].name,
                                     run->value[axis]);
}

/* Includes the final zero, which separates it from the next text. */
static void add_text(struct gw_digest *sum, const char *text)
{
    if (!text)
        text = "";
    gw_digest_add(sum, text, strlen(text) + 1);
}

/* The job's text, independent of the study's place: paths below its folder, or
   the job's, are relative. The caller frees it. */
static enum gw_status job_text(const struct gw_study *study,
                               const struct gw_config *config,
                               char **text_p,
                               struct gw_error *error)
{
    char dir[2][GW_PATH_BYTES];
    struct gw_config *bare = malloc(sizeof *bare);
    char *text = malloc(GW_JOB_TEXT_MAX);
    enum gw_status status = bare && text ? GW_OK : gw_study_no_memory(error);
    if (status == GW_OK)
        status = gw_paths_dir(study->job, dir[0], error);
    if (status == GW_OK)
        status = gw_paths_dir(study->file, dir[1], error);
    if (status == GW_OK) {
        *bare = *config;
        gw_config_unroot_paths(bare, dir[0]);
        gw_config_unroot_paths(bare, dir[1]);
        gw_config_print(bare, 0, text, GW_JOB_TEXT_MAX);
        *text_p = text;
        text = NULL;
    }
    free(text);
    free(bare);
    return status;
}

/* Names a run by a hash of its job, of the program and of its other
   settings. */
static enum gw_status name_run(const struct gw_study *study,
                               const struct gw_config *config,
                               struct gw_study_run *run,
                               struct gw_error *error)
{
    uint8_t digest[GW_DIGEST_BYTES];
    char around[128], hex[2 * GW_DIGEST_BYTES + 1];
    const char *law = run->value[GW_STUDY_STRAGGLER];
    struct gw_straggle *straggle;
    char *job;
    if (job_text(study, config, &job, error) != GW_OK)
        return error->status;
    if (gw_straggle_parse(law ? law : "none", study->file, &straggle, error) !=
        GW_OK) {
        free(job);
        return error->status;
    }
    snprintf(around, sizeof around, "%s %d %a %a %a", PACKAGE_VERSION,
             study->simulated ? GW_SIM_HISTORY : 0, study->step_us,
             study->sample_us, study->limit_s);
    struct gw_digest *sum = gw_digest_begin();
    gw_digest_add(sum, job, strlen(job));
    add_text(sum, around);
    add_text(sum, run->value[GW_STUDY_NETWORK]);
    add_text(sum, run->value[GW_STUDY_PLACEMENT]);
    gw_straggle_digest(straggle, sum);
    gw_digest_end(sum, digest);
    gw_digest_hex(digest, hex);
    snprintf(run->id, sizeof run->id, "%.16s", hex);
    gw_straggle_free(straggle);
    free(job);
    return GW_OK;
}

static int is_again(const struct gw_study *study,
                    const struct gw_study_run *run)
{
    for (const struct gw_study_run *one = study->run; one < run; one++)
        if (strcmp(one->id, run->id) == 0)
            return 1;
    return 0;
}

static enum gw_status add_run(struct gw_study *study,
                              const struct gw_study_grid *grid,
                              const size_t at[GW_STUDY_AXES],
                              struct gw_config *config,
                              struct gw_error *error)
{
    struct gw_study_run *run = &study->run[study->runs];
    char what[256];
    for (size_t axis = 0; axis < GW_STUDY_AXES; axis++)
        run->value[axis] = grid->n[axis] ? grid->value[axis][at[axis]] : NULL;
    if (grid->n[GW_STUDY_VARY])
        run->set = grid->set[at[GW_STUDY_VARY]];
    study->points += at[GW_STUDY_SEED] == 0;
    run->point = study->points - 1;
    study->runs++;
    enum gw_status status = gw_study_config(study, run, config, error);
    if (status == GW_OK)
        status = check_run(study, run, config, error);
    if (status == GW_OK)
        status = name_run(study, config, run, error);
    if (status == GW_OK) {
        run->members = config->cluster.workers + config->cluster.servers;
        run->again = is_again(study, run);
        study->different += !run->again;
        return GW_OK;
    }
    gw_study_describe(run, what, sizeof what);
    struct gw_error why = *error;
    return gw_fail(error, why.status, "%s:%u: %s: %s", grid->file, grid->line,
                   what[0] ? what : "the job", why.text);
}

/* Counts through every combination, the last axis first. */
enum gw_status gw_study_add(struct gw_study *study,
                            const struct gw_study_grid *grid,
                            struct gw_error *error)
{
    struct gw_config *config = gw_study_keep(study, sizeof *config);
    size_t at[GW_STUDY_AXES] = {0}, all = 1;
    for (size_t axis = 0; axis < GW_STUDY_AXES && all <= GW_STUDY_RUNS_MAX;
         axis++)
        all *= grid->n[axis] ? grid->n[axis] : 1;
    if (all > GW_STUDY_RUNS_MAX - study->runs)
        return gw_fail(error, GW_EUSAGE,
                       "%s:%u: grid: more than %d runs; leave some out",
                       grid->file, grid->line, GW_STUDY_RUNS_MAX);
    struct gw_study_run *run =
        gw_study_keep(study, (study->runs + all) * sizeof *run);
    if (!run || !config)
        return gw_study_no_memory(error);
    if (study->runs > 0)
        memcpy(run, study->run, study->runs * sizeof *run);
    study->run = run;
    for (size_t i = 0; i < all; i++) {
        size_t left = i;
        for (size_t axis = GW_STUDY_AXES; axis-- > 0;) {
            size_t n = grid->n[axis] ? grid->n[axis] : 1;
            at[axis] = left % n;
            left /= n;
        }
        enum gw_status status = add_run(study, grid, at, config, error);
        if (status != GW_OK)
            return status;
    }
    return GW_OK;
}

/* ---- the end ---- */

void gw_study_free(struct gw_study *study)
{
    if (!study)
        return;
    for (struct block *block = study->memory, *next; block; block = next) {
        next = block->next;
        free(block);
    }
    free(study);
}
