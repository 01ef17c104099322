/* A trainer of its own over worker/trainer/rank.h: a linear classifier in plain
   loops, for pictures of one white pixel. Usage: linear [HOST:PORT [twice]];
   then it says twice of a key that it is ready. Without arguments a launcher
   gives the rest by the environment; a job that leaves its end open has STEPS.
 */
#include "config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "proto/random.h"
#include "worker/trainer/join.h"

enum {
    PIXELS = 64,
    CLASSES = 10,
    SAMPLES = 200,
    STEPS = 300
};
static float w[CLASSES][PIXELS], b[CLASSES], dw[CLASSES][PIXELS], db[CLASSES];
static int twice;
static const struct gw_key keys[] = {
    {.name = "fc1.weight",
     .dtype = GW_DTYPE_F32,
     .dims = 2,
     .shape = {CLASSES, PIXELS}},
    {.name = "fc1.bias", .dtype = GW_DTYPE_F32, .dims = 1, .shape = {CLASSES}}};
static const struct gw_rank_tensor tensors[] = {
    {.weights = w, .gradients = dw}, {.weights = b, .gradients = db}};
static const struct gw_rank_declaration declaration = {
    .key = keys, .tensor = tensors, .keys = 2, .words = "plain loops"};

/* Glorot and Bengio 2010, equation 16, as the built-in model draws it. */
static void first_weights(uint64_t seed)
{
    for (uint32_t u[4], i = 0; i < CLASSES * PIXELS; i++) {
        gw_random4(seed, GW_RANDOM_INIT, 0, i / 4, u);
        double place = 2 * (double)gw_random_uniform(u[i % 4]) - 1;
        (&w[0][0])[i] = (float)(sqrt(6. / (PIXELS + CLASSES)) * place);
    }
}

/* Softmax and cross-entropy of one sample; its gradient is added. */
static double add_sample(uint64_t sample)
{
    size_t pixel = sample % PIXELS, label = sample % CLASSES;
    double x[CLASSES], most = -INFINITY, sum = 0;
    for (size_t c = 0; c < CLASSES; c++)
        most = fmax(most, x[c] = (double)(w[c][pixel] + b[c]));
    for (size_t c = 0; c < CLASSES; c++)
        sum += exp(x[c] - most);
    for (size_t c = 0; c < CLASSES; c++) {
        float up = (float)(1 / sum * (double)(float)exp(x[c] - most));
        dw[c][pixel] += up - (float)(c == label);
        db[c] += up - (float)(c == label);
    }
    return log(sum) + most - x[label];
}

/* A job of a program knows no samples: each rank takes one in a step. */
static enum gw_status take_data(struct gw_rank *rank)
{
    const struct gw_config *config = gw_rank_config(rank);
    return gw_config_is_external(config)
               ? gw_rank_own_data(rank, config->cluster.workers, 0)
               : gw_rank_data(rank, SAMPLES, 0, NULL);
}

/* The place of a sample in its epoch's permutation. */
static uint64_t place_of(const struct gw_config *config,
                         const struct gw_rank_step *step,
                         uint64_t i)
{
    if (!gw_config_is_external(config))
        return i;
    return (step->number * config->cluster.workers + i) % SAMPLES;
}

/* Steps that this program wants. */
static uint64_t steps_of(const struct gw_config *config)
{
    return gw_config_steps(config) == GW_STEPS_OPEN ? STEPS : UINT64_MAX;
}

static enum gw_status train(struct gw_rank *rank)
{
    const struct gw_config *config = gw_rank_config(rank);
    uint64_t seed = config->train.seed, left = steps_of(config);
    struct gw_rank_step step;
    enum gw_status status = take_data(rank);
    first_weights(seed);
    status = status ? status : gw_rank_declare(rank, &declaration);
    status = status ? status : gw_rank_start(rank);
    for (; status == GW_OK && left > 0; left--) {
        if (gw_rank_begin(rank, &step) != GW_OK)
            break;
        struct gw_rank_sum sum = {0};
        uint64_t end = step.run.first + step.run.n;
        enum gw_status met = gw_rank_need(rank, 0, 2);
        memset(dw, 0, sizeof dw);
        memset(db, 0, sizeof db);
        for (uint64_t i = step.run.first; i < end; i++)
            sum.loss += add_sample(gw_random_permute(
                seed, step.epoch, SAMPLES, place_of(config, &step, i)));
        /* as backward passes do: the last first, and weights read in between */
        for (size_t key = 2; step.run.n > 0 && met == GW_OK && key-- > 0;) {
            met = gw_rank_ready(rank, twice ? 1 : key, 1);
            if (met == GW_OK && key > 0)
                met = gw_rank_need(rank, key - 1, 1);
        }
        gw_rank_end(rank, met, &sum);
    }
    return status ? gw_rank_fail(rank, status) : gw_rank_finish(rank);
}

int main(int argc, char **argv)
{
    static struct gw_joining joining;
    struct gw_rank *rank;
    struct gw_error error = {.text = ""};
    struct gw_join_options options = {.coordinator = argc > 1 ? argv[1] : "",
                                      .rank = GW_RANK_NONE};
    twice = argc > 2;
    enum gw_status status =
        argc > 1 ? GW_OK : gw_join_environment(&options, &error);
    rank = NULL;
    status = status ? status : gw_join_rank(&options, &joining, &rank, &error);
    status = status ? status : train(rank);
    gw_rank_close(rank);
    gw_joining_close(&joining);
    if (status != GW_OK)
        fprintf(stderr, "linear: %s\n", error.text);
    return status != GW_OK;
}
