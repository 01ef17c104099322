/*
 * The policy that holds, and the switch to the next one. The loop's thread
 * hears of a switch, and the caller makes it at its clock. After per-push
 * policies clocks get new numbers; frames of before are dropped by the number
 * of their decision.
 *
 * Under backup the others may have gone on through several policies while this
 * worker was late: it takes up all of them at once, when it joins them again.
 */
#include "config.h"

#include "worker/client/client_state.h"

#include <inttypes.h>
#include <stdlib.h>

#include "proto/policy.h"

/* A policy and the clock from which it holds. */
struct policy_switch {
    uint64_t clock; /* + 1; 0: none is decided */
    struct gw_policy_word word;
    uint64_t renumbers; /* decision that gives clocks new numbers; 0: none */
};

struct gw_client_policy {
    /* changed by the caller, with the loop in hand */
    struct gw_policy_word word;
    uint64_t until; /* the step at which the plan has another */
    int per_push;   /* the word: each push makes a version */
    int may_jump;   /* the word: a late worker goes on at a newer version */

    struct policy_switch next, after; /* the loop's */
    _Atomic uint64_t next_clock;      /* next.clock, for the caller */
    _Atomic int renews; /* next renumbers, and all may go on by it */
};

enum gw_status gw_client_policy_open(struct gw_client *client)
{
    client->policy = calloc(1, sizeof *client->policy);
    return client->policy ? GW_OK : GW_ENOMEM;
}

void gw_client_policy_close(struct gw_client *client)
{
    free(client->policy);
}

/* ---- the policy that holds ---- */

void gw_client_set_policy(struct gw_client *client,
                          const struct gw_policy_word *word,
                          uint64_t step)
{
    struct gw_client_policy *policy = client->policy;
    struct gw_policy_plan plan;
    policy->until = UINT64_MAX;
    if (gw_policy_plan_parse(client->job->config.cluster.policy, &plan, NULL) ==
        GW_OK)
        policy->until = gw_policy_next_switch(&plan, step);
    policy->word = *word;
    policy->per_push = !gw_policy_is_together(word->kind);
    policy->may_jump = word->kind == GW_POLICY_BACKUP && word->n > 0;
}

const struct gw_policy_word *gw_client_policy(const struct gw_client *client,
                                              uint64_t *until_p)
{
    *until_p = client->policy->until;
    return &client->policy->word;
}

const struct gw_policy_word *
gw_client_policy_now(const struct gw_client *client)
{
    return &client->policy->word;
}

const struct gw_policy_word *gw_client_policy_at(const struct gw_client *client,
                                                 uint64_t clock)
{
    const struct gw_client_policy *policy = client->policy;
    if (policy->after.clock && policy->after.clock <= clock + 1)
        return &policy->after.word;
    if (policy->next.clock && policy->next.clock <= clock + 1)
        return &policy->next.word;
    return &policy->word;
}

int gw_client_is_per_push(const struct gw_client *client)
{
    return client->policy->per_push;
}

int gw_client_is_waited_for(const struct gw_client *client)
{
    return !client->policy->per_push && !client->policy->may_jump;
}

int gw_client_may_jump(const struct gw_client *client)
{
    return client->policy->may_jump;
}

int gw_client_pushes_sums(const struct gw_client *client)
{
    return client->policy->word.kind == GW_POLICY_SYNC &&
           client->group_ranks > 1;
}

struct gw_push_terms gw_client_push_terms(const struct gw_client *client,
                                          uint64_t next)
{
    const struct gw_client_policy *policy = client->policy;
    uint64_t to = atomic_load(&policy->next_clock); /* asked for */
    return (struct gw_push_terms){
        .local = gw_policy_is_local(policy->word.kind),
        .sums = gw_client_pushes_sums(client),
        .still = policy->word.kind == GW_POLICY_SYNC,
        .apart = next >= policy->until || (to > 0 && next >= to - 1)};
}

/* ---- the next one ---- */

/* Switches of before are over when all ranks stand still. Else a third one
   comes only where the first was missed: others are in the second by then. */
static void await(struct gw_client_policy *policy,
                  const struct policy_switch *last)
{
    if (last->renumbers) {
        policy->next = policy->after = (struct policy_switch){0};
        atomic_store(&policy->renews, 0); /* its resume comes behind it */
    }
    if (policy->after.clock)
        policy->next = policy->after;
    *(policy->next.clock ? &policy->after : &policy->next) = *last;
    atomic_store(&policy->next_clock, policy->next.clock);
}

void gw_client_switch_decided(struct gw_client *client,
                              const struct gw_decision *decision)
{
    struct gw_error error;
    struct policy_switch last = {.clock = decision->clock + 1};
    if (gw_policy_word_parse(decision->policy, &last.word, &error) != GW_OK ||
        gw_config_check_word(&client->job->config, &last.word, &error) !=
            GW_OK) {
        gw_client_fail(client, GW_EPROTO, "decision %" PRIu64 ": %s",
                       decision->number, error.text);
        return;
    }
    if (decision->clocks_n > 0) {
        last.renumbers = decision->number;
        gw_client_void(client, decision->number);
        gw_client_forget_pushes(client);
        gw_client_terms_renumber(client, decision->clock);
    }
    await(client->policy, &last);
}

int gw_client_next_renumbers(const struct gw_client *client)
{
    return client->policy->next.renumbers != 0;
}

void gw_client_may_renew(struct gw_client *client)
{
    atomic_store(&client->policy->renews, 1);
}

int gw_client_renews(const struct gw_client *client)
{
    return atomic_load(&client->policy->renews);
}

/* ---- the switch ---- */

/* All have stood still for it, or its clock has come. */
static int is_here(const struct gw_client_policy *policy, uint64_t clock)
{
    const struct policy_switch *next = &policy->next;
    if (next->renumbers)
        return atomic_load(&policy->renews);
    return next->clock != 0 && next->clock <= clock + 1;
}

enum gw_client_taken gw_client_take_policy(struct gw_client *client,
                                           uint64_t *clock_p)
{
    struct gw_client_policy *policy = client->policy;
    const struct policy_switch now = policy->next;
    if (!is_here(policy, *clock_p))
        return GW_SWITCH_NONE;
    policy->next = policy->after;
    policy->after = (struct policy_switch){0};
    atomic_store(&policy->next_clock, policy->next.clock);
    gw_client_set_policy(client, &now.word, now.clock - 1);
    if (!now.renumbers)
        return GW_SWITCH_TAKEN;
    *clock_p = now.clock - 1;
    atomic_store(&policy->renews, 0);
    return GW_SWITCH_RENUMBERED;
}

int gw_client_has_next_policy(const struct gw_client *client)
{
    return atomic_load(&client->policy->next_clock) != 0;
}
