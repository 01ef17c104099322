#include "config.h"

#include "worker/lender.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

_Static_assert(GW_SIGHT_WORDS_MAX == GW_MEMORY_WORDS,
               "what a device shows is what a message says");

struct gw_lender {
    struct gw_lender_options options;
    struct gw_device *device; /* its own, of one thread at a time: */
    pthread_mutex_t lock;
    uint8_t *bad; /* [GW_PARTS_MAX], the device's */
    struct gw_device_gradients gradients;
};

static const float *see(void *owner,
                        const uint8_t words[GW_SIGHT_WORDS_MAX],
                        struct gw_error *error)
{
    const struct gw_lender *lender = owner;
    return lender->options.ops->see(lender->device, words, error);
}

static void unsee(void *owner, const float *gradients)
{
    const struct gw_lender *lender = owner;
    lender->options.ops->unsee(lender->device, gradients);
}

static void fetch(const struct gw_lender *lender, size_t first, size_t elems)
{
    lender->options.ops->fetch(lender->device, lender->options.on_host + first,
                               lender->options.on_device + first,
                               elems * sizeof(float));
}

/* Over the device's own part, which nobody else reads: each sums its own. */
static enum gw_status sum(void *owner,
                          const struct gw_device_sum *what,
                          uint8_t *bad,
                          struct gw_error *error)
{
    struct gw_lender *lender = owner;
    const struct gw_backend_ops *ops = lender->options.ops;
    float *own = lender->options.on_device + what->first;
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

/* To whom they are shown. */
static void introduce(struct gw_lender *lender)
{
    const struct gw_lender_options *options = &lender->options;
    struct gw_device_gradients *gradients = &lender->gradients;
    *gradients = (struct gw_device_gradients){
        .owner = lender,
        .arena = options->on_device,
        .pages = options->pages,
        .see = see,
        .unsee = unsee,
        .sum = sum,
        .bring = bring,
    };
    gradients->shown =
        options->shows &&
        options->ops->show(options->device, options->on_device, gradients->own);
}

enum gw_status gw_lender_open(const struct gw_lender_options *options,
                              struct gw_lender **lender_p,
                              struct gw_error *error)
{
    struct gw_backend_choice choice;
    struct gw_lender *lender = calloc(1, sizeof *lender);
    if (!lender)
        return gw_fail(error, GW_ENOMEM, "no memory for sums");
    lender->options = *options;
    pthread_mutex_init(&lender->lock, NULL);
    enum gw_status status = gw_device_open(options->config, options->place,
                                           &choice, &lender->device, error);
    if (status == GW_OK) {
        lender->bad = options->ops->alloc(lender->device, GW_PARTS_MAX);
        if (!lender->bad)
            status = gw_fail(error, GW_ENOMEM, "no memory for sums");
    }
    if (status != GW_OK) {
        gw_lender_close(lender);
        return status;
    }
    introduce(lender);
    *lender_p = lender;
    return GW_OK;
}

void gw_lender_close(struct gw_lender *lender)
{
    if (!lender)
        return;
    if (lender->device) {
        lender->options.ops->free(lender->device, lender->bad);
        lender->options.ops->close(lender->device);
    }
    if (lender->gradients.pages.bytes > 0 && lender->gradients.pages.fd >= 0)
        close(lender->gradients.pages.fd);
    pthread_mutex_destroy(&lender->lock);
    free(lender);
}

const struct gw_device_gradients *
gw_lender_gradients(const struct gw_lender *lender)
{
    return lender ? &lender->gradients : NULL;
}
