#include "config.h"

#include "tests/sim/paces.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "proto/random.h"
#include "worker/trainer/rank_state.h"

#define LIMIT_US    3000000000000
#define SETTING_MAX 16

struct cluster cluster;
struct pace pace[CLUSTER_MAX];

const struct gw_sim_options paces_calm = {
    .seed = 1, .latency_us = 50, .jitter_us = 20, .bytes_per_us = 1000};
const struct gw_sim_options *paces_world = &paces_calm;
int paces_slow_line;

static uint64_t samples_now(const struct pace *of)
{
    const struct gw_config *config = &cluster.config;
    const struct gw_plan_run all = {.n = PACES_SAMPLES};
    uint64_t clock =
        gw_client_first_clock(of->opened->client) +
        gw_metrics_get(&cluster.worker[of->rank].metrics, GW_METRIC_STEPS);
    if (of->jumps)
        clock = UINT64_MAX - 1; /* about as good: the newest part */
    if (!gw_config_splits_by_speed(config))
        return gw_plan_part(all, config->cluster.workers, of->rank).n;
    return gw_plan_share(all, gw_client_share(of->opened->client, clock).range)
        .n;
}

static uint64_t step_us(void *owner, uint64_t samples)
{
    (void)samples;
    struct pace *of = owner;
    uint32_t bits[4];
    gw_random4(23, GW_RANDOM_TEST, of->rank, of->draws++, bits);
    double us = of->step_us + of->sample_us * (double)samples_now(of);
    us *= 1 + of->spread * (bits[0] / 2147483648.0 - 1);
    if (of->rare && of->draws % of->rare == 0)
        us *= 20;
    return (uint64_t)us;
}

static void opened(void *owner, struct gw_rank *rank)
{
    ((struct pace *)owner)->opened = rank;
}

void paces_open(const char *const *settings, const char *resume)
{
    cluster_open(&cluster, paces_world, settings, resume);
    for (size_t i = 0; i < cluster.workers; i++) {
        cluster.worker[i].options.opened = opened;
        cluster.worker[i].options.owner = &pace[i];
        gw_sim_compute_model(cluster.worker[i].loop, step_us, &pace[i]);
    }
    if (paces_slow_line) /* 31400 bytes in 30 ms */
        gw_sim_slow(cluster.worker[2].loop, 31400.0 / 30000);
}

void paces_set(double spread, double step)
{
    for (size_t i = 0; i < CLUSTER_MAX; i++)
        pace[i] = (struct pace){.rank = (uint32_t)i,
                                .sample_us = i == 2 ? 4000 : 1000,
                                .step_us = step,
                                .spread = spread};
}

double paces_sum(void)
{
    double sum = 0;
    for (size_t i = 0; i < cluster.workers; i++)
        sum += 1 / pace[i].sample_us;
    return sum;
}

void paces_finish(void)
{
    if (!cluster_run(&cluster, LIMIT_US))
        fail_msg("the job does not end: %s", cluster.note);
}

const char *const *
paces_job(const char *one, const char *two, const char *three, const char *four)
{
    static const char *settings[SETTING_MAX];
    const char *const given[] = {"cluster.workers=4",
                                 "cluster.servers=2",
                                 "model.layers=[784, 10]",
                                 "train.batch=0",
                                 "train.global_batch=300",
                                 "train.split=speed",
                                 "train.steps=100",
                                 "train.eval_every=never",
                                 one,
                                 two,
                                 three,
                                 four};
    size_t n = 0;
    for (size_t i = 0; i < sizeof given / sizeof *given; i++)
        if (given[i])
            settings[n++] = given[i];
    settings[n] = NULL;
    return settings;
}
