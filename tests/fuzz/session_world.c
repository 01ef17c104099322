/* A server, a coordinator and members in a simulation. */
#include "config.h"

#include "tests/fuzz/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"

/* clang-format off */
static const char *const settings[] = {
    "data.train=x",             "model.kind=mlp",
    "model.layers=[8, 4]",      "train.batch=4",
    "train.steps=5",            "train.eval_every=never",
    "train.nonfinite=stop",     "optimizer.kind=momentum",
    "optimizer.lr=0.1",         "checkpoint.dir=\"\"",
    "cluster.workers=2",        "cluster.servers=2",
    "cluster.transport=sim",    "cluster.connections=1",
    "cluster.step_deadline=1",  NULL};
/* clang-format on */

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
    world->status = status;
    snprintf(world->text, sizeof world->text, "%s", text);
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

void session_coordinate(struct session_world *world,
                        const struct gw_message *message)
{
    if (world->to_server && !world->finished)
        gw_peer_tell(world->to_server, message);
}

void session_welcome(struct session_world *world)
{
    char text[GW_JOB_TEXT_MAX];
    gw_config_print(&world->config, 0, text, sizeof text);
    session_coordinate(
        world,
        &(struct gw_message){
            .kind = GW_MESSAGE_WELCOME,
            .welcome = {.rank = GW_RANK_NONE, .job = text, .tuned = ""}});
}

/* The shards, then the workers, then copies; the server is one of the shards,
   or the copy of the first. */
static void list_members(struct session_world *world)
{
    int stands_by = world->options.stands_by;
    uint32_t own = stands_by ? SESSION_MEMBERS : world->options.number;
    world->members = SESSION_MEMBERS + (stands_by ? SESSION_COPIES : 0);
    for (uint32_t i = 0; i < world->members; i++) {
        int copy = i >= SESSION_MEMBERS, shard = i < 2 || copy, self = i == own;
        world->member[i] = (struct gw_view_member){
            .role = copy    ? GW_ROLE_STANDBY
                    : shard ? GW_ROLE_SERVER
                            : GW_ROLE_WORKER,
            .id = i % 2,
            .server = i % 2,
            .incarnation = self     ? world->server_incarnation
                           : i == 0 ? SESSION_INCARNATION + SESSION_MEMBERS
                           : i == 1 ? SESSION_INCARNATION + 2
                           : copy   ? SESSION_INCARNATION + 2 * i
                                    : SESSION_INCARNATION + i % 2,
            .address = self && shard ? world->server_address
                       : i == 0      ? gw_member_address(world->leader)
                       : shard       ? "x:1"
                                     : "",
            .host = shard ? "s" : "w",
            .has_secret = 1,
            .secret = session_pair,
        };
    }
}

void session_view(struct session_world *world, uint32_t n, uint32_t total)
{
    session_coordinate(
        world, &(struct gw_message){.kind = GW_MESSAGE_VIEW,
                                    .view = {.epoch = 1,
                                             .members_total = total,
                                             .members_n = n,
                                             .members = world->member}});
}

void session_keys(struct session_world *world)
{
    session_coordinate(
        world, &(struct gw_message){.kind = GW_MESSAGE_DECLARE,
                                    .declare = {.device = "",
                                                .tuned = "",
                                                .note = "",
                                                .keys_total = SESSION_KEYS,
                                                .keys_n = SESSION_KEYS,
                                                .keys = world->key}});
}

void session_start(struct session_world *world)
{
    static const uint32_t group[] = {SESSION_WORKERS};
    session_coordinate(
        world, &(struct gw_message){
                   .kind = GW_MESSAGE_START,
                   .start = {.total_steps = 5,
                             .course = {.batch = 8, .samples = 40},
                             .test_samples = SESSION_TESTS,
                             .resume = "",
                             .dir = "",
                             .token = "",
                             .groups = group,
                             .groups_n = world->options.grouped ? 1 : 0}});
}

static void give_job(struct session_world *world)
{
    session_welcome(world);
    session_view(world, world->members, world->members);
    session_keys(world);
    session_start(world);
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
        world->to_server = peer;
        list_members(world);
        if (world->options.give)
            world->options.give(world);
        else
            give_job(world);
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
    .stuck = gw_member_stuck_unheard,
};

/* ---- shard 0, where the server is another ---- */

static enum gw_status admit_server(void *owner,
                                   struct gw_peer *peer,
                                   const struct gw_hello *hello,
                                   char *why,
                                   size_t why_bytes)
{
    struct session_world *world = owner;
    (void)hello, (void)why, (void)why_bytes;
    world->leader_to_server = peer;
    return GW_OK;
}

static void heard_by_leader(void *owner,
                            struct gw_peer *peer,
                            const struct gw_message *message)
{
    struct session_world *world = owner;
    const struct gw_window_open *window = &message->window;
    (void)peer;
    if (message->kind == GW_MESSAGE_WINDOW && window->kind == GW_FRAME_SUM)
        world->sums = window->id;
    else if (message->kind == GW_MESSAGE_WINDOW &&
             window->array < GW_COPY_ARRAYS)
        world->arrays[window->array] = window->id;
    if (message->kind == GW_MESSAGE_QUIESCED)
        world->quiesced =
            (struct gw_quiesced){.decision = message->quiesced.decision,
                                 .clocks_n = message->quiesced.clocks_n,
                                 .blocked_n = message->quiesced.blocked_n};
}

static const struct gw_member_handler leader_handler = {
    .admit = admit_server,
    .link_up = no_link_up,
    .message = heard_by_leader,
    .frame = no_frame,
    .link_down = no_link_down,
    .lost = no_loss,
    .stuck = gw_member_stuck_unheard,
};

void session_lead(struct session_world *world, const struct gw_message *message)
{
    if (world->leader_to_server && !world->finished)
        gw_peer_tell(world->leader_to_server, message);
}

static void open_leader(struct session_world *world)
{
    struct gw_error error;
    const struct gw_member_options options = {
        .loop = world->loop[2],
        .transport = gw_transport_find("sim", &error),
        .job = SESSION_JOB,
        .role = GW_ROLE_SERVER,
        .rank = 0,
        .incarnation = SESSION_INCARNATION + SESSION_MEMBERS,
        .handler = &leader_handler,
        .owner = world,
    };
    FUZZ_PROMISE(gw_member_open(&options, &world->leader, &error) == GW_OK);
    FUZZ_PROMISE(gw_member_listen(world->leader, "any:0", &error) == GW_OK);
}

static int never(void *owner)
{
    (void)owner;
    return 0;
}

void session_pass_time(struct session_world *world, uint64_t us)
{
    gw_sim_run(world->sim, never, NULL, gw_sim_now(world->sim) + us);
}

/* ---- the world ---- */

static void set(struct gw_config *config, const char *assignment)
{
    struct gw_error error;
    FUZZ_PROMISE(gw_config_set(config, assignment, &error) == GW_OK);
}

static void describe_job(struct session_world *world)
{
    const char *const *more = world->options.settings;
    struct gw_error error;
    gw_config_default(&world->config);
    for (size_t i = 0; settings[i]; i++)
        set(&world->config, settings[i]);
    if (world->options.stands_by)
        set(&world->config, "cluster.copies=2");
    for (size_t i = 0; more && more[i]; i++)
        set(&world->config, more[i]);
    for (size_t i = 0; i < SESSION_KEYS; i++) {
        snprintf(world->key[i].name, sizeof world->key[i].name, "k%zu", i);
        world->key[i].dtype = GW_DTYPE_F32;
        world->key[i].dims = 1;
        world->key[i].shape[0] = elems[i];
    }
    FUZZ_PROMISE(gw_map_create(world->key, SESSION_KEYS, 2, &world->map,
                               &error) == GW_OK);
}

static void open_processes(struct session_world *world)
{
    struct gw_error error;
    const struct gw_sim_options options = {
        .seed = 1, .latency_us = 10, .bytes_per_us = 1000};
    const char *const hosts[3] = {"c", "s", world->options.near ? "s" : "w"};
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
        .job = SESSION_JOB,
        .role = GW_ROLE_COORDINATOR,
        .rank = GW_RANK_NONE,
        .handler = &coordinator_handler,
        .owner = world,
    };
    FUZZ_PROMISE(gw_member_open(&coordinator, &world->coordinator, &error) ==
                 GW_OK);
    gw_member_set_epoch(world->coordinator, 1);
    FUZZ_PROMISE(gw_member_listen(world->coordinator, "c:0", &error) == GW_OK);
    if (world->options.number != 0 || world->options.stands_by)
        open_leader(world);
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

static int is_settled(void *owner)
{
    const struct session_world *world = owner;
    return world->ready || world->finished;
}

struct session_world *session_open(const struct session_options *options)
{
    struct session_world *world = calloc(1, sizeof *world);
    if (!world)
        return NULL;
    world->options = *options;
    describe_job(world);
    open_processes(world);
    FUZZ_PROMISE(gw_sim_run(world->sim, is_settled, world,
                            gw_sim_now(world->sim) + 10000000));
    session_open_senders(world);
    return world;
}

void session_close(struct session_world *world)
{
    gw_server_close(world->server);
    gw_member_close(world->coordinator);
    if (world->leader)
        gw_member_close(world->leader);
    world->transport->ops->close(world->transport);
    for (size_t i = 0; i < 3; i++)
        gw_loop_close(world->loop[i]);
    gw_sim_destroy(world->sim);
    FUZZ_PROMISE(world->live == 0);
    gw_map_destroy(world->map);
    free(world->arena);
    free(world);
}
