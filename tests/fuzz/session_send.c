/* Members on bare links, that send any frame, for session_world.c. */
#include "config.h"

#include "tests/fuzz/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"

#define PAYLOAD_BYTES ((size_t)70000)
#define LIVE_BYTES    ((size_t)4 << 20) /* of frames that are on their way */

static void sender_up(struct gw_link *link, const struct gw_reply *reply)
{
    struct session_sender *sender = link->owner;
    (void)reply;
    sender->up = 1;
    link->ops->export(link, sender->weights); /* if it is near */
}

static void sender_down(struct gw_link *link, enum gw_status s, const char *why)
{
    struct session_sender *sender = link->owner;
    snprintf(sender->why, sizeof sender->why, "%s: %s", gw_status_text(s), why);
    sender->link = NULL;
    sender->up = 0;
}

static void sender_frame(struct gw_link *link,
                         const struct gw_frame *frame,
                         const void *payload)
{
    struct session_sender *sender = link->owner;
    struct session_world *world = sender->world;
    struct gw_message message;
    if (frame->kind != GW_FRAME_CONTROL)
        return;
    FUZZ_PROMISE(gw_message_decode(payload, frame->length, &world->decode,
                                   &message) == GW_OK);
    if (message.kind != GW_MESSAGE_WINDOW)
        return;
    if (message.window.kind == GW_FRAME_PUSH)
        sender->landing = message.window.id;
    else
        sender->seeds = message.window.id;
}

static const struct gw_link_handler sender_handler = {
    .up = sender_up, .frame = sender_frame, .down = sender_down};

void session_dial(struct session_sender *sender)
{
    struct session_world *world = sender->world;
    struct gw_error error;
    struct gw_hello hello = {
        .role = sender->role,
        .links = 1,
        .generation = ++sender->generation,
        .rank = sender->rank,
        .job = SESSION_JOB,
        .incarnation = SESSION_INCARNATION + (uint64_t)(sender - world->sender),
        .expects = world->server_incarnation,
        .version = PACKAGE_VERSION,
    };
    FUZZ_PROMISE(gw_hello_prove(&hello, &session_pair) == GW_OK);
    if (sender->link)
        gw_link_close(sender->link);
    sender->up = 0;
    sender->link = NULL;
    world->transport->ops->dial(world->transport, world->server_address, &hello,
                                &sender_handler, sender, &sender->windows,
                                &sender->link, &error);
}

struct sending {
    struct gw_send send;
    struct session_world *world;
    size_t bytes;
    uint8_t payload[];
};

static void on_sent(struct gw_send *send, enum gw_status status)
{
    struct sending *sending = send->owner;
    (void)status; /* what is lost is lost */
    sending->world->live -= sending->bytes;
    free(sending);
}

/* NULL: there is no memory, or no transport lets it through. */
static struct sending *make_sending(struct session_world *world,
                                    const struct gw_frame *frame,
                                    const uint8_t *payload,
                                    size_t n)
{
    uint8_t bytes[GW_FRAME_BYTES];
    struct gw_frame read;
    if (frame->length > PAYLOAD_BYTES || world->live > LIVE_BYTES)
        return NULL;
    gw_frame_encode(frame, bytes);
    if (gw_frame_decode(bytes, &read) != GW_OK)
        return NULL;
    struct sending *sending = calloc(1, sizeof *sending + frame->length);
    if (!sending)
        return NULL;
    sending->world = world;
    sending->bytes = sizeof *sending + frame->length;
    world->live += sending->bytes;
    for (size_t i = 0; n > 0 && i < frame->length; i++)
        sending->payload[i] = payload[i % n];
    sending->send = (struct gw_send){.frame = read,
                                     .payload = sending->payload,
                                     .done = on_sent,
                                     .owner = sending};
    return sending;
}

void session_send(struct session_sender *sender,
                  const struct gw_frame *frame,
                  const uint8_t *payload,
                  size_t n)
{
    struct sending *sending =
        sender->link && sender->up
            ? make_sending(sender->world, frame, payload, n)
            : NULL;
    if (sending)
        gw_link_send(sender->link, &sending->send);
}

void session_lead_frame(struct session_world *world,
                        const struct gw_frame *frame,
                        const uint8_t *payload,
                        size_t n)
{
    struct gw_peer *peer = world->leader_to_server;
    struct sending *sending = peer && gw_peer_is_up(peer, 0)
                                  ? make_sending(world, frame, payload, n)
                                  : NULL;
    if (sending)
        gw_peer_send(peer, 0, &sending->send);
}

void session_tell(struct session_sender *sender,
                  const struct gw_message *message)
{
    uint8_t bytes[4096];
    size_t n = 0;
    if (gw_message_encode(message, &sender->world->encode, bytes, sizeof bytes,
                          &n) != GW_OK)
        return;
    const struct gw_frame frame = {.kind = GW_FRAME_CONTROL,
                                   .clock = ++sender->number,
                                   .chunk = GW_CHUNK_NONE,
                                   .length = (uint32_t)n};
    session_send(sender, &frame, bytes, n);
}

struct gw_frame session_put(const struct session_sender *sender,
                            uint8_t kind,
                            uint32_t chunk,
                            uint64_t clock)
{
    const struct gw_chunk *place = &sender->world->map->chunk[chunk];
    int seed = kind == GW_FRAME_SEED;
    return (struct gw_frame){
        .kind = kind,
        .clock = clock,
        .offset = place->shard_offset,
        .window = seed ? sender->seeds : sender->landing,
        .chunk = chunk,
        .count = seed ? 0 : 4,
        .length = place->elems * (uint32_t)sizeof(float),
        .dtype = GW_DTYPE_F32,
    };
}

void session_want(struct session_sender *sender,
                  uint32_t chunk,
                  uint64_t version,
                  uint32_t decision)
{
    uint8_t bytes[GW_WANT_BYTES];
    const struct gw_want want = {
        .chunk = chunk,
        .count = 1,
        .value = version,
        .offset = sender->world->map->chunk[chunk].arena_offset,
        .window = sender->weights,
        .condition = GW_WANT_VERSION,
    };
    gw_want_encode(&want, bytes);
    const struct gw_frame frame = {.kind = GW_FRAME_WANT,
                                   .chunk = GW_CHUNK_NONE,
                                   .length = sizeof bytes,
                                   .decision = decision};
    session_send(sender, &frame, bytes, sizeof bytes);
}

void session_open_senders(struct session_world *world)
{
    struct gw_error error;
    const struct gw_transport_ops *ops = gw_transport_find("sim", &error);
    FUZZ_PROMISE(ops->open(world->loop[2], NULL, &world->transport, &error) ==
                 GW_OK);
    world->arena = calloc(1, world->map->arena_bytes);
    FUZZ_PROMISE(world->arena != NULL);
    for (uint32_t i = 0; i < SESSION_SENDERS; i++) {
        struct session_sender *sender = &world->sender[i];
        sender->world = world;
        sender->role = i < SESSION_WORKERS ? GW_ROLE_WORKER : GW_ROLE_SERVER;
        sender->rank = i < SESSION_WORKERS ? i : 1;
        gw_window_open(&sender->windows, GW_FRAME_WEIGHTS, world->arena,
                       world->map->arena_bytes, &sender->weights);
        int admits = !world->options.give && !world->options.stands_by;
        if (admits && (i < SESSION_WORKERS || !world->leader))
            session_dial(sender);
    }
    session_pass_time(world, 1000);
    for (uint32_t i = 0; i < SESSION_SENDERS; i++)
        FUZZ_PROMISE(world->sender[i].up || !world->sender[i].generation);
}
