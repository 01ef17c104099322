/* Acts of members that lie to a server, out of the input's bytes. */
#include "config.h"

#include "tests/fuzz/session_acts.h"

#include <string.h>

#include "proto/groups.h"
#include "server/server_state.h"

static uint32_t some_window(struct input *input,
                            const struct session_sender *sender)
{
    switch (take(input, 1) % 8) {
    case 0:
        return GW_WINDOW_NONE;
    case 1:
        return (uint32_t)take(input, 4);
    case 2:
    case 3:
        return sender->seeds;
    default:
        return sender->landing;
    }
}

/* A push or seed that is right, but for what `about` makes of it. */
void session_do_put(struct session_sender *sender,
                    struct input *input,
                    uint8_t kind)
{
    const struct gw_map *map = sender->world->map;
    uint32_t chunk = (uint32_t)take(input, 1) % (uint32_t)map->chunks;
    const struct gw_chunk *place = &map->chunk[chunk];
    int seed = kind == GW_FRAME_SEED;
    struct gw_frame frame = {
        .kind = kind,
        .clock = about(input, take(input, 1) % 8),
        .offset = about(input, place->shard_offset),
        .window = seed ? sender->seeds : sender->landing,
        .chunk = (uint32_t)about(input, chunk),
        .count = (uint32_t)about(input, 4),
        .length = (uint32_t)about(input, place->elems * sizeof(float)),
        .dtype = (uint8_t)about(input, GW_DTYPE_F32),
        .encoding = (uint8_t)about(input, GW_ENCODING_RAW),
        .decision = (uint32_t)about(input, 0),
    };
    uint8_t value[4] = {0, 0, (uint8_t)take(input, 1), (uint8_t)take(input, 1)};
    session_send(sender, &frame, value, sizeof value);
}

void session_do_empty(struct session_sender *sender, struct input *input)
{
    const struct gw_map *map = sender->world->map;
    const uint8_t zero[4] = {0};
    const struct gw_frame frame = {
        .kind = GW_FRAME_PUSH,
        .flags = take(input, 1) & 1 ? GW_FLAG_UNCOUNTED : 0,
        .clock = about(input, take(input, 1) % 8),
        .chunk = (uint32_t)take(input, 1) % (uint32_t)map->chunks,
        .count = (uint32_t)about(input, take(input, 1) % 5),
        .length = (uint32_t)about(input, 0),
        .dtype = GW_DTYPE_F32,
        .decision = (uint32_t)about(input, sender->world->server->decision),
    };
    session_send(sender, &frame, zero, sizeof zero);
}

/* A gradient that a server may read, or is to believe so. */
void session_do_shown(struct session_sender *sender, struct input *input)
{
    const struct gw_map *map = sender->world->map;
    uint32_t chunk = (uint32_t)take(input, 1) % (uint32_t)map->chunks;
    uint8_t at[GW_EXPORTED_BYTES];
    struct gw_frame frame = {
        .kind = GW_FRAME_EXPORTED,
        .clock = about(input, take(input, 1) % 8),
        .chunk = (uint32_t)about(input, chunk),
        .count = (uint32_t)about(input, 4),
        .length = sizeof at,
        .dtype = (uint8_t)about(input, GW_DTYPE_F32),
        .encoding = (uint8_t)about(input, GW_ENCODING_RAW),
        .decision = (uint32_t)about(input, 0),
    };
    uint8_t kinds[] = {GW_FRAME_PUSH, GW_FRAME_PUSH, GW_FRAME_SEED,
                       (uint8_t)take(input, 1)};
    const struct gw_exported shown = {
        .window = (uint32_t)about(input, sender->weights),
        .kind = kinds[take(input, 1) % sizeof kinds]};
    gw_exported_encode(&shown, at);
    session_send(sender, &frame, at, sizeof at);
}

void session_do_any_frame(struct session_sender *sender, struct input *input)
{
    struct gw_frame frame = {
        .kind = (uint8_t)take(input, 1),
        .flags = (uint16_t)take(input, 1),
        .clock = about(input, sender->number + 1),
        .offset = about(input, 0),
        .window = some_window(input, sender),
        .chunk = (uint32_t)take(input, 1),
        .count = (uint32_t)take(input, 2),
        .length = (uint32_t)take(input, 2),
        .encoding = (uint8_t)take(input, 1),
        .dtype = (uint8_t)take(input, 1),
        .decision = (uint32_t)take(input, 1),
    };
    session_send(sender, &frame, input->at,
                 input->left < 64 ? input->left : 64);
}

void session_do_want(struct session_sender *sender, struct input *input)
{
    uint8_t wants[8 * GW_WANT_BYTES];
    uint32_t n = (uint32_t)(1 + take(input, 1) % 8);
    for (uint32_t i = 0; i < n; i++) {
        struct gw_want want = {
            .chunk = (uint32_t)about(input, take(input, 1) % 8),
            .count = (uint32_t)about(input, 1 + take(input, 1) % 8),
            .value = about(input, take(input, 1) % 8),
            .offset = about(input, 0),
            .window = (uint32_t)about(input, sender->weights),
            .condition = (uint8_t)about(input, GW_WANT_VERSION),
        };
        gw_want_encode(&want, wants + (size_t)i * GW_WANT_BYTES);
    }
    struct gw_frame frame = {.kind = GW_FRAME_WANT,
                             .chunk = GW_CHUNK_NONE,
                             .length =
                                 (uint32_t)about(input, n * GW_WANT_BYTES)};
    session_send(sender, &frame, wants, sizeof wants);
}

static void send_control(struct session_sender *sender,
                         struct input *input,
                         const uint8_t *bytes,
                         size_t n)
{
    struct gw_frame frame = {.kind = GW_FRAME_CONTROL,
                             .clock = about(input, sender->number + 1),
                             .chunk = GW_CHUNK_NONE,
                             .length = (uint32_t)n};
    sender->number++;
    session_send(sender, &frame, bytes, n);
}

void session_do_message(struct session_sender *sender, struct input *input)
{
    struct session_world *world = sender->world;
    double values[4] = {1, 2, 3, (double)take(input, 1)};
    uint32_t bad[2] = {(uint32_t)take(input, 1), 0};
    uint8_t bytes[4096];
    size_t n = 0;
    struct gw_message message = {.kind = GW_MESSAGE_SCORE};
    if (take(input, 1) % 2) {
        message.score = (struct gw_score){.clock = about(input, 0),
                                          .loss = values[3],
                                          .correct = take(input, 2),
                                          .samples = about(input, 2)};
    } else {
        message.kind = GW_MESSAGE_VOTE;
        message.vote = (struct gw_vote){
            .clock = about(input, take(input, 1) % 4),
            .phase = (uint8_t)about(input, 1),
            .first = (uint32_t)about(input, 0),
            .total = (uint32_t)about(input, world->map->shard_chunks[1]),
            .samples = about(input, 8),
            .values = values,
            .values_n = (uint32_t)take(input, 1) % 5,
            .nonfinite_ranks = bad,
            .nonfinite_ranks_n = (uint32_t)take(input, 1) % 3};
    }
    if (gw_message_encode(&message, &world->encode, bytes, sizeof bytes, &n) ==
        GW_OK)
        send_control(sender, input, bytes, n);
}

void session_do_any_message(struct session_sender *sender, struct input *input)
{
    size_t n = take(input, 1);
    const uint8_t *bytes = input->at;
    if (n > input->left)
        n = input->left;
    input->at += n;
    input->left -= n;
    send_control(sender, input, bytes, n);
}

void session_do_terms(struct session_sender *sender, struct input *input)
{
    uint8_t bytes[3 * GW_TERMS_BYTES];
    for (uint32_t i = 0; i < 3; i++) {
        const struct gw_group_terms terms = {
            .group = (uint32_t)about(input, i),
            .terms = {.lr = (double)about(input, 1) / 8,
                      .momentum = (double)take(input, 1),
                      .beta1 = (double)take(input, 1) / 128}};
        gw_terms_encode(&terms, bytes + (size_t)i * GW_TERMS_BYTES);
    }
    const struct gw_frame frame = {
        .kind = GW_FRAME_TERMS,
        .clock = about(input, take(input, 1) % 8),
        .chunk = GW_CHUNK_NONE,
        .length = (uint32_t)(take(input, 1) % 4 * GW_TERMS_BYTES +
                             take(input, 1) / 250),
        .decision = (uint32_t)about(input, sender->world->server->decision)};
    session_send(sender, &frame, bytes,
                 frame.length < sizeof bytes ? frame.length : sizeof bytes);
}

/* The parts of a sum and the sum, each of which may be wrong. */
void session_do_sum(struct session_sender *sender, struct input *input)
{
    const struct gw_map *map = sender->world->map;
    uint32_t chunk = (uint32_t)take(input, 1) % (uint32_t)map->chunks;
    uint64_t clock = take(input, 1) % 8;
    uint8_t bytes[3 * GW_PART_BYTES], zero[4] = {0};
    struct gw_part part[3];
    for (uint32_t i = 0; i < 3; i++) {
        uint64_t gradient = take(input, 1);
        part[i] =
            (struct gw_part){.rank = (uint32_t)about(input, i),
                             .samples = (uint32_t)about(input, 2),
                             .gradient = (enum gw_part_gradient)(gradient % 5),
                             .terms = gradient >= 250};
    }
    gw_parts_encode(part, 3, bytes);
    const struct gw_frame parts = {.kind = GW_FRAME_PARTS,
                                   .clock = about(input, clock),
                                   .chunk = chunk,
                                   .length = (uint32_t)about(input, 2) % 4 *
                                             GW_PART_BYTES};
    if (take(input, 1) < 200)
        session_send(sender, &parts, bytes, sizeof bytes);
    struct gw_frame push = session_put(sender, GW_FRAME_PUSH, chunk, clock);
    push.flags = (uint16_t)about(input, GW_FLAG_SUM);
    push.count = (uint32_t)about(input, 4);
    push.decision = (uint32_t)about(input, sender->world->server->decision);
    if (take(input, 1) < 200)
        session_send(sender, &push, zero, sizeof zero);
}

/* A want of any kind, that knows of decisions. */
void session_do_ask(struct session_sender *sender, struct input *input)
{
    const struct gw_map *map = sender->world->map;
    uint32_t chunk = (uint32_t)take(input, 1) % (uint32_t)map->chunks;
    uint8_t bytes[GW_WANT_BYTES];
    const struct gw_want want = {
        .chunk = chunk,
        .count = (uint32_t)about(input, 1),
        .value = about(input, take(input, 1) % 8),
        .offset = about(input, map->chunk[chunk].arena_offset),
        .window = sender->weights,
        .condition = (uint8_t)(1 + take(input, 1) % 4),
        .slack = (uint32_t)about(input, 1),
        .encoding = (uint8_t)about(input, GW_ENCODING_RAW),
        .nth = take(input, 1) & 1,
        .of = (uint8_t)(take(input, 1) % 3),
    };
    gw_want_encode(&want, bytes);
    const struct gw_frame frame = {
        .kind = GW_FRAME_WANT,
        .chunk = GW_CHUNK_NONE,
        .length = sizeof bytes,
        .decision = (uint32_t)about(input, sender->world->server->decision)};
    session_send(sender, &frame, bytes, sizeof bytes);
}

/* Where ranks stand, as another shard may say. */
void session_do_news(struct session_sender *sender, struct input *input)
{
    uint64_t clocks[SESSION_WORKERS + 1];
    uint32_t blocked[SESSION_WORKERS + 1];
    struct gw_message message = {.kind = GW_MESSAGE_ARRIVED};
    for (uint32_t i = 0; i < SESSION_WORKERS + 1; i++) {
        clocks[i] = about(input, take(input, 1) % 8);
        blocked[i] = (uint32_t)about(input, i);
    }
    switch (take(input, 1) % 4) {
    case 0:
        message.arrived = (struct gw_arrived){
            .clock = clocks[0],
            .ranks = blocked,
            .ranks_n = (uint32_t)take(input, 1) % (SESSION_WORKERS + 2)};
        break;
    case 1:
        message.kind = GW_MESSAGE_SPEED;
        message.speed = (struct gw_speed){
            .clock = clocks[0], .samples_per_s = (double)take(input, 1) - 3};
        break;
    default:
        message.kind = GW_MESSAGE_QUIESCED;
        message.quiesced = (struct gw_quiesced){
            .decision =
                (uint32_t)about(input, sender->world->server->quiesce.number),
            .clocks = clocks,
            .clocks_n =
                (uint32_t)about(input, SESSION_WORKERS) % (SESSION_WORKERS + 2),
            .blocked = blocked,
            .blocked_n = (uint32_t)take(input, 1) % (SESSION_WORKERS + 2)};
    }
    session_tell(sender, &message);
}

/* Words that the coordinator says, or would not say. */
void session_do_coordinate(struct session_world *world, struct input *input)
{
    static const char *const words[] = {
        "async", "sync",    "easgd:2",    "backup:1",   "dc-async", "local:2",
        "ssp:3", "no word", "downpour:2", "stale-lr:2", "ssp:1",    "diloco:2"};
    struct gw_message message = {.kind = GW_MESSAGE_STOP, .stop = {.text = ""}};
    switch (take(input, 1) % 8) {
    case 0:
        message.kind = GW_MESSAGE_STORED;
        message.stored =
            (struct gw_stored){.clock = take(input, 1) % 8, .ok = 1};
        break;
    case 1:
        break;
    case 2:
        message.kind = GW_MESSAGE_FILE_REPLY;
        message.file_reply = (struct gw_file_reply){
            .status = take(input, 1) & 1 ? GW_EIO : GW_OK,
            .text = "t",
            .offset = about(input, 0),
            .bytes = about(input, 4096),
            .window = (uint32_t)take(input, 1),
            .request = (uint32_t)take(input, 1) % 8};
        break;
    case 3:
        session_view(world, (uint32_t)take(input, 1) % (SESSION_MEMBERS + 1),
                     SESSION_MEMBERS);
        return;
    case 4:
        if (take(input, 1) & 1)
            session_keys(world);
        else
            session_start(world);
        return;
    default:
        message.kind = GW_MESSAGE_REQUEST;
        message.request = (struct gw_request){
            .kind = (uint8_t)(1 + take(input, 1) % 3),
            .text = words[take(input, 1) % (sizeof words / sizeof *words)]};
    }
    session_coordinate(world, &message);
}

#define VALUES 12

static double some_value(struct input *input)
{
    double value;
    uint64_t bits;
    if (take(input, 1) < 200)
        return (double)(take(input, 1) % 8);
    bits = take(input, sizeof bits);
    memcpy(&value, &bits, sizeof value);
    return value;
}

void session_do_decision(struct session_world *world, struct input *input)
{
    static const char *const words[] = {"async",    "sync",    "easgd:2",
                                        "backup:1", "local:2", "dc-async",
                                        "no word",  "ssp:1"};
    const struct gw_server *server = world->server;
    uint64_t clock = server->shard && server->shard->chunks > 0
                         ? server->shard->chunk[0].version
                         : 0;
    double values[VALUES];
    uint32_t ranks[SESSION_WORKERS + 1];
    uint64_t clocks[SESSION_WORKERS + 1];
    for (size_t i = 0; i < VALUES; i++)
        values[i] = some_value(input);
    for (uint32_t i = 0; i < SESSION_WORKERS + 1; i++) {
        ranks[i] = (uint32_t)about(input, i);
        clocks[i] = about(input, clock);
    }
    const struct gw_message message = {
        .kind = GW_MESSAGE_DECISION,
        .decision = {
            .number = (uint32_t)about(input, server->decision + 1),
            .kind = (uint8_t)(1 + take(input, 1) % 12),
            .reason = (uint8_t)(take(input, 1) % 5),
            .apply = take(input, 1) & 1,
            .clock = about(input, clock + take(input, 1) % 3),
            .values = values,
            .values_n = (uint32_t)about(input, 10) % (VALUES + 1),
            .ranks = ranks,
            .ranks_n = (uint32_t)about(input, 1) % (SESSION_WORKERS + 2),
            .clocks = clocks,
            .clocks_n = (uint32_t)take(input, 1) % (SESSION_WORKERS + 2),
            .policy = words[take(input, 1) % (sizeof words / sizeof *words)]}};
    session_lead(world, &message);
    session_pass_time(world, 500);
}

/* ---- the truth, for the job to get on ---- */

static void seed_or_push(struct session_sender *sender, uint32_t index)
{
    static const uint8_t zero[4];
    const struct gw_server *server = sender->world->server;
    const struct gw_shard_chunk *chunk = &server->shard->chunk[index];
    const struct gw_shard_slot *slot =
        gw_shard_slot(server->shard, sender->rank, index);
    uint64_t clock = server->regime.per_push ? slot->mark : chunk->version;
    struct gw_frame frame =
        session_put(sender, chunk->ready ? GW_FRAME_PUSH : GW_FRAME_SEED,
                    chunk->global, chunk->ready ? clock : 0);
    frame.decision = (uint32_t)server->decision;
    if (chunk->ready || sender->rank == 0)
        session_send(sender, &frame, zero, sizeof zero);
}

/* bits 0, 1: ranks that push; 2, 3: that want what comes of it. */
void session_do_step(struct session_world *world, uint64_t who)
{
    const struct gw_server *server = world->server;
    if (world->finished || !server->shard || !server->running)
        return;
    for (uint32_t i = 0; i < server->shard->chunks; i++) {
        const struct gw_shard_chunk *chunk = &server->shard->chunk[i];
        uint64_t next = gw_rounds_next(&server->shard->rounds, chunk->fragment,
                                       chunk->version);
        for (uint32_t rank = 0; rank < SESSION_WORKERS; rank++) {
            if (who >> rank & 1)
                seed_or_push(&world->sender[rank], i);
            if (who >> (SESSION_WORKERS + rank) & 1)
                session_want(&world->sender[rank], chunk->global, next,
                             (uint32_t)server->decision);
        }
    }
    session_pass_time(world, 1500);
}

const char *session_policy(uint64_t which)
{
    static const char *const policies[] = {
        "cluster.policy=sync",
        "cluster.policy=async",
        "cluster.policy=ssp:1",
        "cluster.policy=backup:1",
        "cluster.policy=easgd:2",
        "cluster.policy=dc-async",
        "cluster.policy=stale-lr:1",
        "cluster.policy=local:2",
        "cluster.policy=downpour:2",
        "cluster.policy=\"sync until 2, async\"",
        "cluster.policy=\"async until 2, sync\"",
        "cluster.policy=\"sync until 1, easgd:1 until 3, backup:1\"",
        "cluster.policy=\"dc-async until 2, async until 3, sync\"",
    };
    return policies[which % (sizeof policies / sizeof *policies)];
}
