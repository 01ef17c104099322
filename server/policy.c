#include "config.h"

#include "server/policy.h"

#include <string.h>

/*
 * sync (BSP): version v + 1 is made of the pushes of clock v of all ranks. A
 * rank that pushes clock v has every chunk at version v, so no chunk it pushes
 * to can be further behind.
 */
static enum gw_push_verdict
sync_judge(uint64_t version, uint64_t clock, int held)
{
    if (clock < version || (clock == version && held))
        return GW_PUSH_DUPLICATE;
    return clock == version ? GW_PUSH_HOLD : GW_PUSH_VIOLATION;
}

static int sync_complete(uint32_t held, uint32_t ranks)
{
    return held == ranks;
}

static int sync_answerable(const struct gw_want *want, uint64_t version)
{
    return want->condition == GW_WANT_VERSION && version >= want->value;
}

static const struct gw_policy sync_policy = {
    .name = "sync",
    .judge = sync_judge,
    .complete = sync_complete,
    .answerable = sync_answerable,
};

const struct gw_policy *const gw_policies[] = {&sync_policy, NULL};

const struct gw_policy *gw_policy_find(const char *name)
{
    for (size_t i = 0; gw_policies[i]; i++)
        if (strcmp(gw_policies[i]->name, name) == 0)
            return gw_policies[i];
    return NULL;
}
