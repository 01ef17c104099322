#include "config.h"

#include "tests/unit/plain_mlp.h"

#include <math.h>
#include <string.h>

const size_t mlp_key_end[MLP_KEYS] = {
    MLP_HIDDEN * MLP_IN,
    MLP_HIDDEN *(MLP_IN + 1),
    MLP_HIDDEN *(MLP_IN + 1) + MLP_OUT *MLP_HIDDEN,
    MLP_WEIGHTS,
};

/* ---- data ---- */

/* Of those tried, with this one sums stay furthest from the ReLU's kink. */
#define SEED 161

enum stream {
    STREAM_WEIGHT = 1,
    STREAM_LABEL,
    STREAM_PATTERN,
    STREAM_NOISE,
};

static uint32_t mixed(enum stream stream, uint32_t n)
{
    uint32_t x =
        n * 0x9e3779b1u + (uint32_t)stream * 0x85ebca77u + SEED * 0xc2b2ae3du;
    x = (x ^ x >> 15) * 0x2c1b3c6du;
    x = (x ^ x >> 12) * 0x297a2d39u;
    return x ^ x >> 15;
}

/* -63/64 to 63/64 */
static double fraction(enum stream stream, uint32_t n)
{
    return ((int)(mixed(stream, n) % 127) - 63) / 64.0;
}

uint32_t mlp_samples(uint32_t rank, uint64_t clock)
{
    static const uint32_t of_rank[] = {6, 8, 10, 8};
    return rank == 1 && clock % 10 == 7 ? 0 : of_rank[rank];
}

void mlp_batch(uint32_t rank, uint64_t clock, struct mlp_batch *batch)
{
    batch->n = mlp_samples(rank, clock);
    for (uint32_t s = 0; s < batch->n; s++) {
        uint32_t sample = ((uint32_t)clock * 4 + rank) * MLP_BATCH_MAX + s;
        uint32_t label = mixed(STREAM_LABEL, sample) % MLP_OUT;
        batch->labels[s] = (int32_t)label;
        for (uint32_t i = 0; i < MLP_IN; i++)
            batch->x[s][i] =
                (float)(fraction(STREAM_PATTERN, label * MLP_IN + i) +
                        fraction(STREAM_NOISE, sample * MLP_IN + i) / 2);
    }
}

void mlp_first_weights(double w[MLP_WEIGHTS])
{
    for (uint32_t i = 0; i < MLP_WEIGHTS; i++)
        w[i] = fraction(STREAM_WEIGHT, i) / 2;
}

/* ---- the model ---- */

struct views {
    const double (*w1)[MLP_IN], *b1, (*w2)[MLP_HIDDEN], *b2;
};

static struct views views_of(const double *w)
{
    return (struct views){
        (const double(*)[MLP_IN])(const void *)w,
        w + mlp_key_end[0],
        (const double(*)[MLP_HIDDEN])(const void *)(w + mlp_key_end[1]),
        w + mlp_key_end[2],
    };
}

struct activations {
    double hidden[MLP_HIDDEN]; /* after the ReLU */
    double p[MLP_OUT];         /* of the classes */
};

static void forward(const struct views *v,
                    const float *x,
                    struct activations *a,
                    double *clearance)
{
    double total = 0;
    for (size_t h = 0; h < MLP_HIDDEN; h++) {
        double sum = v->b1[h];
        for (size_t i = 0; i < MLP_IN; i++)
            sum += v->w1[h][i] * (double)x[i];
        *clearance = fmin(*clearance, fabs(sum));
        a->hidden[h] = fmax(sum, 0);
    }
    for (size_t o = 0; o < MLP_OUT; o++) {
        double sum = v->b2[o];
        for (size_t h = 0; h < MLP_HIDDEN; h++)
            sum += v->w2[o][h] * a->hidden[h];
        total += a->p[o] = exp(sum);
    }
    for (size_t o = 0; o < MLP_OUT; o++)
        a->p[o] /= total;
}

/* Adds a sample's gradient, divided by n. */
static void backward(const struct views *v,
                     const float *x,
                     size_t label,
                     const struct activations *a,
                     double n,
                     double *g)
{
    double *gw2 = g + mlp_key_end[1], *gb2 = g + mlp_key_end[2];
    double back[MLP_HIDDEN] = {0};
    for (size_t o = 0; o < MLP_OUT; o++) {
        double error = (a->p[o] - (o == label)) / n;
        gb2[o] += error;
        for (size_t h = 0; h < MLP_HIDDEN; h++) {
            gw2[o * MLP_HIDDEN + h] += error * a->hidden[h];
            back[h] += error * v->w2[o][h];
        }
    }
    for (size_t h = 0; h < MLP_HIDDEN; h++) {
        if (a->hidden[h] <= 0)
            continue;
        g[mlp_key_end[0] + h] += back[h];
        for (size_t i = 0; i < MLP_IN; i++)
            g[h * MLP_IN + i] += back[h] * (double)x[i];
    }
}

double mlp_gradient(const struct mlp_batch *batch,
                    const double w[MLP_WEIGHTS],
                    double g[MLP_WEIGHTS],
                    double *clearance)
{
    const struct views v = views_of(w);
    double loss = 0, n = (double)batch->n;
    memset(g, 0, MLP_WEIGHTS * sizeof *g);
    for (size_t s = 0; s < batch->n; s++) {
        struct activations a;
        size_t label = (size_t)batch->labels[s];
        forward(&v, batch->x[s], &a, clearance);
        loss -= log(a.p[label]) / n;
        backward(&v, batch->x[s], label, &a, n, g);
    }
    return loss;
}
