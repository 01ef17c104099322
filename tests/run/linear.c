/* A trainer of its own over worker/trainer/rank.h: a linear classifier in plain
   loops, for pictures of one white pixel. Usage: linear HOST:PORT */
#include "config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "proto/random.h"
#include "worker/trainer/join.h"

enum {
    PIXELS = 64,
    CLASSES = 10,
    SAMPLES = 200
};
static float weight[CLASSES][PIXELS], bias[CLASSES], dw[CLASSES][PIXELS],
    db[CLASSES];

/* Glorot and Bengio 2010, equation 16, as the built-in model draws it. */
static void first_weights(uint64_t seed)
{
    for (uint32_t u[4], i = 0; i < CLASSES * PIXELS; i++) {
        gw_random4(seed, GW_RANDOM_INIT, 0, i / 4, u);
        double place = 2 * (double)gw_random_uniform(u[i % 4]) - 1;
        weight[i / PIXELS][i % PIXELS] =
            (float)(sqrt(6. / (PIXELS + CLASSES)) * place);
    }
}

/* Softmax and cross-entropy of one sample; its gradient is added. */
static double add_sample(uint64_t sample)
{
    size_t pixel = sample % PIXELS, label = sample % CLASSES;
    double x[CLASSES], e[CLASSES], most = -INFINITY, sum = 0;
    for (size_t c = 0; c < CLASSES; c++)
        most = fmax(most, x[c] = (double)(weight[c][pixel] + bias[c]));
    for (size_t c = 0; c < CLASSES; c++)
        sum += e[c] = exp(x[c] - most);
    for (size_t c = 0; c < CLASSES; c++) {
        float dx = (float)(1 / sum * (double)(float)e[c]) - (float)(c == label);
        dw[c][pixel] += dx;
        db[c] += dx;
    }
    return log(sum) + most - x[label];
}

static enum gw_status
take_step(struct gw_rank *rank, uint64_t seed, const struct gw_rank_step *step)
{
    struct gw_rank_sum sum = {0};
    enum gw_status status = gw_rank_need(rank, 0, 2);
    memset(dw, 0, sizeof dw);
    memset(db, 0, sizeof db);
    for (uint64_t i = step->run.first; i < step->run.first + step->run.n; i++)
        sum.loss +=
            add_sample(gw_random_permute(seed, step->epoch, SAMPLES, i));
    if (status == GW_OK && step->run.n > 0)
        status = gw_rank_ready(rank, 0, 2);
    return gw_rank_end(rank, status, &sum);
}

static enum gw_status train(struct gw_rank *rank)
{
    static const struct gw_key keys[] = {{.name = "fc1.weight",
                                          .dtype = GW_DTYPE_F32,
                                          .dims = 2,
                                          .shape = {CLASSES, PIXELS}},
                                         {.name = "fc1.bias",
                                          .dtype = GW_DTYPE_F32,
                                          .dims = 1,
                                          .shape = {CLASSES}}};
    static const struct gw_rank_tensor tensors[] = {
        {.weights = weight, .gradients = dw},
        {.weights = bias, .gradients = db}};
    static const struct gw_rank_declaration declaration = {.key = keys,
                                                           .tensor = tensors,
                                                           .keys = 2,
                                                           .words =
                                                               "plain loops",
                                                           .tuned = "",
                                                           .note = ""};
    struct gw_rank_step step = {.task = GW_RANK_TRAIN};
    uint64_t seed = gw_rank_config(rank)->train.seed;
    enum gw_status status = gw_rank_data(rank, SAMPLES, 0, NULL);
    first_weights(seed);
    status = status ? status : gw_rank_declare(rank, &declaration);
    status = status ? status : gw_rank_start(rank);
    status = status ? status : gw_rank_begin(rank, &step);
    while (status == GW_OK && step.task == GW_RANK_TRAIN) {
        status = take_step(rank, seed, &step);
        status = status ? status : gw_rank_begin(rank, &step);
    }
    return status == GW_OK ? gw_rank_finish(rank) : gw_rank_fail(rank, status);
}

int main(int argc, char **argv)
{
    static struct gw_joining joining;
    struct gw_error error = {.text = ""};
    struct gw_rank *rank;
    const struct gw_join_options options = {
        .coordinator = argc > 1 ? argv[1] : "", .rank = GW_RANK_NONE};
    enum gw_status status = gw_join(&options, &joining, &rank, &error);
    status = status ? status : train(rank);
    gw_rank_close(rank);
    gw_joining_close(&joining);
    if (status != GW_OK)
        fprintf(stderr, "linear: %s\n", error.text);
    return status != GW_OK;
}
