#include "config.h"

#include "worker/trainer/lender.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Static_assert(GW_SIGHT_WORDS_MAX == GW_MEMORY_WORDS,
               "what a device shows is what a message says");

struct gw_lender {
    struct gw_lender_options options;
    struct gw_device
        *device; /* the lender's handle, of one thread at a time: */
    pthread_mutex_t lock;
    uint8_t *bad; /* [GW_PARTS_MAX], the device's */
    struct gw_device_arenas arenas;
    struct gw_trial trial;
};

static const void *see(void *owner,
                       const uint8_t words[GW_SIGHT_WORDS_MAX],
                       struct gw_error *error)
{
    const struct gw_lender *lender = owner;
    return lender->options.ops->see(lender->device, words, error);
}

static const char *path(void *owner, const void *arena)
{
    const struct gw_lender *lender = owner;
    return lender->options.ops->path(lender->device, arena);
}

static void unsee(void *owner, const void *arena)
{
    const struct gw_lender *lender = owner;
    lender->options.ops->unsee(lender->device, arena);
}

static enum gw_status try(void *owner,
                          const struct gw_sight_words *words,
                          uint64_t nonce,
                          struct gw_loop *loop,
                          struct gw_error *error)
{
    struct gw_lender *lender = owner;
    if (!gw_trial_is_due(lender->options.ops))
        return GW_OK;
    if (words->n != GW_SIGHT_WORDS_MAX)
        return gw_fail(error, GW_EUNSUPPORTED,
                       "its device has left nothing to be tried");
    pthread_mutex_lock(&lender->lock);
    enum gw_status status = gw_trial_read(lender->options.ops, lender->device,
                                          words->byte, nonce, loop, error);
    pthread_mutex_unlock(&lender->lock);
    return status;
}

static void tried(void *owner)
{
    struct gw_lender *lender = owner;
    pthread_mutex_lock(&lender->lock);
    gw_trial_close(&lender->trial);
    pthread_mutex_unlock(&lender->lock);
}

static void fetch(const struct gw_lender *lender, size_t first, size_t elems)
{
    const struct gw_lender_arena *gradients = &lender->options.gradients;
    lender->options.ops->fetch(
        lender->device, (float *)gradients->on_host + first,
        (const float *)gradients->on_device + first, elems * sizeof(float));
}

/* Writes the sum over the device's own part, which nobody else reads: each sums
   its own. */
static enum gw_status sum(void *owner,
                          const struct gw_device_sum *what,
                          uint8_t *bad,
                          struct gw_error *error)
{
    struct gw_lender *lender = owner;
    const struct gw_backend_ops *ops = lender->options.ops;
    float *own = (float *)lender->options.gradients.on_device + what->first;
    const float *at[GW_PARTS_MAX];
    for (uint32_t i = 0; i < what->n; i++)
        at[i] = !what->part[i]    ? NULL
                : i == what->self ? own
                                  : what->part[i] + what->first;
    pthread_mutex_lock(&lender->lock);
    ops->add_parts(lender->device, at, what->n, what->elems, own, lender->bad);
    if (!what->stays)
        fetch(lender, what->first, what->elems);
    ops->download(lender->device, bad, lender->bad, what->n);
    enum gw_status status = ops->sync(lender->device, error);
    pthread_mutex_unlock(&lender->lock);
    return status;
}

static enum gw_status
bring(void *owner, size_t first, size_t elems, struct gw_error *error)
{
    struct gw_lender *lender = owner;
    pthread_mutex_lock(&lender->lock);
    fetch(lender, first, elems);
    enum gw_status status = lender->options.ops->sync(lender->device, error);
    pthread_mutex_unlock(&lender->lock);
    return status;
}

static void
put(void *owner, enum gw_encoding encoding, size_t first, size_t elems)
{
    struct gw_lender *lender = owner;
    const struct gw_lender_arena *weights = &lender->options.weights[encoding];
    size_t at = gw_encoded_size(encoding, first * sizeof(float));
    pthread_mutex_lock(&lender->lock);
    lender->options.ops->upload(
        lender->device, (char *)weights->on_device + at,
        (const char *)weights->on_host + at,
        gw_encoded_size(encoding, elems * sizeof(float)));
    pthread_mutex_unlock(&lender->lock);
}

static enum gw_status settle(void *owner, struct gw_error *error)
{
    struct gw_lender *lender = owner;
    pthread_mutex_lock(&lender->lock);
    enum gw_status status = lender->options.ops->sync(lender->device, error);
    pthread_mutex_unlock(&lender->lock);
    return status;
}

static int show(const struct gw_lender *lender,
                const void *arena,
                struct gw_sight_words *words)
{
    const struct gw_lender_options *options = &lender->options;
    words->n = GW_SIGHT_WORDS_MAX;
    return options->ops->show(options->device, arena, words->byte);
}

/* Leaves numbers for others to read before sums are made so. */
static int leave_trial(struct gw_lender *lender)
{
    struct gw_device_arenas *arenas = &lender->arenas;
    if (!gw_trial_is_due(lender->options.ops))
        return 1;
    if (!gw_trial_open(&lender->trial, lender->options.ops, lender->device))
        return 0;
    arenas->nonce = lender->trial.nonce;
    arenas->own_trial.n = GW_SIGHT_WORDS_MAX;
    memcpy(arenas->own_trial.byte, lender->trial.words, GW_SIGHT_WORDS_MAX);
    return 1;
}

/* Describes the arenas, and shows them to other workers if they may see
   them. */
static void introduce(struct gw_lender *lender)
{
    const struct gw_lender_options *options = &lender->options;
    struct gw_device_arenas *arenas = &lender->arenas;
    *arenas = (struct gw_device_arenas){
        .owner = lender,
        .gradients = options->gradients.on_device,
        .weights = options->weights[GW_ENCODING_RAW].on_device,
        .pages = options->pages,
        .try = try,
        .tried = tried,
        .see = see,
        .path = path,
        .unsee = unsee,
        .sum = sum,
        .put = put,
        .settle = settle,
        .bring = bring,
    };
    arenas->shown = options->shows &&
                    show(lender, arenas->gradients, &arenas->own_gradients) &&
                    show(lender, arenas->weights, &arenas->own_weights) &&
                    leave_trial(lender);
}

enum gw_status gw_lender_open(const struct gw_lender_options *options,
                              struct gw_lender **lender_p,
                              struct gw_error *error)
{
    struct gw_lender *lender = calloc(1, sizeof *lender);
    if (!lender) {
        options->ops->close(options->beside);
        return gw_fail(error, GW_ENOMEM, "no memory for sums");
    }
    lender->options = *options;
    lender->device = options->beside;
    pthread_mutex_init(&lender->lock, NULL);
    lender->bad = options->ops->alloc(lender->device, GW_PARTS_MAX);
    if (!lender->bad) {
        gw_lender_close(lender);
        return gw_fail(error, GW_ENOMEM, "no memory for sums");
    }
    introduce(lender);
    *lender_p = lender;
    return GW_OK;
}

void gw_lender_close(struct gw_lender *lender)
{
    if (!lender)
        return;
    gw_trial_close(&lender->trial);
    lender->options.ops->free(lender->device, lender->bad);
    lender->options.ops->close(lender->device);
    if (lender->arenas.pages.bytes > 0 && lender->arenas.pages.fd >= 0)
        close(lender->arenas.pages.fd);
    pthread_mutex_destroy(&lender->lock);
    free(lender);
}

const struct gw_device_arenas *gw_lender_arenas(const struct gw_lender *lender)
{
    return lender ? &lender->arenas : NULL;
}
