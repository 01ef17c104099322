/*
 * The stream of decisions, which shard 0 leads: each is followed once, in the
 * order of their numbers. Frames carry the number of the last one. Messages
 * come on the loop's thread; the caller reads the results.
 */
#include "config.h"

#include "worker/client/client_state.h"

#include <inttypes.h>
#include <stdlib.h>

#include "proto/schedule.h"

struct gw_client_decisions {
    _Atomic uint64_t followed, needed; /* numbers */
    _Atomic uint64_t told; /* the last that the coordinator has too */
    _Atomic uint64_t end_clock;
    int end_reason;
    _Atomic double loss_scale;

    /* backup */
    _Atomic uint64_t late_clock;    /* + 1, the last that goes on without us */
    _Atomic uint64_t counted_clock; /* + 1, the last that does not */

    /* per-push policies: all ranks stand still */
    struct gw_client_standstill standstill;
    int scores;              /* for the test set to be scored */
    _Atomic uint64_t called; /* clock + 1 at which they stand; 0: none */
    _Atomic int quiesced;    /* from a quiesce to its end, or the job's */

    struct gw_score scoring; /* for which the caller waits */
    int scores_wait;         /* there is one */
    uint64_t scored_step;    /* + 1, of the last result */
    struct gw_client_score score;
};

enum gw_status gw_client_decisions_open(struct gw_client *client)
{
    client->decisions = calloc(1, sizeof *client->decisions);
    if (!client->decisions)
        return GW_ENOMEM;
    atomic_store(&client->decisions->end_clock, UINT64_MAX);
    return GW_OK;
}

void gw_client_decisions_close(struct gw_client *client)
{
    free(client->decisions);
}

/* ---- each kind ---- */

/* This rank's clock at which a decision holds. */
static uint64_t clock_of(const struct gw_client *client,
                         const struct gw_decision *decision)
{
    return client->job->rank < decision->clocks_n
               ? decision->clocks[client->job->rank]
               : decision->clock;
}

/* All ranks stand still for a reason, or to go on. */
static void stand_still(struct gw_client *client,
                        const struct gw_decision *decision,
                        int calls)
{
    client->decisions->standstill = (struct gw_client_standstill){
        .step = decision->clock,
        .name = decision->number,
    };
    atomic_store(&client->decisions->called,
                 calls ? clock_of(client, decision) + 1 : 0);
}

void gw_client_set_loss_scale(struct gw_client *client, double loss_scale)
{
    if (gw_schedule_is_scale(loss_scale))
        atomic_store(&client->decisions->loss_scale, loss_scale);
    else
        gw_client_fail(client, GW_EPROTO, "a loss scale of %g came",
                       loss_scale);
}

static void follow_step(struct gw_client *client,
                        const struct gw_decision *decision)
{
    if (decision->values_n > 1)
        gw_client_set_loss_scale(client, decision->values[1]);
}

/* Trust ratios concern shards. */
static void follow_trust(struct gw_client *client,
                         const struct gw_decision *decision)
{
    (void)client, (void)decision;
}

/* backup: it is decided which ranks count. This worker computes that clock or
   an older one, for no worker has newer weights. */
static void follow_count(struct gw_client *client,
                         const struct gw_decision *decision)
{
    for (uint32_t i = 0; i < decision->ranks_n; i++) {
        if (decision->ranks[i] == client->job->rank) {
            atomic_store(&client->decisions->counted_clock,
                         decision->clock + 1);
            return;
        }
    }
    atomic_store(&client->decisions->late_clock, decision->clock + 1);
    gw_loop_interrupt(client->loop);
}

/* backup: the same of many steps, in which this worker took no part. */
static void follow_passed(struct gw_client *client,
                          const struct gw_decision *decision)
{
    struct gw_client_decisions *decisions = client->decisions;
    if (decision->values_n > 1)
        atomic_store(&decisions->loss_scale, decision->values[1]);
    if (decision->clocks_n > 0 && decision->clocks[0] > 0)
        atomic_store(&decisions->counted_clock, decision->clocks[0]);
    if (decision->clocks_n < 2 || decision->clocks[1] == 0)
        return;
    atomic_store(&decisions->late_clock, decision->clocks[1]);
    gw_loop_interrupt(client->loop);
}

static void follow_quiesce(struct gw_client *client,
                           const struct gw_decision *decision)
{
    (void)decision;
    atomic_store(&client->decisions->quiesced, 1);
}

static void follow_resume(struct gw_client *client,
                          const struct gw_decision *decision)
{
    struct gw_client_decisions *decisions = client->decisions;
    int ends = atomic_load(&decisions->end_clock) != UINT64_MAX;
    int renumbers = gw_client_next_renumbers(client);
    decisions->scores = decision->reason != 0;
    if (!ends)
        atomic_store(&decisions->quiesced, 0);
    stand_still(client, decision, decisions->scores || ends);
    if (decisions->scores || ends || renumbers)
        gw_client_void(client, decision->number);
    if (renumbers)
        gw_client_may_renew(client);
}

static void follow_end(struct gw_client *client,
                       const struct gw_decision *decision)
{
    client->decisions->end_reason = decision->reason;
    /* none resumes a standstill that had not begun */
    stand_still(client, decision, 0);
    atomic_store(&client->decisions->end_clock, clock_of(client, decision));
}

static void follow_cut(struct gw_client *client,
                       const struct gw_decision *decision)
{
    gw_client_cut_decided(client, clock_of(client, decision), decision->clock);
}

static void follow_score(struct gw_client *client,
                         const struct gw_decision *decision)
{
    struct gw_client_decisions *decisions = client->decisions;
    decisions->score.loss = decision->values_n > 0 ? decision->values[0] : 0;
    decisions->score.accuracy =
        decision->values_n > 1 ? decision->values[1] : 0;
    decisions->score.best = decision->reason;
    decisions->scored_step = decision->clock + 1;
}

/* ---- the stream ---- */

static void (*const follow[])(struct gw_client *client,
                              const struct gw_decision *decision) = {
    [0] = follow_trust, /* no kind has this number */
    [GW_DECIDE_STEP] = follow_step,
    [GW_DECIDE_TRUST] = follow_trust,
    [GW_DECIDE_CUT] = follow_cut,
    [GW_DECIDE_SCORE] = follow_score,
    [GW_DECIDE_END] = follow_end,
    [GW_DECIDE_QUIESCE] = follow_quiesce,
    [GW_DECIDE_RESUME] = follow_resume,
    [GW_DECIDE_COUNT] = follow_count,
    [GW_DECIDE_SWITCH] = gw_client_switch_decided,
    [GW_DECIDE_SPLIT] = gw_client_split_decided,
    [GW_DECIDE_PASSED] = follow_passed,
};
#define KINDS (sizeof follow / sizeof *follow)

void gw_client_got_decision(void *actor,
                            struct gw_peer *peer,
                            const struct gw_message *message)
{
    struct gw_client *client = actor;
    struct gw_client_decisions *decisions = client->decisions;
    const struct gw_decision *decision = &message->decision;
    uint32_t stands_for = decision->stands_for ? decision->stands_for : 1;
    (void)peer;
    uint64_t followed = atomic_load(&decisions->followed);
    /* a server in the place of shard 0 says again what that one had told */
    if (client->job->config.cluster.copies > 1) {
        if (decision->number <= followed)
            return;
        if (decision->number - followed < stands_for)
            stands_for = (uint32_t)(decision->number - followed);
    }
    if (decision->number != followed + stands_for) {
        gw_client_fail(client, GW_EPROTO,
                       "decision %" PRIu64 " came after decision %" PRIu64,
                       decision->number, followed);
        return;
    }
    if (decision->kind < KINDS)
        follow[decision->kind](client, decision);
    if (!gw_decision_is_of_each_step(decision))
        atomic_store(&decisions->told, decision->number);
    atomic_store(&decisions->followed, decision->number);
}

uint64_t gw_client_decided(const struct gw_client *client)
{
    return atomic_load(&client->decisions->followed);
}

uint64_t gw_client_told_decision(const struct gw_client *client)
{
    return atomic_load(&client->decisions->told);
}

uint64_t gw_client_decision(const struct gw_client *client,
                            const struct gw_frame *frame)
{
    return gw_decision_near(gw_client_decided(client), frame->decision);
}

void gw_client_need_decision(struct gw_client *client, uint64_t number)
{
    if (number > atomic_load(&client->decisions->needed))
        atomic_store(&client->decisions->needed, number);
}

int gw_client_has_decisions(const struct gw_client *client)
{
    return gw_client_decided(client) >= atomic_load(&client->decisions->needed);
}

/* ---- results, for the caller ---- */

int gw_client_is_late(const struct gw_client *client, uint64_t clock)
{
    return atomic_load(&client->decisions->late_clock) > clock;
}

int gw_client_counts(const struct gw_client *client, uint64_t clock)
{
    return !gw_client_may_jump(client) ||
           atomic_load(&client->decisions->counted_clock) == clock + 1;
}

double gw_client_loss_scale(const struct gw_client *client)
{
    return atomic_load(&client->decisions->loss_scale);
}

uint64_t gw_client_end_clock(const struct gw_client *client)
{
    return atomic_load(&client->decisions->end_clock);
}

int gw_client_end_reason(const struct gw_client *client)
{
    return client->decisions->end_reason;
}

int gw_client_ends_standing(const struct gw_client *client)
{
    return atomic_load(&client->decisions->quiesced) &&
           gw_client_end_clock(client) != UINT64_MAX;
}

uint64_t gw_client_called(const struct gw_client *client)
{
    return atomic_load(&client->decisions->called);
}

struct gw_client_standstill gw_client_standstill(const struct gw_client *client)
{
    return client->decisions->standstill;
}

uint64_t gw_client_leave_standstill(struct gw_client *client)
{
    client->decisions->scores = 0;
    atomic_store(&client->decisions->called, 0);
    return client->decisions->standstill.name;
}

void gw_client_meet_at_end(struct gw_client *client, uint64_t clock)
{
    client->decisions->standstill = (struct gw_client_standstill){
        .step = clock, .name = gw_client_decided(client)};
}

int gw_client_is_scored(const struct gw_client *client)
{
    return client->decisions->scores && !gw_client_renews(client);
}

static void tell_score(struct gw_client *client)
{
    const struct gw_message message = {.kind = GW_MESSAGE_SCORE,
                                       .score = client->decisions->scoring};
    gw_client_tell(client, gw_client_shard_peer(client, 0), &message);
}

void gw_client_begin_score(struct gw_client *client,
                           const struct gw_score *score)
{
    client->decisions->scoring = *score;
    client->decisions->scores_wait = 1;
    if (!gw_client_is_over(client))
        tell_score(client);
}

void gw_client_score_again(struct gw_client *client)
{
    if (client->decisions->scores_wait && !gw_client_has_score(client))
        tell_score(client);
}

uint64_t gw_client_scored_step(const struct gw_client *client)
{
    return client->decisions->scoring.clock;
}

int gw_client_has_score(const struct gw_client *client)
{
    return client->decisions->scored_step ==
           client->decisions->scoring.clock + 1;
}

int gw_client_was_scored(const struct gw_client *client, uint64_t step)
{
    return client->decisions->scored_step == step + 1;
}

struct gw_client_score gw_client_last_score(const struct gw_client *client)
{
    return client->decisions->score;
}
