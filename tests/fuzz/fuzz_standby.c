/*
 * The copy of shard 0, to which shard 0 and the coordinator lie; the
 * coordinator may put it in the place of shard 0, too. The input is a program:
 * a byte for what to do, then its operands. Nothing may crash the server, make
 * it grow or let it hang, and it logs whole lines.
 */
#include "config.h"

#include "server/server_state.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/session_acts.h"

#define STEPS_MAX 300 /* of a program */

/* ---- frames of a primary ---- */

static struct gw_frame put_of(const struct session_world *world,
                              uint32_t chunk,
                              uint8_t kind,
                              uint32_t window)
{
    const struct gw_chunk *place = &world->map->chunk[chunk];
    return (struct gw_frame){.kind = kind,
                             .chunk = chunk,
                             .window = window,
                             .offset = place->shard_offset,
                             .length = place->elems * (uint32_t)sizeof(float),
                             .dtype = GW_DTYPE_F32};
}

static void send_put(struct session_world *world,
                     uint32_t chunk,
                     uint8_t kind,
                     uint32_t window)
{
    static const uint8_t zero[4];
    const struct gw_frame frame = put_of(world, chunk, kind, window);
    session_lead_frame(world, &frame, zero, sizeof zero);
}

static void send_note(struct session_world *world,
                      uint32_t chunk,
                      uint64_t decision,
                      const struct gw_copy_note *note)
{
    uint8_t bytes[GW_COPY_NOTE_BYTES];
    const struct gw_frame frame = {.kind = GW_FRAME_NOTE,
                                   .chunk = chunk,
                                   .clock = note->version,
                                   .length = sizeof bytes,
                                   .decision = (uint32_t)decision};
    gw_copy_note_encode(note, bytes);
    session_lead_frame(world, &frame, bytes, sizeof bytes);
}

static const struct gw_shard *shard_of(const struct session_world *world)
{
    return world->finished ? NULL : world->server->shard;
}

/* Every chunk as it should be copied. */
static void do_copy(struct session_world *world)
{
    const struct gw_shard *shard = shard_of(world);
    for (uint32_t i = 0; shard && i < shard->chunks; i++) {
        const struct gw_shard_chunk *chunk = &shard->chunk[i];
        const struct gw_copy_note note = {.kind = GW_COPY_WHOLE,
                                          .version = chunk->version};
        for (unsigned array = 0;
             array < GW_COPY_STATES + shard->optimizer->states; array++)
            send_put(world, chunk->global, GW_FRAME_COPY, world->arrays[array]);
        send_note(world, chunk->global, world->server->decision, &note);
    }
    session_pass_time(world, 500);
}

/* Every chunk makes a step, or has its sum for one. */
static void do_step(struct session_world *world)
{
    const struct gw_shard *shard = shard_of(world);
    for (uint32_t i = 0; shard && i < shard->chunks; i++) {
        const struct gw_shard_chunk *chunk = &shard->chunk[i];
        int whole = world->server->regime.whole_step;
        const struct gw_copy_note note = {
            .kind = whole ? GW_COPY_SUM : GW_COPY_STEP,
            .version = chunk->version + !whole,
            .updates = chunk->updates + !whole,
            .pushes = chunk->pushes + (whole ? 0 : SESSION_WORKERS),
            .scale = 0.125F,
            .t = chunk->updates + 1,
            .terms = {.lr = 0.1, .momentum = 0.9},
            .samples = 8};
        send_put(world, chunk->global, GW_FRAME_SUM, world->sums);
        send_note(world, chunk->global, world->server->decision, &note);
    }
    session_pass_time(world, 500);
}

/* ---- lies ---- */

static void do_note(struct session_world *world, struct input *input)
{
    const struct gw_shard *shard = shard_of(world);
    uint32_t chunk = (uint32_t)take(input, 1) % (uint32_t)world->map->chunks;
    uint64_t version = shard && shard->chunks > 0 ? shard->chunk[0].version : 0;
    const struct gw_copy_note note = {
        .kind = (uint8_t)about(input, 1 + take(input, 1) % 5),
        .version = about(input, version + take(input, 1) % 2),
        .updates = about(input, version),
        .skipped = about(input, 0),
        .pushes = about(input, version),
        .scale = (float)take(input, 1) / 64,
        .t = about(input, version),
        .terms = {.lr = (double)take(input, 1), .momentum = 0.5},
        .samples = about(input, 8),
        .uncounted = about(input, 0)};
    send_note(world, (uint32_t)about(input, chunk),
              about(input, world->server->decision), &note);
    session_pass_time(world, 200);
}

static void do_put(struct session_world *world, struct input *input)
{
    static const uint8_t kinds[] = {GW_FRAME_SUM, GW_FRAME_COPY, GW_FRAME_SUM,
                                    GW_FRAME_NOTE, GW_FRAME_PUSH};
    uint32_t chunk = (uint32_t)take(input, 1) % (uint32_t)world->map->chunks;
    uint64_t array = take(input, 1) % (GW_COPY_ARRAYS + 1);
    struct gw_frame frame =
        put_of(world, chunk, kinds[take(input, 1) % sizeof kinds],
               array < GW_COPY_ARRAYS ? world->arrays[array] : world->sums);
    const uint8_t value[] = {0, 0, (uint8_t)take(input, 1),
                             (uint8_t)take(input, 1)};
    frame.chunk = (uint32_t)about(input, chunk);
    frame.window = (uint32_t)about(input, frame.window);
    frame.offset = about(input, frame.offset);
    frame.length = (uint32_t)about(input, frame.length);
    frame.dtype = (uint8_t)about(input, frame.dtype);
    frame.encoding = (uint8_t)about(input, frame.encoding);
    session_lead_frame(world, &frame, value, sizeof value);
    session_pass_time(world, 200);
}

static void do_standing(struct session_world *world, struct input *input)
{
    const struct gw_message message = {
        .kind = GW_MESSAGE_STANDING,
        .standing = {.epoch = about(input, 1),
                     .ready = 1,
                     .chunks = (uint32_t)about(input, 2),
                     .least = take(input, 1),
                     .most = take(input, 1),
                     .state = {.clock = about(input, 0),
                               .loss_scale = (double)take(input, 1)},
                     .policy = "sync",
                     .decision = about(input, world->server->decision)}};
    session_lead(world, &message);
    session_pass_time(world, 200);
}

/* One that names another for a shard or a rank: mostly the server itself, in
   the place of shard 0. */
static void do_view(struct session_world *world, struct input *input)
{
    uint32_t who = take(input, 1) < 200
                       ? SESSION_MEMBERS
                       : (uint32_t)take(input, 1) % world->members;
    struct gw_view_member member = world->member[who];
    member.role = who == SESSION_MEMBERS ? GW_ROLE_SERVER : member.role;
    member.id = (uint32_t)about(input, member.id);
    member.incarnation += take(input, 1) > 250;
    session_coordinate(
        world,
        &(struct gw_message){
            .kind = GW_MESSAGE_VIEW,
            .view = {.epoch = about(input,
                                    gw_member_epoch(world->server->member) + 1),
                     .members_total = 1,
                     .members_n = 1,
                     .members = &member}});
    session_pass_time(world, 500);
    for (uint32_t rank = 0; rank < SESSION_WORKERS; rank++)
        session_dial(&world->sender[rank]);
    session_pass_time(world, 500);
}

static void do_one(struct session_world *world, struct input *input)
{
    uint64_t what = take(input, 1);
    struct session_sender *sender = &world->sender[what / 16 % SESSION_WORKERS];
    switch (what % 16) {
    case 0:
    case 1:
        session_do_decision(world, input);
        break;
    case 2:
    case 3:
        do_copy(world);
        break;
    case 4:
    case 5:
        do_step(world);
        break;
    case 6:
        do_note(world, input);
        break;
    case 7:
        do_put(world, input);
        break;
    case 8:
        do_standing(world, input);
        break;
    case 9:
        do_view(world, input);
        break;
    case 10:
        session_do_coordinate(world, input);
        break;
    case 11:
        session_do_step(world, take(input, 1));
        break;
    case 12:
        gw_sim_cut(world->sim);
        break;
    case 13:
        session_do_put(sender, input, GW_FRAME_PUSH);
        break;
    default:
        session_pass_time(world, 100 + take(input, 1) * 40);
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct input input = {data, n};
    uint64_t how = take(&input, 1);
    const char *settings[] = {
        how & 1 ? "train.commit=whole" : "train.commit=auto",
        how & 2 ? "checkpoint.dir=ck" : "checkpoint.dir=\"\"",
        how & 4 ? "optimizer.kind=adam" : "optimizer.kind=momentum", NULL};
    const struct session_options options = {.settings = settings,
                                            .stands_by = 1};
    struct session_world *world = session_open(&options);
    if (!world)
        return 0;
    FUZZ_PROMISE(world->ready);
    for (size_t i = 0; i < STEPS_MAX && input.left > 0; i++)
        do_one(world, &input);
    session_pass_time(world, 300000);
    session_close(world);
    return 0;
}
