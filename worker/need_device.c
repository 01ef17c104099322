/*
 * The need of a worker in the memory of a device of its own, the check that it
 * fits, and the largest batch with which it does.
 */
#include "config.h"

#include "worker/need.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/data/feed.h"
#include "worker/trainer/mirror.h"
#include "worker/trainer/trial.h"

/* ---- the need ---- */

/* The bytes of one allocation, in whole pages. */
static uint64_t paged(const struct gw_backend_ops *ops, uint64_t bytes)
{
    uint64_t page = ops->takes.page ? ops->takes.page : 1;
    return (bytes + page - 1) / page * page;
}

/*
 * Non-zero if others than the worker's own computation may use the device as
 * well (device_share.h): to sum with others of its host, or for a network that
 * reads there. The members of each host are not known before all are there.
 */
static int may_lend(const struct gw_config *config)
{
    return (config->cluster.workers > 1 &&
            gw_config_may_sum_on_devices(config)) ||
           (config->worker.gpudirect &&
            strcmp(config->cluster.transport, "rdma") == 0);
}

/* The worker's own numbers, and room for the numbers of others, at the
   beginning. */
static uint64_t tried(const struct gw_backend_ops *ops,
                      const struct gw_config *config)
{
    return gw_trial_is_due(ops) && config->cluster.workers > 1 &&
                   gw_config_may_sum_on_devices(config)
               ? 2 * paged(ops, GW_TRIAL_BYTES)
               : 0;
}

struct gw_device_need gw_device_need_of(const struct gw_worker_case *what,
                                        const struct gw_device_parts *parts)
{
    const struct gw_backend_ops *ops = what->backend;
    const struct gw_config *config = what->config;
    int bf16 = config->train.weights == GW_ENCODING_BF16;
    /* with a page for small allocations: of a sum, and of the question whether
       a product keeps a NaN */
    uint64_t workspace = ops->takes.open + ops->takes.page;
    uint64_t model = paged(ops, parts->model_bytes);
    return (struct gw_device_need){
        .weights =
            paged(ops, gw_mirror_weights_bytes(parts->arena_bytes, bf16)),
        .gradients = paged(ops, gw_mirror_gradients_bytes(parts->arena_bytes)),
        .activations = model - parts->scratch_bytes,
        .scratch = parts->scratch_bytes,
        .batch = paged(ops, parts->sample_bytes) + paged(ops, parts->labels),
        .workspace = workspace,
        .lent = may_lend(config) ? workspace + tried(ops, config) : 0,
        .code = ops->takes.code,
        .process = ops->takes.process,
    };
}

uint64_t gw_device_need_own(const struct gw_device_need *need)
{
    return need->weights + need->gradients + need->activations + need->scratch +
           need->batch + need->workspace + need->code;
}

/* ---- in words ---- */

const char *gw_need_say_bytes(uint64_t bytes, char text[GW_NEED_BYTES_TEXT])
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    double number = (double)bytes;
    size_t unit = 0;
    while (number >= 1024 && unit + 1 < sizeof units / sizeof *units) {
        number /= 1024;
        unit++;
    }
    snprintf(text, GW_NEED_BYTES_TEXT, "%.*f %s", unit > 0, number,
             units[unit]);
    return text;
}

void gw_device_need_say(const struct gw_device_need *need,
                        char text[GW_NEED_TEXT])
{
    const struct {
        const char *name;
        uint64_t bytes;
    } parts[] = {
        {"weights", need->weights},
        {"gradients", need->gradients},
        {"activations", need->activations},
        {"product scratch", need->scratch},
        {"batch", need->batch},
        {"workspace", need->workspace},
        {"code", need->code},
    };
    char bytes[GW_NEED_BYTES_TEXT];
    size_t at = 0;
    text[0] = '\0';
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (parts[i].bytes == 0)
            continue;
        snprintf(text + at, GW_NEED_TEXT - at, "%s%s %s", at ? ", " : "",
                 parts[i].name, gw_need_say_bytes(parts[i].bytes, bytes));
        at = strlen(text);
    }
}

/* ---- the largest batch ---- */

struct gw_batch_key gw_batch_key_of(struct gw_config *config)
{
    if (config->train.batch)
        return (struct gw_batch_key){"train.batch", &config->train.batch, 1};
    return (struct gw_batch_key){"train.global_batch",
                                 &config->train.global_batch,
                                 config->cluster.workers};
}

/* Bisects, in a bounded number of turns: it ends with any answers. */
uint64_t gw_need_nearest(uint64_t bad,
                         uint64_t good,
                         gw_need_fits_cb *fits_cb,
                         const void *owner)
{
    for (unsigned turn = 0; turn < GW_NEED_TURNS; turn++) {
        uint64_t apart = good > bad ? good - bad : bad - good;
        if (apart <= 1)
            break;
        uint64_t middle = good > bad ? bad + apart / 2 : bad - apart / 2;
        if (fits_cb(owner, middle))
            good = middle;
        else
            bad = middle;
    }
    return good;
}

/* A job and the batch that is tried. */
struct search {
    struct gw_worker_case what;
    const struct gw_map *map; /* does not depend on the batch */
    struct gw_batch_key batch;
    uint64_t room;
};

static int fits(const void *owner, uint64_t value)
{
    const struct search *search = owner;
    struct gw_worker_need need;
    struct gw_error error;
    uint64_t before = *search->batch.value;
    *search->batch.value = value;
    int fine = gw_worker_need(&search->what, search->map, NULL, &need,
                              &error) == GW_OK &&
               gw_device_need_own(&need.device) <= search->room;
    *search->batch.value = before;
    return fine;
}

/* "it fits with train.batch = 12 or less", for a batch that does not. */
static void advise(const struct gw_worker_case *what,
                   const struct gw_map *map,
                   uint64_t room,
                   char text[GW_NEED_TEXT])
{
    struct search search = {.what = *what, .map = map, .room = room};
    struct gw_config *config = malloc(sizeof *config);
    snprintf(text, GW_NEED_TEXT,
             "no batch fits: take a GPU with more memory, or a smaller model");
    if (!config)
        return;
    *config = *what->config;
    search.what.config = config;
    search.batch = gw_batch_key_of(config);
    if (*search.batch.value > search.batch.least &&
        fits(&search, search.batch.least))
        snprintf(text, GW_NEED_TEXT, "it fits with %s = %" PRIu64 " or less",
                 search.batch.name,
                 gw_need_nearest(*search.batch.value, search.batch.least, fits,
                                 &search));
    free(config);
}

/* ---- the check ---- */

enum gw_status gw_worker_check_device(const struct gw_worker_case *what,
                                      const struct gw_device_room *room,
                                      struct gw_error *error)
{
    char parts[GW_NEED_TEXT], advice[GW_NEED_TEXT];
    char needed[GW_NEED_BYTES_TEXT], left[GW_NEED_BYTES_TEXT],
        total[GW_NEED_BYTES_TEXT];
    struct gw_worker_need need;
    struct gw_map *map;
    uint64_t flop;
    enum gw_status status = gw_worker_map(what, &map, &flop, error);
    if (status != GW_OK)
        return status;
    status = gw_worker_need(what, map, NULL, &need, error);
    uint64_t bytes = status == GW_OK ? gw_device_need_own(&need.device) : 0;
    if (bytes > room->free_bytes) {
        gw_device_need_say(&need.device, parts);
        advise(what, map, room->free_bytes, advice);
        status = gw_fail(error, GW_ENOMEM,
                         "no memory on the device: %s are needed (%s), %s of "
                         "%s are free; %s",
                         gw_need_say_bytes(bytes, needed), parts,
                         gw_need_say_bytes(room->free_bytes, left),
                         gw_need_say_bytes(room->total_bytes, total), advice);
    }
    gw_map_destroy(map);
    return status;
}
