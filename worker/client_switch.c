/*
 * From one policy to the next. The loop's thread hears of it, the caller takes
 * it up at the clock from which it holds. After single pushes clocks are
 * numbered anew; what is still on its way from before is dropped by the number
 * of its decision.
 */
#include "config.h"

#include "worker/client_state.h"

void gw_client_follow_word(struct gw_client *client,
                           const struct gw_policy_word *word,
                           uint64_t step)
{
    struct gw_policy_plan plan;
    client->until = UINT64_MAX;
    if (gw_policy_plan_parse(client->config.cluster.policy, &plan, NULL) ==
        GW_OK)
        client->until = gw_policy_next_switch(&plan, step);
    client->word = *word;
    client->each = !gw_policy_is_together(word->kind);
    client->may_jump = word->kind == GW_POLICY_BACKUP && word->n > 0;
}

void gw_client_switch_decided(struct gw_client *client,
                              const struct gw_decision *decision)
{
    struct gw_error error;
    struct gw_client_switch *next = &client->next;
    if (next->clock) /* phases of one exchange each */
        next = &client->after;
    if (gw_policy_word_parse(decision->policy, &next->word, &error) != GW_OK) {
        gw_client_fail(client, GW_EPROTO, "decision %u: %s", decision->number,
                       error.text);
        return;
    }
    next->renumbers = decision->clocks_n > 0 ? decision->number : 0;
    if (next->renumbers) {
        client->renumbered = decision->number;
        gw_client_forget_pushes(client);
    }
    next->clock = decision->clock + 1;
    atomic_store(&client->next_clock, client->next.clock);
}

const struct gw_policy_word *gw_client_policy(const struct gw_client *client,
                                              uint64_t *until_p)
{
    *until_p = client->until;
    return &client->word;
}

/* Single pushes: all stand still for it. Else: its clock has come. */
static int is_here(const struct gw_client *client, uint64_t clock)
{
    uint64_t at = atomic_load(&client->next_clock);
    if (at == 0)
        return 0;
    if (client->each)
        return atomic_load(&client->called) == clock + 1;
    return at <= clock + 1;
}

int gw_client_switch(struct gw_client *client, uint64_t *clock_p)
{
    struct gw_client_switch *next = &client->next;
    if (!is_here(client, *clock_p))
        return 0;
    gw_loop_enter(client->loop);
    uint64_t clock = next->clock - 1;
    gw_client_follow_word(client, &next->word, clock);
    if (next->renumbers) {
        *clock_p = clock;
        gw_client_forget(client);
        gw_client_want_all(client, clock, 0);
    }
    client->next = client->after;
    client->after = (struct gw_client_switch){0};
    atomic_store(&client->called, 0);
    atomic_store(&client->next_clock, client->next.clock);
    gw_loop_leave(client->loop);
    return 1;
}

int gw_client_is_scored(const struct gw_client *client)
{
    return client->scores;
}
