/*
 * Members of the register that do not come back to another coordinator. A
 * worker's rank is vacant then. A server's shards are at their standbys, where
 * all of them have caught up and are back, as if it had died while the job ran;
 * else the job ends.
 */
#include "config.h"

#include "server/coordinator/coordinator_members.h"

#include <stdio.h>
#include <stdlib.h>

#include "server/coordinator/coordinator_end.h"

/* What is known of a member. */
enum {
    MAY_COME,
    GONE, /* its process is, or its link is down again */
    LEFT  /* others have its part */
};

struct gw_missing {
    uint8_t *state; /* [members] of the register */
    enum gw_missing_wait wait;
};

enum gw_status gw_missing_open(struct gw_coordinator *self,
                               struct gw_error *error)
{
    const struct gw_membership *before = gw_before(self);
    self->missing = calloc(1, sizeof *self->missing);
    if (self->missing && before)
        self->missing->state = calloc(before->members, 1);
    return self->missing && (!before || self->missing->state)
               ? GW_OK
               : gw_fail(error, GW_ENOMEM, "no memory for a coordinator");
}

void gw_missing_close(struct gw_coordinator *self)
{
    if (self->missing)
        free(self->missing->state);
    free(self->missing);
    self->missing = NULL;
}

void gw_missing_set_wait(struct gw_coordinator *self, enum gw_missing_wait wait)
{
    self->missing->wait = wait;
}

enum gw_missing_wait gw_missing_wait(const struct gw_coordinator *self)
{
    return self->missing->wait;
}

/* ---- who is back ---- */

static int has_shard(const struct gw_membership_member *one)
{
    return gw_role_has_shard(one->role);
}

static int is_back(const struct gw_coordinator *self,
                   const struct gw_membership_member *one)
{
    const struct gw_seat *who = gw_roster_first(self);
    while (who && who->incarnation != one->incarnation)
        who = who->next;
    return who && (one->role != GW_ROLE_WORKER || who->declared);
}

/* Its thread moved (coordinator_moves.c), and is here as another member. */
static int is_another(const struct gw_coordinator *self,
                      const struct gw_membership_member *one)
{
    const struct gw_seat *beside = gw_roster_thread(self, one->server);
    return has_shard(one) && !is_back(self, one) && beside &&
           gw_early_has_thread(self, beside->process, one->thread);
}

/* All threads of the server that have a shard are back, or may come where that
   counts, too. */
static int
is_whole(const struct gw_coordinator *self, uint32_t server, int may_come)
{
    const struct gw_membership *before = gw_before(self);
    const struct gw_missing *missing = self->missing;
    uint32_t n = 0;
    for (size_t i = 0; i < before->members; i++) {
        const struct gw_membership_member *one = &before->member[i];
        if (!has_shard(one) || one->server != server || is_another(self, one))
            continue;
        if (!is_back(self, one) && (!may_come || missing->state[i] ||
                                    missing->wait == GW_WAIT_FOR_NOBODY))
            return 0;
        n++;
    }
    return n > 0;
}

/* ---- who is not ---- */

/* Without that one nothing is lost: a standby is a copy of its primary if it
   has caught up, and a primary is one in any case. */
static int is_copy_of(const struct gw_membership_member *other,
                      const struct gw_membership_member *one)
{
    return has_shard(one) && has_shard(other) && one->id == other->id &&
           one->role != other->role && one->server != other->server &&
           (one->role == GW_ROLE_STANDBY || other->caught);
}

static int has_other_copy(const struct gw_coordinator *self,
                          const struct gw_membership_member *one,
                          int may_come)
{
    const struct gw_membership *before = gw_before(self);
    for (size_t i = 0; i < before->members; i++) {
        const struct gw_membership_member *other = &before->member[i];
        if (is_copy_of(other, one) && is_whole(self, other->server, may_come))
            return 1;
    }
    return 0;
}

/* All that the server has is at servers that are back, or may come. */
static int
can_be_spared(const struct gw_coordinator *self, uint32_t server, int may_come)
{
    const struct gw_membership *before = gw_before(self);
    for (size_t i = 0; i < before->members; i++) {
        const struct gw_membership_member *one = &before->member[i];
        if (has_shard(one) && one->server == server &&
            !has_other_copy(self, one, may_come))
            return 0;
    }
    return self->config->cluster.copies > 1;
}

static int is_given_up(const struct gw_coordinator *self, size_t i)
{
    const struct gw_missing *missing = self->missing;
    const struct gw_membership_member *one = &gw_before(self)->member[i];
    if (missing->state[i] || missing->wait == GW_WAIT_FOR_NOBODY ||
        is_another(self, one))
        return 1;
    return missing->wait == GW_WAIT_FOR_NEEDED &&
           (!has_shard(one) || can_be_spared(self, one->server, 0));
}

const struct gw_membership_member *
gw_missing_awaited(const struct gw_coordinator *self, int even_given_up)
{
    const struct gw_membership *before = gw_before(self);
    const struct gw_membership_member *found = NULL;
    for (size_t i = 0; i < before->members; i++)
        if ((!found || !has_shard(found)) &&
            !is_back(self, &before->member[i]) &&
            (even_given_up || !is_given_up(self, i)))
            found = &before->member[i];
    return found;
}

/* The job goes on where it does not come back, nor any other thread of its
   server, but for one that moved. */
static int is_needed(const struct gw_coordinator *self,
                     const struct gw_membership_member *one)
{
    return is_another(self, one) ? !has_other_copy(self, one, 1)
                                 : !can_be_spared(self, one->server, 1);
}

/* Threads of a server are beside each other, and one speaks for all. */
const struct gw_membership_member *
gw_missing_needed(const struct gw_coordinator *self)
{
    const struct gw_membership *before = gw_before(self);
    const struct gw_membership_member *spared = NULL;
    for (size_t i = 0; i < before->members; i++) {
        const struct gw_membership_member *one = &before->member[i];
        if (!has_shard(one) || (spared && spared->server == one->server) ||
            !is_given_up(self, i) || is_back(self, one))
            continue;
        if (is_needed(self, one))
            return one;
        if (!is_another(self, one))
            spared = one;
    }
    return NULL;
}

static void note_gone(struct gw_missing *missing, size_t i)
{
    if (missing->state[i] == MAY_COME)
        missing->state[i] = GONE;
}

int gw_missing_has_gone(struct gw_coordinator *self, uint32_t pid)
{
    const struct gw_membership *before = gw_before(self);
    int found = 0;
    for (size_t i = 0; before && i < before->members; i++)
        if (before->member[i].pid == pid &&
            before->member[i].machine == self->options.machine) {
            note_gone(self->missing, i);
            found = 1;
        }
    return found;
}

int gw_missing_asked_for(struct gw_coordinator *self, uint32_t rank)
{
    const struct gw_membership *before = gw_before(self);
    for (size_t i = 0; i < before->members; i++) {
        const struct gw_membership_member *one = &before->member[i];
        if (has_shard(one) || one->id != rank || is_back(self, one))
            continue;
        note_gone(self->missing, i);
        return 1;
    }
    return 0;
}

/* A server goes with all of its threads. */
void gw_missing_lost(struct gw_coordinator *self, const struct gw_seat *who)
{
    const struct gw_membership *before = gw_before(self);
    for (size_t i = 0; i < before->members; i++) {
        const struct gw_membership_member *one = &before->member[i];
        if (one->incarnation == who->incarnation ||
            (gw_seat_has_shard(who) && has_shard(one) &&
             one->server == who->server))
            note_gone(self->missing, i);
    }
}

/* ---- the job goes on without them ---- */

int gw_missing_is_left(const struct gw_coordinator *self, uint64_t incarnation)
{
    const struct gw_membership *before = gw_before(self);
    size_t i = 0;
    while (i < before->members && before->member[i].incarnation != incarnation)
        i++;
    return i < before->members && self->missing->state[i] == LEFT;
}

/* Threads that are back belong to a process that others have given up. */
static void leave_server(struct gw_coordinator *self, uint32_t server)
{
    const struct gw_membership *before = gw_before(self);
    for (size_t i = 0; i < before->members; i++)
        if (has_shard(&before->member[i]) && before->member[i].server == server)
            self->missing->state[i] = LEFT;
    struct gw_seat *one;
    while ((one = gw_roster_thread(self, server))) {
        gw_seat_close(self, one);
        one->is_lost = one->is_replaced = 1; /* others get its number */
    }
}

void gw_missing_leave(struct gw_coordinator *self)
{
    const struct gw_membership *before = gw_before(self);
    uint32_t shards = 0;
    for (uint32_t server = 0; server < before->servers; server++)
        if (!is_whole(self, server, 0)) {
            leave_server(self, server);
            gw_roster_place_server(self, server, 0, before->threads[server]);
        }
    for (size_t i = 0; i < before->members; i++) {
        const struct gw_membership_member *one = &before->member[i];
        struct gw_seat *standby =
            gw_roster_find(self, GW_ROLE_STANDBY, one->id);
        if (one->role != GW_ROLE_SERVER)
            continue;
        shards++;
        if (standby && !is_back(self, one))
            gw_seat_lead(standby);
    }
    gw_roster_set_shards(self, shards);
}

/* ---- their seats ---- */

static const struct gw_membership_member *
find_member(const struct gw_coordinator *self, int is_shard, uint32_t number)
{
    const struct gw_membership *before = gw_before(self);
    for (size_t i = 0; i < before->members; i++) {
        const struct gw_membership_member *one = &before->member[i];
        if (has_shard(one) == is_shard &&
            (is_shard ? one->server : one->id) == number)
            return one;
    }
    return NULL;
}

/* NULL: there is no memory. */
static struct gw_seat *make_seat(const struct gw_membership_member *one)
{
    struct gw_seat *who = calloc(1, sizeof *who);
    if (!who)
        return NULL;
    if (one) {
        who->pid = one->pid;
        who->incarnation = one->incarnation;
        who->machine = one->machine;
        snprintf(who->host, sizeof who->host, "%s", one->host);
    }
    return who;
}

static int make_worker(struct gw_coordinator *self, uint32_t rank)
{
    struct gw_seat *who = make_seat(find_member(self, 0, rank));
    if (!who)
        return 0;
    who->role = GW_ROLE_WORKER;
    who->id = rank;
    gw_roster_add(self, who);
    return 1;
}

static const struct gw_seat *
find_thread(const struct gw_coordinator *self, uint32_t server, uint32_t thread)
{
    const struct gw_seat *one = gw_roster_first(self);
    while (one && (!gw_seat_has_shard(one) || one->server != server ||
                   one->thread != thread))
        one = one->next;
    return one;
}

/* One that moved may be missing alone. */
static int make_server(struct gw_coordinator *self, uint32_t server)
{
    uint32_t threads = gw_before(self)->threads[server];
    const struct gw_seat *other = gw_roster_thread(self, server);
    uint64_t process = other ? other->process : 0;
    for (uint32_t thread = 0; thread < threads; thread++) {
        if (find_thread(self, server, thread))
            continue;
        struct gw_seat *who = make_seat(find_member(self, 1, server));
        if (!who)
            return 0;
        who->process = process;
        who->role = GW_ROLE_STANDBY;
        who->id = GW_RANK_NONE;
        who->server = server;
        who->threads = threads;
        who->thread = thread;
        who->is_lost = 1;
        gw_roster_add(self, who);
    }
    return 1;
}

enum gw_status gw_missing_make_seats(struct gw_coordinator *self)
{
    const struct gw_membership *before = gw_before(self);
    for (uint32_t rank = 0; rank < self->config->cluster.workers; rank++)
        if (!gw_roster_find(self, GW_ROLE_WORKER, rank) &&
            !make_worker(self, rank))
            return GW_ENOMEM;
    for (uint32_t server = 0; server < before->servers; server++)
        if (!make_server(self, server))
            return GW_ENOMEM;
    return GW_OK;
}

/* ---- the seats are empty ---- */

static void open_place(struct gw_coordinator *self, struct gw_seat *who)
{
    char name[GW_PEER_NAME_MAX];
    gw_roster_remove(self, who);
    if (who->process) {
        gw_places_open_thread(self, who);
        return;
    }
    if (who->thread > 0)
        return;
    gw_roster_print(who, name);
    if (who->incarnation)
        gw_coordinator_note(self,
                            "%s died while the job had no coordinator; what "
                            "it had is at other servers, and nothing is lost",
                            name);
    gw_places_lose(self, who);
}

/* 0: the job ends for it, with that text. */
static int open_rank(struct gw_coordinator *self,
                     struct gw_seat *who,
                     char text[GW_ERROR_TEXT_BYTES])
{
    char name[GW_PEER_NAME_MAX];
    gw_roster_print(who, name);
    if (who->incarnation)
        snprintf(text, GW_ERROR_TEXT_BYTES,
                 "%s died while the job had no coordinator", name);
    else /* as it was before the coordinator died */
        snprintf(text, GW_ERROR_TEXT_BYTES, "rank %u has no worker", who->id);
    return gw_vacant_make(self, who, text);
}

void gw_missing_drop_seats(struct gw_coordinator *self)
{
    for (struct gw_seat *next, *one = gw_roster_first(self); one; one = next) {
        next = one->next;
        if (!one->peer)
            gw_roster_remove(self, one);
    }
}

int gw_missing_open_places(struct gw_coordinator *self)
{
    char text[GW_ERROR_TEXT_BYTES];
    for (struct gw_seat *next, *one = gw_roster_first(self); one; one = next) {
        next = one->next;
        if (!one->peer && one->is_lost) {
            open_place(self, one);
        } else if (!one->peer && !open_rank(self, one, text)) {
            gw_missing_drop_seats(self);
            gw_coordinator_end_and_look(self, GW_EDEAD, "%s", text);
            return 0;
        }
    }
    return 1;
}
