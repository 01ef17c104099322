/*
 * Processes that ask to join while another coordinator waits for the members of
 * before: a supervisor has started them in the place of some that died. They
 * are heard when the job runs, and it is known which places are open.
 */
#include "config.h"

#include "server/coordinator/coordinator_members.h"

#include <stdio.h>
#include <stdlib.h>

struct early {
    uint64_t incarnation;
    struct gw_join join; /* its texts are these: */
    char host[sizeof((struct gw_seat *)0)->host], address[GW_ADDRESSES_MAX];
    struct early *next;
};

struct gw_early {
    struct early *first;
    uint32_t n;
};

enum gw_status gw_early_open(struct gw_coordinator *self,
                             struct gw_error *error)
{
    self->early = calloc(1, sizeof *self->early);
    return self->early
               ? GW_OK
               : gw_fail(error, GW_ENOMEM, "no memory for a coordinator");
}

void gw_early_close(struct gw_coordinator *self)
{
    struct early *next, *one = self->early ? self->early->first : NULL;
    for (; one; one = next) {
        next = one->next;
        free(one);
    }
    free(self->early);
    self->early = NULL;
}

/* It has been told nothing that it could acknowledge: a mark of this login. */
static void taken(struct gw_peer *peer)
{
    (void)peer;
}

int gw_early_is_of(const struct gw_peer *peer)
{
    return peer->taken == taken;
}

int gw_early_keep(struct gw_coordinator *self,
                  struct gw_peer *peer,
                  const struct gw_join *join)
{
    struct gw_early *early = self->early;
    if (early->n == gw_config_members_max(self->config))
        return 0;
    struct early *one = calloc(1, sizeof *one);
    if (!one)
        return 0;
    one->incarnation = peer->incarnation;
    one->join = *join;
    snprintf(one->host, sizeof one->host, "%s", join->host);
    snprintf(one->address, sizeof one->address, "%s", join->address);
    one->join.host = one->host;
    one->join.address = one->address;
    one->join.cannot = "";
    one->next = early->first;
    early->first = one;
    peer->taken = taken;
    early->n++;
    return 1;
}

int gw_early_has_thread(const struct gw_coordinator *self,
                        uint64_t process,
                        uint32_t thread)
{
    const struct early *one = self->early->first;
    while (one && (one->join.role != GW_ROLE_SERVER ||
                   one->join.process != process || one->join.thread != thread))
        one = one->next;
    return one != NULL;
}

/* One that has logged in again would have to join again. */
static struct gw_peer *find_peer(const struct gw_coordinator *self,
                                 const struct early *one)
{
    struct gw_peer *peer = gw_member_peers(self->member);
    while (peer &&
           (peer->incarnation != one->incarnation || !gw_early_is_of(peer)))
        peer = gw_peer_next(peer);
    return peer;
}

void gw_early_hear(struct gw_coordinator *self)
{
    struct early *one;
    while ((one = self->early->first)) {
        struct gw_peer *peer = find_peer(self, one);
        self->early->first = one->next;
        self->early->n--;
        if (peer) {
            peer->taken = NULL;
            self->up->joined(self, peer, &one->join);
        }
        free(one);
    }
}
