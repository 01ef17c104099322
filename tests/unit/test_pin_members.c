/* Members of one host that are unlike: each decides by itself, and they do not
   meet. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "cli/host/pin.h"
#include "cli/host/pin_print.h"
#include "tests/unit/pin_hosts.h"

/* The needs of one host's members; each member has a copy of its own. */
struct host_of_members {
    const char *name;
    uint32_t workers, shards;
    struct gw_need worker[4], shard[4];
};

static const struct host_of_members unlike[] = {
    /* ranks 0 and 2 of a job, a GPU at each node; the ranks between are
       elsewhere */
    {"ranks in turns over hosts", 2, 0, {{1, 1, 0}, {1, 2, 0}}, {{0}}},
    {"all at one GPU", 3, 0, {{1, 2, 0}, {1, 2, 0}, {1, 2, 0}}, {{0}}},
    {"two that were given the same GPU, in another order",
     3,
     1,
     {{1, 2, 0}, {1, 1, 0}, {1, 2, 0}},
     {{0}}},
    {"a cpu beside a GPU", 2, 1, {{4, 0, 0}, {1, 1, 0}}, {{0}}},
    {"a GPU beside a cpu", 2, 1, {{1, 1, 0}, {4, 0, 0}}, {{0}}},
    {"all of 8, but a shard", 2, 1, {{1, 2, 0}, {6, 0, 0}}, {{0}}},
    {"shards that do not fit", 2, 2, {{1, 2, 0}, {6, 0, 0}}, {{0}}},
    {"shards beside workers of a GPU with many threads on cores",
     2,
     4,
     {{1, 1, 0}, {1, 2, 0}},
     {{0}}},
    {"networks of their own",
     3,
     3,
     {{1, 1, 2}, {1, 0, 1}, {1, 0, 0}},
     {{0, 0, 2}, {0, 0, 1}, {0, 0, 0}}},
    {"networks that nobody shares", 2, 2, {{2, 2, 1}, {2, 2, 2}}, {{0, 0, 2}}},
};

static void take_cores(const struct gw_pin_host *host,
                       const struct gw_cpus *cpus,
                       uint32_t owner[],
                       uint32_t mine)
{
    for (uint32_t i = 0; i < host->cores; i++)
        for (uint32_t s = 0; s < host->core[i].cpus; s++) {
            if (!gw_cpus_has(cpus, host->core[i].cpu[s]))
                continue;
            assert_true(owner[i] == 0 || owner[i] == mine);
            owner[i] = mine;
        }
}

/* Each member decides by itself. */
static void check_members(const struct gw_pin_host *host,
                          const struct host_of_members *all)
{
    uint32_t owner[64] = {0};
    print_message("%s\n", all->name);
    assert_true(host->cores <= 64);
    for (uint32_t i = 0; i < all->workers + all->shards; i++) {
        struct host_of_members own = *all;
        int is_worker = i < all->workers;
        const struct gw_colocated colocated = {
            .workers = own.workers,
            .shards = own.shards,
            .place = is_worker ? i : i - all->workers,
            .worker = own.worker,
            .shard = own.shard};
        struct gw_pin_worker worker;
        struct gw_pin_shard shard;
        if (is_worker)
            gw_pin_worker(host, &colocated, &worker);
        else
            gw_pin_shard(host, &colocated, &shard);
        if (is_worker && worker.how == GW_PIN_CORE) {
            assert_int_equal(count_cpus(&worker.compute),
                             own.worker[i].threads);
            take_cores(host, &worker.compute, owner, i + 1);
            if (worker.talk != GW_PIN_TALK_FLOATS)
                take_cores(host, &worker.talks, owner, i + 1);
        } else if (!is_worker && shard.how == GW_PIN_CORE) {
            take_cores(host, &shard.cpus, owner, i + 1);
        }
    }
}

static void unlike_members_do_not_meet(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof unlike / sizeof *unlike; i++)
        for (uint32_t siblings = 1; siblings <= 2; siblings++) {
            struct gw_pin_host host = *host_of(2, 4, siblings);
            check_members(&host, &unlike[i]);
            host.core[0].cpus = 1; /* cores differ */
            host.core[0].strength = 2;
            host.core[6].strength = 1;
            check_members(&host, &unlike[i]);
            host.number[1] = 70; /* outside every mask */
            check_members(&host, &unlike[i]);
        }
}

/* The cores' siblings count one by one, not per node. */
static void unlike_cores_are_told_apart(void **state)
{
    (void)state;
    struct gw_pin_host host = *host_of(2, 2, 1);
    static const struct host_of_members all = {
        "", 3, 0, {{1, 1, 0}, {1, 2, 0}, {1, 1, 0}}, {{0}}};
    host.core[0].cpu[1] = 4;
    host.core[0].cpus = 2;
    host.core[1].strength = 1;
    check_members(&host, &all);
}

/* Each is near its own GPU, whichever the others have. */
static void unlike_members_are_where_they_need(void **state)
{
    (void)state;
    const struct gw_pin_host *host = host_of(2, 4, 1);
    struct gw_pin_worker pin;
    const struct gw_need worker[] = {{4, 0, 0}, {1, 1, 0}, {1, 2, 0}};
    struct gw_colocated colocated = {.workers = 3, .worker = worker};
    static const char *const wanted[] = {"0-3", "4", "5"};
    for (colocated.place = 0; colocated.place < 3; colocated.place++) {
        gw_pin_worker(host, &colocated, &pin);
        check_cpus(&pin.compute, wanted[colocated.place]);
    }
    /* all of the host but a core: a shard of it floats */
    const struct gw_need full[] = {{4, 0, 0}, {4, 0, 0}};
    const struct gw_need shard = {.network = 1};
    struct gw_pin_shard near;
    colocated = (struct gw_colocated){
        .workers = 2, .shards = 1, .worker = full, .shard = &shard};
    gw_pin_shard(host, &colocated, &near);
    assert_int_equal(near.how, GW_PIN_NEAR);
    gw_pin_worker(host, &colocated, &pin);
    check_cpus(&pin.compute, "0-3");
}

/* A view that does not name its reader has no core for it. */
static void who_is_not_there_gets_none(void **state)
{
    (void)state;
    const struct gw_colocated none = {.workers = 0};
    struct gw_pin_worker worker;
    struct gw_pin_shard shard;
    char text[GW_PIN_TEXT_MAX];
    const struct gw_pin_names names = {"", ""};
    gw_pin_worker(host_of(2, 4, 1), &none, &worker);
    assert_int_equal(worker.how, GW_PIN_LEFT);
    gw_pin_print_worker(host_of(2, 4, 1), &none, &names, &worker, text);
    gw_pin_shard(host_of(2, 4, 1), &none, &shard);
    assert_int_equal(shard.how, GW_PIN_LEFT);
    check_cpus(&shard.cpus, "0-7");
    gw_pin_print_shard(host_of(2, 4, 1), &none, &names, &shard, text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unlike_members_do_not_meet),
        cmocka_unit_test(unlike_cores_are_told_apart),
        cmocka_unit_test(unlike_members_are_where_they_need),
        cmocka_unit_test(who_is_not_there_gets_none),
    };
    return cmocka_run_group_tests_name("pin, members", tests, NULL, NULL);
}
