/*
 * A server after login, and what it is sent by members that are logged in: two
 * workers and another shard, on bare links, so that any frame and any message
 * can be sent in any order, with cuts and pauses between. The rest of the world
 * is a simulation: a coordinator that gives the job and then only listens.
 *
 * The input is a program: a byte for what to do, then its operands. Nothing may
 * crash the server, make it grow or let it hang, and it logs whole lines.
 */
#include "config.h"

#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/config.h"
#include "proto/control.h"
#include "proto/log.h"
#include "proto/metrics.h"
#include "proto/wire.h"
#include "server/server.h"
#include "transport/member.h"
#include "transport/sim.h"

#define WORKERS       2
#define SENDERS       3 /* the workers, and shard 1 */
#define KEYS          3
#define STEPS_MAX     400 /* of a program */
#define INCARNATION   1000
#define PAYLOAD_BYTES ((size_t)70000)
#define LIVE_BYTES    ((size_t)4 << 20) /* of frames that are on their way */

static const char *const settings[] = {
    "data.train=x",          "model.kind=mlp",
    "model.layers=[8, 4]",   "train.batch=4",
    "train.steps=5",         "optimizer.kind=momentum",
    "cluster.workers=2",     "cluster.servers=2",
    "cluster.transport=sim", "train.nonfinite=stop",
    "checkpoint.dir=\"\"",   "optimizer.lr=0.1",
    "cluster.connections=1", NULL};

static const uint64_t elems[KEYS] = {40000, 7, 9000};

struct world;

/* A member that is logged in, without the manners of one. */
struct sender {
    struct world *world;
    uint8_t role;
    uint32_t rank, generation;
    struct gw_link *link;
    int up;
    struct gw_windows windows;
    uint32_t weights, landing, seeds;
    uint64_t number; /* of its last control message */
};

struct world {
    struct gw_sim *sim;
    struct gw_loop *loop[3]; /* coordinator, server, senders */
    struct gw_member *coordinator;
    struct gw_server *server;
    struct gw_transport *transport;
    struct sender sender[SENDERS];
    struct gw_log log;
    struct gw_metrics metrics;
    struct gw_config config;
    struct gw_key key[KEYS];
    struct gw_map *map;
    char server_address[GW_ADDRESS_MAX];
    uint64_t server_incarnation;
    int ready, finished;
    size_t live;
    float *arena;
    struct gw_control_arena encode, decode;
};

/* ---- the input ---- */

struct input {
    const uint8_t *at;
    size_t left;
};

static uint64_t take(struct input *input, size_t bytes)
{
    uint64_t value = 0;
    for (size_t i = 0; i < bytes && input->left > 0; i++, input->left--)
        value |= (uint64_t)*input->at++ << (8 * i);
    return value;
}

/* A number that is near `near`, or anything. */
static uint64_t about(struct input *input, uint64_t near)
{
    uint64_t how = take(input, 1);
    if (how < 160)
        return near;
    return how < 224 ? near + how - 192 : take(input, 8);
}

/* ---- log and errors: one printable line ---- */

static void on_line(void *context, const char *line, size_t n)
{
    (void)context;
    FUZZ_PROMISE(n > 0 && n <= GW_LOG_LINE_BYTES && line[n - 1] == '\n');
    FUZZ_PROMISE(!memchr(line, '\n', n - 1));
    if (getenv("GW_TEST_LOG"))
        fwrite(line, 1, n, stderr);
}

static uint64_t log_clock(void *clock)
{
    return gw_sim_now(clock);
}

static void on_finished(void *owner, enum gw_status status, const char *text)
{
    struct world *world = owner;
    FUZZ_PROMISE(!world->finished);
    FUZZ_PROMISE(status == GW_OK || text[0] != '\0');
    world->finished = 1;
}

/* ---- the coordinator ---- */

static enum gw_status admit(void *owner,
                            struct gw_peer *peer,
                            const struct gw_hello *hello,
                            char *why,
                            size_t why_bytes)
{
    (void)owner, (void)peer, (void)hello, (void)why, (void)why_bytes;
    return GW_OK;
}

static void tell(struct gw_peer *peer, const struct gw_message *message)
{
    FUZZ_PROMISE(gw_peer_tell(peer, message) == GW_OK);
}

static void give_job(struct world *world, struct gw_peer *peer)
{
    char text[GW_JOB_TEXT_MAX];
    gw_config_print(&world->config, 0, text, sizeof text);
    tell(peer,
         &(struct gw_message){.kind = GW_MESSAGE_WELCOME,
                              .welcome = {.rank = GW_RANK_NONE, .job = text}});
    struct gw_view_member members[WORKERS + 2] = {
        {.role = GW_ROLE_SERVER,
         .id = 0,
         .incarnation = peer->incarnation,
         .address = world->server_address,
         .host = "s"},
        {.role = GW_ROLE_SERVER,
         .id = 1,
         .server = 1,
         .incarnation = INCARNATION + 2,
         .address = "x:1",
         .host = "s"},
        {.role = GW_ROLE_WORKER,
         .id = 0,
         .incarnation = INCARNATION,
         .address = "",
         .host = "w"},
        {.role = GW_ROLE_WORKER,
         .id = 1,
         .incarnation = INCARNATION + 1,
         .address = "",
         .host = "w"},
    };
    tell(peer, &(struct gw_message){.kind = GW_MESSAGE_VIEW,
                                    .view = {.epoch = 1,
                                             .members_total = WORKERS + 2,
                                             .members_n = WORKERS + 2,
                                             .members = members}});
    tell(peer, &(struct gw_message){.kind = GW_MESSAGE_DECLARE,
                                    .declare = {.device = "",
                                                .keys_total = KEYS,
                                                .keys_n = KEYS,
                                                .keys = world->key}});
    tell(peer, &(struct gw_message){.kind = GW_MESSAGE_START,
                                    .start = {.total_steps = 5,
                                              .steps_per_epoch = 5,
                                              .resume = "",
                                              .dir = "",
                                              .token = ""}});
}

static void heard_by_coordinator(void *owner,
                                 struct gw_peer *peer,
                                 const struct gw_message *message)
{
    struct world *world = owner;
    if (message->kind == GW_MESSAGE_JOIN) {
        snprintf(world->server_address, sizeof world->server_address, "%s",
                 message->join.address);
        world->server_incarnation = peer->incarnation;
        give_job(world, peer);
    } else if (message->kind == GW_MESSAGE_READY) {
        world->ready = 1;
    }
}

static void no_frame(void *owner,
                     struct gw_peer *peer,
                     unsigned link,
                     const struct gw_frame *frame,
                     const void *payload)
{
    (void)owner, (void)peer, (void)link, (void)frame, (void)payload;
}

static void no_link_up(void *owner, struct gw_peer *peer, unsigned link)
{
    (void)owner, (void)peer, (void)link;
}

static void no_link_down(void *owner,
                         struct gw_peer *peer,
                         unsigned link,
                         enum gw_status status,
                         const char *why)
{
    (void)owner, (void)peer, (void)link, (void)status, (void)why;
}

static void no_loss(void *owner,
                    struct gw_peer *peer,
                    enum gw_status status,
                    const char *why)
{
    (void)owner, (void)peer, (void)status, (void)why;
}

static const struct gw_member_handler coordinator_handler = {
    .admit = admit,
    .link_up = no_link_up,
    .message = heard_by_coordinator,
    .frame = no_frame,
    .link_down = no_link_down,
    .lost = no_loss,
};

/* ---- the senders ---- */

static void sender_up(struct gw_link *link, const struct gw_reply *reply)
{
    (void)reply;
    ((struct sender *)link->owner)->up = 1;
}

static void sender_down(struct gw_link *link, enum gw_status s, const char *why)
{
    struct sender *sender = link->owner;
    (void)s, (void)why;
    sender->link = NULL;
    sender->up = 0;
}

static void sender_frame(struct gw_link *link,
                         const struct gw_frame *frame,
                         const void *payload)
{
    struct sender *sender = link->owner;
    struct world *world = sender->world;
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

static void dial(struct sender *sender)
{
    struct world *world = sender->world;
    struct gw_error error;
    struct gw_hello hello = {
        .role = sender->role,
        .links = 1,
        .generation = ++sender->generation,
        .rank = sender->rank,
        .incarnation = INCARNATION + (uint64_t)(sender - world->sender),
        .expects = world->server_incarnation,
        .version = PACKAGE_VERSION,
    };
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
    struct world *world;
    size_t bytes;
    uint8_t payload[];
};

static void on_sent(struct gw_send *send, enum gw_status status)
{
    struct sending *sending = send->owner;
    (void)status;
    sending->world->live -= sending->bytes;
    free(sending);
}

/* Sends what a transport would let through: the header is read back first. */
static void send_frame(struct sender *sender,
                       const struct gw_frame *frame,
                       const uint8_t *payload,
                       size_t n)
{
    struct world *world = sender->world;
    uint8_t bytes[GW_FRAME_BYTES];
    struct gw_frame read;
    if (!sender->link || !sender->up || frame->length > PAYLOAD_BYTES ||
        world->live > LIVE_BYTES)
        return;
    gw_frame_encode(frame, bytes);
    if (gw_frame_decode(bytes, &read) != GW_OK)
        return;
    struct sending *sending = calloc(1, sizeof *sending + frame->length);
    if (!sending)
        return;
    sending->world = world;
    sending->bytes = sizeof *sending + frame->length;
    world->live += sending->bytes;
    for (size_t i = 0; n > 0 && i < frame->length; i++)
        sending->payload[i] = payload[i % n];
    sending->send = (struct gw_send){.frame = read,
                                     .payload = sending->payload,
                                     .done = on_sent,
                                     .owner = sending};
    gw_link_send(sender->link, &sending->send);
}

/* ---- what a program may do ---- */

static uint32_t some_window(struct input *input, const struct sender *sender)
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
static void do_put(struct sender *sender, struct input *input, uint8_t kind)
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
    send_frame(sender, &frame, value, sizeof value);
}

static void do_any_frame(struct sender *sender, struct input *input)
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
    send_frame(sender, &frame, input->at, input->left < 64 ? input->left : 64);
}

static void do_want(struct sender *sender, struct input *input)
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
    send_frame(sender, &frame, wants, sizeof wants);
}

static void send_control(struct sender *sender,
                         struct input *input,
                         const uint8_t *bytes,
                         size_t n)
{
    struct gw_frame frame = {.kind = GW_FRAME_CONTROL,
                             .clock = about(input, sender->number + 1),
                             .chunk = GW_CHUNK_NONE,
                             .length = (uint32_t)n};
    sender->number++;
    send_frame(sender, &frame, bytes, n);
}

static void do_message(struct sender *sender, struct input *input)
{
    struct world *world = sender->world;
    double values[4] = {1, 2, 3, (double)take(input, 1)};
    uint32_t bad[2] = {(uint32_t)take(input, 1), 0};
    uint8_t bytes[4096];
    size_t n = 0;
    struct gw_message message = {.kind = GW_MESSAGE_SCORE};
    if (take(input, 1) % 2) {
        message.score = (struct gw_score){.clock = about(input, 0),
                                          .loss = values[3],
                                          .correct = take(input, 2),
                                          .samples = take(input, 2)};
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
            .bad_ranks = bad,
            .bad_ranks_n = (uint32_t)take(input, 1) % 3};
    }
    if (gw_message_encode(&message, &world->encode, bytes, sizeof bytes, &n) ==
        GW_OK)
        send_control(sender, input, bytes, n);
}

static void do_any_message(struct sender *sender, struct input *input)
{
    size_t n = take(input, 1);
    const uint8_t *bytes = input->at;
    if (n > input->left)
        n = input->left;
    input->at += n;
    input->left -= n;
    send_control(sender, input, bytes, n);
}

static int never(void *owner)
{
    (void)owner;
    return 0;
}

static void pass_time(struct world *world, uint64_t us)
{
    gw_sim_run(world->sim, never, NULL, gw_sim_now(world->sim) + us);
}

static void do_one(struct world *world, struct input *input)
{
    uint64_t what = take(input, 1);
    struct sender *sender = &world->sender[what / 16 % SENDERS];
    switch (what % 16) {
    case 0:
    case 1:
    case 2:
        do_put(sender, input, GW_FRAME_PUSH);
        break;
    case 3:
    case 4:
        do_put(sender, input, GW_FRAME_SEED);
        break;
    case 5:
    case 6:
        do_want(sender, input);
        break;
    case 7:
        do_any_frame(sender, input);
        break;
    case 8:
    case 9:
        do_message(sender, input);
        break;
    case 10:
        do_any_message(sender, input);
        break;
    case 11:
        dial(sender);
        break;
    case 12:
        gw_sim_cut(world->sim);
        break;
    case 13:
        pass_time(world, 1 + take(input, 2) * 8);
        break;
    default:
        pass_time(world, 500);
        break;
    }
}

/* ---- the world ---- */

static void set(struct gw_config *config, const char *assignment)
{
    struct gw_error error;
    FUZZ_PROMISE(gw_config_set(config, assignment, &error) == GW_OK);
}

static void describe_job(struct world *world, int whole)
{
    struct gw_error error;
    gw_config_default(&world->config);
    for (size_t i = 0; settings[i]; i++)
        set(&world->config, settings[i]);
    set(&world->config,
        whole ? "train.commit=whole" : "train.commit=streaming");
    for (size_t i = 0; i < KEYS; i++) {
        snprintf(world->key[i].name, sizeof world->key[i].name, "k%zu", i);
        world->key[i].dtype = GW_DTYPE_F32;
        world->key[i].dims = 1;
        world->key[i].shape[0] = elems[i];
    }
    FUZZ_PROMISE(gw_map_create(world->key, KEYS, 2, &world->map, &error) ==
                 GW_OK);
}

static void open_processes(struct world *world)
{
    struct gw_error error;
    const struct gw_sim_options options = {
        .seed = 1, .latency_us = 10, .bytes_per_us = 1000};
    static const char *const hosts[3] = {"c", "s", "w"};
    FUZZ_PROMISE(gw_sim_create(&options, &world->sim, &error) == GW_OK);
    for (size_t i = 0; i < 3; i++)
        FUZZ_PROMISE(gw_sim_process(world->sim, hosts[i], &world->loop[i],
                                    &error) == GW_OK);
    world->log = (struct gw_log){.level = GW_LOG_DEBUG,
                                 .rank = -1,
                                 .role = "server",
                                 .now_us = log_clock,
                                 .clock = world->sim,
                                 .sink = on_line};
    struct gw_member_options coordinator = {
        .loop = world->loop[0],
        .transport = gw_transport_find("sim", &error),
        .role = GW_ROLE_COORDINATOR,
        .rank = GW_RANK_NONE,
        .handler = &coordinator_handler,
        .owner = world,
    };
    FUZZ_PROMISE(gw_member_open(&coordinator, &world->coordinator, &error) ==
                 GW_OK);
    gw_member_set_epoch(world->coordinator, 1);
    FUZZ_PROMISE(gw_member_listen(world->coordinator, "c:0", &error) == GW_OK);
    struct gw_server_options server = {
        .loop = world->loop[1],
        .transport = coordinator.transport,
        .interface = "",
        .coordinator = gw_member_address(world->coordinator),
        .listen = "any:0",
        .host = "s",
        .threads = 1,
        .log = &world->log,
        .metrics = &world->metrics,
        .finished = on_finished,
        .owner = world,
    };
    FUZZ_PROMISE(gw_server_open(&server, &world->server, &error) == GW_OK);
}

static int is_ready(void *owner)
{
    return ((struct world *)owner)->ready;
}

static void open_senders(struct world *world)
{
    struct gw_error error;
    const struct gw_transport_ops *ops = gw_transport_find("sim", &error);
    FUZZ_PROMISE(ops->open(world->loop[2], NULL, &world->transport, &error) ==
                 GW_OK);
    world->arena = calloc(1, world->map->arena_bytes);
    FUZZ_PROMISE(world->arena != NULL);
    for (uint32_t i = 0; i < SENDERS; i++) {
        struct sender *sender = &world->sender[i];
        sender->world = world;
        sender->role = i < WORKERS ? GW_ROLE_WORKER : GW_ROLE_SERVER;
        sender->rank = i < WORKERS ? i : 1;
        gw_window_open(&sender->windows, GW_FRAME_WEIGHTS, world->arena,
                       world->map->arena_bytes, &sender->weights);
        dial(sender);
    }
    pass_time(world, 1000);
}

static void close_world(struct world *world)
{
    gw_server_close(world->server);
    gw_member_close(world->coordinator);
    world->transport->ops->close(world->transport);
    for (size_t i = 0; i < 3; i++)
        gw_loop_close(world->loop[i]);
    gw_sim_destroy(world->sim);
    FUZZ_PROMISE(world->live == 0);
    gw_map_destroy(world->map);
    free(world->arena);
    free(world);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct input input = {data, n};
    struct world *world = calloc(1, sizeof *world);
    if (!world)
        return 0;
    describe_job(world, (int)take(&input, 1) & 1);
    open_processes(world);
    FUZZ_PROMISE(gw_sim_run(world->sim, is_ready, world,
                            gw_sim_now(world->sim) + 10000000));
    open_senders(world);
    for (size_t i = 0; i < STEPS_MAX && input.left > 0; i++)
        do_one(world, &input);
    pass_time(world, 300000);
    close_world(world);
    return 0;
}
