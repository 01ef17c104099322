#include "config.h"

#include "cli/study/study_result.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/study/study_job.h"

static double number_of(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static uint64_t count_of(const json_t *object, const char *name)
{
    json_int_t value = json_integer_value(json_object_get(object, name));
    return value > 0 ? (uint64_t)value : 0;
}

/* ---- lines of a record ---- */

/* Takes a list per worker of counts so far; the last one holds. */
static void take_staleness(struct gw_study_result *result,
                           const json_t *workers)
{
    size_t rank, late;
    json_t *list, *chunks;
    memset(result->late, 0, sizeof result->late);
    json_array_foreach(workers, rank, list)
    {
        json_array_foreach(list, late, chunks)
        {
            if (late < GW_STUDY_STALENESS && json_integer_value(chunks) > 0)
                result->late[late] += (uint64_t)json_integer_value(chunks);
        }
    }
}

static enum gw_status take_step(struct gw_study_result *result,
                                const json_t *object,
                                struct gw_error *error)
{
    size_t n = result->samples;
    double accuracy = number_of(object, "test_accuracy");
    /* in powers of two */
    if ((n & (n - 1)) == 0) {
        struct gw_study_sample *grown =
            realloc(result->sample, (n ? 2 * n : 1) * sizeof *grown);
        if (!grown)
            return gw_fail(error, GW_ENOMEM, "no memory for results");
        result->sample = grown;
    }
    result->sample[n] = (struct gw_study_sample){
        .step = count_of(object, "step"),
        .bytes =
            count_of(object, "bytes_pushed") + count_of(object, "bytes_pulled"),
        .wall_s = number_of(object, "wall_s"),
        .loss = number_of(object, "loss"),
        .accuracy = accuracy >= 0 ? accuracy : -1,
    };
    result->samples++;
    take_staleness(result, json_object_get(object, "staleness_by_worker"));
    return GW_OK;
}

static void take_final(struct gw_study_result *result, const json_t *object)
{
    const json_t *workers = json_object_get(object, "workers");
    double accuracy = number_of(object, "test_accuracy");
    result->wall_s = number_of(object, "wall_s");
    result->samples_per_s = number_of(object, "samples_per_s");
    result->final_accuracy = accuracy >= 0 ? accuracy : -1;
    result->bytes =
        count_of(workers, "bytes_pushed") + count_of(workers, "bytes_pulled");
}

/* Takes a line of a record. *ended_p: it is the last. */
static enum gw_status take_line(struct gw_study_result *result,
                                const char *line,
                                int *ended_p,
                                struct gw_error *error)
{
    json_error_t why;
    enum gw_status status = GW_OK;
    json_t *object = json_loads(line, 0, &why);
    const char *end = json_string_value(json_object_get(object, "end"));
    const char *text = json_string_value(json_object_get(object, "why"));
    if (!json_is_object(object)) {
        status = gw_fail(error, GW_ECORRUPT, "%s", why.text);
    } else if (end) {
        *ended_p = 1;
        if (strcmp(end, "done") != 0)
            result->why = strdup(text ? text : "it does not say why");
        if (strcmp(end, "done") != 0 && !result->why)
            status = gw_fail(error, GW_ENOMEM, "no memory for results");
    } else if (json_is_true(json_object_get(object, "final"))) {
        take_final(result, object);
    } else if (json_object_get(object, "step")) {
        status = take_step(result, object, error);
    }
    json_decref(object);
    return status;
}

/* ---- derived figures ---- */

/* Replaces each loss by the mean over it and its predecessors, from the last
   on, so that the predecessors are still original. */
static void smooth_losses(struct gw_study_result *result)
{
    for (size_t i = result->samples; i-- > 0;) {
        size_t first = i + 1 > GW_STUDY_SMOOTH ? i + 1 - GW_STUDY_SMOOTH : 0;
        double sum = 0;
        for (size_t k = first; k <= i; k++)
            sum += result->sample[k].loss;
        result->sample[i].loss = sum / (double)(i + 1 - first);
    }
}

static void reach(struct gw_study_reached *reached,
                  const struct gw_study_sample *sample)
{
    if (!reached->is)
        *reached = (struct gw_study_reached){.is = 1,
                                             .step = sample->step,
                                             .bytes = sample->bytes,
                                             .wall_s = sample->wall_s};
}

/* Sums up a run, or the part before it was given up. */
static void sum_up(const struct gw_study *study, struct gw_study_result *result)
{
    const struct gw_study_sample *last = NULL, *first = result->sample;
    for (size_t i = 0; i < result->samples; i++) {
        last = &result->sample[i];
        result->final_loss = last->loss;
        if (study->target_loss > 0 && result->final_loss <= study->target_loss)
            reach(&result->loss, last);
        if (last->accuracy > result->best_accuracy)
            result->best_accuracy = last->accuracy;
        if (last->accuracy >= 0 && study->target_accuracy > 0 &&
            last->accuracy >= study->target_accuracy)
            reach(&result->accuracy, last);
    }
    if (last && last->step > first->step)
        result->step_s =
            (last->wall_s - first->wall_s) / (double)(last->step - first->step);
    if (last && result->steps < last->step + 1)
        result->steps = last->step + 1;
    if (last && !(result->wall_s > 0)) {
        result->wall_s = last->wall_s;
        result->bytes = last->bytes;
    }
    if (result->final_accuracy > result->best_accuracy)
        result->best_accuracy = result->final_accuracy;
    const struct gw_study_sample end = {.step = result->steps,
                                        .bytes = result->bytes,
                                        .wall_s = result->wall_s};
    if (study->target_accuracy > 0 &&
        result->final_accuracy >= study->target_accuracy)
        reach(&result->accuracy, &end);
}

static void sum_up_staleness(struct gw_study_result *result)
{
    uint64_t all = 0, seen = 0;
    double sum = 0;
    for (size_t i = 0; i < GW_STUDY_STALENESS; i++) {
        all += result->late[i];
        sum += (double)i * (double)result->late[i];
    }
    if (all == 0)
        return;
    result->staleness_mean = sum / (double)all;
    while (seen + result->late[result->staleness_p99] < all - all / 100)
        seen += result->late[result->staleness_p99++];
}

/* ---- files ---- */

static enum gw_status read_record(struct gw_study_result *result,
                                  const char *path,
                                  struct gw_error *error)
{
    char *line = NULL;
    size_t room = 0;
    unsigned at = 0;
    int ended = 0;
    enum gw_status status = GW_OK;
    FILE *file = fopen(path, "r");
    if (!file)
        return gw_fail(error, GW_EIO, "cannot open %s: %s", path,
                       strerror(errno));
    while (status == GW_OK && getline(&line, &room, file) > 0) {
        at++;
        status = take_line(result, line, &ended, error);
    }
    free(line);
    fclose(file);
    if (status == GW_OK && !ended)
        status = gw_fail(error, GW_ECORRUPT, "it does not say how it ended");
    if (status == GW_OK)
        return GW_OK;
    struct gw_error why = *error;
    return gw_fail(error, why.status,
                   "%s:%u: %s; remove the file, and it is run again", path, at,
                   why.text);
}

/* Fills in the job's values for axes that the study does not set. */
static enum gw_status fill_values(const struct gw_study *study,
                                  struct gw_study_result *result,
                                  struct gw_config *config,
                                  struct gw_error *error)
{
    char text[GW_STUDY_AXES][GW_STRING_MAX] = {""};
    if (gw_study_config(study, result->run, config, error) != GW_OK)
        return error->status;
    snprintf(text[GW_STUDY_POLICY], GW_STRING_MAX, "%s",
             config->cluster.policy);
    snprintf(text[GW_STUDY_WORKERS], GW_STRING_MAX, "%" PRIu64,
             config->cluster.workers);
    snprintf(text[GW_STUDY_SERVERS], GW_STRING_MAX, "%" PRIu64,
             config->cluster.servers);
    snprintf(text[GW_STUDY_OPTIMIZER], GW_STRING_MAX, "%s",
             gw_config_optimizer(config));
    snprintf(text[GW_STUDY_LR], GW_STRING_MAX, "%g", config->optimizer.lr);
    snprintf(text[GW_STUDY_SEED], GW_STRING_MAX, "%" PRIu64,
             config->train.seed);
    if (study->simulated) {
        strcpy(text[GW_STUDY_STRAGGLER], "none");
        strcpy(text[GW_STUDY_NETWORK], "unlimited");
        strcpy(text[GW_STUDY_PLACEMENT], "apart");
    }
    result->steps = config->train.steps;
    for (size_t axis = 0; axis < GW_STUDY_AXES; axis++) {
        const char *value = result->run->value[axis];
        result->value[axis] = strdup(value ? value : text[axis]);
        if (!result->value[axis])
            return gw_fail(error, GW_ENOMEM, "no memory for results");
    }
    return GW_OK;
}

static enum gw_status read_one(const struct gw_study *study,
                               const char *dir,
                               struct gw_study_result *result,
                               struct gw_config *config,
                               struct gw_error *error)
{
    result->final_accuracy = result->best_accuracy = -1;
    result->final_loss = result->step_s = NAN;
    char *path = gw_study_run_path(dir, result->run, "jsonl");
    enum gw_status status =
        path ? fill_values(study, result, config, error)
             : gw_fail(error, GW_ENOMEM, "no memory for results");
    if (status == GW_OK)
        status = read_record(result, path, error);
    free(path);
    if (status != GW_OK)
        return status;
    smooth_losses(result);
    sum_up(study, result);
    sum_up_staleness(result);
    return GW_OK;
}

enum gw_status gw_study_results_read(const struct gw_study *study,
                                     const char *dir,
                                     struct gw_study_result **results_p,
                                     struct gw_error *error)
{
    struct gw_study_result *results = calloc(study->runs, sizeof *results);
    struct gw_config *config = calloc(1, sizeof *config);
    enum gw_status status =
        results && config ? GW_OK
                          : gw_fail(error, GW_ENOMEM, "no memory for results");
    for (size_t i = 0; i < study->runs && status == GW_OK; i++) {
        results[i].run = &study->run[i];
        status = read_one(study, dir, &results[i], config, error);
    }
    free(config);
    if (status != GW_OK) {
        gw_study_results_free(study, results);
        return status;
    }
    *results_p = results;
    return GW_OK;
}

void gw_study_results_free(const struct gw_study *study,
                           struct gw_study_result *results)
{
    for (size_t i = 0; results && i < study->runs; i++) {
        for (size_t axis = 0; axis < GW_STUDY_AXES; axis++)
            free(results[i].value[axis]);
        free(results[i].why);
        free(results[i].sample);
    }
    free(results);
}
