/*
 * Which workers sum their gradients before they push them (proto/groups.h):
 * those of one host, if they can see each other's memory, where the sum saves
 * something on a line, or where the job says so.
 */
#include "config.h"

#include "server/coordinator_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/groups.h"

/* An address without its port: a host, or where in it processes meet. */
static void cut_port(const char *address, char place[GW_ADDRESSES_MAX])
{
    const char *port = strrchr(address, ':');
    snprintf(place, GW_ADDRESSES_MAX, "%.*s", port ? (int)(port - address) : 0,
             address);
}

/* Whether a member can be met there, at one of its addresses. */
static int is_at(const struct gw_roster *who, const char *place)
{
    size_t n = strlen(place);
    const char *at = n > 0 ? strstr(who->address, place) : NULL;
    while (at && (at[n] != ':' || (at > who->address && !strchr(",/", at[-1]))))
        at = strstr(at + 1, place);
    return at != NULL;
}

/* Whether what a worker sends to a server leaves its host. Over tcp alone it
   does not where both are of one kernel and of one address: a network namespace
   is as good as a host. */
static int is_elsewhere(const struct gw_roster *server,
                        const struct gw_roster *worker)
{
    char place[GW_ADDRESSES_MAX], host[GW_ADDRESSES_MAX];
    cut_port(worker->address, place);
    cut_port(worker->peer->address, host);
    return !is_at(server, place) &&
           (server->machine != worker->machine || !is_at(server, host));
}

static int has_server_elsewhere(const struct gw_coordinator *self,
                                const struct gw_roster *worker)
{
    for (const struct gw_roster *one = self->roster; one; one = one->next)
        if (one->role == GW_ROLE_SERVER && is_elsewhere(one, worker))
            return 1;
    return 0;
}

static int plan_has_sync(const struct gw_config *config)
{
    struct gw_policy_plan plan;
    struct gw_error error;
    if (gw_policy_plan_parse(config->cluster.policy, &plan, &error) != GW_OK)
        return 0;
    for (size_t i = 0; i < plan.n; i++)
        if (plan.phase[i].word.kind == GW_POLICY_SYNC)
            return 1;
    return 0;
}

static void
tell(struct gw_coordinator *self, const uint32_t *size, uint32_t blocks)
{
    uint32_t first = 0;
    for (uint32_t i = 0; i < blocks; first += size[i++]) {
        const struct gw_roster *who =
            gw_roster_find(self, GW_ROLE_WORKER, first);
        if (size[i] > 1)
            gw_coordinator_note(self,
                                "workers %u to %u (%s) sum their gradients "
                                "before they push them",
                                first, first + size[i] - 1, who->host);
    }
}

/* "" where pushing a sum would save nothing. */
static void find_places(struct gw_coordinator *self,
                        char (*text)[GW_ADDRESSES_MAX],
                        const char **place)
{
    int always = strcmp(self->config->cluster.local_reduction, "on") == 0;
    for (const struct gw_roster *one = self->roster; one; one = one->next) {
        if (one->role != GW_ROLE_WORKER)
            continue;
        if (one->shares && (always || has_server_elsewhere(self, one)))
            cut_port(one->address, text[one->id]);
        place[one->id] = text[one->id];
    }
}

enum gw_status gw_coordinator_group(struct gw_coordinator *self,
                                    struct gw_start *start,
                                    struct gw_error *error)
{
    uint32_t workers = (uint32_t)self->config->cluster.workers;
    if (strcmp(self->config->cluster.local_reduction, "off") == 0 ||
        !plan_has_sync(self->config))
        return GW_OK;
    char(*text)[GW_ADDRESSES_MAX] = calloc(workers, sizeof *text);
    const char **place = calloc(workers, sizeof *place);
    self->groups = calloc(workers, sizeof *self->groups);
    if (text && place && self->groups) {
        find_places(self, text, place);
        uint32_t blocks = gw_groups_make(place, workers, self->groups);
        start->groups = self->groups;
        start->groups_n = blocks < workers ? blocks : 0;
        tell(self, self->groups, start->groups_n);
    }
    int failed = !start->groups;
    free(text);
    free(place);
    return failed ? gw_fail(error, GW_ENOMEM, "no memory for groups") : GW_OK;
}
