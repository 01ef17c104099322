/* A coordinator in a simulation, and members that it believes. */
#include "config.h"

#include "tests/fuzz/council.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/schedule.h"
#include "tests/fuzz/fuzz.h"

#define PIECE_BYTES ((size_t)70000)

/* clang-format off */
static const char *const defaults[] = {
    "data.train=x",           "model.kind=mlp",
    "model.layers=[8, 4]",    "train.steps=9",
    "train.eval_every=never", "train.batch=4",
    "optimizer.kind=adam",    "optimizer.lr=0.1",
    "cluster.workers=2",      "cluster.servers=1",
    "cluster.transport=sim",  "log.every=1",
    "checkpoint.dir=ck",      "cluster.step_deadline=1",
    NULL};
/* clang-format on */

static const struct gw_key two_keys[] = {
    {.name = "a", .dtype = GW_DTYPE_F32, .dims = 1, .shape = {40000}},
    {.name = "b", .dtype = GW_DTYPE_F32, .dims = 1, .shape = {7}},
};
#define KEYS (sizeof two_keys / sizeof *two_keys)

const char *council_file(unsigned member)
{
    static const char *const files[COUNCIL_MEMBERS] = {
        "shard-0-of-1.safetensors",
        "worker-0-of-2.safetensors",
        "worker-1-of-2.safetensors",
    };
    return files[member];
}

/* ---- what the coordinator tells: of all things whole lines ---- */

static void is_a_line(const char *text, size_t n)
{
    FUZZ_PROMISE(n > 0 && !memchr(text, '\n', n) && !memchr(text, 27, n));
}

static void on_line(void *context, const char *line, size_t n)
{
    (void)context;
    FUZZ_PROMISE(n > 0 && n <= GW_LOG_LINE_BYTES && line[n - 1] == '\n');
    is_a_line(line, n - 1);
    if (getenv("GW_TEST_LOG"))
        fwrite(line, 1, n, stderr);
}

static uint64_t log_clock(void *clock)
{
    return gw_sim_now(clock);
}

static void on_running(void *owner)
{
    ((struct council *)owner)->running = 1;
}

static void on_step(void *owner, const struct gw_step_report *report)
{
    (void)report;
    ((struct council *)owner)->steps++;
}

static void on_score(void *owner, const struct gw_score_report *report)
{
    (void)report;
    ((struct council *)owner)->scores++;
}

static void on_split(void *owner, const struct gw_split_report *report)
{
    (void)owner, (void)report;
}

static void on_text(void *owner, const char *text)
{
    (void)owner;
    is_a_line(text, strlen(text));
    if (getenv("GW_TEST_LOG"))
        fprintf(stderr, "%s\n", text);
}

static void on_finished(void *owner, const struct gw_final_report *report)
{
    struct council *council = owner;
    FUZZ_PROMISE(!council->finished);
    is_a_line(report->text, strlen(report->text));
    council->finished = 1;
    council->status = report->status;
    snprintf(council->text, sizeof council->text, "%s", report->text);
}

static const struct gw_coordinator_events events = {
    .running = on_running,
    .step = on_step,
    .score = on_score,
    .split = on_split,
    .note = on_text,
    .warning = on_text,
    .finished = on_finished,
};

/* ---- the members ---- */

static enum gw_status admit(void *owner,
                            struct gw_peer *peer,
                            const struct gw_hello *hello,
                            char *why,
                            size_t why_bytes)
{
    (void)owner, (void)peer, (void)hello, (void)why, (void)why_bytes;
    return GW_EREFUSED;
}

static void link_up(void *owner, struct gw_peer *peer, unsigned link)
{
    (void)owner, (void)peer, (void)link;
}

static void link_down(void *owner,
                      struct gw_peer *peer,
                      unsigned link,
                      enum gw_status status,
                      const char *why)
{
    (void)peer, (void)link, (void)status, (void)why;
    ((struct council_member *)owner)->down++;
}

static void
lost(void *owner, struct gw_peer *peer, enum gw_status status, const char *why)
{
    (void)owner, (void)peer, (void)status, (void)why;
}

static void on_frame(void *owner,
                     struct gw_peer *peer,
                     unsigned link,
                     const struct gw_frame *frame,
                     const void *payload)
{
    (void)owner, (void)peer, (void)link, (void)frame, (void)payload;
}

static void
on_message(void *owner, struct gw_peer *peer, const struct gw_message *message)
{
    struct council_member *member = owner;
    (void)peer;
    if (message->kind == GW_MESSAGE_FILE_REPLY)
        member->window = message->file_reply.window;
    if (message->kind == GW_MESSAGE_DECLARE &&
        message->declare.keys_first == member->keys)
        member->keys += message->declare.keys_n;
    if (message->kind != GW_MESSAGE_END)
        return;
    member->has_ended = 1;
    member->ended = message->end.status;
}

static const struct gw_member_handler handler = {
    .admit = admit,
    .link_up = link_up,
    .message = on_message,
    .frame = on_frame,
    .link_down = link_down,
    .lost = lost,
    .stuck = gw_member_stuck_unheard,
};

void council_tell(struct council *council,
                  unsigned member,
                  const struct gw_message *message)
{
    if (!council->finished)
        gw_peer_tell(council->member[member].peer, message);
}

struct sending {
    struct gw_send send;
    uint8_t payload[];
};

static void on_sent(struct gw_send *send, enum gw_status status)
{
    (void)status;
    free(send->owner);
}

void council_put(struct council *council,
                 unsigned member,
                 const struct gw_frame *frame)
{
    struct gw_peer *peer = council->member[member].peer;
    uint8_t bytes[GW_FRAME_BYTES];
    struct gw_frame read;
    gw_frame_encode(frame, bytes);
    if (council->finished || frame->length > PIECE_BYTES ||
        gw_frame_decode(bytes, &read) != GW_OK)
        return;
    struct sending *sending = calloc(1, sizeof *sending + frame->length);
    if (!sending)
        return;
    sending->send = (struct gw_send){.frame = read,
                                     .payload = sending->payload,
                                     .done = on_sent,
                                     .owner = sending};
    gw_peer_send(peer, 0, &sending->send);
}

static int never(void *owner)
{
    (void)owner;
    return 0;
}

void council_pass_time(struct council *council, uint64_t us)
{
    gw_sim_run(council->sim, never, NULL, gw_sim_now(council->sim) + us);
}

/* ---- opening: as honest members do ---- */

static void describe_job(struct council *council, const char *const *settings)
{
    struct gw_error error;
    gw_config_default(&council->config);
    for (size_t i = 0; defaults[i]; i++)
        FUZZ_PROMISE(gw_config_set(&council->config, defaults[i], &error) ==
                     GW_OK);
    for (size_t i = 0; settings && settings[i]; i++)
        FUZZ_PROMISE(gw_config_set(&council->config, settings[i], &error) ==
                     GW_OK);
    FUZZ_PROMISE(gw_config_check(&council->config, &error) == GW_OK);
}

static void open_coordinator(struct council *council)
{
    struct gw_error error;
    const struct gw_sim_options sim = {
        .seed = 1, .latency_us = 10, .bytes_per_us = 1000};
    FUZZ_PROMISE(gw_sim_create(&sim, &council->sim, &error) == GW_OK);
    FUZZ_PROMISE(gw_sim_process(council->sim, "c", &council->loop, &error) ==
                 GW_OK);
    council->log = (struct gw_log){.level = GW_LOG_DEBUG,
                                   .rank = -1,
                                   .role = "coordinator",
                                   .now_us = log_clock,
                                   .clock = council->sim,
                                   .sink = on_line};
    const struct gw_coordinator_options options = {
        .loop = council->loop,
        .transport = gw_transport_find("sim", &error),
        .listen = "c:0",
        .config = &council->config,
        .log = &council->log,
        .metrics = &council->metrics,
        .events = &events,
        .owner = council,
        .machine = 1,
    };
    FUZZ_PROMISE(gw_coordinator_open(&options, &council->coordinator, &error) ==
                 GW_OK);
}

static void join(struct council *council, unsigned i)
{
    struct council_member *member = &council->member[i];
    struct gw_error error;
    uint8_t role = i == COUNCIL_SHARD ? GW_ROLE_SERVER : GW_ROLE_WORKER;
    FUZZ_PROMISE(gw_sim_process(council->sim, i == COUNCIL_SHARD ? "s" : "w",
                                &member->loop, &error) == GW_OK);
    const struct gw_member_options options = {
        .loop = member->loop,
        .transport = gw_transport_find("sim", &error),
        .role = role,
        .rank = GW_RANK_NONE,
        .handler = &handler,
        .owner = member,
    };
    FUZZ_PROMISE(gw_member_open(&options, &member->member, &error) == GW_OK);
    FUZZ_PROMISE(gw_member_dial(member->member,
                                gw_coordinator_address(council->coordinator),
                                GW_ROLE_COORDINATOR, 0, 1, NULL, &member->peer,
                                &error) == GW_OK);
    struct gw_message message = {
        .kind = GW_MESSAGE_JOIN,
        .join = {.role = role,
                 .host = "h",
                 .pid = 100 + i,
                 .process = 1,
                 .threads = 1,
                 .address = "s:1",
                 .rank = i == COUNCIL_SHARD ? GW_RANK_NONE : i - 1}};
    FUZZ_PROMISE(gw_member_sign(member->member, member->peer, NULL,
                                &message.join) == GW_OK);
    council_tell(council, i, &message);
}

/* The first worker's has the keys, in parts. */
static void declare(struct council *council,
                    unsigned i,
                    const struct gw_key *keys,
                    uint32_t n)
{
    uint64_t batch = gw_schedule_batch(&council->config);
    struct gw_message message = {
        .kind = GW_MESSAGE_DECLARE,
        .declare = {.device = "d",
                    .tuned = "",
                    .note = "",
                    .keys_hash = gw_keys_hash(keys, n),
                    .course = {.batch = batch, .samples = 40},
                    .test_samples = COUNCIL_TESTS,
                    .total_steps = COUNCIL_STEPS,
                    .keys_total = n}};
    struct gw_declare *part = &message.declare;
    uint32_t end = i == 1 ? n : 0;
    do {
        part->keys = keys + part->keys_first;
        part->keys_n =
            end > 0 ? gw_keys_in_part(part->keys, end - part->keys_first) : 0;
        council_tell(council, i, &message);
        part->keys_first += part->keys_n;
    } while (part->keys_first < end);
}

struct council *council_open_with(const char *const *settings,
                                  const struct gw_key *keys,
                                  uint32_t n)
{
    struct council *council = calloc(1, sizeof *council);
    if (!council)
        return NULL;
    describe_job(council, settings);
    open_coordinator(council);
    for (unsigned i = 0; i < COUNCIL_MEMBERS; i++)
        join(council, i);
    council_pass_time(council, 2000);
    for (unsigned i = 0; i < COUNCIL_MEMBERS; i++)
        if (i != COUNCIL_SHARD)
            declare(council, i, keys, n);
    council_pass_time(council, 2000 + n * UINT64_C(10));
    council_tell(council, COUNCIL_SHARD,
                 &(struct gw_message){.kind = GW_MESSAGE_READY});
    council_pass_time(council, 2000);
    FUZZ_PROMISE(council->running);
    return council;
}

struct council *council_open(const char *const *settings)
{
    return council_open_with(settings, two_keys, KEYS);
}

void council_close(struct council *council)
{
    for (unsigned i = 0; i < COUNCIL_MEMBERS; i++)
        gw_member_close(council->member[i].member);
    gw_coordinator_close(council->coordinator);
    for (unsigned i = 0; i < COUNCIL_MEMBERS; i++)
        gw_loop_close(council->member[i].loop);
    gw_loop_close(council->loop);
    gw_sim_destroy(council->sim);
    free(council);
}
