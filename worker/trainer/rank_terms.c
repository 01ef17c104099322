/*
 * Hyperparameters that the trainer sets per group. Where servers run the
 * optimizer they go there before the next push; where the rank takes the steps
 * itself it reads them here, and servers get them with another policy.
 */
#include "config.h"

#include "worker/trainer/rank_state.h"

#include <stdlib.h>

#include "proto/terms.h"

enum gw_status gw_rank_open_terms(struct gw_rank *rank)
{
    struct gw_rank_terms_table *terms = &rank->terms;
    for (size_t key = 0; key < rank->keys; key++)
        if (rank->key[key].group >= terms->groups)
            terms->groups = rank->key[key].group + 1;
    terms->place = calloc(terms->groups + 1, sizeof *terms->place);
    terms->set = calloc(terms->groups + 1, sizeof *terms->set);
    return terms->place && terms->set
               ? GW_OK
               : gw_fail(rank->error, GW_ENOMEM, "no memory for %u groups",
                         terms->groups);
}

void gw_rank_close_terms(struct gw_rank *rank)
{
    free(rank->terms.place);
    free(rank->terms.set);
}

/* The place of a group among those with terms; n: where it would be. */
static uint32_t find(const struct gw_rank_terms_table *terms, uint32_t group)
{
    uint32_t place = terms->place[group];
    return place > 0 ? place - 1 : terms->n;
}

enum gw_status
gw_rank_terms(struct gw_rank *rank, uint32_t group, const struct gw_terms *set)
{
    struct gw_rank_terms_table *terms = &rank->terms;
    double value, values[2];
    const char *fault = gw_terms_fault(set, &value);
    if (fault)
        return gw_fail(rank->error, GW_ERANGE,
                       "group %u: %s is %g; it must be finite and at least "
                       "0%s",
                       group, fault, value,
                       fault[0] == 'b' ? ", and less than 1" : "");
    if (group >= terms->groups)
        return GW_OK;
    uint32_t at = find(terms, group);
    if (at < terms->n &&
        !gw_terms_difference(&terms->set[at].terms, set, values))
        return GW_OK;
    terms->n += at == terms->n;
    terms->place[group] = at + 1;
    terms->set[at] = (struct gw_group_terms){.group = group, .terms = *set};
    terms->changed = 1;
    return GW_OK;
}

const struct gw_terms *gw_rank_terms_of(const struct gw_rank *rank,
                                        uint32_t group)
{
    const struct gw_rank_terms_table *terms = &rank->terms;
    uint32_t at = group < terms->groups ? find(terms, group) : terms->n;
    return at < terms->n ? &terms->set[at].terms : NULL;
}
