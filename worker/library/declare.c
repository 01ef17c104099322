/* The tensors of a program, and its first weights. */
#include "config.h"

#include "worker/library/job.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/update/update.h"

/* ---- groups ---- */

static size_t groups_of(const struct gradweir_declaration *declaration)
{
    return declaration->groups && declaration->n_groups > 0
               ? declaration->n_groups
               : 1;
}

static uint8_t rule_of(const struct gradweir_declaration *declaration,
                       uint32_t group)
{
    return declaration->groups && declaration->n_groups > 0
               ? (uint8_t)declaration->groups[group].rule
               : GW_KEY_RULE_OPTIMIZER;
}

static int check_groups(struct gradweir_job *job,
                        const struct gradweir_declaration *declaration)
{
    if (declaration->n_groups > GW_KEY_GROUPS_MAX)
        return gw_job_fails(job, GRADWEIR_EINVAL,
                            "%zu groups are declared, at most %d are possible",
                            declaration->n_groups, GW_KEY_GROUPS_MAX);
    for (size_t i = 0; declaration->groups && i < declaration->n_groups; i++) {
        const struct gradweir_group *group = &declaration->groups[i];
        if (group->struct_size != sizeof *group)
            return gw_job_fails(job, GRADWEIR_EINVAL,
                                "group %zu: its struct_size is not that of "
                                "this library",
                                i);
        if (group->rule < 0 || group->rule >= GW_KEY_RULES)
            return gw_job_fails(job, GRADWEIR_EINVAL,
                                "group %zu: there is no rule %d", i,
                                group->rule);
    }
    return GRADWEIR_OK;
}

static int check_optimizer(struct gradweir_job *job,
                           const struct gradweir_declaration *declaration)
{
    const char *name = declaration->optimizer;
    double norm = declaration->max_norm;
    if (!isfinite(norm) || norm < 0)
        return gw_job_fails(job, GRADWEIR_EINVAL,
                            "max_norm is %g; take a norm above 0, or 0 for "
                            "that of the job",
                            norm);
    if (!name || gw_optimizer_find(name))
        return GRADWEIR_OK;
    return gw_job_fails(job, GRADWEIR_EINVAL,
                        "there is no optimizer \"%.40s\"; take sgd, momentum, "
                        "nesterov, adam, adamw, lamb or none",
                        name);
}

/* ---- keys ---- */

static int copy_key(struct gradweir_job *job,
                    size_t i,
                    const struct gradweir_declaration *declaration)
{
    const struct gradweir_key *from = &declaration->keys[i];
    struct gw_key *key = &job->key[i];
    size_t bytes = from->name ? strlen(from->name) : 0;
    if (bytes == 0 || bytes >= sizeof key->name)
        return gw_job_fails(job, GRADWEIR_EINVAL,
                            "key %zu: its name \"%.40s\" has %zu bytes, 1 to "
                            "%zu are possible",
                            i, from->name ? from->name : "", bytes,
                            sizeof key->name - 1);
    if (from->dims > GRADWEIR_DIMS_MAX)
        return gw_job_fails(job, GRADWEIR_EINVAL,
                            "key %s has %u dimensions, at most %d are possible",
                            from->name, from->dims, GRADWEIR_DIMS_MAX);
    if (from->type < 0 || from->type >= GW_RANK_DTYPES)
        return gw_job_fails(job, GRADWEIR_EINVAL, "key %s: there is no type %d",
                            from->name, from->type);
    if (from->group >= groups_of(declaration))
        return gw_job_fails(job, GRADWEIR_EINVAL,
                            "key %s: there is no group %u, the last is %zu",
                            from->name, from->group,
                            groups_of(declaration) - 1);
    memcpy(key->name, from->name, bytes + 1);
    key->dtype = GW_DTYPE_F32;
    key->group = from->group;
    key->rule = rule_of(declaration, from->group);
    key->type = (uint8_t)from->type;
    key->dims = (uint8_t)from->dims;
    memcpy(key->shape, from->shape, from->dims * sizeof *key->shape);
    job->type[i] = (uint8_t)from->type;
    return GRADWEIR_OK;
}

static int copy_keys(struct gradweir_job *job,
                     const struct gradweir_declaration *declaration)
{
    job->key = calloc(declaration->n_keys + 1, sizeof *job->key);
    job->type = calloc(declaration->n_keys + 1, sizeof *job->type);
    job->groups = groups_of(declaration);
    job->rule = calloc(job->groups, sizeof *job->rule);
    job->device = strdup(declaration->device ? declaration->device
                                             : program_invocation_short_name);
    job->optimizer = declaration->optimizer
                         ? gw_optimizer_find(declaration->optimizer)->name
                         : NULL;
    job->max_norm = declaration->max_norm;
    job->keys = declaration->n_keys;
    job->scores = declaration->scores;
    job->own_steps = declaration->own_steps;
    job->step_weight = declaration->step_weight ? declaration->step_weight
                                                : gradweir_ranks(job);
    if (!job->key || !job->type || !job->rule || !job->device)
        return gw_job_fails(job, GRADWEIR_ENOMEM, "no memory for %zu keys",
                            declaration->n_keys);
    for (uint32_t i = 0; i < job->groups; i++)
        job->rule[i] = rule_of(declaration, i);
    for (size_t i = 0; i < declaration->n_keys; i++) {
        const struct gradweir_key *key = &declaration->keys[i];
        int status =
            key->struct_size == sizeof *key
                ? copy_key(job, i, declaration)
                : gw_job_fails(job, GRADWEIR_EINVAL,
                               "key %zu: its struct_size is not that of this "
                               "library",
                               i);
        if (status != GRADWEIR_OK)
            return status;
    }
    return GRADWEIR_OK;
}

static void drop_keys(struct gradweir_job *job)
{
    free(job->key);
    free(job->type);
    free(job->rule);
    free(job->device);
    job->key = NULL;
    job->type = NULL;
    job->rule = NULL;
    job->device = NULL;
    job->keys = 0;
}

/* ---- declare ---- */

static int declare(struct gradweir_job *job, size_t first, size_t n)
{
    (void)first, (void)n;
    const struct gw_rank_declaration declaration = {.key = job->key,
                                                    .keys = job->keys,
                                                    .own_steps = job->own_steps,
                                                    .words = job->device,
                                                    .optimizer = job->optimizer,
                                                    .clip = job->max_norm};
    enum gw_status status =
        gw_rank_own_data(job->rank, job->step_weight, job->scores);
    if (status == GW_OK)
        status = gw_rank_declare(job->rank, &declaration);
    if (status == GW_OK)
        job->stage = GW_JOB_DECLARED;
    return gw_job_take(job, gw_rank_fail(job->rank, status));
}

int gradweir_declare(gradweir_job *job,
                     const struct gradweir_declaration *declaration,
                     int timeout_ms)
{
    const struct gw_driver_call call = {.run = declare};
    int status =
        gw_job_check_call(job, "gradweir_declare", GW_JOB_JOINED, &call);
    if (status != GRADWEIR_OK)
        return status;
    if (declaration->struct_size != sizeof *declaration)
        return gw_job_fails(job, GRADWEIR_EINVAL,
                            "declaration.struct_size is not that of this "
                            "library");
    if (!job->key) {
        status = check_groups(job, declaration);
        if (status == GRADWEIR_OK)
            status = check_optimizer(job, declaration);
        if (status == GRADWEIR_OK)
            status = copy_keys(job, declaration);
        if (status != GRADWEIR_OK) {
            drop_keys(job);
            return status;
        }
    }
    return gw_driver_run(job->driver, &call, timeout_ms);
}

/* ---- first weights ---- */

int gradweir_makes_weights(const gradweir_job *job)
{
    return job->stage == GW_JOB_DECLARED && gw_rank_makes_weights(job->rank);
}

int gradweir_put(gradweir_job *job, size_t key, const void *weights)
{
    int status = gw_job_check(job, "gradweir_put", GW_JOB_DECLARED);
    if (status != GRADWEIR_OK)
        return status;
    if (key >= job->keys)
        return gw_job_fails(job, GRADWEIR_EINVAL,
                            "gradweir_put: there is no key %zu", key);
    gw_rank_tensor_load((enum gw_rank_dtype)job->type[key],
                        gw_key_elems(&job->key[key]), weights,
                        gw_rank_weights(job->rank)[key]);
    return GRADWEIR_OK;
}

static int start(struct gradweir_job *job, size_t first, size_t n)
{
    (void)first, (void)n;
    enum gw_status status = gw_rank_start(job->rank);
    if (status == GW_OK)
        job->stage = GW_JOB_READY;
    return gw_job_take(job, gw_rank_fail(job->rank, status));
}

int gradweir_start(gradweir_job *job, int timeout_ms)
{
    const struct gw_driver_call call = {.run = start};
    int status =
        gw_job_check_call(job, "gradweir_start", GW_JOB_DECLARED, &call);
    return status ? status : gw_driver_run(job->driver, &call, timeout_ms);
}
