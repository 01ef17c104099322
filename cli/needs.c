#include "config.h"

#include "cli/needs.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/groups.h"

#define MIB     (1024.0 * 1024)
#define GIB     (1024 * MIB)
#define MEMBERS 4096 /* upper bound of workers, and of servers */

/* ---- counting ---- */

static void add_need(struct gw_server_need *sum,
                     const struct gw_server_need *one)
{
    sum->weights += one->weights;
    sum->states += one->states;
    sum->landing += one->landing;
    sum->sums += one->sums;
    sum->ranks += one->ranks;
    sum->copies += one->copies;
    sum->snapshot += one->snapshot;
    sum->shared += one->shared;
    sum->tables += one->tables;
    sum->messages += one->messages;
}

/* Adds up the threads of each process; the plan is for the largest process. */
static enum gw_status count_servers(const struct gw_config *config,
                                    const struct gw_map *map,
                                    const struct gw_estimate_hosts *hosts,
                                    struct gw_server_need *most,
                                    struct gw_error *error)
{
    uint64_t threads = config->server.threads, bytes_most = 0;
    uint64_t seen; /* of a worker, by all threads */
    enum gw_status status = gw_server_sees(config, map, &seen, error);
    if (status != GW_OK)
        return status;
    for (uint64_t process = 0; process < config->cluster.servers; process++) {
        struct gw_server_need sum = {0}, one;
        uint64_t bytes = 0;
        uint32_t near =
            hosts ? gw_estimate_workers_on(hosts, hosts->server_host[process])
                  : 0;
        for (uint64_t t = 0; t < threads; t++) {
            uint32_t number = (uint32_t)(process * threads + t);
            status = gw_server_need(config, map, number, near, &one, error);
            if (status != GW_OK)
                return status;
            add_need(&sum, &one);
            bytes += map->shard_bytes[number];
        }
        if (sum.shared > near * seen) /* threads see the same */
            sum.shared = near * seen;
        bytes += sum.shared;
        if (process == 0 || bytes > bytes_most) {
            *most = sum;
            bytes_most = bytes;
        }
    }
    return GW_OK;
}

/* The host of workers whose servers hold most of the model. */
static uint32_t fullest_host(const struct gw_estimate_hosts *hosts)
{
    double here, most = -1;
    uint32_t fullest = 0;
    for (uint32_t host = 0; gw_estimate_workers_on(hosts, host) > 0; host++) {
        here = 0;
        for (uint32_t s = 0; s < hosts->servers; s++)
            here += hosts->server_host[s] == host ? hosts->server_bytes[s] : 0;
        if (here > most) {
            most = here;
            fullest = host;
        }
    }
    return fullest;
}

/* Neighbours of a worker on this host, the largest number; 0: each worker
   pushes its own gradients. */
static enum gw_status count_grouped(const struct gw_config *config,
                                    const struct gw_estimate_hosts *hosts,
                                    uint32_t host,
                                    uint32_t *most_p,
                                    struct gw_error *error)
{
    int apart = gw_config_sums_anyway(config);
    uint32_t first = host * hosts->per_host, most = 1;
    for (uint32_t s = 0; s < hosts->servers; s++)
        apart |= hosts->server_host[s] != host;
    *most_p = 0;
    if (!hosts->sums || !apart)
        return GW_OK;
    const char **place = calloc(hosts->workers, sizeof *place);
    uint32_t *size = calloc(hosts->workers, sizeof *size);
    if (!place || !size) {
        free(place);
        free(size);
        return gw_fail(error, GW_ENOMEM, "no memory for a plan");
    }
    for (uint32_t w = 0; w < hosts->workers; w++)
        place[w] = w / hosts->per_host == host ? "here" : "";
    uint32_t blocks = gw_groups_make(place, hosts->workers, size);
    for (uint32_t w = first; w < first + hosts->per_host && w < hosts->workers;
         w++) {
        uint32_t n = gw_group_of(size, blocks, w).n;
        most = n > most ? n : most;
    }
    *most_p = most - 1;
    free(place);
    free(size);
    return GW_OK;
}

/* The worker on that host with the largest need. */
static enum gw_status count_worker(const struct gw_worker_case *what,
                                   const struct gw_map *map,
                                   const struct gw_estimate_hosts *hosts,
                                   struct gw_worker_need *most,
                                   struct gw_error *error)
{
    uint64_t threads = what->config->server.threads;
    if (!hosts)
        return gw_worker_need(what, map, NULL, most, error);
    uint8_t *near = calloc(map->shards, sizeof *near);
    if (!near)
        return gw_fail(error, GW_ENOMEM, "no memory for a plan");
    uint32_t host = fullest_host(hosts);
    for (size_t shard = 0; shard < map->shards; shard++)
        near[shard] = hosts->server_host[shard / threads] == host;
    struct gw_worker_near beside = {.shard = near};
    enum gw_status status =
        count_grouped(what->config, hosts, host, &beside.grouped, error);
    if (status == GW_OK)
        status = gw_worker_need(what, map, &beside, most, error);
    free(near);
    return status;
}

enum gw_status gw_needs_count(const struct gw_worker_case *what,
                              const struct gw_map *map,
                              const struct gw_estimate_hosts *near,
                              struct gw_needs *needs_p,
                              struct gw_error *error)
{
    struct gw_needs needs = {.coordinator =
                                 gw_coordinator_need(what->config, map)};
    enum gw_status status = count_worker(what, map, near, &needs.worker, error);
    if (status == GW_OK)
        status = count_servers(what->config, map, near, &needs.server, error);
    if (status == GW_OK)
        *needs_p = needs;
    return status;
}

size_t gw_needs_rows(const struct gw_needs *needs,
                     struct gw_need_row row[GW_NEED_ROWS])
{
    const struct gw_worker_need *w = &needs->worker;
    const struct gw_device_need *d = &w->device;
    const struct gw_server_need *s = &needs->server;
    const struct gw_need_row all[] = {
        {"weights", d->weights, w->weights, s->weights, 0, 0},
        {"gradients", d->gradients, w->gradients, 0, 0, 0},
        {"activations", d->activations, w->activations, 0, 0, 0},
        {"product scratch", d->scratch, w->scratch, 0, 0, 0},
        {"batch", d->batch, w->batch, 0, 0, 0},
        {"workspace", d->workspace, 0, 0, 0, 0},
        {"for sums, or a network", d->lent, 0, 0, 0, 0},
        {"code of steps", d->code, 0, 0, 0, 0},
        {"CUDA itself, about", d->process, 0, 0, 0, 1},
        {"data", 0, w->data, 0, 0, 0},
        {"data files, mapped", 0, w->mapped, 0, 0, 1},
        {"own steps", 0, w->local, 0, 0, 0},
        {"optimizer state", 0, 0, s->states, 0, 0},
        {"landing slots", 0, 0, s->landing, 0, 0},
        {"reduced copy", 0, 0, s->sums, 0, 0},
        {"kept per worker", 0, 0, s->ranks, 0, 0},
        {"copies of others", 0, 0, s->copies, 0, 0},
        {"checkpoint copy", 0, w->snapshot, s->snapshot, 0, 0},
        {"mapped of others", 0, w->shared, s->shared, 0, 1},
        {"tables", 0, w->tables, s->tables, 0, 1},
        {"messages, links", 0, w->messages, s->messages, needs->coordinator, 1},
    };
    size_t n = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].gpu || all[i].worker || all[i].server || all[i].coordinator)
            row[n++] = all[i];
    return n;
}

/* ---- minimum ---- */

uint64_t gw_needs_worker(const struct gw_needs *needs)
{
    const struct gw_worker_need *w = &needs->worker;
    return w->weights + w->gradients + w->activations + w->scratch + w->batch +
           w->local + w->data + w->snapshot;
}

static uint64_t of_server(const struct gw_needs *needs)
{
    const struct gw_server_need *s = &needs->server;
    return s->weights + s->states + s->landing + s->sums + s->ranks +
           s->copies + s->snapshot;
}

uint64_t gw_needs_of_host(const struct gw_needs *needs,
                          const struct gw_needs_host *host)
{
    return host->workers * gw_needs_worker(needs) +
           host->servers * of_server(needs);
}

uint64_t gw_needs_sharers(const struct gw_needs_host *host)
{
    return host->devices > 0
               ? (host->workers + host->devices - 1) / host->devices
               : 0;
}

uint64_t gw_needs_of_sharer(const struct gw_needs *needs,
                            const struct gw_needs_host *host)
{
    const struct gw_device_need *device = &needs->worker.device;
    return gw_device_need_own(device) +
           (host->device_is_bare ? device->process : 0);
}

static int fits_device(const struct gw_needs *needs,
                       const struct gw_needs_host *host)
{
    return gw_needs_sharers(host) * gw_needs_of_sharer(needs, host) <=
           host->device_bytes;
}

static int fits(const struct gw_needs *needs, const struct gw_needs_host *host)
{
    return gw_needs_of_host(needs, host) <= host->bytes &&
           fits_device(needs, host);
}

/* ---- search for a job that fits ---- */

/* A number of a job that may be changed to make it fit. */
struct knob {
    const char *name;
    uint64_t *value;   /* in the search's own config */
    uint64_t low;      /* smallest sensible value */
    int grows;         /* a greater value needs less memory */
    uint64_t *on_host; /* number on the host to change with it, or NULL */
};

struct search {
    struct gw_worker_case what;
    struct gw_config *config; /* the config of `what` */
    struct gw_needs_host host;
};

/* Non-zero if the job fits with that number; errors mean that it does not. */
static int
fits_with(const struct search *search, const struct knob *knob, uint64_t value)
{
    struct gw_needs needs;
    struct gw_map *map;
    struct gw_error error;
    uint64_t flop, before = *knob->value;
    *knob->value = value;
    if (knob->on_host)
        *knob->on_host = value;
    int fine = gw_worker_map(&search->what, &map, &flop, &error) == GW_OK;
    if (fine) {
        fine =
            gw_needs_count(&search->what, map, NULL, &needs, &error) == GW_OK &&
            fits(&needs, &search->host);
        gw_map_destroy(map);
    }
    *knob->value = before;
    if (knob->on_host)
        *knob->on_host = before;
    return fine;
}

struct trial {
    const struct search *search;
    const struct knob *knob;
};

static int try_with(const void *owner, uint64_t value)
{
    const struct trial *trial = owner;
    return fits_with(trial->search, trial->knob, value);
}

/* The nearest number to the job's own with which it fits; 0: none. */
static uint64_t nearest_fit(const struct search *search,
                            const struct knob *knob)
{
    const struct trial trial = {search, knob};
    uint64_t bad = *knob->value, good = knob->grows ? MEMBERS : knob->low;
    if (knob->grows ? bad >= good : bad <= good)
        return 0;
    if (!fits_with(search, knob, good))
        return 0;
    return gw_need_nearest(bad, good, try_with, &trial);
}

/* Describes the first knob that makes the job fit. */
static void
advise(struct search *search, const char *otherwise, char *text, size_t room)
{
    struct gw_config *config = search->config;
    struct gw_needs_host *host = &search->host;
    const int has_batch = host->workers > 0 && search->what.train != NULL;
    const struct gw_batch_key key = gw_batch_key_of(config);
    const struct knob batch = {
        .name = key.name, .value = key.value, .low = key.least};
    const struct knob servers = {.name = "cluster.servers",
                                 .value = &config->cluster.servers,
                                 .grows = 1};
    const struct knob workers = {.name = "cluster.workers",
                                 .value = &config->cluster.workers,
                                 .low = 1,
                                 .on_host = host->all ? &host->workers : NULL};
    const struct knob *const knobs[] = {
        has_batch ? &batch : NULL,
        host->servers && !host->all ? &servers : NULL,
        host->all ? &workers : NULL,
    };
    for (size_t i = 0; i < sizeof knobs / sizeof *knobs; i++) {
        uint64_t value = knobs[i] ? nearest_fit(search, knobs[i]) : 0;
        if (value == 0)
            continue;
        snprintf(text, room, "it fits with %s = %" PRIu64 " or %s",
                 knobs[i]->name, value, knobs[i]->grows ? "more" : "less");
        return;
    }
    snprintf(text, room, "%s", otherwise);
}

/* ---- the check ---- */

#define MOST_TEXT 48

/* The largest row of a role: "activations 1.2 GiB". */
static const char *
say_most(const struct gw_needs *needs, int server, char text[MOST_TEXT])
{
    struct gw_need_row row[GW_NEED_ROWS];
    size_t n = gw_needs_rows(needs, row), most = 0;
    char bytes[GW_NEED_BYTES_TEXT];
    for (size_t i = 1; i < n; i++)
        if (row[i].may_differ)
            continue;
        else if (server ? row[i].server > row[most].server
                        : row[i].worker > row[most].worker)
            most = i;
    gw_need_say_bytes(server ? row[most].server : row[most].worker, bytes);
    snprintf(text, MOST_TEXT, "%s %s", row[most].name, bytes);
    return text;
}

/* "2 workers of 1.3 GiB, most of it activations 1.2 GiB, and ..." */
static void say_members(const struct gw_needs *needs,
                        const struct gw_needs_host *host,
                        char *text,
                        size_t room)
{
    char bytes[GW_NEED_BYTES_TEXT], most[MOST_TEXT];
    size_t at = 0;
    text[0] = '\0';
    if (host->workers > 0)
        snprintf(text, room, "%" PRIu64 " worker%s of %s each, most of it %s",
                 host->workers, gw_plural(host->workers),
                 gw_need_say_bytes(gw_needs_worker(needs), bytes),
                 say_most(needs, 0, most));
    at = strlen(text);
    if (host->servers > 0)
        snprintf(text + at, room - at,
                 "%s%" PRIu64 " server%s of %s each, most of it %s",
                 at ? "; " : "", host->servers, gw_plural(host->servers),
                 gw_need_say_bytes(of_server(needs), bytes),
                 say_most(needs, 1, most));
}

static enum gw_status refuse_device(const struct gw_needs *needs,
                                    const struct gw_needs_host *host,
                                    const char *advice,
                                    struct gw_error *error)
{
    char parts[GW_NEED_TEXT], process[MOST_TEXT] = "";
    char all[GW_NEED_BYTES_TEXT], each[GW_NEED_BYTES_TEXT],
        there[GW_NEED_BYTES_TEXT];
    uint64_t one = gw_needs_of_sharer(needs, host);
    uint64_t sharers = gw_needs_sharers(host);
    gw_device_need_say(&needs->worker.device, parts);
    gw_need_say_bytes(one, each);
    gw_need_say_bytes(sharers * one, all);
    gw_need_say_bytes(host->device_bytes, there);
    if (host->device_is_bare)
        snprintf(process, sizeof process, ", CUDA itself %" PRIu64 " MiB",
                 needs->worker.device.process >> 20);
    if (sharers == 1)
        return gw_fail(error, GW_ENOMEM,
                       "does not fit: a worker needs %s of its GPU (%s%s), and "
                       "%s are %s; %s",
                       each, parts, process, there, host->device_what, advice);
    return gw_fail(
        error, GW_ENOMEM,
        "does not fit: %" PRIu64 " workers on one GPU need %s of it, "
        "%s each (%s%s), and %s are %s; %s",
        sharers, all, each, parts, process, there, host->device_what, advice);
}

static enum gw_status refuse_host(const struct gw_needs *needs,
                                  const struct gw_needs_host *host,
                                  const char *advice,
                                  struct gw_error *error)
{
    char members[256], needed[GW_NEED_BYTES_TEXT], there[GW_NEED_BYTES_TEXT];
    say_members(needs, host, members, sizeof members);
    return gw_fail(
        error, GW_ENOMEM, "does not fit: %s needs %s (%s), and %s are %s; %s",
        host->name, gw_need_say_bytes(gw_needs_of_host(needs, host), needed),
        members, gw_need_say_bytes(host->bytes, there), host->what, advice);
}

/* The advice if neither batch nor members help. */
static const char *last_advice(const struct gw_worker_case *what,
                               const struct gw_needs_host *host,
                               int on_host)
{
    if (!what->train)
        return host->all ? "no number of workers makes it fit: take more "
                           "hosts, or a smaller model"
                         : "no number of servers makes it fit: take a smaller "
                           "model";
    if (!on_host)
        return "no batch makes it fit: take a GPU with more memory, or a "
               "smaller model";
    return host->all ? "no batch and no number of workers makes it fit: take "
                       "more hosts, or a smaller model"
                     : "no batch and no number of servers makes it fit: take "
                       "a smaller model";
}

static enum gw_status refuse(const struct gw_worker_case *what,
                             const struct gw_needs_host *host,
                             const struct gw_needs *needs,
                             struct gw_error *error)
{
    struct search search = {.what = *what, .host = *host};
    char advice[160] = "take a smaller batch";
    int on_host = gw_needs_of_host(needs, host) > host->bytes;
    search.config = malloc(sizeof *search.config);
    if (search.config) {
        *search.config = *what->config;
        search.what.config = search.config;
        advise(&search, last_advice(what, host, on_host), advice,
               sizeof advice);
        free(search.config);
    }
    return on_host ? refuse_host(needs, host, advice, error)
                   : refuse_device(needs, host, advice, error);
}

enum gw_status gw_needs_check(const struct gw_worker_case *what,
                              const struct gw_needs_host *host,
                              struct gw_error *error)
{
    struct gw_needs needs;
    struct gw_map *map;
    uint64_t flop;
    enum gw_status status = gw_worker_map(what, &map, &flop, error);
    if (status != GW_OK)
        return status;
    status = gw_needs_count(what, map, NULL, &needs, error);
    gw_map_destroy(map);
    if (status == GW_OK && !fits(&needs, host))
        status = refuse(what, host, &needs, error);
    return status;
}
