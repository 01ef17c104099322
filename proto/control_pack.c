/* From the plain structs to those of protobuf-c. Nothing is copied but keys. */
#include <config.h>

#include "proto/control_codec.h"

#define PACK(name)                                                             \
    enum gw_status name(const struct gw_message *message,                      \
                        struct gw_control_arena *arena, Gwpb__Control *out)

static char *text_out(const char *text)
{
    return (char *)(uintptr_t)(text ? text : "");
}

/* Nothing where it is not there. */
static ProtobufCBinaryData bytes_out(int there, const uint8_t *bytes, size_t n)
{
    return (ProtobufCBinaryData){.len = there ? n : 0,
                                 .data = (uint8_t *)(uintptr_t)bytes};
}

static ProtobufCBinaryData digest_out(const uint8_t digest[GW_DIGEST_BYTES])
{
    return bytes_out(1, digest, GW_DIGEST_BYTES);
}

static Gwpb__Key **keys_out(const struct gw_declare *from,
                            struct gw_control_arena *arena)
{
    Gwpb__Key **list = gw_arena_take(arena, from->keys_n * sizeof *list);
    Gwpb__Key *keys = gw_arena_take(arena, from->keys_n * sizeof *keys);
    if (!list || !keys)
        return NULL;
    for (uint32_t i = 0; i < from->keys_n; i++) {
        const struct gw_key *key = &from->keys[i];
        gwpb__key__init(&keys[i]);
        keys[i].name = text_out(key->name);
        keys[i].dtype = key->dtype;
        keys[i].n_shape = key->dims;
        keys[i].shape = (uint64_t *)(uintptr_t)key->shape;
        list[i] = &keys[i];
    }
    return list;
}

static void course_out(const struct gw_course *from, Gwpb__Course *to)
{
    gwpb__course__init(to);
    to->clock = from->clock;
    to->epoch = from->epoch;
    to->sample = from->sample;
    to->batch = from->batch;
    to->samples = from->samples;
}

static PACK(pack_declare)
{
    const struct gw_declare *from = &message->declare;
    Gwpb__Declare *to = gw_arena_take(arena, sizeof *to);
    Gwpb__Course *course = gw_arena_take(arena, sizeof *course);
    if (!to || !course)
        return GW_ERANGE;
    gwpb__declare__init(to);
    to->keys_hash = from->keys_hash;
    to->data_digest = digest_out(from->data_digest);
    to->total_steps = from->total_steps;
    course_out(&from->course, course);
    to->course = course;
    to->device = text_out(from->device);
    to->keys_total = from->keys_total;
    to->keys_first = from->keys_first;
    to->shares = from->shares;
    to->tuned = text_out(from->tuned);
    to->note = text_out(from->note);
    to->test_samples = from->test_samples;
    to->n_keys = from->keys_n;
    to->keys = keys_out(from, arena);
    if (!to->keys)
        return GW_ERANGE;
    out->declare = to;
    return GW_OK;
}

static void need_out(const struct gw_need *from, Gwpb__Need *to)
{
    gwpb__need__init(to);
    to->threads = from->threads;
    to->device = from->device;
    to->network = from->network;
}

static Gwpb__Member **members_out(const struct gw_view *from,
                                  struct gw_control_arena *arena)
{
    Gwpb__Member **list = gw_arena_take(arena, from->members_n * sizeof *list);
    Gwpb__Member *members =
        gw_arena_take(arena, from->members_n * sizeof *members);
    Gwpb__Need *needs = gw_arena_take(arena, from->members_n * sizeof *needs);
    if (!list || !members || !needs)
        return NULL;
    for (uint32_t i = 0; i < from->members_n; i++) {
        const struct gw_view_member *member = &from->members[i];
        gwpb__member__init(&members[i]);
        members[i].role = member->role;
        members[i].id = member->id;
        members[i].server = member->server;
        members[i].incarnation = member->incarnation;
        members[i].address = text_out(member->address);
        members[i].host = text_out(member->host);
        members[i].machine = member->machine;
        need_out(&member->need, &needs[i]);
        members[i].need = &needs[i];
        members[i].secret =
            bytes_out(member->has_secret, member->secret.byte, GW_SECRET_BYTES);
        list[i] = &members[i];
    }
    return list;
}

static PACK(pack_view)
{
    const struct gw_view *from = &message->view;
    Gwpb__View *to = gw_arena_take(arena, sizeof *to);
    if (!to)
        return GW_ERANGE;
    gwpb__view__init(to);
    to->epoch = from->epoch;
    to->members_total = from->members_total;
    to->members_first = from->members_first;
    to->n_members = from->members_n;
    to->members = members_out(from, arena);
    if (!to->members)
        return GW_ERANGE;
    out->view = to;
    return GW_OK;
}

static PACK(pack_start)
{
    const struct gw_start *from = &message->start;
    const struct gw_decision_state *state = &from->state;
    Gwpb__Start *to = gw_arena_take(arena, sizeof *to);
    Gwpb__DecisionState *kept = gw_arena_take(arena, sizeof *kept);
    Gwpb__Course *course = gw_arena_take(arena, sizeof *course);
    if (!to || !kept || !course)
        return GW_ERANGE;
    gwpb__start__init(to);
    gwpb__decision_state__init(kept);
    to->total_steps = from->total_steps;
    course_out(&from->course, course);
    to->course = course;
    to->resume = text_out(from->resume);
    to->dir = text_out(from->dir);
    to->token = text_out(from->token);
    to->n_clocks = from->clocks_n;
    to->clocks = (uint64_t *)(uintptr_t)from->clocks;
    to->has_inner = from->has_inner;
    to->n_split = from->split_n;
    to->split = (uint32_t *)(uintptr_t)from->split;
    to->n_groups = from->groups_n;
    to->groups = (uint32_t *)(uintptr_t)from->groups;
    to->silence_us = from->silence_us;
    to->test_samples = from->test_samples;
    to->state = kept;
    kept->clock = state->clock;
    kept->applied = state->applied;
    kept->loss_scale = state->loss_scale;
    kept->good_steps = state->good_steps;
    kept->skipped_in_a_row = state->skipped_in_a_row;
    kept->best_loss = state->best_loss;
    kept->best_clock = state->best_clock;
    kept->evaluations = state->evaluations;
    kept->evaluations_without_progress = state->evaluations_without_progress;
    kept->pushes = state->pushes;
    out->start = to;
    return GW_OK;
}

static PACK(pack_join)
{
    const struct gw_join *from = &message->join;
    Gwpb__Join *to = gw_arena_take(arena, sizeof *to);
    Gwpb__Need *need = gw_arena_take(arena, sizeof *need);
    if (!to || !need)
        return GW_ERANGE;
    gwpb__join__init(to);
    to->role = from->role;
    to->host = text_out(from->host);
    to->machine = from->machine;
    to->pid = from->pid;
    to->process = from->process;
    to->threads = from->threads;
    to->thread = from->thread;
    to->address = text_out(from->address);
    to->rank = from->rank;
    need_out(&from->need, need);
    to->need = need;
    to->secret = bytes_out(1, from->secret.byte, GW_SECRET_BYTES);
    to->proof = bytes_out(from->has_proof, from->proof, GW_PROOF_BYTES);
    to->cannot = text_out(from->cannot);
    out->join = to;
    return GW_OK;
}

static PACK(pack_welcome)
{
    const struct gw_welcome *from = &message->welcome;
    Gwpb__Welcome *to = gw_arena_take(arena, sizeof *to);
    Gwpb__Course *course = gw_arena_take(arena, sizeof *course);
    if (!to || !course)
        return GW_ERANGE;
    gwpb__welcome__init(to);
    to->rank = from->rank;
    to->job = text_out(from->job);
    to->tuned = text_out(from->tuned);
    course_out(&from->from.course, course);
    to->course = course;
    to->clock = from->from.clock;
    to->silence_us = from->silence_us;
    out->welcome = to;
    return GW_OK;
}

static PACK(pack_ready)
{
    const struct gw_ready *from = &message->ready;
    Gwpb__Ready *to = gw_arena_take(arena, sizeof *to);
    if (!to)
        return GW_ERANGE;
    gwpb__ready__init(to);
    to->version = from->version;
    out->ready = to;
    return GW_OK;
}

static PACK(pack_window)
{
    const struct gw_window_open *from = &message->window;
    Gwpb__Window *to = gw_arena_take(arena, sizeof *to);
    if (!to)
        return GW_ERANGE;
    gwpb__window__init(to);
    to->kind = from->kind;
    to->id = from->id;
    to->bytes = from->bytes;
    out->window = to;
    return GW_OK;
}

static PACK(pack_decision)
{
    const struct gw_decision *from = &message->decision;
    Gwpb__Decision *to = gw_arena_take(arena, sizeof *to);
    if (!to)
        return GW_ERANGE;
    gwpb__decision__init(to);
    to->number = from->number;
    to->clock = from->clock;
    to->kind = from->kind;
    to->reason = from->reason;
    to->apply = from->apply;
    to->n_values = from->values_n;
    to->values = (double *)(uintptr_t)from->values;
    to->n_ranks = from->ranks_n;
    to->ranks = (uint32_t *)(uintptr_t)from->ranks;
    to->n_clocks = from->clocks_n;
    to->clocks = (uint64_t *)(uintptr_t)from->clocks;
    to->policy = text_out(from->policy);
    to->stands_for = from->stands_for;
    out->decision = to;
    return GW_OK;
}

static PACK(pack_settled)
{
    const struct gw_settled *from = &message->settled;
    Gwpb__Settled *to = gw_arena_take(arena, sizeof *to);
    if (!to)
        return GW_ERANGE;
    gwpb__settled__init(to);
    to->decision = from->decision;
    to->n_clocks = from->clocks_n;
    to->clocks = (uint64_t *)(uintptr_t)from->clocks;
    to->n_blocked = from->blocked_n;
    to->blocked = (uint32_t *)(uintptr_t)from->blocked;
    out->settled = to;
    return GW_OK;
}

static PACK(pack_arrived)
{
    const struct gw_arrived *from = &message->arrived;
    Gwpb__Arrived *to = gw_arena_take(arena, sizeof *to);
    if (!to)
        return GW_ERANGE;
    gwpb__arrived__init(to);
    to->clock = from->clock;
    to->n_ranks = from->ranks_n;
    to->ranks = (uint32_t *)(uintptr_t)from->ranks;
    out->arrived = to;
    return GW_OK;
}

static PACK(pack_poll)
{
    Gwpb__Poll *to = gw_arena_take(arena, sizeof *to);
    if (!to)
        return GW_ERANGE;
    gwpb__poll__init(to);
    to->clock = message->poll.clock;
    out->poll = to;
    return GW_OK;
}

static PACK(pack_speed)
{
    const struct gw_speed *from = &message->speed;
    Gwpb__Speed *to = gw_arena_take(arena, sizeof *to);
    if (!to)
        return GW_ERANGE;
    gwpb__speed__init(to);
    to->clock = from->clock;
    to->samples_per_s = from->samples_per_s;
    out->speed = to;
    return GW_OK;
}

static ProtobufCBinaryData words_out(const struct gw_sight_words *words)
{
    return (ProtobufCBinaryData){words->n, (uint8_t *)(uintptr_t)words->byte};
}

static PACK(pack_sight)
{
    const struct gw_sight *from = &message->sight;
    Gwpb__Sight *to = gw_arena_take(arena, sizeof *to);
    if (!to || from->gradients.n > GW_SIGHT_WORDS_MAX ||
        from->weights.n > GW_SIGHT_WORDS_MAX ||
        from->trial.n > GW_SIGHT_WORDS_MAX)
        return GW_ERANGE;
    gwpb__sight__init(to);
    to->verdict = from->verdict;
    to->gradients = words_out(&from->gradients);
    to->weights = words_out(&from->weights);
    to->trial = words_out(&from->trial);
    to->nonce = from->nonce;
    out->sight = to;
    return GW_OK;
}

static PACK(pack_vote)
{
    const struct gw_vote *from = &message->vote;
    Gwpb__Vote *to = gw_arena_take(arena, sizeof *to);
    if (!to)
        return GW_ERANGE;
    gwpb__vote__init(to);
    to->clock = from->clock;
    to->phase = from->phase;
    to->first = from->first;
    to->total = from->total;
    to->samples = from->samples;
    to->n_values = from->values_n;
    to->values = (double *)(uintptr_t)from->values;
    to->n_bad_ranks = from->bad_ranks_n;
    to->bad_ranks = (uint32_t *)(uintptr_t)from->bad_ranks;
    out->vote = to;
    return GW_OK;
}

static PACK(pack_score)
{
    const struct gw_score *from = &message->score;
    Gwpb__Score *to = gw_arena_take(arena, sizeof *to);
    if (!to)
        return GW_ERANGE;
    gwpb__score__init(to);
    to->clock = from->clock;
    to->loss = from->loss;
    to->correct = from->correct;
    to->samples = from->samples;
    out->score = to;
    return GW_OK;
}

static PACK(pack_report)
{
    const struct gw_report *from = &message->report;
    Gwpb__Report *to = gw_arena_take(arena, sizeof *to);
    if (!to)
        return GW_ERANGE;
    gwpb__report__init(to);
    to->clock = from->clock;
    to->loss = from->loss;
    to->samples = from->samples;
    to->correct = from->correct;
    to->rss_bytes = from->rss_bytes;
    to->n_counters = from->counters_n;
    to->counters = (uint64_t *)(uintptr_t)from->counters;
    to->n_staleness = from->staleness_n;
    to->staleness = (uint64_t *)(uintptr_t)from->staleness;
    to->decision = from->decision;
    out->report = to;
    return GW_OK;
}

static PACK(pack_stop)
{
    const struct gw_stop *from = &message->stop;
    Gwpb__Stop *to = gw_arena_take(arena, sizeof *to);
    if (!to)
        return GW_ERANGE;
    gwpb__stop__init(to);
    to->text = text_out(from->text);
    out->stop = to;
    return GW_OK;
}

static PACK(pack_saved)
{
    const struct gw_saved *from = &message->saved;
    Gwpb__Saved *to = gw_arena_take(arena, sizeof *to);
    if (!to)
        return GW_ERANGE;
    gwpb__saved__init(to);
    to->clock = from->clock;
    to->status = (int32_t)from->status;
    to->file = text_out(from->file);
    to->bytes = from->bytes;
    to->sha256 = digest_out(from->sha256);
    to->text = text_out(from->text);
    out->saved = to;
    return GW_OK;
}

static PACK(pack_stored)
{
    const struct gw_stored *from = &message->stored;
    Gwpb__Stored *to = gw_arena_take(arena, sizeof *to);
    if (!to)
        return GW_ERANGE;
    gwpb__stored__init(to);
    to->clock = from->clock;
    to->ok = from->ok;
    out->stored = to;
    return GW_OK;
}

static PACK(pack_end)
{
    const struct gw_end *from = &message->end;
    Gwpb__End *to = gw_arena_take(arena, sizeof *to);
    if (!to)
        return GW_ERANGE;
    gwpb__end__init(to);
    to->status = (int32_t)from->status;
    to->clock = from->clock;
    to->text = text_out(from->text);
    out->end = to;
    return GW_OK;
}

static PACK(pack_bye)
{
    const struct gw_bye *from = &message->bye;
    Gwpb__Bye *to = gw_arena_take(arena, sizeof *to);
    if (!to)
        return GW_ERANGE;
    gwpb__bye__init(to);
    to->clock = from->clock;
    to->sha256 = bytes_out(from->has_sha256, from->sha256, GW_DIGEST_BYTES);
    to->rss_bytes = from->rss_bytes;
    to->n_counters = from->counters_n;
    to->counters = (uint64_t *)(uintptr_t)from->counters;
    out->bye = to;
    return GW_OK;
}

static PACK(pack_fault)
{
    const struct gw_fault *from = &message->fault;
    Gwpb__Fault *to = gw_arena_take(arena, sizeof *to);
    if (!to)
        return GW_ERANGE;
    gwpb__fault__init(to);
    to->role = from->role;
    to->id = from->id;
    to->text = text_out(from->text);
    out->fault = to;
    return GW_OK;
}

static PACK(pack_stall)
{
    const struct gw_stall *from = &message->stall;
    Gwpb__Stall *to = gw_arena_take(arena, sizeof *to);
    if (!to)
        return GW_ERANGE;
    gwpb__stall__init(to);
    to->clock = from->clock;
    to->seconds = from->seconds;
    to->text = text_out(from->text);
    to->stuck = from->stuck;
    out->stall = to;
    return GW_OK;
}

static PACK(pack_file_open)
{
    const struct gw_file_open *from = &message->file_open;
    Gwpb__FileOpen *to = gw_arena_take(arena, sizeof *to);
    if (!to)
        return GW_ERANGE;
    gwpb__file_open__init(to);
    to->name = text_out(from->name);
    to->write = from->write;
    to->offset = from->offset;
    to->bytes = from->bytes;
    to->window = from->window;
    to->clock = from->clock;
    to->request = from->request;
    out->file_open = to;
    return GW_OK;
}

static PACK(pack_file_reply)
{
    const struct gw_file_reply *from = &message->file_reply;
    Gwpb__FileReply *to = gw_arena_take(arena, sizeof *to);
    if (!to)
        return GW_ERANGE;
    gwpb__file_reply__init(to);
    to->status = (int32_t)from->status;
    to->text = text_out(from->text);
    to->offset = from->offset;
    to->bytes = from->bytes;
    to->window = from->window;
    to->request = from->request;
    out->file_reply = to;
    return GW_OK;
}

static PACK(pack_status)
{
    const struct gw_status_message *from = &message->status;
    Gwpb__Status *to = gw_arena_take(arena, sizeof *to);
    if (!to)
        return GW_ERANGE;
    gwpb__status__init(to);
    to->request = from->request;
    to->text = text_out(from->text);
    to->status = (int32_t)from->status;
    out->status = to;
    return GW_OK;
}

static PACK(pack_request)
{
    const struct gw_request *from = &message->request;
    Gwpb__Request *to = gw_arena_take(arena, sizeof *to);
    if (!to)
        return GW_ERANGE;
    gwpb__request__init(to);
    to->kind = from->kind;
    to->text = text_out(from->text);
    out->request = to;
    return GW_OK;
}

gw_pack_fn *const gw_pack_table[GW_MESSAGE_KINDS] = {
    [GW_MESSAGE_JOIN] = pack_join,
    [GW_MESSAGE_WELCOME] = pack_welcome,
    [GW_MESSAGE_DECLARE] = pack_declare,
    [GW_MESSAGE_VIEW] = pack_view,
    [GW_MESSAGE_START] = pack_start,
    [GW_MESSAGE_READY] = pack_ready,
    [GW_MESSAGE_WINDOW] = pack_window,
    [GW_MESSAGE_DECISION] = pack_decision,
    [GW_MESSAGE_VOTE] = pack_vote,
    [GW_MESSAGE_SCORE] = pack_score,
    [GW_MESSAGE_REPORT] = pack_report,
    [GW_MESSAGE_STOP] = pack_stop,
    [GW_MESSAGE_SAVED] = pack_saved,
    [GW_MESSAGE_STORED] = pack_stored,
    [GW_MESSAGE_END] = pack_end,
    [GW_MESSAGE_BYE] = pack_bye,
    [GW_MESSAGE_STALL] = pack_stall,
    [GW_MESSAGE_FILE_OPEN] = pack_file_open,
    [GW_MESSAGE_FILE_REPLY] = pack_file_reply,
    [GW_MESSAGE_STATUS] = pack_status,
    [GW_MESSAGE_SETTLED] = pack_settled,
    [GW_MESSAGE_ARRIVED] = pack_arrived,
    [GW_MESSAGE_REQUEST] = pack_request,
    [GW_MESSAGE_SPEED] = pack_speed,
    [GW_MESSAGE_SIGHT] = pack_sight,
    [GW_MESSAGE_FAULT] = pack_fault,
    [GW_MESSAGE_POLL] = pack_poll,
};
