#include "config.h"

#include "worker/trainer/device_share.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Static_assert(GW_SIGHT_WORDS_MAX == GW_MEMORY_WORDS,
               "what a device shows is what a message says");

struct gw_device_share {
    struct gw_device_share_options options;
    struct gw_device *device; /* the share's handle, of one thread at a time: */
    pthread_mutex_t lock;
    uint8_t *nonfinite; /* [GW_PARTS_MAX], the device's */
    struct gw_device_arenas arenas;
    struct gw_trial trial;
};

static const void *import_arena(void *owner,
                                const uint8_t words[GW_SIGHT_WORDS_MAX],
                                struct gw_error *error)
{
    const struct gw_device_share *share = owner;
    return share->options.ops->import_memory(share->device, words, error);
}

static const char *path(void *owner, const void *arena)
{
    const struct gw_device_share *share = owner;
    return share->options.ops->path(share->device, arena);
}

static void release_arena(void *owner, const void *arena)
{
    const struct gw_device_share *share = owner;
    share->options.ops->release_import(share->device, arena);
}

static enum gw_status try(void *owner,
                          const struct gw_sight_words *words,
                          uint64_t nonce,
                          struct gw_loop *loop,
                          struct gw_error *error)
{
    struct gw_device_share *share = owner;
    if (!gw_trial_is_due(share->options.ops))
        return GW_OK;
    if (words->n != GW_SIGHT_WORDS_MAX)
        return gw_fail(error, GW_EUNSUPPORTED,
                       "its device has left nothing to be tried");
    pthread_mutex_lock(&share->lock);
    enum gw_status status = gw_trial_read(share->options.ops, share->device,
                                          words->byte, nonce, loop, error);
    pthread_mutex_unlock(&share->lock);
    return status;
}

static void tried(void *owner)
{
    struct gw_device_share *share = owner;
    pthread_mutex_lock(&share->lock);
    gw_trial_close(&share->trial);
    pthread_mutex_unlock(&share->lock);
}

static void
fetch(const struct gw_device_share *share, size_t first, size_t elems)
{
    const struct gw_device_share_arena *gradients = &share->options.gradients;
    share->options.ops->fetch(
        share->device, (float *)gradients->on_host + first,
        (const float *)gradients->on_device + first, elems * sizeof(float));
}

/* Writes the sum over the device's own part, which nobody else reads: each sums
   its own. */
static enum gw_status sum(void *owner,
                          const struct gw_device_sum *what,
                          uint8_t *nonfinite,
                          struct gw_error *error)
{
    struct gw_device_share *share = owner;
    const struct gw_backend_ops *ops = share->options.ops;
    float *own = (float *)share->options.gradients.on_device + what->first;
    const float *at[GW_PARTS_MAX];
    for (uint32_t i = 0; i < what->n; i++)
        at[i] = !what->part[i]    ? NULL
                : i == what->self ? own
                                  : what->part[i] + what->first;
    pthread_mutex_lock(&share->lock);
    ops->add_parts(share->device, at, what->n, what->elems, own,
                   share->nonfinite);
    if (!what->stays)
        fetch(share, what->first, what->elems);
    ops->download(share->device, nonfinite, share->nonfinite, what->n);
    enum gw_status status = ops->sync(share->device, error);
    pthread_mutex_unlock(&share->lock);
    return status;
}

static enum gw_status
bring(void *owner, size_t first, size_t elems, struct gw_error *error)
{
    struct gw_device_share *share = owner;
    pthread_mutex_lock(&share->lock);
    fetch(share, first, elems);
    enum gw_status status = share->options.ops->sync(share->device, error);
    pthread_mutex_unlock(&share->lock);
    return status;
}

static void
put(void *owner, enum gw_encoding encoding, size_t first, size_t elems)
{
    struct gw_device_share *share = owner;
    const struct gw_device_share_arena *weights =
        &share->options.weights[encoding];
    size_t at = gw_encoded_size(encoding, first * sizeof(float));
    pthread_mutex_lock(&share->lock);
    share->options.ops->upload(
        share->device, (char *)weights->on_device + at,
        (const char *)weights->on_host + at,
        gw_encoded_size(encoding, elems * sizeof(float)));
    pthread_mutex_unlock(&share->lock);
}

static enum gw_status flush(void *owner, struct gw_error *error)
{
    struct gw_device_share *share = owner;
    pthread_mutex_lock(&share->lock);
    enum gw_status status = share->options.ops->sync(share->device, error);
    pthread_mutex_unlock(&share->lock);
    return status;
}

static int export_arena(const struct gw_device_share *share,
                        const void *arena,
                        struct gw_sight_words *words)
{
    const struct gw_device_share_options *options = &share->options;
    words->n = GW_SIGHT_WORDS_MAX;
    return options->ops->export_memory(options->device, arena, words->byte);
}

/* Leaves numbers for others to read before sums are made so. */
static int leave_trial(struct gw_device_share *share)
{
    struct gw_device_arenas *arenas = &share->arenas;
    if (!gw_trial_is_due(share->options.ops))
        return 1;
    if (!gw_trial_open(&share->trial, share->options.ops, share->device))
        return 0;
    arenas->nonce = share->trial.nonce;
    arenas->own_trial.n = GW_SIGHT_WORDS_MAX;
    memcpy(arenas->own_trial.byte, share->trial.words, GW_SIGHT_WORDS_MAX);
    return 1;
}

/* Describes the arenas, and exports them to other workers if they may import
   them. */
static void introduce(struct gw_device_share *share)
{
    const struct gw_device_share_options *options = &share->options;
    struct gw_device_arenas *arenas = &share->arenas;
    *arenas = (struct gw_device_arenas){
        .owner = share,
        .gradients = options->gradients.on_device,
        .weights = options->weights[GW_ENCODING_RAW].on_device,
        .pages = options->pages,
        .try = try,
        .tried = tried,
        .import_arena = import_arena,
        .path = path,
        .release_arena = release_arena,
        .sum = sum,
        .put = put,
        .flush = flush,
        .bring = bring,
    };
    arenas->exported =
        options->exports &&
        export_arena(share, arenas->gradients, &arenas->own_gradients) &&
        export_arena(share, arenas->weights, &arenas->own_weights) &&
        leave_trial(share);
}

enum gw_status
gw_device_share_open(const struct gw_device_share_options *options,
                     struct gw_device_share **share_p,
                     struct gw_error *error)
{
    struct gw_device_share *share = calloc(1, sizeof *share);
    if (!share) {
        options->ops->close(options->second);
        return gw_fail(error, GW_ENOMEM, "no memory for sums");
    }
    share->options = *options;
    share->device = options->second;
    pthread_mutex_init(&share->lock, NULL);
    share->nonfinite = options->ops->alloc(share->device, GW_PARTS_MAX);
    if (!share->nonfinite) {
        gw_device_share_close(share);
        return gw_fail(error, GW_ENOMEM, "no memory for sums");
    }
    introduce(share);
    *share_p = share;
    return GW_OK;
}

void gw_device_share_close(struct gw_device_share *share)
{
    if (!share)
        return;
    gw_trial_close(&share->trial);
    share->options.ops->free(share->device, share->nonfinite);
    share->options.ops->close(share->device);
    if (share->arenas.pages.bytes > 0 && share->arenas.pages.fd >= 0)
        close(share->arenas.pages.fd);
    pthread_mutex_destroy(&share->lock);
    free(share);
}

const struct gw_device_arenas *
gw_device_share_arenas(const struct gw_device_share *share)
{
    return share ? &share->arenas : NULL;
}
