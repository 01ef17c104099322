/* The tensors of a program, and its first weights. */
#include "config.h"

#include "worker/library/job.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- keys ---- */

static int
copy_key(struct gradweir_job *job, size_t i, const struct gradweir_key *from)
{
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
    if (from->group != 0)
        return gw_job_fails(job, GRADWEIR_EUNSUPPORTED,
                            "key %s: group %u has no rule yet, take group 0",
                            from->name, from->group);
    memcpy(key->name, from->name, bytes + 1);
    key->dtype = GW_DTYPE_F32;
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
    job->device = strdup(declaration->device ? declaration->device
                                             : program_invocation_short_name);
    job->keys = declaration->n_keys;
    job->scores = declaration->scores;
    job->own_steps = declaration->own_steps;
    job->step_weight = declaration->step_weight ? declaration->step_weight
                                                : gradweir_ranks(job);
    if (!job->key || !job->type || !job->device)
        return gw_job_fails(job, GRADWEIR_ENOMEM, "no memory for %zu keys",
                            declaration->n_keys);
    for (size_t i = 0; i < declaration->n_keys; i++) {
        const struct gradweir_key *key = &declaration->keys[i];
        int status =
            key->struct_size == sizeof *key
                ? copy_key(job, i, key)
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
    free(job->device);
    job->key = NULL;
    job->type = NULL;
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
                                                    .words = job->device};
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
