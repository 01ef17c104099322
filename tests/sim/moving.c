#include "config.h"

#include "tests/sim/moving.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "server/coordinator/coordinator_members.h"
#include "server/server_state.h"

static const struct gw_sim_options calm = {.seed = 1, .latency_us = 50};

const struct moving_row moving_rows[MOVING_ROWS] = {
    {"train.seed=1", NULL},
    {"optimizer.kind=adam", "train.weights=bf16"},
    {"checkpoint.dir=ck", "checkpoint.every=2 steps"},
    {"cluster.servers=3", "cluster.connections=2"},
    {"train.clip=0.1", "checkpoint.dir=ck"},
    {"optimizer.kind=lamb", "train.eval_every=2 steps"},
};

void moving_open(struct cluster *cluster,
                 const char *copies,
                 const char *more,
                 const char *most)
{
    const char *const settings[] = {copies, "train.steps=40", more, most, NULL};
    cluster_open(cluster, &calm, settings, NULL);
}

void moving_slow(struct cluster *cluster)
{
    for (size_t i = 0; i < cluster->workers; i++)
        gw_sim_slow(cluster->worker[i].loop, 20);
}

void moving_calm(struct cluster *cluster,
                 const char *more,
                 const char *most,
                 char hex[65])
{
    moving_open(cluster, "cluster.copies=1", more, most);
    cluster_finish(cluster, MOVING_LIMIT_US);
    cluster_digest(cluster, hex);
    cluster_close(cluster);
}

void moving_comes_to(struct cluster *cluster, const char *hex)
{
    char own[65];
    cluster_finish(cluster, MOVING_LIMIT_US);
    cluster_digest(cluster, own);
    assert_string_equal(own, hex);
    assert_true(cluster_agrees(cluster));
    cluster_close(cluster);
}

int moving_has_copies(void *owner)
{
    const struct cluster *cluster = owner;
    const struct gw_coordinator *self = cluster->coordinator;
    return cluster->running &&
           gw_copies_caught_up(self) == gw_roster_shards(self);
}

int moving_has_a_place(void *owner)
{
    const struct cluster *cluster = owner;
    return gw_places_are_open(cluster->coordinator);
}

int moving_has_saved(void *owner)
{
    const struct cluster *cluster = owner;
    return gw_coordinator_has_checkpoint(cluster->coordinator);
}

void moving_replace(struct cluster *cluster, size_t who)
{
    assert_true(cluster_run_until(cluster, moving_has_copies, cluster,
                                  MOVING_LIMIT_US));
    gw_world_end_server(&cluster->world, who);
    assert_true(cluster_run_until(cluster, moving_has_a_place, cluster,
                                  MOVING_LIMIT_US));
    cluster_replace_server(cluster, who);
}

struct gw_seat *moving_seat(const struct cluster *cluster)
{
    struct gw_seat *one = gw_roster_first(cluster->coordinator);
    while (one && !one->moves)
        one = one->next;
    return one;
}

int moving_one_moves(void *owner)
{
    return moving_seat(owner) != NULL;
}

void moving_ask_to_leave(struct cluster *cluster, size_t who)
{
    const struct gw_world_server *one = &cluster->server[who];
    gw_server_leave(gw_server_is_over(one->server) ? one->standby : one->server,
                    "a test");
}
