/* The first lines of a job: its request, the choices made, and their
   reasons. */
#include "config.h"

#include "cli/show.h"

#include <inttypes.h>
#include <string.h>

#include "cli/cli.h"

#define COLUMN "%-11s "

static void print_checkpoint(FILE *out, const struct gw_config *config)
{
    const struct gw_every *every = &config->checkpoint.every;
    char text[GW_EVERY_BYTES];
    gw_every_print(every, text);
    if (!config->checkpoint.dir[0])
        fprintf(out, COLUMN "none: checkpoint.dir is empty\n", "checkpoint");
    else if (every->unit == GW_NEVER ||
             (every->unit == GW_EPOCHS && gw_config_is_external(config)))
        fprintf(out, COLUMN "%s, at the first and the last step\n",
                "checkpoint", config->checkpoint.dir);
    else
        fprintf(out, COLUMN "%s, every %s\n", "checkpoint",
                config->checkpoint.dir, text);
}

static void print_model(FILE *out, const struct gw_config *config)
{
    static const char *const kinds[] = {[GW_MODEL_MLP] = "mlp ",
                                        [GW_MODEL_CNN] = "cnn ",
                                        [GW_MODEL_EXTERNAL] = "external"};
    fprintf(out, COLUMN "%s", "model", kinds[config->model.kind]);
    for (size_t i = 0; i < config->model.layers.n; i++)
        fprintf(out, "%s%s", i ? ", " : "", config->model.layers.item[i]);
    int is_open = gw_config_optimizer_is_open(config);
    fprintf(out, "; %s, lr %g%s\n",
            is_open ? "the program's optimizer" : gw_config_optimizer(config),
            config->optimizer.lr, is_open ? " unless it sets one" : "");
}

/* ---- the policy ---- */

static void print_inner(FILE *out,
                        const struct gw_config *config,
                        const struct gw_policy_terms *terms)
{
    int is_open = gw_config_optimizer_is_open(config) &&
                  strcmp(config->policy.inner, "auto") == 0;
    fprintf(out, " (workers run %s",
            is_open ? "the program's optimizer" : terms->inner);
    if (config->policy.inner_clip > 0)
        fprintf(out, " clipped to %g", config->policy.inner_clip);
}

static void print_rounds(FILE *out,
                         const struct gw_config *config,
                         const struct gw_policy_word *word,
                         const struct gw_policy_terms *terms)
{
    uint64_t parts = config->policy.fragments;
    print_inner(out, config, terms);
    fprintf(out, ", servers %s with lr %g", terms->outer, terms->outer_lr);
    if (strcmp(terms->outer, "momentum") == 0 ||
        strcmp(terms->outer, "nesterov") == 0)
        fprintf(out, ", momentum %g", config->policy.outer_momentum);
    if (word->kind == GW_POLICY_DOWNPOUR)
        fprintf(out, ", scale %g", terms->scale);
    if (word->kind == GW_POLICY_DILOCO &&
        (parts > 1 || config->policy.overlap > 0)) {
        fprintf(out, "; %" PRIu64 " part%s", parts, gw_plural(parts));
        if (config->policy.overlap > 0)
            fprintf(out, ", merged after %" PRIu64 " step%s with mix %g",
                    config->policy.overlap, gw_plural(config->policy.overlap),
                    config->policy.mix);
    }
    fputc(')', out);
}

/* The policy's parameters, also default ones. */
static void print_terms(FILE *out,
                        const struct gw_config *config,
                        const struct gw_policy_word *word)
{
    const struct gw_policy_terms terms = gw_config_policy_terms(config, word);
    switch (word->kind) {
    case GW_POLICY_SSP:
    case GW_POLICY_ASYNC:
    case GW_POLICY_STALE_LR:
        fprintf(out, " (scale %g)", terms.scale);
        break;
    case GW_POLICY_DC_ASYNC:
        fprintf(out, " (scale %g, lambda %g", terms.scale, terms.lambda);
        if (config->policy.adaptive)
            fprintf(out, ", adaptive with decay %g", config->policy.decay);
        fputc(')', out);
        break;
    case GW_POLICY_EASGD:
        print_inner(out, config, &terms);
        fprintf(out, ", alpha %g)", terms.alpha);
        break;
    case GW_POLICY_DOWNPOUR:
    case GW_POLICY_LOCAL:
    case GW_POLICY_DILOCO:
        print_rounds(out, config, word, &terms);
        break;
    default:
        break;
    }
    fputc('\n', out);
}

static void print_policy(FILE *out,
                         const struct gw_config *config,
                         const struct gw_policy_plan *plan)
{
    char word[GW_WORD_BYTES];
    fprintf(out, COLUMN "%s", "policy", config->cluster.policy);
    if (plan->n == 1) {
        print_terms(out, config, &plan->phase[0].word);
        return;
    }
    fputc('\n', out);
    for (size_t i = 0; i < plan->n; i++) {
        enum gw_policy_kind kind = plan->phase[i].word.kind;
        if (gw_policy_is_together(kind) && !gw_policy_is_local(kind))
            continue; /* these have none */
        gw_policy_word_print(&plan->phase[i].word, word);
        fprintf(out, COLUMN "%s", "", word);
        print_terms(out, config, &plan->phase[i].word);
    }
}

/* The word of the last phase with that commit; *all_p: all phases have it. */
static const struct gw_policy_word *
find_whole(const struct gw_config *config,
           const struct gw_policy_plan *plan,
           int *all_p)
{
    const struct gw_policy_word *found = NULL;
    *all_p = 1;
    for (size_t i = 0; i < plan->n; i++) {
        const struct gw_policy_word *word = &plan->phase[i].word;
        if (gw_config_whole_step_under(config, word))
            found = word;
        else
            *all_p = 0;
    }
    return found;
}

static void print_commit(FILE *out,
                         const struct gw_config *config,
                         const struct gw_policy_plan *plan)
{
    int all;
    const struct gw_policy_word *word = find_whole(config, plan, &all);
    char shown[GW_WORD_BYTES];
    fprintf(out, COLUMN, "commit");
    if (word && !all) {
        gw_policy_word_print(word, shown);
        fprintf(out, "whole step under %s, else streaming", shown);
    } else {
        fputs(word ? "whole step" : "streaming", out);
    }
    if (config->train.commit != GW_COMMIT_AUTO)
        fputs(" (train.commit says so)\n", out);
    else if (word)
        fprintf(out, " (auto: %s asks)\n",
                gw_config_whole_step_key(config, word));
    else
        fputs(" (auto: nothing asks for whole steps)\n", out);
}

/* Two processes use the first transport that connects them. */
static void print_routes(FILE *out,
                         const struct gw_config *config,
                         const struct gw_routes *routes,
                         const char *why)
{
    fprintf(out, COLUMN, "transport");
    for (size_t i = 0; routes->data[i]; i++)
        fprintf(out, "%s%s", i ? ", else " : "", routes->data[i]->name);
    if (strcmp(config->cluster.transport, "auto") != 0)
        fputs(" (cluster.transport says so)\n", out);
    else if (why[0])
        fprintf(out, " (auto: %s)\n", why);
    else
        fputs(" (auto: between each two processes the first that leads "
              "there)\n",
              out);
}

/* ---- all of them ---- */

void gw_show_job(const struct gw_show *show,
                 const char *file,
                 const struct gw_config *config,
                 const struct gw_routes *routes,
                 const char *why,
                 const char *device)
{
    FILE *out = show->out;
    struct gw_policy_plan plan = {.n = 0};
    /* cannot fail: the job is checked */
    gw_policy_plan_parse(config->cluster.policy, &plan, NULL);
    fprintf(out, COLUMN "%s, by gradweir %s\n", "job", file, PACKAGE_VERSION);
    print_model(out, config);
    fprintf(out, COLUMN "%" PRIu64 " worker%s, %" PRIu64 " server%s\n",
            "cluster", config->cluster.workers,
            gw_plural(config->cluster.workers), config->cluster.servers,
            gw_plural(config->cluster.servers));
    print_routes(out, config, routes, why);
    if (device && device[0])
        fprintf(out, COLUMN "%s\n", "device", device);
    print_policy(out, config, &plan);
    print_commit(out, config, &plan);
    if (gw_config_splits_by_speed(config))
        fprintf(out, COLUMN "by speed, %s%s\n", "split",
                config->train.split_from[0] ? "as in " : "as it is measured",
                config->train.split_from);
    print_checkpoint(out, config);
    int only = !show->by_hand && strcmp(config->log.level, "info") == 0;
    if (config->log.dir[0])
        fprintf(out, COLUMN "%s\n", "logs", config->log.dir);
    else
        fprintf(out, COLUMN "%s: log.dir is empty\n", "logs",
                only ? "warnings only" : "to standard error");
    fflush(out);
}
