#include "config.h"

#include "cli/dry_run.h"

#include <inttypes.h>
#include <stdio.h>

#include "cli/check.h"
#include "cli/cli.h"
#include "transport/member/place.h"
#include "cli/room.h"
#include "cli/show.h"
#include "kernels/kernels.h"
#include "proto/map.h"
#include "transport/link/transport.h"
#include "worker/data/dataset.h"
#include "worker/model/model.h"
#include "worker/trainer/plan.h"

#define COLUMN "%-11s "

static void print_data(const char *name, const struct gw_dataset *set)
{
    const struct gw_dataset_shape *shape = gw_dataset_shape(set);
    printf(COLUMN "%" PRIu64 " sample%s of %zux%zux%zu, %zu classes\n", name,
           shape->samples, gw_plural(shape->samples), shape->channels,
           shape->height, shape->width, shape->classes);
    for (size_t i = 0; i < GW_DATASET_NOTES; i++)
        if (gw_dataset_note(set, i)[0])
            printf(COLUMN "%s\n", name, gw_dataset_note(set, i));
}

static enum gw_status open_data(const struct gw_config *config,
                                struct gw_dataset **train_p,
                                struct gw_error *error)
{
    struct gw_dataset *test = NULL;
    enum gw_status status =
        gw_dataset_open(config, GW_DATASET_TRAIN, train_p, error);
    if (status != GW_OK)
        return status;
    print_data("data.train", *train_p);
    status = gw_model_check_labels(config, *train_p, *train_p, error);
    if (status != GW_OK || config->data.test.n == 0)
        return status;
    status = gw_dataset_open(config, GW_DATASET_TEST, &test, error);
    if (status != GW_OK)
        return status;
    print_data("data.test", test);
    status = gw_dataset_check_alike(*train_p, test, error);
    if (status == GW_OK)
        status = gw_model_check_labels(config, *train_p, test, error);
    gw_dataset_close(test);
    return status;
}

static enum gw_status print_shards(const struct gw_config *config,
                                   const struct gw_key *keys,
                                   size_t n,
                                   struct gw_error *error)
{
    struct gw_map *map;
    uint32_t shards =
        (uint32_t)(config->cluster.servers * config->server.threads);
    enum gw_status status = gw_map_create(keys, n, shards, &map, error);
    if (status != GW_OK)
        return status;
    printf(COLUMN "%zu key%s, %" PRIu64
                  " KiB of weights%s in %zu chunk%s on %u "
                  "shard%s\n",
           "weights", n, gw_plural(n), map->arena_bytes >> 10,
           gw_encoding_word(config->train.weights), map->chunks,
           gw_plural(map->chunks), shards, gw_plural(shards));
    gw_map_destroy(map);
    return GW_OK;
}

static enum gw_status print_model(const struct gw_config *config,
                                  const struct gw_dataset *data,
                                  const struct gw_begin *begin,
                                  struct gw_error *error)
{
    struct gw_backend_choice choice;
    struct gw_plan plan;
    struct gw_device *device;
    struct gw_model *model = NULL;
    char text[256];
    size_t n;
    enum gw_status status =
        gw_plan_make(config, gw_dataset_shape(data)->samples,
                     config->cluster.workers, &begin->cut, &plan, error);
    if (status == GW_OK)
        status = gw_device_open(config, 0, &choice, &device, error);
    if (status != GW_OK)
        return status;
    choice.ops->describe(device, text, sizeof text);
    printf(COLUMN "%s: %s%s%s\n", "device", choice.ops->name, text,
           choice.why[0] ? "; " : "", choice.why);
    status = gw_model_create(config, gw_dataset_shape(data), plan.max_batch,
                             choice.ops, device, &model, error);
    if (status == GW_OK) {
        const struct gw_key *keys = gw_model_keys(model, &n);
        gw_model_note_outputs(model, gw_dataset_shape(data), text, sizeof text);
        if (text[0])
            printf(COLUMN "%s\n", "model", text);
        printf(COLUMN "%" PRIu64 " in all, %" PRIu64 " per epoch, %" PRIu64
                      " sample%s each\n",
               "steps", plan.steps, gw_course_steps(&plan.course),
               plan.course.batch, gw_plural(plan.course.batch));
        status = print_shards(config, keys, n, error);
        if (status == GW_OK)
            status = gw_begin_check_model(begin, gw_keys_hash(keys, n), error);
        if (status == GW_OK)
            gw_begin_note_steps(begin, plan.steps, &plan.course);
    }
    gw_model_destroy(model);
    choice.ops->close(device);
    return status;
}

/* Missing sections may mean a truncated file. */
static void print_absent(const char *text)
{
    char absent[GW_ABSENT_BYTES];
    size_t n = gw_config_absent(text, absent);
    if (n > 0)
        printf(COLUMN "%s %s not in the file: defaults\n", "absent", absent,
               n == 1 ? "is" : "are");
}

static enum gw_status print_all(const struct gw_dry_run_options *options,
                                const struct gw_begin *begin,
                                struct gw_error *error)
{
    const struct gw_show show = {.out = stdout};
    const struct gw_config *config = options->config;
    struct gw_dataset *data = NULL;
    struct gw_routes routes;
    char why[256];
    enum gw_status status =
        gw_place_routes(config, &routes, why, sizeof why, error);
    if (status != GW_OK)
        return status;
    gw_show_job(&show, options->file, config, &routes, why, NULL);
    print_absent(options->text);
    status = open_data(config, &data, error);
    if (status == GW_OK)
        status = print_model(config, data, begin, error);
    if (data)
        gw_dataset_close(data);
    if (status == GW_OK)
        printf(COLUMN "1 coordinator, %" PRIu64 " server%s, %" PRIu64
                      " worker%s, and a launcher\n",
               "processes", config->cluster.servers,
               gw_plural(config->cluster.servers), config->cluster.workers,
               gw_plural(config->cluster.workers));
    return status;
}

enum gw_status gw_dry_run(const struct gw_dry_run_options *options,
                          struct gw_error *error)
{
    struct gw_begin begin;
    enum gw_status status = gw_check_start(options->config, options->resume,
                                           options->json, &begin, error);
    if (status == GW_OK)
        status = gw_room_check_job(options->config, error);
    if (status == GW_OK && !options->overcommit)
        status = gw_check_memory(options->config, error);
    if (status == GW_OK)
        status = print_all(options, &begin, error);
    gw_begin_free(&begin);
    return status;
}
