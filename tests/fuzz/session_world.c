/* A server, a coordinator and members in a simulation, for fuzz_session.c. */
#include "config.h"

#include "tests/fuzz/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"

#define INCARNATION   1000
#define JOB           77
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

static const uint64_t elems[SESSION_KEYS] = {40000, 7, 9000};

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
    struct session_world *world = owner;
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

static void give_job(struct session_world *world, struct gw_peer *peer)
{
    char text[GW_JOB_TEXT_MAX];
    gw_config_print(&world->config, 0, text, sizeof text);
    tell(peer,
         &(struct gw_message){.kind = GW_MESSAGE_WELCOME,
                              .welcome = {.rank = GW_RANK_NONE, .job = text}});
    struct gw_view_member members[SESSION_WORKERS + 2] = {
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
    tell(peer,
         &(struct gw_message){.kind = GW_MESSAGE_VIEW,
                              .view = {.epoch = 1,
                                       .members_total = SESSION_WORKERS + 2,
                                       .members_n = SESSION_WORKERS + 2,
                                       .members = members}});
    tell(peer, &(struct gw_message){.kind = GW_MESSAGE_DECLARE,
                                    .declare = {.device = "",
                                                .keys_total = SESSION_KEYS,
                                                .keys_n = SESSION_KEYS,
                                                .keys = world->key}});
    tell(peer,
         &(struct gw_message){.kind = GW_MESSAGE_START,
                              .start = {.total_steps = 5,
                                        .course = {.batch = 1, .samples = 5},
                                        .resume = "",
                                        .dir = "",
                                        .token = ""}});
}

static void heard_by_coordinator(void *owner,
                                 struct gw_peer *peer,
                                 const struct gw_message *message)
{
    struct session_world *world = owner;
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

static int never(void *owner)
{
    (void)owner;
    return 0;
}

void session_pass_time(struct session_world *world, uint64_t us)
{
    gw_sim_run(world->sim, never, NULL, gw_sim_now(world->sim) + us);
}

/* ---- the senders ---- */

static void sender_up(struct gw_link *link, const struct gw_reply *reply)
{
    struct session_sender *sender = link->owner;
    (void)reply;
    sender->up = 1;
    link->ops->show(link, sender->weights); /* if it is near */
}

static void sender_down(struct gw_link *link, enum gw_status s, const char *why)
{
    struct session_sender *sender = link->owner;
    (void)s, (void)why;
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
        .job = JOB,
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
    struct session_world *world;
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

void session_send(struct session_sender *sender,
                  const struct gw_frame *frame,
                  const uint8_t *payload,
                  size_t n)
{
    struct session_world *world = sender->world;
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

/* ---- the world ---- */

static void set(struct gw_config *config, const char *assignment)
{
    struct gw_error error;
    FUZZ_PROMISE(gw_config_set(config, assignment, &error) == GW_OK);
}

static void describe_job(struct session_world *world, int whole)
{
    struct gw_error error;
    gw_config_default(&world->config);
    for (size_t i = 0; settings[i]; i++)
        set(&world->config, settings[i]);
    set(&world->config,
        whole ? "train.commit=whole" : "train.commit=streaming");
    for (size_t i = 0; i < SESSION_KEYS; i++) {
        snprintf(world->key[i].name, sizeof world->key[i].name, "k%zu", i);
        world->key[i].dtype = GW_DTYPE_F32;
        world->key[i].dims = 1;
        world->key[i].shape[0] = elems[i];
    }
    FUZZ_PROMISE(gw_map_create(world->key, SESSION_KEYS, 2, &world->map,
                               &error) == GW_OK);
}

static void open_processes(struct session_world *world, int near)
{
    struct gw_error error;
    const struct gw_sim_options options = {
        .seed = 1, .latency_us = 10, .bytes_per_us = 1000};
    const char *const hosts[3] = {"c", "s", near ? "s" : "w"};
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
        .job = JOB,
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
    return ((struct session_world *)owner)->ready;
}

static void open_senders(struct session_world *world)
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
        session_dial(sender);
    }
    session_pass_time(world, 1000);
    for (uint32_t i = 0; i < SESSION_SENDERS; i++)
        FUZZ_PROMISE(world->sender[i].up);
}

struct session_world *session_open(int whole, int near)
{
    struct session_world *world = calloc(1, sizeof *world);
    if (!world)
        return NULL;
    describe_job(world, whole);
    open_processes(world, near);
    FUZZ_PROMISE(gw_sim_run(world->sim, is_ready, world,
                            gw_sim_now(world->sim) + 10000000));
    open_senders(world);
    return world;
}

void session_close(struct session_world *world)
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
