#include "config.h"

#include "cli/lab/program.h"

#include "kernels/kernels.h"
#include "worker/trainer/rank.h"

struct program {
    struct gw_rank *rank;
    struct gw_device *device; /* of gw_no_arithmetic */
    const struct gw_key *key; /* [keys] */
    size_t keys;
};

/* Backward takes twice the arithmetic of forward. */
static enum gw_status train(const struct program *program)
{
    struct gw_rank *rank = program->rank;
    enum gw_status status = gw_rank_need(rank, 0, program->keys);
    for (size_t i = 0; status == GW_OK && i < program->keys; i++)
        gw_rank_computed(rank, gw_key_elems(&program->key[i]));
    for (size_t i = program->keys; status == GW_OK && i-- > 0;) {
        gw_rank_computed(rank, 2 * gw_key_elems(&program->key[i]));
        status = gw_rank_ready(rank, i, 1);
    }
    return status;
}

/* Each rank's gradient weighs 1. */
static enum gw_status set_up(struct program *program, struct gw_error *error)
{
    const struct gw_device_options device = {.threads = 1};
    struct gw_rank_declaration declaration = {
        .key = program->key,
        .keys = program->keys,
        .backend = &gw_no_arithmetic,
    };
    const struct gw_config *config = gw_rank_config(program->rank);
    for (size_t i = 0; i < program->keys; i++)
        declaration.flop += 3 * gw_key_elems(&program->key[i]);
    enum gw_status status =
        gw_no_arithmetic.open(&device, &program->device, error);
    declaration.device = program->device;
    if (status == GW_OK)
        status = gw_rank_own_data(program->rank, config->cluster.workers, 0);
    if (status == GW_OK)
        status = gw_rank_declare(program->rank, &declaration);
    if (status == GW_OK)
        status = gw_rank_start(program->rank);
    return gw_rank_fail(program->rank, status);
}

enum gw_status gw_program_run(const struct gw_worker_options *options,
                              const struct gw_key *key,
                              size_t keys,
                              struct gw_error *error)
{
    const struct gw_rank_options open = {.client = options->client,
                                         .local = options->local};
    const struct gw_rank_sum sum = {.is_untold = 1};
    struct program program = {.key = key, .keys = keys};
    struct gw_rank_step step;
    enum gw_status status = gw_rank_open(&open, &program.rank, error);
    if (status != GW_OK)
        return status;
    status = set_up(&program, error);
    while (status == GW_OK && gw_rank_begin(program.rank, &step) == GW_OK)
        gw_rank_end(program.rank, train(&program), &sum);
    if (status == GW_OK)
        status = gw_rank_finish(program.rank);
    gw_rank_close(program.rank);
    if (program.device)
        gw_no_arithmetic.close(program.device);
    return status;
}
