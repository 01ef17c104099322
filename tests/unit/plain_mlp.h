/*
 * An mlp of 12-10-4 in fp64, written by hand, and the data that it is trained
 * on: batches that each rank takes at each of its clocks, of numbers that are
 * exact in fp32. tests/reference/policies.py has both once more.
 */
#ifndef GW_TESTS_PLAIN_MLP_H
#define GW_TESTS_PLAIN_MLP_H

#include <stddef.h>
#include <stdint.h>

#define MLP_IN        12
#define MLP_HIDDEN    10
#define MLP_OUT       4
#define MLP_KEYS      4
#define MLP_WEIGHTS   (MLP_HIDDEN * (MLP_IN + 1) + MLP_OUT * (MLP_HIDDEN + 1))
#define MLP_BATCH_MAX 10

/* The keys in the model's order end here: weight, bias, weight, bias. */
extern const size_t mlp_key_end[MLP_KEYS];

struct mlp_batch {
    size_t n;
    float x[MLP_BATCH_MAX][MLP_IN];
    int32_t labels[MLP_BATCH_MAX];
};

/* Samples of a rank at a clock, now and then none. */
uint32_t mlp_samples(uint32_t rank, uint64_t clock);

void mlp_batch(uint32_t rank, uint64_t clock, struct mlp_batch *batch);
void mlp_first_weights(double w[MLP_WEIGHTS]);

/*
 * The gradient of the mean cross-entropy of a batch, n > 0, at w, and that
 * loss. *clearance becomes the smallest distance of a sum before a ReLU from
 * its kink, if that is smaller than what it was.
 */
double mlp_gradient(const struct mlp_batch *batch,
                    const double w[MLP_WEIGHTS],
                    double g[MLP_WEIGHTS],
                    double *clearance);

#endif
