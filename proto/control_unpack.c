/*
 * From the structs of protobuf-c to the plain ones. What comes from outside is
 * checked here for its form: sizes of digests, numbers of dimensions, counts
 * that agree. Whether it makes sense is for the receiver to say.
 */
#include <config.h>

#include <string.h>

#include "proto/config.h"
#include "proto/control_codec.h"

/* More cannot come in 64 KiB. */
#define GW_VALUES_MAX 65536

static int are_clocks(const uint64_t *clock, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!gw_is_clock(clock[i]))
            return 0;
    return 1;
}

static int bytes_in(const ProtobufCBinaryData *from, uint8_t *bytes, size_t n)
{
    if (from->len != n)
        return 0;
    memcpy(bytes, from->data, n);
    return 1;
}

/* All of them, or none. */
static int bytes_in_or_none(const ProtobufCBinaryData *from,
                            int *there_p,
                            uint8_t *bytes,
                            size_t n)
{
    memset(bytes, 0, n);
    *there_p = from->len > 0;
    return !*there_p || bytes_in(from, bytes, n);
}

static int digest_in(const ProtobufCBinaryData *from,
                     uint8_t digest[GW_DIGEST_BYTES])
{
    return bytes_in(from, digest, GW_DIGEST_BYTES);
}

static int key_in(const Gwpb__Key *from, struct gw_key *to)
{
    size_t name = strlen(from->name);
    if (name >= sizeof to->name || from->n_shape > GW_KEY_DIMS_MAX ||
        from->dtype > UINT8_MAX)
        return 0;
    memset(to, 0, sizeof *to);
    memcpy(to->name, from->name, name);
    to->dtype = (uint8_t)from->dtype;
    to->dims = (uint8_t)from->n_shape;
    for (size_t d = 0; d < from->n_shape; d++)
        to->shape[d] = from->shape[d];
    return 1;
}

/* A member that says nothing of it knows none. */
static int course_in(const Gwpb__Course *from, struct gw_course *to)
{
    *to = (struct gw_course){0};
    if (!from)
        return 1;
    *to = (struct gw_course){.clock = from->clock,
                             .epoch = from->epoch,
                             .sample = from->sample,
                             .batch = from->batch,
                             .samples = from->samples};
    return gw_course_is_valid(to);
}

static GW_UNPACK(unpack_declare)
{
    const Gwpb__Declare *from = in->declare;
    struct gw_declare *to = &message->declare;
    struct gw_key *keys = gw_arena_take(arena, from->n_keys * sizeof *keys);
    if (!keys || !digest_in(&from->data_digest, to->data_digest) ||
        from->keys_total > GW_KEYS_MAX || from->keys_first > from->keys_total ||
        from->n_keys > from->keys_total - from->keys_first ||
        strlen(from->tuned) >= GW_TUNED_BYTES ||
        !gw_is_clock(from->total_steps) ||
        !course_in(from->course, &to->course))
        return GW_EPROTO;
    for (size_t i = 0; i < from->n_keys; i++)
        if (!key_in(from->keys[i], &keys[i]))
            return GW_EPROTO;
    to->keys_hash = from->keys_hash;
    to->total_steps = from->total_steps;
    to->device = from->device;
    to->shares = from->shares != 0;
    to->tuned = from->tuned;
    to->note = from->note;
    to->test_samples = from->test_samples;
    to->keys_total = from->keys_total;
    to->keys_first = from->keys_first;
    to->keys_n = (uint32_t)from->n_keys;
    to->keys = keys;
    return GW_OK;
}

/* Whoever says nothing of it has none. */
static int need_in(const Gwpb__Need *from, struct gw_need *to)
{
    *to = (struct gw_need){0};
    if (!from)
        return 1;
    to->threads = from->threads;
    to->device = from->device;
    to->network = from->network;
    return from->threads <= GW_NEED_THREADS_MAX;
}

static GW_UNPACK(unpack_view)
{
    const Gwpb__View *from = in->view;
    struct gw_view *to = &message->view;
    struct gw_view_member *members =
        gw_arena_take(arena, from->n_members * sizeof *members);
    if (!members || from->members_first > from->members_total ||
        from->n_members > from->members_total - from->members_first)
        return GW_EPROTO;
    for (size_t i = 0; i < from->n_members; i++) {
        const Gwpb__Member *member = from->members[i];
        if (member->role > UINT8_MAX)
            return GW_EPROTO;
        members[i] = (struct gw_view_member){
            .role = (uint8_t)member->role,
            .id = member->id,
            .server = member->server,
            .incarnation = member->incarnation,
            .address = member->address,
            .host = member->host,
            .machine = member->machine,
        };
        if (!need_in(member->need, &members[i].need) ||
            !bytes_in_or_none(&member->secret, &members[i].has_secret,
                              members[i].secret.byte, GW_SECRET_BYTES))
            return GW_EPROTO;
    }
    to->epoch = from->epoch;
    to->members_total = from->members_total;
    to->members_first = from->members_first;
    to->members_n = (uint32_t)from->n_members;
    to->members = members;
    return GW_OK;
}

static GW_UNPACK(unpack_start)
{
    const Gwpb__Start *from = in->start;
    const Gwpb__DecisionState *kept = from->state;
    struct gw_start *to = &message->start;
    (void)arena;
    if (!kept || !gw_is_clock(from->total_steps) || !gw_is_clock(kept->clock) ||
        !are_clocks(from->clocks, from->n_clocks) ||
        !course_in(from->course, &to->course))
        return GW_EPROTO;
    to->total_steps = from->total_steps;
    to->resume = from->resume;
    to->dir = from->dir;
    to->token = from->token;
    if (from->n_clocks > GW_VALUES_MAX)
        return GW_EPROTO;
    to->clocks = from->clocks;
    to->clocks_n = (uint32_t)from->n_clocks;
    to->has_inner = from->has_inner != 0;
    if (from->n_split > GW_VALUES_MAX)
        return GW_EPROTO;
    to->split = from->split;
    to->split_n = (uint32_t)from->n_split;
    if (from->n_groups > GW_VALUES_MAX || from->silence_us > GW_SILENCE_MAX_US)
        return GW_EPROTO;
    to->groups = from->groups;
    to->groups_n = (uint32_t)from->n_groups;
    to->silence_us = from->silence_us;
    to->test_samples = from->test_samples;
    to->state = (struct gw_decision_state){
        .clock = kept->clock,
        .applied = kept->applied,
        .loss_scale = kept->loss_scale,
        .good_steps = kept->good_steps,
        .skipped_in_a_row = kept->skipped_in_a_row,
        .best_loss = kept->best_loss,
        .best_clock = kept->best_clock,
        .evaluations = kept->evaluations,
        .evaluations_without_progress = kept->evaluations_without_progress,
        .pushes = kept->pushes,
    };
    return GW_OK;
}

static GW_UNPACK(unpack_join)
{
    const Gwpb__Join *from = in->join;
    struct gw_join *to = &message->join;
    (void)arena;
    if (from->role > UINT8_MAX)
        return GW_EPROTO;
    to->role = (uint8_t)from->role;
    to->host = from->host;
    to->machine = from->machine;
    to->pid = from->pid;
    to->process = from->process;
    to->threads = from->threads;
    to->thread = from->thread;
    to->address = from->address;
    to->rank = from->rank;
    to->cannot = from->cannot;
    if (!need_in(from->need, &to->need) ||
        !bytes_in(&from->secret, to->secret.byte, GW_SECRET_BYTES) ||
        !bytes_in_or_none(&from->proof, &to->has_proof, to->proof,
                          GW_PROOF_BYTES))
        return GW_EPROTO;
    return GW_OK;
}

static GW_UNPACK(unpack_welcome)
{
    const Gwpb__Welcome *from = in->welcome;
    struct gw_welcome *to = &message->welcome;
    (void)arena;
    if (strlen(from->tuned) >= GW_TUNED_BYTES ||
        from->silence_us > GW_SILENCE_MAX_US ||
        !course_in(from->course, &to->from.course))
        return GW_EPROTO;
    to->from.clock = from->clock;
    to->rank = from->rank;
    to->job = from->job;
    to->tuned = from->tuned;
    to->silence_us = from->silence_us;
    return GW_OK;
}

static GW_UNPACK(unpack_ready)
{
    const Gwpb__Ready *from = in->ready;
    struct gw_ready *to = &message->ready;
    (void)arena;
    to->version = from->version;
    return GW_OK;
}

static GW_UNPACK(unpack_window)
{
    const Gwpb__Window *from = in->window;
    struct gw_window_open *to = &message->window;
    (void)arena;
    if (from->kind > UINT8_MAX)
        return GW_EPROTO;
    to->kind = (uint8_t)from->kind;
    to->id = from->id;
    to->bytes = from->bytes;
    return GW_OK;
}

static GW_UNPACK(unpack_decision)
{
    const Gwpb__Decision *from = in->decision;
    struct gw_decision *to = &message->decision;
    (void)arena;
    if (!gw_is_clock(from->clock) || !are_clocks(from->clocks, from->n_clocks))
        return GW_EPROTO;
    to->number = from->number;
    to->clock = from->clock;
    if (from->kind > UINT8_MAX)
        return GW_EPROTO;
    to->kind = (uint8_t)from->kind;
    if (from->reason > UINT8_MAX)
        return GW_EPROTO;
    to->reason = (uint8_t)from->reason;
    to->apply = from->apply != 0;
    if (from->n_values > GW_VALUES_MAX)
        return GW_EPROTO;
    to->values = from->values;
    to->values_n = (uint32_t)from->n_values;
    if (from->n_ranks > GW_VALUES_MAX)
        return GW_EPROTO;
    to->ranks = from->ranks;
    to->ranks_n = (uint32_t)from->n_ranks;
    if (from->n_clocks > GW_VALUES_MAX)
        return GW_EPROTO;
    to->clocks = from->clocks;
    to->clocks_n = (uint32_t)from->n_clocks;
    to->policy = from->policy;
    to->stands_for = from->stands_for;
    return GW_OK;
}

static GW_UNPACK(unpack_settled)
{
    const Gwpb__Settled *from = in->settled;
    struct gw_settled *to = &message->settled;
    (void)arena;
    to->decision = from->decision;
    if (from->n_clocks > GW_VALUES_MAX || from->n_blocked > GW_VALUES_MAX ||
        !are_clocks(from->clocks, from->n_clocks))
        return GW_EPROTO;
    to->clocks = from->clocks;
    to->clocks_n = (uint32_t)from->n_clocks;
    to->blocked = from->blocked;
    to->blocked_n = (uint32_t)from->n_blocked;
    return GW_OK;
}

static GW_UNPACK(unpack_arrived)
{
    const Gwpb__Arrived *from = in->arrived;
    (void)arena;
    if (from->n_ranks > GW_VALUES_MAX || !gw_is_clock(from->clock))
        return GW_EPROTO;
    message->arrived = (struct gw_arrived){.clock = from->clock,
                                           .ranks = from->ranks,
                                           .ranks_n = (uint32_t)from->n_ranks};
    return GW_OK;
}

static GW_UNPACK(unpack_poll)
{
    (void)arena;
    if (!gw_is_clock(in->poll->clock))
        return GW_EPROTO;
    message->poll.clock = in->poll->clock;
    return GW_OK;
}

static GW_UNPACK(unpack_speed)
{
    (void)arena;
    message->speed.clock = in->speed->clock;
    message->speed.samples_per_s = in->speed->samples_per_s;
    return gw_is_clock(message->speed.clock) ? GW_OK : GW_EPROTO;
}

/* 0: they are too long. */
static int words_in(const ProtobufCBinaryData *from, struct gw_sight_words *to)
{
    *to = (struct gw_sight_words){.n = 0};
    if (from->len > GW_SIGHT_WORDS_MAX)
        return 0;
    to->n = (uint32_t)from->len;
    if (to->n > 0)
        memcpy(to->byte, from->data, to->n);
    return 1;
}

static GW_UNPACK(unpack_sight)
{
    const Gwpb__Sight *from = in->sight;
    struct gw_sight *to = &message->sight;
    (void)arena;
    if (from->verdict > GW_SIGHT_SEES ||
        !words_in(&from->gradients, &to->gradients) ||
        !words_in(&from->weights, &to->weights) ||
        !words_in(&from->trial, &to->trial))
        return GW_EPROTO;
    to->nonce = from->nonce;
    to->verdict = (enum gw_sees)from->verdict;
    return GW_OK;
}

static GW_UNPACK(unpack_vote)
{
    const Gwpb__Vote *from = in->vote;
    struct gw_vote *to = &message->vote;
    (void)arena;
    if (!gw_is_clock(from->clock))
        return GW_EPROTO;
    to->clock = from->clock;
    if (from->phase > UINT8_MAX)
        return GW_EPROTO;
    to->phase = (uint8_t)from->phase;
    to->first = from->first;
    to->total = from->total;
    to->samples = from->samples;
    if (from->n_values > GW_VALUES_MAX)
        return GW_EPROTO;
    to->values = from->values;
    to->values_n = (uint32_t)from->n_values;
    if (from->n_bad_ranks > GW_VALUES_MAX)
        return GW_EPROTO;
    to->bad_ranks = from->bad_ranks;
    to->bad_ranks_n = (uint32_t)from->n_bad_ranks;
    return GW_OK;
}

static GW_UNPACK(unpack_score)
{
    const Gwpb__Score *from = in->score;
    struct gw_score *to = &message->score;
    (void)arena;
    if (!gw_is_clock(from->clock))
        return GW_EPROTO;
    to->clock = from->clock;
    to->loss = from->loss;
    to->correct = from->correct;
    to->samples = from->samples;
    return GW_OK;
}

static GW_UNPACK(unpack_report)
{
    const Gwpb__Report *from = in->report;
    struct gw_report *to = &message->report;
    (void)arena;
    if (!gw_is_clock(from->clock))
        return GW_EPROTO;
    to->clock = from->clock;
    to->loss = from->loss;
    to->samples = from->samples;
    to->correct = from->correct;
    to->rss_bytes = from->rss_bytes;
    if (from->n_counters > GW_VALUES_MAX)
        return GW_EPROTO;
    to->counters = from->counters;
    to->counters_n = (uint32_t)from->n_counters;
    if (from->n_staleness > GW_VALUES_MAX)
        return GW_EPROTO;
    to->staleness = from->staleness;
    to->staleness_n = (uint32_t)from->n_staleness;
    to->decision = from->decision;
    return GW_OK;
}

static GW_UNPACK(unpack_stop)
{
    const Gwpb__Stop *from = in->stop;
    struct gw_stop *to = &message->stop;
    (void)arena;
    to->text = from->text;
    return GW_OK;
}

static GW_UNPACK(unpack_saved)
{
    const Gwpb__Saved *from = in->saved;
    struct gw_saved *to = &message->saved;
    (void)arena;
    if (!gw_is_clock(from->clock))
        return GW_EPROTO;
    to->clock = from->clock;
    to->status = (enum gw_status)from->status;
    to->file = from->file;
    to->bytes = from->bytes;
    if (!digest_in(&from->sha256, to->sha256))
        return GW_EPROTO;
    to->text = from->text;
    return GW_OK;
}

static GW_UNPACK(unpack_stored)
{
    const Gwpb__Stored *from = in->stored;
    struct gw_stored *to = &message->stored;
    (void)arena;
    if (!gw_is_clock(from->clock))
        return GW_EPROTO;
    to->clock = from->clock;
    to->ok = from->ok != 0;
    return GW_OK;
}

static GW_UNPACK(unpack_end)
{
    const Gwpb__End *from = in->end;
    struct gw_end *to = &message->end;
    (void)arena;
    to->status = (enum gw_status)from->status;
    to->clock = from->clock;
    to->text = from->text;
    return GW_OK;
}

static GW_UNPACK(unpack_bye)
{
    const Gwpb__Bye *from = in->bye;
    struct gw_bye *to = &message->bye;
    (void)arena;
    to->clock = from->clock;
    if (!bytes_in_or_none(&from->sha256, &to->has_sha256, to->sha256,
                          GW_DIGEST_BYTES))
        return GW_EPROTO;
    to->rss_bytes = from->rss_bytes;
    if (from->n_counters > GW_VALUES_MAX)
        return GW_EPROTO;
    to->counters = from->counters;
    to->counters_n = (uint32_t)from->n_counters;
    return GW_OK;
}

static GW_UNPACK(unpack_fault)
{
    const Gwpb__Fault *from = in->fault;
    struct gw_fault *to = &message->fault;
    (void)arena;
    if (from->role > UINT8_MAX)
        return GW_EPROTO;
    to->role = (uint8_t)from->role;
    to->id = from->id;
    to->text = from->text;
    return GW_OK;
}

static GW_UNPACK(unpack_stall)
{
    const Gwpb__Stall *from = in->stall;
    struct gw_stall *to = &message->stall;
    (void)arena;
    to->clock = from->clock;
    to->seconds = from->seconds;
    to->text = from->text;
    to->stuck = from->stuck != 0;
    return GW_OK;
}

gw_unpack_fn *const gw_unpack_table[GW_MESSAGE_KINDS] = {
    [GW_MESSAGE_JOIN] = unpack_join,
    [GW_MESSAGE_WELCOME] = unpack_welcome,
    [GW_MESSAGE_DECLARE] = unpack_declare,
    [GW_MESSAGE_VIEW] = unpack_view,
    [GW_MESSAGE_START] = unpack_start,
    [GW_MESSAGE_READY] = unpack_ready,
    [GW_MESSAGE_WINDOW] = unpack_window,
    [GW_MESSAGE_DECISION] = unpack_decision,
    [GW_MESSAGE_VOTE] = unpack_vote,
    [GW_MESSAGE_SCORE] = unpack_score,
    [GW_MESSAGE_REPORT] = unpack_report,
    [GW_MESSAGE_STOP] = unpack_stop,
    [GW_MESSAGE_SAVED] = unpack_saved,
    [GW_MESSAGE_STORED] = unpack_stored,
    [GW_MESSAGE_END] = unpack_end,
    [GW_MESSAGE_BYE] = unpack_bye,
    [GW_MESSAGE_STALL] = unpack_stall,
    [GW_MESSAGE_FILE_OPEN] = gw_unpack_file_open,
    [GW_MESSAGE_FILE_REPLY] = gw_unpack_file_reply,
    [GW_MESSAGE_STATUS] = gw_unpack_status,
    [GW_MESSAGE_SETTLED] = unpack_settled,
    [GW_MESSAGE_ARRIVED] = unpack_arrived,
    [GW_MESSAGE_REQUEST] = gw_unpack_request,
    [GW_MESSAGE_SPEED] = unpack_speed,
    [GW_MESSAGE_SIGHT] = unpack_sight,
    [GW_MESSAGE_FAULT] = unpack_fault,
    [GW_MESSAGE_POLL] = unpack_poll,
};
