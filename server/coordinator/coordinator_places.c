/*
 * Places of server processes that are lost, where shards have copies
 * (coordinator_copies.c), and other processes that take them:
 *
 *   open --> joining --> named --> begins
 *
 *   joining    some of its threads have joined; a process that lacks one of
 *              them, which moves (coordinator_moves.c), begins with this
 *   named      all have, and stand by for the shards that have no other copy:
 *              everybody gets to know them by views of later epochs, and shards
 *              tell where they stand
 *   begins     where shard 0 stands; their primaries send them what they have
 */
#include "config.h"

#include "server/coordinator/coordinator_members.h"

#include <stdlib.h>

#include "server/coordinator/coordinator_run.h"

struct place {
    uint32_t threads;  /* of the process that is lost; 0: none is */
    uint64_t process;  /* another one that joins; 0: none does */
    int is_of_thread;  /* none is lost: that process lacks a thread */
    uint32_t standing; /* shards that have answered the last view that names
                          its threads; */
    struct gw_decision_state state; /* of shard 0 */
};

struct gw_places {
    struct place *place; /* [cluster.servers] */
};

enum gw_status gw_places_open(struct gw_coordinator *self,
                              struct gw_error *error)
{
    struct gw_places *places = calloc(1, sizeof *places);
    self->places = places;
    if (places)
        places->place =
            calloc(self->config->cluster.servers, sizeof *places->place);
    return places && places->place
               ? GW_OK
               : gw_fail(error, GW_ENOMEM, "no memory for a coordinator");
}

void gw_places_close(struct gw_coordinator *self)
{
    if (self->places)
        free(self->places->place);
    free(self->places);
    self->places = NULL;
}

static void ask_again(struct gw_coordinator *self);

/* Perhaps of one that had taken the place of another, and not begun. */
void gw_places_lose(struct gw_coordinator *self, const struct gw_seat *who)
{
    const struct gw_coordinator_events *events = self->options.events;
    self->places->place[who->server] = (struct place){.threads = who->threads};
    ask_again(self);
    /* a launcher knows the processes of its own host */
    if (events->server_vacant &&
        (!who->pid || who->machine == self->options.machine))
        events->server_vacant(self->options.owner, who->pid,
                              who->departs && who->bye);
}

void gw_places_open_thread(struct gw_coordinator *self,
                           const struct gw_seat *who)
{
    self->places->place[who->server] = (struct place){
        .threads = who->threads, .process = who->process, .is_of_thread = 1};
    ask_again(self);
}

/* ---- another process joins ---- */

/* The place that a process has, or may have; NULL: there is none. */
static struct place *
place_for(const struct gw_coordinator *self, uint64_t process, uint32_t threads)
{
    struct place *open = NULL;
    for (uint64_t i = 0; i < self->config->cluster.servers; i++) {
        struct place *place = &self->places->place[i];
        if (place->threads != threads)
            continue;
        if (place->process == process)
            return place;
        if (!open && place->process == 0)
            open = place;
    }
    return open;
}

int gw_places_are_open(const struct gw_coordinator *self)
{
    for (uint64_t i = 0; i < self->config->cluster.servers; i++)
        if (self->places->place[i].threads > 0 &&
            !self->places->place[i].is_of_thread)
            return 1;
    return 0;
}

int gw_places_are_filling(const struct gw_coordinator *self)
{
    for (uint64_t i = 0; i < self->config->cluster.servers; i++)
        if (self->places->place[i].process)
            return 1;
    return 0;
}

/* Behind the end nobody gets copies; a process that is there ends with all of
   its threads. */
static int may_take(const struct gw_coordinator *self,
                    const struct gw_join *join)
{
    const struct place *place = place_for(self, join->process, join->threads);
    return place && (place->is_of_thread || !gw_decided_has_end(self));
}

int gw_places_may_join(const struct gw_coordinator *self,
                       const struct gw_join *join)
{
    return self->phase == GW_PHASE_RUNNING && join->role == GW_ROLE_SERVER &&
           join->threads > 0 && may_take(self, join);
}

uint32_t gw_places_number(const struct gw_coordinator *self,
                          const struct gw_join *join)
{
    const struct place *place = place_for(self, join->process, join->threads);
    return (uint32_t)(place - self->places->place);
}

/* A seat that is lost, whose number among those that are told this one gets. */
static struct gw_seat *find_lost(const struct gw_coordinator *self,
                                 const struct gw_seat *who)
{
    struct gw_seat *one = gw_roster_gone(self);
    while (one && (!one->is_lost || one->is_replaced ||
                   one->server != who->server || one->thread != who->thread))
        one = one->next;
    return one;
}

/* A thread of that process is not here, and cannot stand by for what others of
   it have. */
static int lacks_thread(const struct gw_coordinator *self, uint64_t process)
{
    for (uint64_t i = 0; i < self->config->cluster.servers; i++) {
        const struct place *place = &self->places->place[i];
        if (place->is_of_thread && place->process == process)
            return 1;
    }
    return 0;
}

/* How well a thread stands by for a shard that has one copy, which is at the
   same process at worst; 0: the shard has two. */
static int judge(const struct gw_coordinator *self,
                 const struct gw_seat *who,
                 uint32_t shard)
{
    const struct gw_seat *primary = gw_roster_find(self, GW_ROLE_SERVER, shard);
    if (gw_roster_find(self, GW_ROLE_STANDBY, shard))
        return 0;
    if (primary && primary->process == who->process)
        return 1;
    return primary && lacks_thread(self, primary->process) ? 3 : 2;
}

/* The next of the shards that need it most. */
static void give_shard(struct gw_coordinator *self, struct gw_seat *who)
{
    uint32_t best = 0;
    for (uint32_t shard = 1; shard < gw_roster_shards(self); shard++)
        if (judge(self, who, shard) > judge(self, who, best))
            best = shard;
    who->role = GW_ROLE_STANDBY;
    who->id = who->peer->id = best;
}

/* It has joined, and has not begun. */
static int is_of(const struct gw_seat *one, const struct place *place)
{
    return gw_seat_has_shard(one) && one->process == place->process &&
           one->telling.waits;
}

static uint32_t count_threads(const struct gw_coordinator *self,
                              uint64_t process)
{
    uint32_t n = 0;
    for (const struct gw_seat *one = gw_roster_first(self); one;
         one = one->next)
        n += gw_seat_has_shard(one) && one->process == process;
    return n;
}

static void name_threads(struct gw_coordinator *self, const struct place *place)
{
    for (struct gw_seat *one = gw_roster_first(self); one; one = one->next)
        if (is_of(one, place)) {
            give_shard(self, one);
            one->is_unnamed = 1;
        }
    gw_register_write(self);
}

/* The epoch of the last view that names its threads; 0: not all are named. */
static uint64_t named(const struct gw_coordinator *self,
                      const struct place *place)
{
    uint64_t last = 0;
    for (const struct gw_seat *one = gw_roster_first(self); one;
         one = one->next) {
        if (!is_of(one, place))
            continue;
        if (!one->named || one->is_unnamed)
            return 0;
        if (one->named > last)
            last = one->named;
    }
    return last;
}

void gw_places_taken(struct gw_coordinator *self, struct gw_seat *who)
{
    struct place *place = &self->places->place[who->server];
    struct gw_seat *lost = find_lost(self, who);
    place->process = who->process;
    gw_roster_place_server(self, who->server, who->process, who->threads);
    who->again = 1;
    lost->is_replaced = 1;
    gw_coordinator_tell_again(self, who, lost->telling.number);
    if (count_threads(self, place->process) == place->threads)
        name_threads(self, place);
}

/* ---- it begins ---- */

static void begin(struct gw_coordinator *self, const struct place *place)
{
    struct gw_start start = *gw_teller_start(self);
    const struct gw_seat *who = NULL;
    start.has_inner = 0;
    start.state = place->state;
    start.clocks_n = 0;
    start.again = 1;
    for (struct gw_seat *one = gw_roster_first(self); one; one = one->next)
        if (is_of(one, place)) {
            gw_coordinator_tell_begin(self, one, &start);
            who = one;
        }
    if (!place->is_of_thread)
        gw_coordinator_note(self,
                            "%s takes the place of a server, and gets copies",
                            who->peer->name);
}

void gw_places_standing(struct gw_coordinator *self,
                        const struct gw_seat *shard,
                        const struct gw_standing *standing)
{
    for (uint64_t i = 0; i < self->config->cluster.servers; i++) {
        struct place *place = &self->places->place[i];
        if (!place->process || named(self, place) != standing->epoch)
            continue;
        if (shard->id == 0)
            place->state = standing->state;
        if (++place->standing < gw_roster_shards(self))
            return;
        begin(self, place);
        *place = (struct place){.threads = 0};
        return;
    }
}

/* A shard that has not answered a view does not any more, and the standby in
   its place did not have to. */
static void ask_again(struct gw_coordinator *self)
{
    for (uint64_t i = 0; i < self->config->cluster.servers; i++) {
        struct place *place = &self->places->place[i];
        struct gw_seat *one = gw_roster_first(self);
        while (one && !is_of(one, place))
            one = one->next;
        if (!one || one->id == GW_RANK_NONE)
            continue;
        place->standing = 0;
        one->is_unnamed = 1;
    }
    gw_register_write(self);
    gw_vacant_ask_again(self);
}
