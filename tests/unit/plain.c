#include "config.h"

#include "tests/unit/plain.h"

#include <math.h>
#include <string.h>

const char *const plain_names[PLAIN_LAMB + 1] = {"sgd",  "momentum", "nesterov",
                                                 "adam", "adamw",    "lamb"};

/* The direction of Adam's relatives at one weight. */
static double direction(struct plain_optimizer *o, size_t i, double g)
{
    double t = (double)o->updates;
    o->m[i] = o->beta1 * o->m[i] + (1 - o->beta1) * g;
    o->v[i] = o->beta2 * o->v[i] + (1 - o->beta2) * g * g;
    double mean = o->m[i] / (1 - pow(o->beta1, t));
    double square = o->v[i] / (1 - pow(o->beta2, t));
    return mean / (sqrt(square) + o->eps);
}

/* You et al. 2019, key by key. */
static void
lamb(struct plain_optimizer *o, double lr, const double *g, double *w)
{
    size_t first = 0;
    for (size_t key = 0; key < o->keys; first = o->end[key++]) {
        double u[PLAIN_MAX], w_square = 0, u_square = 0;
        for (size_t i = first; i < o->end[key]; i++) {
            u[i] = direction(o, i, g[i]) + o->decay * w[i];
            w_square += w[i] * w[i];
            u_square += u[i] * u[i];
        }
        double ratio =
            w_square > 0 && u_square > 0 ? sqrt(w_square / u_square) : 1;
        for (size_t i = first; i < o->end[key]; i++)
            w[i] -= lr * ratio * u[i];
    }
}

static double step_of(struct plain_optimizer *o, size_t i, double g, double w)
{
    double decayed = g + o->decay * w;
    switch (o->kind) {
    case PLAIN_SGD:
        return decayed;
    case PLAIN_MOMENTUM:
        return o->m[i] = o->momentum * o->m[i] + decayed;
    case PLAIN_NESTEROV:
        o->m[i] = o->momentum * o->m[i] + decayed;
        return decayed + o->momentum * o->m[i];
    case PLAIN_ADAM:
        return direction(o, i, decayed);
    default:
        return direction(o, i, g) + o->decay * w;
    }
}

void plain_update(struct plain_optimizer *optimizer,
                  double lr,
                  size_t n,
                  const double *g,
                  double *w)
{
    optimizer->updates++;
    if (optimizer->kind == PLAIN_LAMB) {
        lamb(optimizer, lr, g, w);
        return;
    }
    for (size_t i = 0; i < n; i++)
        w[i] -= lr * step_of(optimizer, i, g[i], w[i]);
}

void plain_give(struct plain_server *server, uint32_t rank)
{
    memcpy(server->given[rank], server->w, sizeof server->w);
    server->given_at[rank] = server->optimizer.updates;
}

static void update(struct plain_server *server, double lr, const double *g)
{
    plain_update(&server->optimizer, lr, server->n, g, server->w);
}

void plain_group(struct plain_server *server)
{
    if (server->gathered == 0)
        return;
    for (size_t i = 0; i < server->n; i++)
        server->sum[i] /= server->sum_samples;
    update(server, server->sum_lr, server->sum);
    memset(server->sum, 0, sizeof server->sum);
    server->sum_lr = 0;
    server->sum_samples = server->gathered = 0;
}

void plain_stale(struct plain_server *server,
                 uint32_t of,
                 uint32_t rank,
                 uint32_t samples,
                 double lr,
                 const double *g)
{
    uint64_t delay = server->optimizer.updates - server->given_at[rank];
    double stale = fmax(1, (double)delay);
    if (of == 1) {
        update(server, lr / stale, g);
        return;
    }
    for (size_t i = 0; i < server->n; i++)
        server->sum[i] += samples * g[i] / stale;
    server->sum_lr += lr;
    server->sum_samples += samples;
    if (++server->gathered == of)
        plain_group(server);
}

void plain_delayed(struct plain_server *server,
                   const struct plain_delay *delay,
                   uint32_t rank,
                   double lr,
                   const double *g)
{
    double compensated[PLAIN_MAX];
    for (size_t i = 0; i < server->n; i++) {
        double *square = &server->mean_square[rank][i];
        *square = delay->decay * *square + (1 - delay->decay) * g[i] * g[i];
        double lambda = delay->adaptive
                            ? delay->lambda / sqrt(*square + delay->eps)
                            : delay->lambda;
        compensated[i] = g[i] + lambda * g[i] * g[i] *
                                    (server->w[i] - server->given[rank][i]);
    }
    update(server, lr, compensated);
}

double plain_distance(size_t n, const float *w, const double *should)
{
    double largest = 0, off = 0;
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(w[i]))
            return INFINITY; /* which fmax would leave out */
        largest = fmax(largest, fabs(should[i]));
        off = fmax(off, fabs((double)w[i] - should[i]));
    }
    return off / largest;
}
