/*
 * The equations of optimizers and update policies in fp64, as the papers and
 * the manual have them, for tests to compare with. Nothing here is shared with
 * what is tested.
 */
#ifndef GW_TESTS_PLAIN_H
#define GW_TESTS_PLAIN_H

#include <stddef.h>
#include <stdint.h>

#define PLAIN_MAX   192 /* weights */
#define PLAIN_RANKS 4

enum plain_kind {
    PLAIN_SGD,
    PLAIN_MOMENTUM,
    PLAIN_NESTEROV,
    PLAIN_ADAM,
    PLAIN_ADAMW,
    PLAIN_LAMB,
};

extern const char *const plain_names[PLAIN_LAMB + 1];

/* An optimizer, with its state, which begins with zeros. */
struct plain_optimizer {
    enum plain_kind kind;
    double decay, momentum, beta1, beta2, eps;
    size_t keys;
    const size_t *end; /* lamb: of each key, in weights */
    uint64_t updates;
    double m[PLAIN_MAX], v[PLAIN_MAX];
};

/* One step on n weights. */
void plain_update(struct plain_optimizer *optimizer,
                  double lr,
                  size_t n,
                  const double *g,
                  double *w);

/* What servers keep together, all shards in one. */
struct plain_server {
    size_t n;
    double w[PLAIN_MAX];
    struct plain_optimizer optimizer;
    double given[PLAIN_RANKS][PLAIN_MAX];
    uint64_t given_at[PLAIN_RANKS]; /* in updates */
    double mean_square[PLAIN_RANKS][PLAIN_MAX];
    double sum[PLAIN_MAX], sum_lr; /* of a group */
    uint32_t sum_samples, gathered;
};

/* The rank gets the weights as they are. */
void plain_give(struct plain_server *server, uint32_t rank);

/*
 * n-softsync (Zhang et al. 2016): each of `of` pushes divided by its staleness,
 * then an update of their mean; with of = 1 the learning rate is divided. g is
 * the mean over the push's samples.
 */
void plain_stale(struct plain_server *server,
                 uint32_t of,
                 uint32_t rank,
                 uint32_t samples,
                 double lr,
                 const double *g);

/* The update of a group as far as it has got. */
void plain_group(struct plain_server *server);

/* Delay compensation (Zheng et al. 2017, equation 10). */
struct plain_delay {
    int adaptive;
    double lambda, decay, eps;
};
void plain_delayed(struct plain_server *server,
                   const struct plain_delay *delay,
                   uint32_t rank,
                   double lr,
                   const double *g);

/* How far `w` is off, in parts of the largest weight of `should`. */
double plain_distance(size_t n, const float *w, const double *should);

#endif
