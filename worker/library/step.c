/*
 * The steps of a program:
 *
 *   begin > wait, take > push, skip > [pull, take] > end
 *
 * A call that finds everything there does not go to the driver's thread: under
 * sync that is each of them, but a wait for weights that are still on their
 * way.
 */
#include "config.h"

#include "worker/library/job.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "proto/terms.h"

/* ---- begin ---- */

static int begin(struct gradweir_job *job, size_t first, size_t n)
{
    (void)first, (void)n;
    enum gw_status status = gw_rank_begin(job->rank, &job->step);
    if (status == GW_EEND)
        job->stage = GW_JOB_ENDS;
    if (status != GW_OK)
        return gw_job_take(job, status);
    job->stage = GW_JOB_STEP;
    job->is_told = job->is_pushed = 0;
    job->weight = (uint32_t)job->step.run.n;
    job->met = GW_OK;
    job->sum = (struct gw_rank_sum){.is_untold = 1};
    return GRADWEIR_OK;
}

static void tell_step(struct gradweir_job *job, struct gradweir_step *step)
{
    job->is_told = 1;
    step->task =
        job->step.task == GW_RANK_SCORE ? GRADWEIR_SCORE : GRADWEIR_TRAIN;
    step->number = job->step.number;
    step->weight = job->weight;
    step->loss_scale = 1;
    step->own = job->step.own;
}

int gradweir_begin(gradweir_job *job,
                   struct gradweir_step *step,
                   int timeout_ms)
{
    const struct gw_driver_call call = {.run = begin};
    int status = gw_job_check(job, "gradweir_begin",
                              GW_JOB_READY | GW_JOB_STEP | GW_JOB_ENDS);
    if (status != GRADWEIR_OK)
        return status;
    if (step->struct_size != sizeof *step)
        return gw_job_fails(job, GRADWEIR_EINVAL,
                            "step.struct_size is not that of this library");
    if (job->stage == GW_JOB_STEP && job->is_told)
        return gw_job_check(job, "gradweir_begin", GW_JOB_READY);
    if (job->stage == GW_JOB_READY && gw_driver_is_free(job->driver) &&
        gw_rank_is_prompt(job->rank))
        status = begin(job, 0, 0);
    else
        status = gw_driver_run(job->driver, &call, timeout_ms);
    if (status == GRADWEIR_OK)
        tell_step(job, step);
    if (status == GRADWEIR_EEND)
        step->number = job->step.number;
    return status;
}

/* ---- within a step ---- */

/* A step that is not to be finished, since others have gone on or the job ends,
   is said once: gradweir_end takes it from there. */
static int keep(struct gradweir_job *job, enum gw_status status)
{
    if (status != GW_OK && job->met == GW_OK)
        job->met = status;
    if (status == GW_EAGAIN || status == GW_EEND)
        return GRADWEIR_EEND;
    if (status != GW_OK) /* the rank's line is there after that */
        gw_rank_end(job->rank, status, &job->sum);
    return gw_job_take(job, status);
}

static int
check_keys(struct gradweir_job *job, const char *call, size_t first, size_t n)
{
    int status = gw_job_check(job, call, GW_JOB_STEP);
    if (status != GRADWEIR_OK)
        return status;
    if (first > job->keys || n > job->keys - first)
        return gw_job_fails(job, GRADWEIR_EINVAL,
                            "%s: there are %zu keys, not %zu + %zu", call,
                            job->keys, first, n);
    return job->met == GW_OK ? GRADWEIR_OK : GRADWEIR_EEND;
}

int gradweir_has(const gradweir_job *job, size_t first, size_t n)
{
    return job->pid == getpid() && job->stage == GW_JOB_STEP &&
           first <= job->keys && n <= job->keys - first &&
           gw_rank_has(job->rank, first, n);
}

static int need(struct gradweir_job *job, size_t first, size_t n)
{
    return keep(job, gw_rank_need(job->rank, first, n));
}

int gradweir_wait(gradweir_job *job, size_t first, size_t n, int timeout_ms)
{
    const struct gw_driver_call call = {need, first, n};
    int status = check_keys(job, "gradweir_wait", first, n);
    if (status != GRADWEIR_OK)
        return status;
    if (gw_driver_is_free(job->driver) && gw_rank_has(job->rank, first, n))
        return need(job, first, n);
    return gw_driver_run(job->driver, &call, timeout_ms);
}

int gradweir_take(gradweir_job *job, size_t key, void *weights)
{
    gw_job_settle(job);
    int status = gw_job_check(job, "gradweir_take",
                              GW_JOB_STEP | GW_JOB_ENDS | GW_JOB_DONE);
    if (status != GRADWEIR_OK)
        return status;
    if (key >= job->keys)
        return gw_job_fails(job, GRADWEIR_EINVAL,
                            "gradweir_take: there is no key %zu", key);
    gw_rank_tensor_store((enum gw_rank_dtype)job->type[key],
                         gw_key_elems(&job->key[key]),
                         gw_rank_weights(job->rank)[key], weights);
    return GRADWEIR_OK;
}

const float *gradweir_weights(const gradweir_job *job, size_t key)
{
    return key < job->keys && job->stage >= GW_JOB_DECLARED
               ? gw_rank_weights(job->rank)[key]
               : NULL;
}

float *gradweir_gradients(gradweir_job *job, size_t key)
{
    return key < job->keys && job->stage >= GW_JOB_DECLARED
               ? gw_rank_gradients(job->rank)[key]
               : NULL;
}

int gradweir_weigh(gradweir_job *job, uint32_t weight)
{
    gw_job_settle(job);
    int status = gw_job_check(job, "gradweir_weigh", GW_JOB_STEP);
    if (status != GRADWEIR_OK)
        return status;
    if (job->is_pushed || job->step.task == GW_RANK_SCORE)
        return gw_job_fails(job, GRADWEIR_EUSAGE, "gradweir_weigh: %s",
                            job->is_pushed ? "a key of this step was pushed"
                                           : "this step only scores");
    job->weight = weight;
    gw_rank_weigh(job->rank, weight);
    return GRADWEIR_OK;
}

int gradweir_terms(gradweir_job *job,
                   uint32_t group,
                   const struct gradweir_terms *terms)
{
    gw_job_settle(job);
    int status = gw_job_check(job, "gradweir_terms",
                              GW_JOB_DECLARED | GW_JOB_READY | GW_JOB_STEP);
    if (status != GRADWEIR_OK)
        return status;
    if (terms->struct_size != sizeof *terms)
        return gw_job_fails(job, GRADWEIR_EINVAL,
                            "terms.struct_size is not that of this library");
    if (job->stage == GW_JOB_STEP && job->is_pushed)
        return gw_job_fails(job, GRADWEIR_EUSAGE,
                            "gradweir_terms: a key of this step was pushed");
    if (group >= job->groups || job->rule[group] != GW_KEY_RULE_OPTIMIZER)
        return gw_job_fails(
            job, GRADWEIR_EINVAL, "gradweir_terms: %s group %u",
            group < job->groups ? "no optimizer steps" : "there is no", group);
    const struct gw_terms set = {.lr = terms->lr,
                                 .weight_decay = terms->weight_decay,
                                 .momentum = terms->momentum,
                                 .beta1 = terms->beta1,
                                 .beta2 = terms->beta2,
                                 .eps = terms->eps};
    if (gw_rank_terms(job->rank, group, &set) != GW_OK)
        return gw_job_fails(job, GRADWEIR_EINVAL, "gradweir_terms: %s",
                            job->error.text);
    return GRADWEIR_OK;
}

int gradweir_push(gradweir_job *job, size_t key, const void *gradient)
{
    gw_job_settle(job);
    int status = check_keys(job, "gradweir_push", key, 1);
    if (status != GRADWEIR_OK)
        return status;
    if (gradient)
        status = need(job, key, 1); /* the last push of the key may go on */
    if (status != GRADWEIR_OK)
        return status;
    if (gradient)
        gw_rank_tensor_load((enum gw_rank_dtype)job->type[key],
                            gw_key_elems(&job->key[key]), gradient,
                            gw_rank_gradients(job->rank)[key]);
    job->is_pushed = 1;
    return keep(job, gw_rank_ready(job->rank, key, 1));
}

static int skip(struct gradweir_job *job, size_t first, size_t n)
{
    return keep(job, gw_rank_skip(job->rank, first, n, 0));
}

static int skip_counting(struct gradweir_job *job, size_t first, size_t n)
{
    return keep(job, gw_rank_skip(job->rank, first, n, 1));
}

int gradweir_skip(
    gradweir_job *job, size_t first, size_t n, int counts, int timeout_ms)
{
    const struct gw_driver_call call = {counts ? skip_counting : skip, first,
                                        n};
    int status = check_keys(job, "gradweir_skip", first, n);
    if (status != GRADWEIR_OK)
        return status;
    job->is_pushed = 1;
    if (gw_driver_is_free(job->driver) && gw_rank_has(job->rank, first, n))
        return call.run(job, first, n);
    return gw_driver_run(job->driver, &call, timeout_ms);
}

/* ---- weights that this step makes ---- */

static int check_pull(struct gradweir_job *job, size_t first, size_t n)
{
    struct gw_error why;
    int status = gw_rank_may_pull(job->rank, first, n, &why);
    return status ? gw_job_fails(job, status, "gradweir_pull: %s", why.text)
                  : GRADWEIR_OK;
}

static int pull(struct gradweir_job *job, size_t first, size_t n)
{
    int status = check_pull(job, first, n);
    if (status != GRADWEIR_OK)
        return status;
    status = gw_rank_pull(job->rank, first, n);
    if ((status == GW_EEND || status == GW_EAGAIN) &&
        gw_rank_is_final(job->rank))
        return GRADWEIR_EEND; /* the step itself is whole */
    return keep(job, (enum gw_status)status);
}

/* A pull that only asks goes to no other thread: the calls after it would wait
   for that. */
int gradweir_pull(gradweir_job *job, size_t first, size_t n, int timeout_ms)
{
    const struct gw_driver_call call = {pull, first, n};
    int status = check_keys(job, "gradweir_pull", first, n);
    if (status != GRADWEIR_OK || !gw_driver_is_free(job->driver))
        return status ? status : gw_driver_run(job->driver, &call, timeout_ms);
    status = check_pull(job, first, n);
    if (status != GRADWEIR_OK)
        return status;
    if (gw_rank_pull_is_prompt(job->rank, first, n))
        return pull(job, first, n);
    return timeout_ms ? gw_driver_run(job->driver, &call, timeout_ms)
                      : GRADWEIR_ETIMEOUT;
}

/* ---- end ---- */

static int end(struct gradweir_job *job, size_t first, size_t n)
{
    (void)first, (void)n;
    gw_rank_end(job->rank, job->met, &job->sum);
    job->stage = GW_JOB_READY; /* a failure comes with the next begin */
    return GRADWEIR_OK;
}

static int fill_sum(struct gradweir_job *job,
                    const struct gradweir_result *result)
{
    if (!result)
        return GRADWEIR_OK;
    if (result->struct_size != sizeof *result)
        return gw_job_fails(job, GRADWEIR_EINVAL,
                            "result.struct_size is not that of this library");
    job->sum.is_untold = 0;
    job->sum.samples = result->samples ? result->samples : job->weight;
    job->sum.loss = result->loss * (double)job->sum.samples;
    job->sum.correct =
        result->correct < job->sum.samples ? result->correct : job->sum.samples;
    return GRADWEIR_OK;
}

int gradweir_end(gradweir_job *job,
                 const struct gradweir_result *result,
                 int timeout_ms)
{
    const struct gw_driver_call call = {.run = end};
    int status = gw_job_check_call(job, "gradweir_end", GW_JOB_STEP, &call);
    if (status == GRADWEIR_OK && job->stage == GW_JOB_STEP)
        status = fill_sum(job, result);
    if (status != GRADWEIR_OK)
        return status;
    if (job->stage == GW_JOB_STEP && gw_driver_is_free(job->driver) &&
        job->step.task == GW_RANK_TRAIN &&
        (job->weight > 0 || job->met != GW_OK))
        return end(job, 0, 0); /* which does not wait */
    return gw_driver_run(job->driver, &call, timeout_ms);
}

/* ---- a checkpoint ---- */

/* Between two steps, or in one of which nothing has left, as if it had not
   begun. */
static unsigned stage_between(const struct gradweir_job *job)
{
    int is_untouched =
        !job->is_pushed && job->met == GW_OK && job->step.task == GW_RANK_TRAIN;
    return is_untouched ? GW_JOB_READY | GW_JOB_STEP : GW_JOB_READY;
}

static int save(struct gradweir_job *job, size_t first, size_t n)
{
    (void)first, (void)n;
    struct gw_error why;
    enum gw_status status = gw_rank_save(job->rank, &why);
    if (status == GW_EAGAIN)
        return GRADWEIR_ETIMEOUT; /* steps come first */
    if (!gw_rank_is_over(job->rank) &&
        (status == GW_EUSAGE || status == GW_EIO))
        return gw_job_fails(job, status, "gradweir_save: %s", why.text);
    return gw_job_take(job, status);
}

int gradweir_save(gradweir_job *job, int timeout_ms)
{
    const struct gw_driver_call call = {.run = save};
    int status =
        gw_job_check_call(job, "gradweir_save", stage_between(job), &call);
    return status ? status : gw_driver_run(job->driver, &call, timeout_ms);
}

/* ---- the job's end ---- */

static int finish(struct gradweir_job *job, size_t first, size_t n)
{
    (void)first, (void)n;
    enum gw_status status = gw_rank_finish(job->rank);
    if (status == GW_OK)
        job->stage = GW_JOB_DONE;
    return gw_job_take(job, status);
}

int gradweir_finish(gradweir_job *job, int timeout_ms)
{
    const struct gw_driver_call call = {.run = finish};
    int status = gw_job_check_call(job, "gradweir_finish",
                                   stage_between(job) | GW_JOB_ENDS, &call);
    if (status != GRADWEIR_OK)
        return status;
    return gw_driver_run(job->driver, &call, timeout_ms);
}

static int fail(struct gradweir_job *job, size_t first, size_t n)
{
    (void)first, (void)n;
    gw_fail(&job->error, GW_EABORTED, "%s", job->farewell);
    return gw_job_take(job, gw_rank_fail(job->rank, GW_EABORTED));
}

int gradweir_fail(gradweir_job *job, const char *line)
{
    const struct gw_driver_call call = {.run = fail};
    int status = gw_job_check(job, "gradweir_fail",
                              GW_JOB_JOINED | GW_JOB_DECLARED | GW_JOB_READY |
                                  GW_JOB_STEP | GW_JOB_ENDS);
    if (status != GRADWEIR_OK)
        return status;
    gw_job_leave(job, line && line[0] ? line : "the program has failed");
    do
        status = gw_driver_run(job->driver, &call, -1);
    while (status == GRADWEIR_EAGAIN);
    return status == GRADWEIR_EABORTED ? GRADWEIR_OK : status;
}
