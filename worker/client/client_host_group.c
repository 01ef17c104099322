/*
 * The other workers of this host that sum with us: a member of its own, with
 * the transport that can export memory. The later rank of two dials; each
 * exports the other its gradients, and lets it write its weights.
 */
#include "config.h"

#include "worker/client/client_host_group_state.h"

#include <stdio.h>
#include <stdlib.h>

/* Wherever it may, at any port. */
#define LISTEN "any:0"

/* ---- in ---- */

/* Weights of a chunk that its owner shares. */
static int is_share(const struct gw_host_group *group,
                    const struct gw_peer *peer,
                    const struct gw_frame *frame,
                    const void **device_p)
{
    uint32_t window;
    if (frame->kind != GW_FRAME_WEIGHTS || !group->client->chunk ||
        !group->ops || frame->chunk >= group->client->map->chunks ||
        gw_host_group_owner_of(group, frame->chunk) != peer)
        return 0;
    *device_p = group->ops->given(peer->owner, &window);
    return frame->window == window;
}

static void on_frame(void *owner,
                     struct gw_peer *peer,
                     unsigned link,
                     const struct gw_frame *frame,
                     const void *payload)
{
    struct gw_host_group *group = owner;
    const void *device;
    if (frame->kind == GW_FRAME_PARTS)
        gw_host_group_sum_parts(group, peer->owner, frame, payload);
    else if (is_share(group, peer, frame, &device))
        gw_client_given(group->client, peer, frame, device);
    else
        gw_peer_reject_frame(peer, link, frame);
}

static void
on_message(void *owner, struct gw_peer *peer, const struct gw_message *message)
{
    struct gw_host_group *group = owner;
    struct gw_group_peer *from = peer->owner;
    const struct gw_window_open *window = &message->window;
    uint64_t bytes = window->kind == GW_FRAME_WEIGHTS
                         ? gw_client_landing_bytes(
                               group->client, gw_client_encoding(group->client))
                         : group->client->map->arena_bytes;
    int sight = message->kind == GW_MESSAGE_SIGHT &&
                gw_host_group_got_sight(group, from, &message->sight) == GW_OK;
    if (!sight &&
        (message->kind != GW_MESSAGE_WINDOW || window->bytes != bytes)) {
        gw_peer_reject(peer, GW_HOST_GROUP_LINK,
                       "message that a worker of the host group does not send");
        return;
    }
    if (!sight && window->kind == GW_FRAME_PARTS)
        from->gradients = window->id;
    else if (!sight && window->kind == GW_FRAME_WEIGHTS)
        from->weights = window->id;
    if (gw_host_group_is_whole(group))
        gw_host_group_sum_recheck(group);
}

/* ---- members come and go ---- */

static enum gw_status open_windows(struct gw_host_group *group,
                                   struct gw_group_peer *who,
                                   struct gw_peer *peer)
{
    struct gw_client *client = group->client;
    enum gw_encoding encoding = gw_client_encoding(client);
    uint64_t bytes = client->map->arena_bytes;
    uint64_t landing = gw_client_landing_bytes(client, encoding);
    enum gw_status status =
        gw_window_open(&peer->windows, GW_FRAME_PARTS,
                       gw_client_gradients(client), bytes, &who->own_gradients);
    if (status == GW_OK)
        status = gw_window_open(&peer->windows, GW_FRAME_WEIGHTS,
                                gw_client_landing(client, encoding, 0), landing,
                                &who->own_weights);
    if (status != GW_OK)
        return status;
    who->peer = peer;
    peer->owner = who;
    peer->id = who->rank;
    snprintf(peer->name, sizeof peer->name, "worker %u (%.60s)", who->rank,
             who->host);
    struct gw_message message = {
        .kind = GW_MESSAGE_WINDOW,
        .window = {GW_FRAME_PARTS, who->own_gradients, bytes, 0}};
    gw_client_tell(client, peer, &message);
    message.window =
        (struct gw_window_open){GW_FRAME_WEIGHTS, who->own_weights, landing, 0};
    gw_client_tell(client, peer, &message);
    gw_host_group_tell_words(group, who);
    return GW_OK;
}

static enum gw_status admit(void *owner,
                            struct gw_peer *peer,
                            const struct gw_hello *hello,
                            char *why,
                            size_t why_bytes)
{
    struct gw_host_group *group = owner;
    struct gw_group_peer *who = gw_host_group_peer(group, hello->rank);
    if (!group->attached) {
        snprintf(why, why_bytes, "not ready yet");
        return GW_EAGAIN;
    }
    if (hello->role != GW_ROLE_WORKER ||
        !gw_group_has(group->ranks, hello->rank) ||
        hello->rank <= group->client->job->rank || who->peer ||
        who->incarnation != hello->incarnation || !who->has_secret) {
        snprintf(why, why_bytes, "not in the host group of this worker");
        return GW_EREFUSED;
    }
    enum gw_status status =
        gw_peer_admit(peer, hello, &who->secret, why, why_bytes);
    return status == GW_OK ? open_windows(group, who, peer) : status;
}

static void link_up(void *owner, struct gw_peer *peer, unsigned link)
{
    struct gw_host_group *group = owner;
    struct gw_client *client = group->client;
    struct gw_group_peer *who = peer->owner;
    enum gw_status status = gw_peer_export(peer, link, who->own_gradients);
    if (status == GW_EUNSUPPORTED && !client->job->payload_free) {
        gw_client_fail(client, status,
                       "cannot show %s the gradients, which are not in shared "
                       "memory here; set cluster.local_reduction = \"off\"",
                       peer->name);
        return;
    }
    gw_host_group_sum_link_up(group, who);
}

/* Shares that were sent over that link may be lost. */
static void link_down(void *owner,
                      struct gw_peer *peer,
                      unsigned link,
                      enum gw_status status,
                      const char *why)
{
    struct gw_host_group *group = owner;
    struct gw_client *client = group->client;
    const struct gw_group_peer *who = peer->owner;
    gw_metrics_add(client->metrics, GW_METRIC_RECONNECTS, 1);
    gw_host_group_sum_link_down(group, who);
    if (status == GW_EPROTO)
        gw_client_tell_fault(client, peer, why);
    else if (!gw_client_is_over(client))
        gw_log_limited(client->log, &client->limit, GW_LOG_INFO,
                       "connection %u to %s broke: %s (%s)", link, peer->name,
                       why, gw_status_text(status));
}

static void
lost(void *owner, struct gw_peer *peer, enum gw_status status, const char *why)
{
    struct gw_client *client = ((struct gw_host_group *)owner)->client;
    /* the coordinator tells of its death */
    if (status == GW_ETIMEOUT)
        gw_log_info(client->log, "%s: silent for %.1f s", peer->name,
                    (double)gw_peer_silent_us(peer) / 1e6);
    else if (!peer->was_up)
        gw_client_fail(client, status,
                       "cannot sum with %s, which is of this host: %s; set "
                       "cluster.local_reduction = \"off\"",
                       peer->name, why);
    else
        gw_client_fail(client, status, "%s: %s", peer->name, why);
}

static void starves(void *owner, const char *why)
{
    const struct gw_host_group *group = owner;
    gw_client_fail(
        group->client, GW_ENOMEM,
        "%s, for %d s: no link to workers of this host can be opened", why,
        GW_MEMBER_STARVES_US / 1000000);
}

static void stuck(void *owner, struct gw_peer *peer, const char *text)
{
    gw_client_stuck(((struct gw_host_group *)owner)->client, peer, text);
}

static const struct gw_member_handler handler = {
    .admit = admit,
    .link_up = link_up,
    .message = on_message,
    .frame = on_frame,
    .link_down = link_down,
    .lost = lost,
    .starves = starves,
    .stuck = stuck,
};

int gw_host_group_is_whole(const struct gw_host_group *group)
{
    for (uint32_t i = 0; group && i < group->ranks.n; i++) {
        const struct gw_group_peer *who =
            &group->peers[(group->ranks.first + i) % GW_GROUP_MAX];
        if (group->ranks.first + i != group->client->job->rank &&
            (who->gradients == GW_WINDOW_NONE ||
             who->weights == GW_WINDOW_NONE))
            return 0;
    }
    return !group || group->ranks.n == 1 || group->ops;
}

/* ---- opening and closing ---- */

enum gw_status gw_host_group_open(struct gw_client *client,
                                  struct gw_host_group **group_p,
                                  struct gw_error *error)
{
    const struct gw_client_options *options = &client->options;
    struct gw_error why;
    *group_p = NULL;
    if (!options->host_group)
        return GW_OK;
    struct gw_host_group *group = calloc(1, sizeof *group);
    if (!group)
        return gw_fail(error, GW_ENOMEM, "no memory for the host group");
    group->client = client;
    group->ranks = (struct gw_group){.n = 1};
    const struct gw_member_options member = {
        .loop = options->loop,
        .transport = options->host_group,
        .transport_config = {.interface = ""},
        .role = GW_ROLE_WORKER,
        .rank = GW_RANK_NONE,
        .incarnation = gw_member_incarnation(client->member),
        .secret = gw_member_secret(client->member),
        .join_us = options->join_us,
        .quiet = 1,
        .handler = &handler,
        .owner = group,
    };
    enum gw_status status = gw_member_open(&member, &group->member, &why);
    if (status == GW_OK)
        status = gw_member_listen(group->member, LISTEN, &why);
    if (status != GW_OK) {
        gw_log_info(client->log, "sums nothing with others: %s", why.text);
        gw_host_group_close(group);
        return GW_OK;
    }
    *group_p = group;
    return GW_OK;
}

void gw_host_group_close(struct gw_host_group *group)
{
    if (!group)
        return;
    if (group->member)
        gw_member_close(group->member);
    gw_host_group_release(group);
    gw_host_group_sum_close(group);
    free(group);
}

const char *gw_host_group_address(const struct gw_host_group *group)
{
    return group ? gw_member_address(group->member) : "";
}

void gw_host_group_view(struct gw_host_group *group,
                        const struct gw_view_member *member)
{
    uint32_t own = group->client->job->rank;
    if (member->id / GW_GROUP_MAX != own / GW_GROUP_MAX)
        return;
    struct gw_group_peer *who = gw_host_group_peer(group, member->id);
    who->rank = member->id;
    who->incarnation = member->incarnation;
    who->has_secret = member->has_secret;
    who->secret = member->secret;
    snprintf(who->address, sizeof who->address, "%s", member->address);
    snprintf(who->host, sizeof who->host, "%s", member->host);
}

enum gw_status gw_host_group_start(struct gw_host_group *group,
                                   const struct gw_start *start)
{
    struct gw_client *client = group->client;
    if (!gw_groups_are_valid(start->groups, start->groups_n,
                             client->job->ranks))
        return GW_EPROTO;
    group->ranks =
        gw_group_of(start->groups, start->groups_n, client->job->rank);
    client->group_ranks = group->ranks.n;
    gw_member_set_rank(group->member, client->job->rank);
    if (start->silence_us)
        gw_member_set_silence(group->member, start->silence_us);
    for (uint32_t i = 0; i < group->ranks.n; i++)
        if (!gw_host_group_peer(group, group->ranks.first + i)->incarnation)
            return GW_EPROTO;
    return GW_OK;
}

/* The later one of two dials, so that they meet once. */
static enum gw_status dial(struct gw_host_group *group,
                           struct gw_group_peer *who,
                           struct gw_error *error)
{
    struct gw_peer *peer;
    enum gw_status status =
        gw_member_dial(group->member, who->address, GW_ROLE_WORKER,
                       who->incarnation, 1, who, &peer, error);
    if (status == GW_OK) {
        status = open_windows(group, who, peer);
        if (status != GW_OK)
            gw_fail(error, status, "no memory for windows");
    }
    return status;
}

enum gw_status gw_host_group_connect(struct gw_host_group *group,
                                     const struct gw_client_arenas *arenas,
                                     const struct gw_device_arenas *device,
                                     struct gw_error *error)
{
    enum gw_status status = GW_OK;
    group->device = device && device->exported ? device : NULL;
    if (gw_host_group_sum_open(group) != GW_OK)
        return gw_fail(error, GW_ENOMEM, "no memory for sums");
    gw_member_register_memory(
        group->member, gw_client_encoding(group->client) == GW_ENCODING_RAW
                           ? &arenas->weights
                           : &arenas->bf16);
    gw_member_register_memory(group->member, &arenas->gradients);
    group->attached = 1;
    for (uint32_t rank = group->ranks.first;
         status == GW_OK && rank < group->client->job->rank; rank++)
        status = dial(group, gw_host_group_peer(group, rank), error);
    return status;
}
