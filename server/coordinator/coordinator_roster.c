/* The list of members, in the order in which they have joined, newest first. */
#include "config.h"

#include "server/coordinator/coordinator_state.h"

#include <stdio.h>
#include <stdlib.h>

struct gw_roster {
    struct gw_seat *first, *gone;
    uint32_t workers, servers; /* joined so far */
    uint32_t shards;           /* all servers' together; 0 until all are here */
    struct {
        uint64_t process;
        uint32_t threads;
    } * server; /* [cluster.servers] */
};

enum gw_status gw_roster_open(struct gw_coordinator *self,
                              struct gw_error *error)
{
    struct gw_roster *roster = calloc(1, sizeof *roster);
    self->roster = roster;
    if (roster)
        roster->server =
            calloc(self->config->cluster.servers, sizeof *roster->server);
    if (!roster || !roster->server)
        return gw_fail(error, GW_ENOMEM, "no memory for a coordinator");
    return GW_OK;
}

static void free_all(struct gw_seat *one)
{
    while (one) {
        struct gw_seat *next = one->next;
        free(one);
        one = next;
    }
}

void gw_roster_close(struct gw_coordinator *self)
{
    struct gw_roster *roster = self->roster;
    if (!roster)
        return;
    free_all(roster->first);
    free_all(roster->gone);
    free(roster->server);
    free(roster);
    self->roster = NULL;
}

struct gw_seat *gw_roster_first(const struct gw_coordinator *self)
{
    return self->roster->first;
}

struct gw_seat *gw_roster_of(const struct gw_coordinator *self,
                             const struct gw_peer *peer)
{
    struct gw_seat *one = self->roster->first;
    while (one && one->peer != peer)
        one = one->next;
    return one;
}

struct gw_seat *
gw_roster_find(const struct gw_coordinator *self, uint8_t role, uint32_t id)
{
    struct gw_seat *one = self->roster->first;
    while (one && (one->role != role || one->id != id))
        one = one->next;
    return one;
}

struct gw_seat *gw_roster_leader(const struct gw_coordinator *self)
{
    return gw_roster_find(self, GW_ROLE_SERVER, 0);
}

void gw_roster_add(struct gw_coordinator *self, struct gw_seat *who)
{
    who->next = self->roster->first;
    self->roster->first = who;
    self->roster->workers += who->role == GW_ROLE_WORKER;
}

static void
move(struct gw_seat *who, struct gw_seat **from, struct gw_seat **to)
{
    while (*from != who)
        from = &(*from)->next;
    *from = who->next;
    who->next = *to;
    *to = who;
}

void gw_roster_remove(struct gw_coordinator *self, struct gw_seat *who)
{
    struct gw_roster *roster = self->roster;
    move(who, &roster->first, &roster->gone);
    roster->workers -= who->role == GW_ROLE_WORKER;
}

void gw_roster_restore(struct gw_coordinator *self, struct gw_seat *who)
{
    struct gw_roster *roster = self->roster;
    move(who, &roster->gone, &roster->first);
    roster->workers += who->role == GW_ROLE_WORKER;
}

static struct gw_seat *find_declared(struct gw_seat *one, uint32_t rank)
{
    while (one &&
           (one->role != GW_ROLE_WORKER || one->id != rank || !one->declared))
        one = one->next;
    return one;
}

struct gw_seat *gw_roster_last(const struct gw_coordinator *self, uint32_t rank)
{
    struct gw_seat *seat = find_declared(self->roster->first, rank);
    return seat ? seat : find_declared(self->roster->gone, rank);
}

struct gw_seat *gw_roster_gone(const struct gw_coordinator *self)
{
    return self->roster->gone;
}

void gw_roster_print_name(uint8_t role,
                          uint32_t id,
                          uint32_t server,
                          const char *host,
                          uint32_t pid,
                          char name[GW_PEER_NAME_MAX])
{
    int has_shard = gw_role_has_shard(role);
    snprintf(name, GW_PEER_NAME_MAX, "%s %u (%.40s, pid %u)",
             gw_role_name(has_shard ? GW_ROLE_SERVER : role),
             has_shard ? server : id, host, pid);
}

void gw_roster_print(const struct gw_seat *one, char name[GW_PEER_NAME_MAX])
{
    gw_roster_print_name(one->role, one->id, one->server, one->host, one->pid,
                         name);
}

struct gw_seat *gw_roster_thread(const struct gw_coordinator *self,
                                 uint32_t server)
{
    struct gw_seat *one = self->roster->first;
    while (one && (!gw_seat_has_shard(one) || one->server != server))
        one = one->next;
    return one;
}

uint32_t gw_roster_server(const struct gw_coordinator *self, uint64_t process)
{
    const struct gw_roster *roster = self->roster;
    uint32_t number = 0;
    while (number < roster->servers &&
           roster->server[number].process != process)
        number++;
    return number;
}

void gw_roster_place_server(struct gw_coordinator *self,
                            uint32_t number,
                            uint64_t process,
                            uint32_t threads)
{
    struct gw_roster *roster = self->roster;
    if (number >= self->config->cluster.servers)
        return;
    roster->server[number].process = process;
    roster->server[number].threads = threads;
    if (roster->servers <= number)
        roster->servers = number + 1;
}

uint32_t gw_roster_threads(const struct gw_coordinator *self, uint32_t number)
{
    return self->roster->server[number].threads;
}

uint32_t gw_roster_workers(const struct gw_coordinator *self)
{
    return self->roster->workers;
}

uint32_t gw_roster_servers(const struct gw_coordinator *self)
{
    return self->roster->servers;
}

uint32_t gw_roster_shards(const struct gw_coordinator *self)
{
    return self->roster->shards;
}

uint32_t gw_roster_members(const struct gw_coordinator *self)
{
    uint32_t n = 0;
    for (const struct gw_seat *one = self->roster->first; one; one = one->next)
        n++;
    return n;
}

/* The shards of a server's first threads; the others stand by, for shards that
   gw_copies_place knows. */
static void
take_seat(struct gw_seat *one, uint32_t first_shard, uint32_t shards)
{
    one->role = one->thread < shards ? GW_ROLE_SERVER : GW_ROLE_STANDBY;
    one->id = first_shard + one->thread;
}

int gw_roster_number_shards(struct gw_coordinator *self)
{
    struct gw_roster *roster = self->roster;
    uint32_t copies = (uint32_t)self->config->cluster.copies, next = 0;
    for (uint32_t server = 0; server < roster->servers; server++) {
        uint32_t first = next, threads = 0, found = 0;
        for (struct gw_seat *one = roster->first; one; one = one->next) {
            if (!gw_seat_has_shard(one) || one->server != server)
                continue;
            take_seat(one, first, one->threads / copies);
            threads = one->threads;
            found++;
        }
        if (found < threads)
            return 0;
        next += threads / copies;
    }
    roster->shards = next;
    return next > 0;
}

void gw_roster_set_shards(struct gw_coordinator *self, uint32_t shards)
{
    self->roster->shards = shards;
}

struct gw_seat *gw_roster_leaving(const struct gw_coordinator *self)
{
    struct gw_seat *one = self->roster->first;
    while (one && !gw_seat_leaves(one))
        one = one->next;
    return one;
}

uint32_t gw_roster_shards_of(const struct gw_coordinator *self, uint32_t server)
{
    uint32_t n = 0;
    for (const struct gw_seat *one = self->roster->first; one; one = one->next)
        n += one->role == GW_ROLE_SERVER && one->server == server &&
             one->id != GW_RANK_NONE;
    return n;
}

int gw_roster_has_left(const struct gw_coordinator *self)
{
    for (const struct gw_seat *one = self->roster->first; one; one = one->next)
        if (gw_peer_is_up(one->peer, 0))
            return 0;
    return 1;
}

void gw_roster_file_name(const struct gw_coordinator *self,
                         const struct gw_seat *who,
                         char name[GW_FILE_NAME_MAX])
{
    if (gw_seat_has_shard(who))
        gw_shard_file_name(who->id, self->roster->shards, name);
    else
        gw_worker_file_name(who->id, (uint32_t)self->config->cluster.workers,
                            name);
}
