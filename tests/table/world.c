#include "config.h"

#include "tests/table/world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#define LIMIT_US 30000000 /* processors may be emulated, or busy */

struct wait {
    struct gw_loop *loop;
    int (*done)(void *owner);
    void *owner;
    int late;
    struct gw_timer limit;
};

static int is_sim(const struct world *world)
{
    return strcmp(world->ops->name, "sim") == 0;
}

int world_run_tests(const char *name, const struct CMUnitTest *tests, size_t n)
{
    struct CMUnitTest *here = calloc(n, sizeof *here);
    const char *told = "", *only = getenv("GW_TRANSPORT");
    size_t kept = 0;
    if (!here)
        return 1;
    for (size_t i = 0; i < n; i++) {
        const char *transport = tests[i].initial_state;
        struct gw_error error;
        if (only && strcmp(transport, only) != 0)
            continue;
        if (strcmp(transport, "unix") == 0 ||
            gw_transport_find(transport, &error)) {
            here[kept++] = tests[i];
        } else if (strcmp(told, transport) != 0) {
            printf("# without %s: %s\n", transport, error.text);
            told = transport;
        }
    }
    int failed = _cmocka_run_group_tests(name, here, kept, NULL, NULL);
    free(here);
    return failed;
}

void world_open(struct world *world, const char *transport)
{
    struct gw_error error = {0};
    const char *hosts[2] = {"a", "b"};
    int local = strcmp(transport, "unix") == 0;
    *world = (struct world){
        .ops = gw_transport_find(local ? "tcp" : transport, &error)};
    assert_non_null(world->ops);
    if (local) {
        strcpy(world->directory, "/tmp/gradweir-unix-XXXXXX");
        assert_non_null(mkdtemp(world->directory));
    }
    if (is_sim(world)) {
        struct gw_sim_options options = {
            .seed = 1, .latency_us = 20, .jitter_us = 30, .bytes_per_us = 1000};
        assert_int_equal(gw_sim_create(&options, &world->sim, &error), GW_OK);
        for (int i = 0; i < 2; i++)
            assert_int_equal(
                gw_sim_process(world->sim, hosts[i], &world->loop[i], &error),
                GW_OK);
    } else {
        assert_int_equal(gw_loop_open_uv(&world->loop[0], &error), GW_OK);
        world->loop[1] = world->loop[0];
    }
    for (int i = 0; i < 2; i++)
        assert_int_equal(world->ops->open(world->loop[i], NULL,
                                          &world->transport[i], &error),
                         GW_OK);
}

void world_close(struct world *world)
{
    for (int i = 0; i < 2; i++)
        world->ops->close(world->transport[i]);
    gw_loop_close(world->loop[0]);
    if (world->sim)
        gw_loop_close(world->loop[1]);
    gw_sim_destroy(world->sim);
    /* empty: whoever listened has removed what was his */
    if (world->directory[0])
        assert_int_equal(rmdir(world->directory), 0);
}

static void on_limit(struct gw_timer *timer)
{
    struct wait *wait = timer->owner;
    wait->late = 1;
}

/* A real loop is turned by hand: gw_loop_turn needs no communication thread. */
static int run(struct world *world,
               int (*done)(void *owner),
               void *owner,
               uint64_t limit_us)
{
    if (world->sim)
        return gw_sim_run(world->sim, done, owner,
                          gw_sim_now(world->sim) + limit_us);
    struct wait wait = {.loop = world->loop[0]};
    wait.limit.fire = on_limit;
    wait.limit.owner = &wait;
    gw_timer_start(world->loop[0], &wait.limit, limit_us);
    while (!wait.late && !done(owner))
        gw_loop_turn(world->loop[0]);
    gw_timer_stop(world->loop[0], &wait.limit);
    return !wait.late;
}

void world_run(struct world *world, int (*done)(void *owner), void *owner)
{
    assert_true(run(world, done, owner, LIMIT_US));
}

static int never(void *owner)
{
    (void)owner;
    return 0;
}

void world_settle(struct world *world, uint64_t us)
{
    run(world, never, NULL, us);
}

const char *world_any_port(struct world *world)
{
    if (world->directory[0]) {
        snprintf(world->address, sizeof world->address, "unix:%s/%u",
                 world->directory, world->sockets++);
        return world->address;
    }
    char host[GW_ADDRESS_MAX] = "a";
    struct gw_error error;
    if (!is_sim(world))
        assert_int_equal(world->ops->meet(host, &error), GW_OK);
    snprintf(world->address, sizeof world->address, "%.*s:0",
             (int)sizeof world->address - 3, host);
    return world->address;
}
