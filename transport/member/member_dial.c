/*
 * Reports failed dials to the owner of a member: where to, and why, early
 * enough for people not to wonder.
 */
#include "config.h"

#include "transport/member/member_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Within a second, but not while others only begin to listen. */
#define STUCK_US 800000

/* Minimum time between two reports. */
#define AGAIN_US 5000000

void gw_member_stuck_unheard(void *owner,
                             struct gw_peer *peer,
                             const char *text)
{
    (void)owner;
    (void)peer;
    (void)text;
}

/* NULL: no memory; the report is left out. */
static struct gw_peer_dial *dial_of(struct gw_peer *peer)
{
    if (!peer->dial)
        peer->dial = calloc(1, sizeof *peer->dial);
    return peer->dial;
}

static void note(struct gw_peer_link *slot, const char *why)
{
    struct gw_peer *peer = slot->peer;
    char text[GW_ERROR_TEXT_BYTES];
    const struct gw_peer_route *route =
        gw_peer_route_of(slot, slot->moves, NULL);
    int known = strstr(peer->name, route->address) != NULL;
    snprintf(text, sizeof text, "cannot reach %s%s%.100s: %.260s", peer->name,
             known ? "" : " at ", known ? "" : route->address, why);
    if (strcmp(text, peer->dial->text) == 0)
        return;
    strcpy(peer->dial->text, text);
    peer->dial->news = 1;
}

void gw_peer_dial_failed(struct gw_peer_link *slot,
                         enum gw_status status,
                         const char *why)
{
    struct gw_peer_dial *dial = dial_of(slot->peer);
    if (!dial)
        return;
    dial->status = status;
    note(slot, why);
}

static struct gw_peer_link *first_down(struct gw_peer *peer)
{
    for (unsigned i = 0; i < peer->links; i++)
        if (!gw_peer_is_up(peer, i))
            return &peer->link[i];
    return NULL;
}

static void come_back(struct gw_peer *peer)
{
    int told = peer->dial && peer->dial->told_us;
    free(peer->dial);
    peer->dial = NULL;
    peer->stuck_us = 0;
    if (told)
        peer->member->handler->stuck(peer->member->owner, peer, "");
}

void gw_peer_watch_dials(struct gw_peer *peer, uint64_t now)
{
    struct gw_peer_link *slot =
        peer->opener && !peer->rests ? first_down(peer) : NULL;
    if (!slot) {
        if (peer->stuck_us)
            come_back(peer);
        return;
    }
    if (!peer->stuck_us)
        peer->stuck_us = now;
    if (now - peer->stuck_us < STUCK_US)
        return;
    struct gw_peer_dial *dial = dial_of(peer);
    if (!dial || dial->status == GW_EAGAIN)
        return;
    if (!dial->text[0])
        note(slot, "no answer yet");
    if (!dial->news || (dial->told_us && now - dial->told_us < AGAIN_US))
        return;
    dial->news = 0;
    dial->told_us = now;
    peer->member->handler->stuck(peer->member->owner, peer, dial->text);
}
