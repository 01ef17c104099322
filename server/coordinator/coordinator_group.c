/*
 * Groups: workers that sum their gradients before they push them
 * (proto/groups.h). Workers of one host form one, if they can see each other's
 * memory, and if the sum saves traffic on a line or the job asks for it.
 */
#include "config.h"

#include "server/coordinator/coordinator_members.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/groups.h"

struct gw_grouper {
    uint32_t *sizes; /* blocks of ranks, see start.groups */
    int has_asked;   /* a worker has asked for a rank of its own choice */
};

enum gw_status gw_grouper_open(struct gw_coordinator *self,
                               struct gw_error *error)
{
    self->grouper = calloc(1, sizeof *self->grouper);
    return self->grouper ? GW_OK
                         : gw_fail(error, GW_ENOMEM, "no memory for groups");
}

void gw_grouper_close(struct gw_coordinator *self)
{
    if (!self->grouper)
        return;
    free(self->grouper->sizes);
    free(self->grouper);
    self->grouper = NULL;
}

void gw_grouper_asked(struct gw_coordinator *self)
{
    self->grouper->has_asked = 1;
}

/* A place per worker; the texts are behind the pointers. NULL: no memory. */
static const char **open_places(const struct gw_coordinator *self,
                                char (**text_p)[GW_ADDRESSES_MAX])
{
    size_t workers = self->config->cluster.workers;
    const char **place =
        calloc(workers, sizeof *place + GW_ADDRESSES_MAX * sizeof(char));
    if (place)
        *text_p = (char(*)[GW_ADDRESSES_MAX])(void *)(place + workers);
    return place;
}

/* An address without its port: a host, or where in it processes meet. */
static void cut_port(const char *address, char place[GW_ADDRESSES_MAX])
{
    const char *port = strrchr(address, ':');
    snprintf(place, GW_ADDRESSES_MAX, "%.*s", port ? (int)(port - address) : 0,
             address);
}

/* One of the member's addresses is at that place. */
static int is_at(const struct gw_seat *who, const char *place)
{
    size_t n = strlen(place);
    const char *at = n > 0 ? strstr(who->address, place) : NULL;
    while (at && (at[n] != ':' || (at > who->address && !strchr(",/", at[-1]))))
        at = strstr(at + 1, place);
    return at != NULL;
}

/* A worker's pushes to a server leave its host. Over tcp alone they do not
   where both are of one kernel and of one address: a network namespace is as
   good as a host. */
static int is_elsewhere(const struct gw_seat *server,
                        const struct gw_seat *worker)
{
    char place[GW_ADDRESSES_MAX], host[GW_ADDRESSES_MAX];
    cut_port(worker->address, place);
    cut_port(worker->peer->address, host);
    return !is_at(server, place) &&
           (server->machine != worker->machine || !is_at(server, host));
}

static int has_server_elsewhere(const struct gw_coordinator *self,
                                const struct gw_seat *worker)
{
    for (const struct gw_seat *one = gw_roster_first(self); one;
         one = one->next)
        if (one->role == GW_ROLE_SERVER && is_elsewhere(one, worker))
            return 1;
    return 0;
}

static const char *host_of(struct gw_coordinator *self, uint32_t rank)
{
    return gw_roster_find(self, GW_ROLE_WORKER, rank)->host;
}

static void
tell_sums(struct gw_coordinator *self, const uint32_t *size, uint32_t blocks)
{
    uint32_t first = 0;
    for (uint32_t i = 0; i < blocks; first += size[i++])
        if (size[i] > 1)
            gw_coordinator_note(self,
                                "workers %u to %u (%s) sum their gradients "
                                "before they push them",
                                first, first + size[i] - 1,
                                host_of(self, first));
}

/* How many of the first n blocks are of a place; size NULL: of ranks. */
static uint32_t count_at(const char *const *place,
                         const uint32_t *size,
                         uint32_t n,
                         const char *where)
{
    uint32_t count = 0, rank = 0;
    for (uint32_t i = 0; i < n; rank += size ? size[i] : 1, i++)
        count += strcmp(place[rank], where) == 0;
    return count;
}

/* The order of ranks can make a host push more sums than necessary: when
   workers asked for ranks, or when a host joined after smaller ones. */
static void tell_scattered(struct gw_coordinator *self,
                           const char *const *place,
                           const uint32_t *size,
                           uint32_t blocks)
{
    uint32_t workers = (uint32_t)self->config->cluster.workers, first = 0;
    for (uint32_t i = 0; i < blocks; first += size[i++]) {
        const char *where = place[first];
        uint32_t ranks = count_at(place, NULL, workers, where);
        uint32_t pushed = count_at(place, size, blocks, where);
        uint32_t least = gw_groups_blocks(0, ranks);
        if (where[0] && count_at(place, size, i, where) == 0 && pushed > least)
            gw_coordinator_note(
                self,
                "%u workers of %s push %u gradients in a step instead of %u, "
                "since their ranks lie apart: %s",
                ranks, host_of(self, first), pushed, least,
                self->grouper->has_asked
                    ? "leave --rank out, or give those of a host "
                      "ranks beside each other"
                    : "give ranks (--rank), first to the host "
                      "with most workers");
    }
}

/* The place is "" if pushing a sum would save nothing. */
static void find_places(struct gw_coordinator *self,
                        char (*text)[GW_ADDRESSES_MAX],
                        const char **place)
{
    int always = gw_config_sums_anyway(self->config);
    for (const struct gw_seat *one = gw_roster_first(self); one;
         one = one->next) {
        if (one->role != GW_ROLE_WORKER)
            continue;
        if (one->shares && (always || has_server_elsewhere(self, one)))
            cut_port(one->address, text[one->id]);
        place[one->id] = text[one->id];
    }
}

uint32_t gw_grouper_free_rank(struct gw_coordinator *self, const char *address)
{
    uint32_t workers = (uint32_t)self->config->cluster.workers, rank = 0;
    char(*text)[GW_ADDRESSES_MAX], where[GW_ADDRESSES_MAX] = "";
    int free_to_choose =
        gw_config_may_sum(self->config) && !self->grouper->has_asked;
    const char **place = free_to_choose ? open_places(self, &text) : NULL;
    if (!place) {
        while (gw_roster_find(self, GW_ROLE_WORKER, rank))
            rank++;
        return rank;
    }
    for (const struct gw_seat *one = gw_roster_first(self); one;
         one = one->next)
        if (one->role == GW_ROLE_WORKER) {
            cut_port(one->address, text[one->id]);
            place[one->id] = text[one->id];
        }
    cut_port(address, where);
    rank = gw_groups_rank(place, workers, where);
    free(place);
    return rank;
}

enum gw_status gw_grouper_fill_start(struct gw_coordinator *self,
                                     struct gw_start *start,
                                     struct gw_error *error)
{
    uint32_t workers = (uint32_t)self->config->cluster.workers;
    if (!gw_config_may_sum(self->config))
        return GW_OK;
    char(*text)[GW_ADDRESSES_MAX];
    const char **place = open_places(self, &text);
    uint32_t *sizes = calloc(workers, sizeof *sizes);
    self->grouper->sizes = sizes;
    if (!place || !sizes) {
        free(place);
        return gw_fail(error, GW_ENOMEM, "no memory for groups");
    }
    find_places(self, text, place);
    uint32_t blocks = gw_groups_make(place, workers, sizes);
    start->groups = sizes;
    start->groups_n = blocks < workers ? blocks : 0;
    tell_sums(self, sizes, start->groups_n);
    tell_scattered(self, place, sizes, blocks);
    free(place);
    return GW_OK;
}
