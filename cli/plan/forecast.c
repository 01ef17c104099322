#include "config.h"

#include "cli/plan/forecast.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/lab/simulate.h"
#include "transport/member/member.h"

#define WARM_UP  4
#define STEPS    8
#define LIMIT_US 3600000000000u /* in virtual time */
#define DEADLINE_S                                                             \
    1e6 /* for a step, so long that no rank is reported as late */
#define FRAMES_MAX 4e6 /* a few seconds on this machine */

enum gw_status gw_forecast_word(const struct gw_config *config,
                                struct gw_policy_word *word_p,
                                struct gw_error *error)
{
    struct gw_policy_plan plan;
    enum gw_status status =
        gw_policy_plan_parse(config->cluster.policy, &plan, error);
    if (status == GW_OK)
        *word_p = gw_policy_at(&plan, 0);
    return status;
}

uint64_t gw_forecast_period(const struct gw_policy_word *word)
{
    return gw_policy_is_local(word->kind) && word->n > 1 ? word->n : 1;
}

/*
 * Reduces the job to its time and bytes. A worker's own steps would need
 * arithmetic; the step that exchanges behaves as one of sync, or of async if
 * each worker exchanges on its own.
 */
static enum gw_status set_job(const struct gw_forecast_case *what,
                              struct gw_config *config,
                              struct gw_error *error)
{
    struct gw_policy_word word;
    *config = *what->config;
    enum gw_status status = gw_forecast_word(config, &word, error);
    if (status != GW_OK)
        return status;
    int whole = gw_config_whole_step_under(config, &word);
    if (gw_policy_is_local(word.kind))
        strcpy(config->cluster.policy,
               gw_policy_is_together(word.kind) ? "sync" : "async");
    else
        gw_policy_word_print(&word, config->cluster.policy);
    strcpy(config->cluster.transport, "sim");
    strcpy(config->train.split, "even");
    config->train.split_from[0] = '\0';
    config->train.arithmetic = GW_ARITHMETIC_NONE;
    config->train.eval_every = (struct gw_every){.unit = GW_NEVER};
    config->train.early_stop = 0;
    config->train.epochs = 0;
    config->train.steps = WARM_UP + STEPS + 1;
    config->train.clip = 0; /* there is no norm; */
    /* nor options of workers' own steps */
    config->policy.inner_clip = 0;
    config->policy.fragments = 1;
    config->policy.overlap = 0;
    config->train.nonfinite = GW_NONFINITE_STOP;
    strcpy(config->train.loss_scale, "none");
    if (whole && gw_policy_is_together(word.kind)) /* as the job asks */
        config->train.commit = GW_COMMIT_WHOLE;
    config->checkpoint.dir[0] = '\0';
    config->data.test.n = 0;
    config->log.dir[0] = '\0';
    config->log.every = (struct gw_cadence){.steps = 1};
    config->cluster.step_deadline = DEADLINE_S;
    config->cluster.abort_after = 0;
    return gw_config_check(config, error);
}

/* Seconds per step in a record. */
static enum gw_status
read_steps(const char *record, double *step_s_p, struct gw_error *error)
{
    double first_s = -1, last_s = -1;
    json_int_t first = 0, last = 0;
    char line[8192];
    FILE *file = fopen(record, "re");
    while (file && fgets(line, sizeof line, file)) {
        json_t *object = json_loads(line, 0, NULL);
        json_t *step = object ? json_object_get(object, "step") : NULL;
        if (step && json_integer_value(step) >= WARM_UP) {
            last = json_integer_value(step);
            last_s = json_number_value(json_object_get(object, "wall_s"));
            first = first_s < 0 ? last : first;
            first_s = first_s < 0 ? last_s : first_s;
        }
        json_decref(object);
    }
    if (file)
        fclose(file);
    if (last <= first)
        return gw_fail(error, GW_EABORTED, "the simulation came to no steps");
    *step_s_p = (last_s - first_s) / (double)(last - first);
    return GW_OK;
}

static enum gw_status simulate(const struct gw_forecast_case *what,
                               const struct gw_config *config,
                               double *step_s_p,
                               struct gw_error *error)
{
    const char *dir = getenv("TMPDIR");
    char record[4096];
    snprintf(record, sizeof record, "%s/gradweir-plan-XXXXXX",
             dir && dir[0] ? dir : "/tmp");
    int fd = mkstemp(record);
    if (fd < 0)
        return gw_fail(error, GW_EIO, "no file can be made as %s", record);
    close(fd);
    struct gw_straggle *nobody = NULL;
    enum gw_status status = gw_straggle_parse("none", "", &nobody, error);
    const struct gw_simulate_options options = {
        .config = config,
        .seed = 1,
        .step_us = 1e6 * what->compute_s,
        .straggle = nobody,
        .network = what->link,
        .placement = what->placement,
        .workers_per_host = what->per_host,
        .train = what->train,
        .key = what->train ? NULL : what->map->key,
        .keys = what->map->keys,
        .record = record,
        .limit_us = LIMIT_US,
        .threads = 1,
    };
    if (status == GW_OK)
        status = gw_simulate(&options, error);
    if (status == GW_OK)
        status = read_steps(record, step_s_p, error);
    gw_straggle_free(nobody);
    unlink(record);
    return status;
}

/* Averages over a period of own steps and one exchange. */
static double over_period(const struct gw_forecast_case *what,
                          double step_s,
                          const struct gw_policy_word *word)
{
    double period = (double)gw_forecast_period(word);
    return ((period - 1) * what->compute_s + step_s) / period;
}

/* A simulated frame arrives all at once. If a chunk takes too long, no frame
   arrives meanwhile, and the silent peer counts as dead. A server's link
   carries a chunk of each worker at a time. */
static enum gw_status check_range(const struct gw_forecast_case *what,
                                  struct gw_error *error)
{
    double workers = (double)what->config->cluster.workers;
    double rate = what->link.bytes_per_us;
    double silence_us = (double)gw_config_silence_us(what->config, 0);
    double frames =
        workers * (double)what->map->chunks * 2 * (WARM_UP + STEPS + 1);
    double chunks_us =
        rate > 0 ? (double)what->map->chunk_bytes * workers / rate : 0;
    if (frames > FRAMES_MAX)
        return gw_fail(error, GW_ERANGE, "%.0f million frames are too many",
                       frames / 1e6);
    if (chunks_us > silence_us / 2)
        return gw_fail(error, GW_ERANGE, "a chunk of each worker takes %.1f s",
                       chunks_us / 1e6);
    return GW_OK;
}

enum gw_status gw_forecast_step(const struct gw_forecast_case *what,
                                double *step_s_p,
                                struct gw_error *error)
{
    struct gw_policy_word word;
    double step_s;
    enum gw_status status = check_range(what, error);
    if (status != GW_OK)
        return status;
    struct gw_config *config = malloc(sizeof *config);
    if (!config)
        return gw_fail(error, GW_ENOMEM, "no memory for a job");
    status = gw_forecast_word(what->config, &word, error);
    if (status == GW_OK)
        status = set_job(what, config, error);
    if (status == GW_OK)
        status = simulate(what, config, &step_s, error);
    if (status == GW_EDEAD) /* the cause is its links */
        status = error->status = GW_ERANGE;
    free(config);
    if (status == GW_OK)
        *step_s_p = over_period(what, step_s, &word);
    return status;
}
