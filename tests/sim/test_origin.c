/*
 * The directory that a job goes on from, where that is not the one into which
 * it saves: it is there for as long as the job runs, or the job does not begin.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "tests/sim/cluster.h"

#define LIMIT_US 60000000

static struct cluster cluster;

static void on_text(void *owner, const char *text)
{
    (void)owner, (void)text;
}

/* Of a coordinator at which nobody joins. */
static const struct gw_coordinator_events deaf = {.note = on_text,
                                                  .warning = on_text};

static const struct gw_disk_ops *honest;
static unsigned enters_left; /* of "ck", until one fails */

static enum gw_status enter_or_fail(struct gw_disk *base,
                                    const char *path,
                                    struct gw_disk *dir,
                                    struct gw_error *error)
{
    if (strcmp(path, "ck") == 0 && enters_left > 0 && --enters_left == 0)
        return gw_fail(error, GW_EIO, "%s: too many open files", path);
    return honest->enter(base, path, dir, error);
}

/* A directory from which files are to be read is there, or the job is not
   begun: members would ask for them later. */
static void a_job_needs_the_directory_that_it_comes_from(void **state)
{
    (void)state;
    const struct gw_sim_options calm = {
        .seed = 1, .latency_us = 50, .bytes_per_us = 1000};
    const char *settings[] = {"checkpoint.dir=ck", "train.steps=3", NULL};
    struct gw_error error;
    cluster_open(&cluster, &calm, settings, NULL);
    assert_true(cluster_run(&cluster, LIMIT_US));
    assert_int_equal(cluster.final.status, GW_OK);
    cluster_end(&cluster);
    strcpy(cluster.config.checkpoint.dir, "other");
    enum gw_status status = GW_EIO;
    for (unsigned failing = 1; failing < 20 && status != GW_OK; failing++) {
        struct gw_loop *loop;
        struct gw_coordinator *next;
        assert_int_equal(gw_sim_process(cluster.sim, "disk", &loop, &error),
                         GW_OK);
        honest = loop->disk->ops;
        struct gw_disk_ops ops = *honest;
        struct gw_disk disk = *loop->disk, *real = loop->disk;
        ops.enter = enter_or_fail;
        disk.ops = &ops;
        loop->disk = &disk;
        enters_left = failing;
        const struct gw_coordinator_options options = {
            .loop = loop,
            .transport = gw_transport_find("sim", &error),
            .listen = "any:0",
            .config = &cluster.config,
            .events = &deaf,
            .resume = "ck",
        };
        status = gw_coordinator_open(&options, &next, &error);
        if (status == GW_OK) {
            assert_int_not_equal(enters_left, 0);
            assert_true(failing > 1);
            gw_coordinator_close(next);
        } else {
            assert_int_equal(status, GW_EIO);
            assert_non_null(strstr(error.text, "too many open files"));
        }
        loop->disk = real;
        gw_loop_close(loop);
    }
    assert_int_equal(status, GW_OK);
    gw_sim_destroy(cluster.sim);
    cluster.sim = NULL;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_needs_the_directory_that_it_comes_from),
    };
    cluster_data_open(&cluster.train, &cluster.test);
    int failed = cmocka_run_group_tests_name("origin", tests, NULL, NULL);
    gw_dataset_close(cluster.train);
    gw_dataset_close(cluster.test);
    return failed;
}
