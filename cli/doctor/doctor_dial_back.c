/*
 * Tests whether a peer reaches this host: the peer is asked to dial the
 * port where a coordinator of the job would listen. Nothing else can be known
 * of a firewall without judging its rules.
 */
#include "config.h"

#include "cli/doctor/doctor.h"
#include "cli/doctor/doctor_wire.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transport/member/place.h"

struct gw_doctor_dial_back {
    struct gw_transport *transport;
    struct gw_listener *listener;
    struct gw_acceptor acceptor;
    const char *peer;
    int inside; /* the dial came from this host itself */
};

static const char *address_of(const struct gw_doctor_dial_back *dial_back)
{
    return dial_back->transport->ops->listener_address(dial_back->listener);
}

/* Compares the hosts of two HOST:PORT. */
static int is_same_host(const char *a, const char *b)
{
    size_t bytes = (size_t)(strrchr(a, ':') - a);
    return strncmp(a, b, bytes) == 0 && b[bytes] == ':';
}

/* ---- the link that was dialed back ---- */

static void on_up(struct gw_link *link, const struct gw_reply *reply)
{
    (void)link, (void)reply; /* the opener closes */
}

static void on_frame(struct gw_link *link,
                     const struct gw_frame *frame,
                     const void *payload)
{
    (void)frame, (void)payload;
    gw_link_close(link); /* the opener sends nothing */
}

static void
on_down(struct gw_link *link, enum gw_status status, const char *why)
{
    (void)link, (void)status, (void)why;
}

static const struct gw_link_handler handler = {
    .up = on_up, .frame = on_frame, .down = on_down};

static enum gw_status judge(struct gw_acceptor *acceptor,
                            struct gw_link *link,
                            const struct gw_hello *hello,
                            struct gw_reply *reply)
{
    if (hello->role != GW_ROLE_OBSERVER || hello->job != GW_DOCTOR_JOB) {
        snprintf(reply->reason, sizeof reply->reason,
                 "this is gradweir doctor --peer, and no job");
        return GW_EREFUSED;
    }
    struct gw_doctor_dial_back *dial_back = acceptor->owner;
    dial_back->inside = is_same_host(link->remote, address_of(dial_back));
    link->handler = &handler;
    link->owner = dial_back;
    reply->job = hello->job;
    return GW_OK;
}

/* ---- address ---- */

/* The source address of packets to the peer, with the job's port. */
static enum gw_status choose_address(const struct gw_doctor *doctor,
                                     const char *peer,
                                     char *address,
                                     size_t room,
                                     struct gw_error *error)
{
    char own[GW_HOST_ADDRESS_MAX];
    enum gw_status status = gw_host_towards(peer, own, error);
    if (status != GW_OK)
        return status;
    snprintf(address, room, "%s:%" PRIu64, own, doctor->config->cluster.port);
    return gw_place_guard(doctor->config, address, error);
}

struct gw_doctor_dial_back *
gw_doctor_dial_back_open(const struct gw_doctor *doctor,
                         const char *peer,
                         struct gw_transport *transport,
                         struct gw_doctor_seen *seen)
{
    char address[GW_ADDRESS_MAX + 24];
    struct gw_error error;
    struct gw_doctor_dial_back *dial_back = calloc(1, sizeof *dial_back);
    enum gw_status status =
        dial_back
            ? choose_address(doctor, peer, address, sizeof address, &error)
            : gw_fail(&error, GW_ENOMEM, "no memory to listen");
    if (status == GW_OK) {
        dial_back->transport = transport;
        dial_back->peer = peer;
        dial_back->acceptor =
            (struct gw_acceptor){.judge = judge, .owner = dial_back};
        status =
            transport->ops->listen(transport, address, &dial_back->acceptor,
                                   &dial_back->listener, &error);
    }
    if (status == GW_OK)
        return dial_back;
    free(dial_back);
    seen->dialed_back = GW_VERDICT_UNKNOWN;
    snprintf(seen->dial_back, sizeof seen->dial_back,
             "%.100s was not asked to knock here: %.380s", peer, error.text);
    return NULL;
}

uint16_t gw_doctor_dial_back_port(const struct gw_doctor_dial_back *dial_back)
{
    return (uint16_t)atoi(strrchr(address_of(dial_back), ':') + 1);
}

void gw_doctor_dial_back_judge(const struct gw_doctor_dial_back *dial_back,
                               const char *said,
                               struct gw_doctor_seen *seen)
{
    char *text = seen->dial_back;
    if (!said) {
        seen->dialed_back = GW_VERDICT_UNKNOWN;
        snprintf(text, sizeof seen->dial_back,
                 "whether %s reaches this host it did not say: an older "
                 "gradweir doctor --serve",
                 dial_back->peer);
    } else if (dial_back->inside) {
        seen->dialed_back = GW_VERDICT_UNKNOWN;
        snprintf(text, sizeof seen->dial_back,
                 "%s is this host itself, before which no firewall stands",
                 dial_back->peer);
    } else if (strcmp(said, GW_DOCTOR_REACHED) == 0) {
        seen->dialed_back = GW_VERDICT_OK;
        snprintf(text, sizeof seen->dial_back,
                 "%s reached %s here over tcp, a port that was free; of other "
                 "ports nothing is known",
                 dial_back->peer, address_of(dial_back));
    } else {
        seen->dialed_back = GW_VERDICT_FIX;
        snprintf(text, sizeof seen->dial_back,
                 "%s did not reach %s here over tcp: %.120s; if a coordinator "
                 "or server is to run here, let the firewall of this host and "
                 "those between pass it (nft list ruleset, iptables -S INPUT)",
                 dial_back->peer, address_of(dial_back), said);
    }
}

void gw_doctor_dial_back_close(struct gw_doctor_dial_back *dial_back)
{
    dial_back->transport->ops->close_listener(dial_back->listener);
    free(dial_back);
}
