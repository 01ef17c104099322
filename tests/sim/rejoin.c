#include "config.h"

#include "tests/sim/rejoin.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "server/server_state.h"

#define LIMIT_US 120000000
#define SLOW     100

static const struct gw_sim_options calm = {.seed = 1, .latency_us = 50};

void rejoin_open(struct cluster *cluster, const char *const *settings)
{
    cluster_open(cluster, &calm, settings, NULL);
    for (size_t i = 0; i < cluster->workers; i++)
        gw_sim_slow(cluster->worker[i].loop, SLOW); /* so that it takes time */
    assert_true(
        cluster_run_until(cluster, cluster_has_stepped, cluster, LIMIT_US));
    cluster_pass(cluster, 300000);
}

void rejoin_undisturbed(struct cluster *cluster,
                        const char *const *settings,
                        char hex[65])
{
    cluster_open(cluster, &calm, settings, NULL);
    cluster_finish(cluster, LIMIT_US);
    cluster_digest(cluster, hex);
    cluster_close(cluster);
}

uint64_t rejoin_version(const struct cluster *cluster)
{
    const struct gw_shard *shard = cluster->server[0].server->shard;
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < shard->chunks; i++)
        if (shard->chunk[i].version < least)
            least = shard->chunk[i].version;
    return least;
}

void rejoin_comes_to(struct cluster *cluster, const char *hex)
{
    char own[65];
    cluster_finish(cluster, LIMIT_US);
    cluster_digest(cluster, own);
    assert_string_equal(own, hex);
}

void rejoin_ends(struct cluster *cluster,
                 enum gw_status status,
                 const char *words)
{
    assert_true(cluster_run_until(cluster, cluster_is_over, cluster, LIMIT_US));
    assert_int_equal(cluster->final.status, status);
    if (!strstr(cluster->text, words))
        fail_msg("\"%s\" is not in \"%s\"", words, cluster->text);
    cluster_close(cluster);
}
