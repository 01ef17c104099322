#include "config.h"

#include "worker/adder.h"

#include <stdlib.h>

_Static_assert(GW_SIGHT_WORDS_MAX == GW_MEMORY_WORDS,
               "what a device shows is what a message says");

struct gw_adder {
    struct gw_adder_options options;
    struct gw_device *device; /* its own */
    uint8_t *bad;             /* [GW_PARTS_MAX], the device's */
    struct gw_device_sums sums;
};

static const float *see(void *owner,
                        const uint8_t words[GW_SIGHT_WORDS_MAX],
                        struct gw_error *error)
{
    const struct gw_adder *adder = owner;
    return adder->options.ops->see(adder->device, words, error);
}

static void unsee(void *owner, const float *gradients)
{
    const struct gw_adder *adder = owner;
    adder->options.ops->unsee(adder->device, gradients);
}

/* Over the device's own part, which nobody else reads: each sums its own. */
static enum gw_status sum(void *owner,
                          const float *const *part,
                          uint32_t n,
                          uint32_t self,
                          size_t first,
                          size_t elems,
                          uint8_t *bad,
                          struct gw_error *error)
{
    const struct gw_adder *adder = owner;
    const struct gw_backend_ops *ops = adder->options.ops;
    float *own = adder->options.on_device + first;
    const float *at[GW_PARTS_MAX];
    for (uint32_t i = 0; i < n; i++)
        at[i] = !part[i] ? NULL : i == self ? own : part[i] + first;
    ops->add_parts(adder->device, at, n, elems, own, adder->bad);
    ops->fetch(adder->device, adder->options.on_host + first, own,
               elems * sizeof *own);
    ops->download(adder->device, bad, adder->bad, n);
    return ops->sync(adder->device, error);
}

enum gw_status gw_adder_open(const struct gw_adder_options *options,
                             struct gw_adder **adder_p,
                             struct gw_error *error)
{
    struct gw_backend_choice choice;
    struct gw_adder *adder = calloc(1, sizeof *adder);
    if (!adder)
        return gw_fail(error, GW_ENOMEM, "no memory for sums");
    adder->options = *options;
    adder->sums = (struct gw_device_sums){
        .owner = adder, .see = see, .unsee = unsee, .sum = sum};
    enum gw_status status = GW_OK;
    if (!options->ops->show(options->device, options->on_device,
                            adder->sums.own))
        status = gw_fail(error, GW_EUNSUPPORTED,
                         "%s shows its memory to no other process",
                         options->ops->name);
    if (status == GW_OK)
        status = gw_device_open(options->config, options->place, &choice,
                                &adder->device, error);
    if (status == GW_OK) {
        adder->bad = options->ops->alloc(adder->device, GW_PARTS_MAX);
        if (!adder->bad)
            status = gw_fail(error, GW_ENOMEM, "no memory for sums");
    }
    if (status != GW_OK) {
        gw_adder_close(adder);
        return status;
    }
    *adder_p = adder;
    return GW_OK;
}

void gw_adder_close(struct gw_adder *adder)
{
    if (!adder)
        return;
    if (adder->device) {
        adder->options.ops->free(adder->device, adder->bad);
        adder->options.ops->close(adder->device);
    }
    free(adder);
}

const struct gw_device_sums *gw_adder_sums(const struct gw_adder *adder)
{
    return adder ? &adder->sums : NULL;
}
