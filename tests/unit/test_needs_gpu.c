/*
 * GPU memory of a job, for GPUs that need not be here: numbers worked out by
 * hand, and the largest job that fits.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/unit/needs_job.h"

static void count_on_gpu(struct needs_job *job, struct gw_needs *needs)
{
    struct gw_error error = {.text = ""};
    job->what.backend = gw_backend_outline("cuda", &error);
    if (gw_needs_count(&job->what, job->map, NULL, needs, &error) != GW_OK)
        fail_msg("%s", error.text);
}

#define DEVICE_PAGE ((uint64_t)2 << 20)

/*
 * Operands of computing are on the device, each allocation in pages of 2 MiB; a
 * batch takes two. The host has their copies on the way to and from the device,
 * the next batch, and data that no device needs, such as the state of own
 * steps.
 */
static void a_device_has_its_part(void **state)
{
    const char *settings[] = {"model.layers=[784, 10]",
                              "cluster.workers=2",
                              "cluster.servers=1",
                              "optimizer.kind=momentum",
                              "cluster.policy=\"local:4\"",
                              "checkpoint.dir=/tmp/x",
                              "train.batch=4",
                              NULL};
    const uint64_t arenas = 2 * 31424, batch = 250 * (784 * 4 + 4);
    const uint64_t scratch = 4 * 128 * (512 + 48); /* as in test_needs */
    const uint64_t computes = arenas + 3 * 10048 + 64 + scratch + batch;
    const uint64_t rest = 2 * 31424 + 4 * 600 + 31400;
    struct gw_needs_host host = {.workers = 2};
    struct needs_job *job = needs_job_open(settings);
    struct gw_needs needs;
    (void)state;
    assert_int_equal(gw_needs_worker(&job->needs), computes + rest);
    assert_int_equal(gw_needs_of_host(&job->needs, &host),
                     2 * (computes + rest));
    count_on_gpu(job, &needs);
    const struct gw_device_need *device = &needs.worker.device;
    assert_int_equal(device->weights, DEVICE_PAGE);
    assert_int_equal(device->gradients, DEVICE_PAGE);
    assert_int_equal(device->activations, DEVICE_PAGE);
    assert_int_equal(device->scratch, 0);
    assert_int_equal(device->batch, 2 * DEVICE_PAGE);
    assert_int_equal(device->workspace, (32 << 20) + DEVICE_PAGE);
    assert_int_equal(device->process, 576 << 20);
    assert_int_equal(gw_device_need_own(device), (96 << 20) + 6 * DEVICE_PAGE);
    assert_int_equal(needs.worker.activations, 0);
    assert_int_equal(gw_needs_worker(&needs), arenas + 2 * batch + rest);
    assert_int_equal(gw_needs_of_host(&needs, &host),
                     2 * (arenas + 2 * batch + rest));
    needs_job_close(job);
}

/* 784-512-10 in bf16: copies of the factors of the larger product, for 250
   samples; weights once more at half the size; sums, which two workers may make
   on their devices, with a second workspace. */
static void a_device_has_what_its_precision_and_sums_need(void **state)
{
    const char *settings[] = {
        "model.layers=[784, 512, 10]", "cluster.workers=2",  "train.batch=4",
        "train.precision=bf16",        "train.weights=bf16", NULL};
    struct needs_job *job = needs_job_open(settings);
    const uint64_t arena = job->map->arena_bytes;
    struct gw_needs needs;
    (void)state;
    count_on_gpu(job, &needs);
    assert_int_equal(needs.worker.device.scratch,
                     2 * (250 * 784 + 250 * 512 + 784 * 512));
    assert_in_range(arena * 3 / 2, DEVICE_PAGE + 1, 2 * DEVICE_PAGE);
    assert_int_equal(needs.worker.device.weights, 2 * DEVICE_PAGE);
    assert_int_equal(needs.worker.device.gradients, DEVICE_PAGE);
    assert_int_equal(needs.worker.weights, arena + arena / 2);
    const uint64_t workspace = (32 << 20) + DEVICE_PAGE;
    uint64_t own = gw_device_need_own(&needs.worker.device);
    assert_int_equal(needs.worker.device.workspace, workspace);
    /* and numbers for the trial, its own and the others' */
    assert_int_equal(needs.worker.device.lent, workspace + (8 << 20));
    strcpy(job->config.cluster.local_reduction, "host");
    count_on_gpu(job, &needs);
    assert_int_equal(needs.worker.device.lent, 0);
    assert_int_equal(gw_device_need_own(&needs.worker.device), own);
    strcpy(job->config.cluster.transport, "rdma"); /* it may read there */
    count_on_gpu(job, &needs);
    assert_int_equal(needs.worker.device.lent, workspace);
    needs_job_close(job);
}

/* The same of a GPU, which two workers share. */
static void a_refusal_says_what_fits_on_a_gpu(void **state)
{
    const char *settings[] = {"model.layers=[784, 16000, 10]",
                              "train.global_batch=300", "train.batch=0",
                              "cluster.workers=3", NULL};
    struct gw_error error;
    (void)state;
    struct needs_job *job = needs_job_open(settings);
    struct gw_needs needs;
    struct gw_needs_host host = {.name = "this host",
                                 .workers = 3,
                                 .servers = 1,
                                 .all = 1,
                                 .bytes = UINT64_MAX,
                                 .devices = 2,
                                 .device_what = "free"};
    job->what.test = NULL;
    count_on_gpu(job, &needs);
    assert_int_equal(gw_needs_sharers(&host), 2);
    host.device_bytes = 2 * gw_device_need_own(&needs.worker.device);
    assert_int_equal(needs_check(job, &host, &error), GW_OK);
    host.device_bytes -= 4 * DEVICE_PAGE;
    assert_int_equal(needs_check(job, &host, &error), GW_ENOMEM);
    assert_non_null(strstr(error.text, "2 workers on one GPU need "));
    assert_non_null(strstr(error.text, " each (weights 50.0 MiB, gradients "));
    uint64_t batch = needs_advised(&error, "train.global_batch = ");
    assert_in_range(batch, 200, 299);
    job->config.train.global_batch = batch;
    assert_int_equal(needs_check(job, &host, &error), GW_OK);
    job->config.train.global_batch = batch + 3;
    assert_int_equal(needs_check(job, &host, &error), GW_ENOMEM);
    host.device_bytes = 300 << 20; /* enough for one, but not for two */
    assert_int_equal(needs_check(job, &host, &error), GW_ENOMEM);
    assert_int_equal(needs_advised(&error, "cluster.workers = "), 2);
    host.device_bytes = 1000;
    assert_int_equal(needs_check(job, &host, &error), GW_ENOMEM);
    assert_non_null(strstr(error.text, ", and 1000 bytes are free; no batch "
                                       "makes it fit: take a GPU with more"));
    host.device_bytes = (uint64_t)1200 << 20;
    host.device_is_bare = 1; /* CUDA itself twice, and a bit */
    assert_int_equal(needs_check(job, &host, &error), GW_ENOMEM);
    assert_non_null(strstr(error.text, ", CUDA itself 576 MiB), and"));
    host.device_bytes = 1000;
    host.all = 0;
    host.workers = 0; /* servers have none to fill */
    assert_int_equal(needs_check(job, &host, &error), GW_OK);
    needs_job_close(job);
}

/* A worker with its device: the same need, and the same batch. */
static void a_worker_says_what_fits_its_device(void **state)
{
    const char *settings[] = {"model.layers=[784, 16000, 10]",
                              "train.batch=300", "cluster.workers=1", NULL};
    struct gw_error error;
    (void)state;
    struct needs_job *job = needs_job_open(settings);
    struct gw_needs needs;
    struct gw_device_room room = {.devices = 1, .total_bytes = 800 << 20};
    job->what.test = NULL;
    count_on_gpu(job, &needs);
    room.free_bytes = gw_device_need_own(&needs.worker.device);
    assert_int_equal(gw_worker_check_device(&job->what, &room, &error), GW_OK);
    room.free_bytes -= 3 * DEVICE_PAGE;
    assert_int_equal(gw_worker_check_device(&job->what, &room, &error),
                     GW_ENOMEM);
    const char *at = strstr(error.text, "; it fits with train.batch = ");
    assert_non_null(at);
    assert_non_null(strstr(error.text, "MiB of 800.0 MiB are free"));
    job->config.train.batch = strtoull(strchr(at, '=') + 1, NULL, 10);
    assert_in_range(job->config.train.batch, 200, 299);
    assert_int_equal(gw_worker_check_device(&job->what, &room, &error), GW_OK);
    job->config.train.batch++;
    assert_int_equal(gw_worker_check_device(&job->what, &room, &error),
                     GW_ENOMEM);
    room.free_bytes = 40 << 20;
    assert_int_equal(gw_worker_check_device(&job->what, &room, &error),
                     GW_ENOMEM);
    assert_non_null(strstr(error.text, "; no batch fits: take a GPU"));
    needs_job_close(job);
}

static void bytes_have_units(void **state)
{
    char text[GW_NEED_BYTES_TEXT];
    (void)state;
    assert_string_equal(gw_need_say_bytes(0, text), "0 bytes");
    assert_string_equal(gw_need_say_bytes(1000, text), "1000 bytes");
    assert_string_equal(gw_need_say_bytes(1536, text), "1.5 KiB");
    assert_string_equal(gw_need_say_bytes(5 << 20, text), "5.0 MiB");
    assert_string_equal(gw_need_say_bytes(UINT64_MAX, text), "16777216.0 TiB");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_device_has_its_part),
        cmocka_unit_test(a_device_has_what_its_precision_and_sums_need),
        cmocka_unit_test(a_refusal_says_what_fits_on_a_gpu),
        cmocka_unit_test(a_worker_says_what_fits_its_device),
        cmocka_unit_test(bytes_have_units),
    };
    return cmocka_run_group_tests(tests, needs_data_open, needs_data_close);
}
