/*
 * From one policy to the next. The loop's thread hears of it, the caller takes
 * it up at the clock from which it holds. After single pushes clocks are
 * numbered anew; what is still on its way from before is dropped by the number
 * of its decision.
 *
 * Under backup the others may have gone on through several policies while this
 * worker was late: it takes up all of them at once, where it joins them again.
 */
#include "config.h"

#include "worker/client/client_state.h"

#include <inttypes.h>

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

/* Where all stand still, what was to come before is over. Else a third comes
   only where the first was missed: others are in the second by then. */
static void await(struct gw_client *client, const struct gw_client_switch *last)
{
    if (last->renumbers) {
        client->next = client->after = (struct gw_client_switch){0};
        atomic_store(&client->renews, 0); /* its resume comes behind it */
    }
    if (client->after.clock)
        client->next = client->after;
    *(client->next.clock ? &client->after : &client->next) = *last;
    atomic_store(&client->next_clock, client->next.clock);
}

void gw_client_switch_decided(struct gw_client *client,
                              const struct gw_decision *decision)
{
    struct gw_error error;
    struct gw_client_switch last = {.clock = decision->clock + 1};
    if (gw_policy_word_parse(decision->policy, &last.word, &error) != GW_OK ||
        gw_config_check_word(&client->config, &last.word, &error) != GW_OK) {
        gw_client_fail(client, GW_EPROTO, "decision %" PRIu64 ": %s",
                       decision->number, error.text);
        return;
    }
    if (decision->clocks_n > 0) {
        last.renumbers = decision->number;
        gw_client_void(client, decision->number);
        gw_client_forget_pushes(client);
    }
    await(client, &last);
}

const struct gw_policy_word *gw_client_policy(const struct gw_client *client,
                                              uint64_t *until_p)
{
    *until_p = client->until;
    return &client->word;
}

/* All have stood still for it, or its clock has come. */
static int is_here(const struct gw_client *client, uint64_t clock)
{
    const struct gw_client_switch *next = &client->next;
    if (next->renumbers)
        return atomic_load(&client->renews);
    return next->clock != 0 && next->clock <= clock + 1;
}

static void take_up(struct gw_client *client, uint64_t *clock_p)
{
    const struct gw_client_switch now = client->next;
    uint64_t clock = now.clock - 1;
    client->next = client->after;
    client->after = (struct gw_client_switch){0};
    atomic_store(&client->next_clock, client->next.clock);
    gw_client_follow_word(client, &now.word, clock);
    if (!now.renumbers)
        return;
    *clock_p = clock;
    atomic_store(&client->renews, 0);
    gw_client_forget(client);
    gw_client_want_all(client, clock, 0);
}

int gw_client_switch(struct gw_client *client, uint64_t *clock_p)
{
    int taken = 0;
    if (atomic_load(&client->next_clock) == 0)
        return 0; /* as nearly always: the loop is left alone */
    gw_loop_enter(client->loop);
    for (; is_here(client, *clock_p); taken = 1)
        take_up(client, clock_p);
    gw_loop_leave(client->loop);
    return taken;
}

int gw_client_is_scored(const struct gw_client *client)
{
    return client->scores && !atomic_load(&client->renews);
}
