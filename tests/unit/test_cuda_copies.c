/*
 * The module for GPUs on the emulated CUDA: copies between host and device,
 * their order, and the ownership of their memory meanwhile.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kernels/kernels.h"
#include "tests/table/emulated.h"

static const struct gw_backend_ops *ops;
/* With p = 0 a copy. */
static const struct gw_dropout_site nothing = {.p = 0};

static void set_way(size_t way, int stages)
{
    struct emulated_settings settings;
    emulated_control()->defaults(&settings);
    settings.order = emulated_ways[way].order;
    settings.pace = emulated_ways[way].pace;
    settings.no_staging = !stages;
    emulated_control()->set(&settings);
}

static uint64_t waits(void)
{
    struct emulated_counts now;
    emulated_control()->counts(&now);
    return now.waits;
}

/* More points than the device has events. */
static void points_are_reached_in_order(void **state)
{
    (void)state;
    enum {
        POINTS = 700,
    };
    for (size_t way = 0; way < EMULATED_WAYS; way++) {
        set_way(way, 1);
        struct gw_device *d = emulated_open(ops, GW_PRECISION_FP32);
        struct gw_error error;
        uint64_t points[POINTS];
        int32_t *host = ops->alloc_host(d, 2 * POINTS * sizeof *host);
        int32_t *memory = ops->alloc(d, POINTS * sizeof *memory);
        for (int32_t i = 0; i < POINTS; i++) {
            host[i] = i + 1;
            ops->upload(d, memory + i, host + i, sizeof *host);
            points[i] =
                ops->fetch(d, host + POINTS + i, memory + i, sizeof *host);
            assert_true(i == 0 || points[i] > points[i - 1]);
        }
        assert_int_equal(ops->reach(d, points[3], 1, &error), GW_OK);
        assert_int_equal(host[POINTS + 3], 4);
        int done = 4;
        for (int asked = 0; done < POINTS && asked < 100000; asked++) {
            enum gw_status status = ops->reach(d, points[done], 0, &error);
            assert_true(status == GW_OK || status == GW_EAGAIN);
            if (status == GW_OK) {
                assert_int_equal(host[POINTS + done], done + 1);
                done++;
            }
        }
        assert_int_equal(done, POINTS);
        ops->free(d, memory);
        ops->free_host(d, host);
        ops->close(d);
        emulated_assert_nothing_left();
    }
}

/* Pageable memory may be reused at once, even if CUDA would read it later. */
static void pageable_memory_is_free_at_once(void **state)
{
    (void)state;
    for (size_t way = 0; way < 2 * EMULATED_WAYS; way++) {
        set_way(way / 2, way % 2);
        struct gw_device *d = emulated_open(ops, GW_PRECISION_FP32);
        struct gw_error error;
        float host[64], back[64], *memory = ops->alloc(d, sizeof host);
        for (unsigned i = 0; i < 8; i++) {
            emulated_fill(host, 64, i);
            ops->upload(d, memory, host, sizeof host);
            memset(host, 0xff, sizeof host);
            ops->dropout(d, &nothing, 1, 64, memory, memory);
            ops->download(d, back, memory, sizeof back);
            assert_int_equal(ops->sync(d, &error), GW_OK);
            emulated_fill(host, 64, i);
            for (size_t e = 0; e < 64; e++)
                assert_true(back[e] == host[e]);
        }
        ops->free(d, memory);
        ops->close(d);
        emulated_assert_nothing_left();
    }
}

/* Memory pinned by another device is not waited for either, until it is
   unpinned. */
static void pinned_memory_is_read_later(void **state)
{
    (void)state;
    set_way(0, 0);
    struct gw_device *d = emulated_open(ops, GW_PRECISION_FP32);
    struct gw_device *other = emulated_open(ops, GW_PRECISION_FP32);
    char *host = aligned_alloc(4096, 8192), *memory = ops->alloc(d, 8192);
    char *made = ops->alloc_host(other, 4096);
    assert_int_equal(ops->pin(other, host, 8192, NULL), GW_OK);
    uint64_t before = waits();
    ops->upload(d, memory, host + 10, 4000);
    ops->upload(d, memory, made + 10, 4000);
    ops->upload(other, memory, host + 10, 4000);
    ops->upload(d, memory, host, 0);
    assert_int_equal(waits(), before);
    assert_int_equal(ops->sync(d, NULL), GW_OK);
    assert_int_equal(ops->sync(other, NULL), GW_OK);
    ops->unpin(other, host);
    before = waits();
    ops->upload(d, memory, host, 8192);
    assert_int_equal(waits(), before + 1);
    assert_int_equal(ops->sync(d, NULL), GW_OK);
    assert_int_equal(ops->sync(other, NULL), GW_OK);
    ops->free(d, memory), ops->free_host(other, made);
    ops->close(other), ops->close(d);
    emulated_assert_nothing_left();
    free(host);
}

static void pins_are_taken_and_given_back(void **state)
{
    (void)state;
    struct emulated_settings settings;
    struct gw_error error;
    for (int refused = 0; refused < 2; refused++) {
        emulated_control()->defaults(&settings);
        settings.no_pinning = refused;
        emulated_control()->set(&settings);
        struct gw_device *d = emulated_open(ops, GW_PRECISION_FP32);
        void *host = aligned_alloc(4096, 8192);
        void *memory = ops->alloc(d, 8192);
        enum gw_status status = ops->pin(d, host, 8192, &error);
        assert_int_equal(status, refused ? GW_EUNSUPPORTED : GW_OK);
        if (refused)
            assert_non_null(strstr(error.text, "operation not supported"));
        memset(host, 7, 8192);
        ops->upload(d, memory, host, 8192);
        assert_int_equal(ops->sync(d, &error), GW_OK);
        memset(host, 0, 8192);
        ops->download(d, host, memory, 8192);
        assert_int_equal(((char *)host)[8191], 7);
        if (!refused)
            ops->unpin(d, host);
        ops->free(d, memory);
        ops->close(d);
        free(host);
        emulated_assert_nothing_left();
    }
}

int main(void)
{
    char why[GW_WHY_BYTES];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(points_are_reached_in_order),
        cmocka_unit_test(pageable_memory_is_free_at_once),
        cmocka_unit_test(pinned_memory_is_read_later),
        cmocka_unit_test(pins_are_taken_and_given_back),
    };
    ops = emulated_backend(why, sizeof why);
    if (!ops) {
        printf("1..0 # SKIP %s\n", why);
        return 0;
    }
    return cmocka_run_group_tests_name("copies of GPUs", tests, NULL, NULL);
}
