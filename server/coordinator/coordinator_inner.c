/*
 * The state of the workers' own (inner) optimizers in checkpoints: whether
 * workers keep any, and whether a job goes on with a checkpoint's.
 */
#include "config.h"

#include "server/coordinator/coordinator_keep.h"

#include <inttypes.h>
#include <string.h>

#include "kernels/update/update.h"
#include "proto/safetensors.h"
#include "server/checkpoint/manifest.h"
#include "server/coordinator/coordinator_members.h"
#include "server/coordinator/coordinator_run.h"

/* The workers' own optimizer under the word, "" where they have none or it
   keeps nothing. */
const char *gw_inner_under(const struct gw_coordinator *self,
                           const struct gw_policy_word *word)
{
    const char *inner = gw_config_policy_terms(self->config, word).inner;
    const struct gw_optimizer *optimizer = gw_optimizer_find(inner);
    int keeps =
        gw_policy_is_local(word->kind) && optimizer && optimizer->states > 0;
    return keeps ? inner : "";
}

const char *gw_inner_at(const struct gw_coordinator *self, uint64_t clock)
{
    return gw_inner_under(self, &gw_regimes_at(self, clock)->word);
}

void gw_inner_expect(struct gw_coordinator *self,
                     const struct gw_policy_word *word)
{
    self->expects_inner |= gw_inner_under(self, word)[0] != '\0';
}

int gw_inner_is_expected(const struct gw_coordinator *self)
{
    return self->expects_inner;
}

enum gw_status gw_inner_open(struct gw_coordinator *self,
                             struct gw_error *error)
{
    struct gw_policy_plan plan;
    (void)error; /* the job file has been checked */
    if (gw_policy_plan_parse(self->config->cluster.policy, &plan, NULL) !=
        GW_OK)
        return GW_OK;
    for (size_t i = 0; i < plan.n; i++)
        gw_inner_expect(self, &plan.phase[i].word);
    return GW_OK;
}

uint64_t gw_inner_bytes_max(const struct gw_coordinator *self)
{
    uint64_t elems = 0;
    for (uint32_t i = 0; i < gw_declaration_keys(self); i++)
        elems += gw_key_elems(gw_declaration_key(self) + i);
    return GW_SAFETENSORS_PREFIX_BYTES + GW_SAFETENSORS_HEADER_MAX +
           GW_STATE_MAX * elems * sizeof(float);
}

/* The optimizer with the state of every rank in the checkpoint. */
static const char *kept_by(const struct gw_manifest *from)
{
    for (size_t i = 0; i < from->n_ranks; i++) {
        char name[GW_FILE_NAME_MAX];
        size_t at = 0;
        gw_worker_file_name((uint32_t)i, (uint32_t)from->n_ranks, name);
        while (at < from->n_files && strcmp(from->files[at].name, name) != 0)
            at++;
        if (at == from->n_files ||
            strcmp(from->ranks[i].inner, from->ranks[0].inner) != 0)
            return "";
    }
    return from->n_ranks > 0 ? from->ranks[0].inner : "";
}

int gw_inner_goes_on(const struct gw_coordinator *self,
                     const struct gw_manifest *from)
{
    const char *inner = gw_inner_at(self, gw_steps_begin(self));
    return inner[0] && strcmp(kept_by(from), inner) == 0 &&
           from->n_ranks == self->config->cluster.workers;
}

void gw_inner_note(struct gw_coordinator *self, const struct gw_manifest *from)
{
    const char *kept = kept_by(from);
    const char *inner = gw_inner_at(self, gw_steps_begin(self));
    /* an imported checkpoint has weights only, and is not asked for more */
    if (gw_inner_goes_on(self, from) || from->n_ranks == 0 ||
        (!kept[0] && !inner[0]))
        return;
    if (!kept[0])
        gw_coordinator_note(self,
                            "the checkpoint has no state of the workers' own "
                            "%s: it begins at zero",
                            inner);
    else if (!inner[0])
        gw_coordinator_note(self,
                            "the checkpoint's state of the workers' own %s is "
                            "not used: they keep none now",
                            kept);
    else if (strcmp(kept, inner) != 0)
        gw_coordinator_note(self,
                            "the workers' own optimizer was %s, now it is %s: "
                            "its state begins at zero",
                            kept, inner);
    else
        gw_coordinator_note(self,
                            "the state of the workers' own %s is that of %zu "
                            "worker%s, this job has %" PRIu64
                            ": it begins at zero",
                            inner, from->n_ranks, gw_plural(from->n_ranks),
                            self->config->cluster.workers);
}
