/*
 * The module for GPUs on the emulated CUDA: memory exported by one process of a
 * host and imported by another.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/unit/owners.h"

static void exported_memory_is_imported(void **state)
{
    (void)state;
    for (size_t way = 0; way < EMULATED_WAYS; way++) {
        set_way(&emulated_ways[way], 0);
        struct gw_device *d = open_device();
        make(&owners[0], 0, 100), make(&owners[1], 2, 3000);
        struct answer a = show(&owners[0], 0, 0), b = show(&owners[1], 2, 0);
        float *own = ops->alloc(d, ELEMS * sizeof *own);
        assert_true(fill(d, own, 20000));
        const float *parts[] = {see(d, &a), own, NULL, see(d, &b)};
        assert_adds_up(d, parts, 4, ELEMS, 23100, 3);
        /* later writes of the owner are visible too */
        ask(&owners[0], (struct question){FILL, 0, 0, 500});
        assert_adds_up(d, parts, 4, ELEMS, 23500, 3);
        float host[ELEMS];
        ops->download(d, host, parts[3], sizeof host);
        assert_true(host[0] == 3000 && host[ELEMS - 1] == 2999 + ELEMS);
        assert_int_equal(seen_now(), 2);
        ops->release_import(d, parts[0]), ops->release_import(d, parts[3]);
        assert_int_equal(seen_now(), 0);
        drop(&owners[0], 0), drop(&owners[1], 2);
        ops->free(d, own);
        close_device(d);
    }
}

/* Concurrent with operations queued before, which must not use the destination;
   later operations find the bytes. */
static void imported_memory_is_copied(void **state)
{
    (void)state;
    for (size_t way = 0; way < EMULATED_WAYS; way++) {
        set_way(&emulated_ways[way], 0);
        struct gw_device *d = open_device();
        make(&owners[0], 0, 40);
        struct answer a = show(&owners[0], 0, SHIFT);
        float *own = ops->alloc(d, ELEMS * sizeof *own);
        const float *seen = see(d, &a), *parts[] = {own, own};
        assert_true(fill(d, own, 20000));
        size_t elems = ELEMS - SHIFT;
        for (float round = 0; round < 2; round++) {
            ops->copy_import(d, own, seen, elems * sizeof *own);
            assert_adds_up(d, parts, 2, elems, 2 * (40 + round * 60 + SHIFT),
                           2);
            ask(&owners[0], (struct question){FILL, 0, 0, 100});
        }
        float rest;
        ops->download(d, &rest, own + elems, sizeof rest);
        assert_true(rest == 20000 + (float)elems);
        ops->release_import(d, seen);
        drop(&owners[0], 0);
        ops->free(d, own);
        close_device(d);
    }
}

/* Two imports from one allocation, and the same import twice. */
static void allocations_are_opened_once(void **state)
{
    (void)state;
    for (size_t way = 0; way < EMULATED_WAYS; way++) {
        set_way(&emulated_ways[way], 0);
        struct gw_device *d = open_device();
        make(&owners[0], 0, 0), make(&owners[0], 1, 7);
        struct answer whole = show(&owners[0], 0, 0);
        struct answer part = show(&owners[0], 0, SHIFT);
        struct answer other = show(&owners[0], 1, 0);
        const float *a = see(d, &whole), *b = see(d, &part);
        assert_ptr_equal(b, a + SHIFT);
        assert_ptr_equal(see(d, &part), b);
        assert_int_equal(seen_now(), 1);
        const float *c = see(d, &other);
        assert_int_equal(seen_now(), 2);
        ops->release_import(d, b), ops->release_import(d, a);
        assert_int_equal(seen_now(), 2);
        assert_adds_up(d, (const float *[]){b, c}, 2, ELEMS - SHIFT, SHIFT + 7,
                       2);
        ops->release_import(d, b);
        assert_int_equal(seen_now(), 1);
        ops->release_import(d, c);
        assert_int_equal(seen_now(), 0);
        drop(&owners[0], 0), drop(&owners[0], 1);
        close_device(d);
    }
}

/* unsee waits for queued operations; closing a device releases its imports. */
static void queued_work_keeps_imports(void **state)
{
    (void)state;
    for (size_t way = 0; way < EMULATED_WAYS; way++) {
        set_way(&emulated_ways[way], 0);
        struct gw_device *d = open_device();
        make(&owners[0], 0, 40);
        struct answer a = show(&owners[0], 0, 0), b = show(&owners[0], 0, 1);
        const float *seen = see(d, &a);
        float host[ELEMS], *sum = ops->alloc(d, sizeof host);
        uint8_t *bad = ops->alloc(d, 1);
        ops->add_parts(d, &seen, 1, ELEMS, sum, bad);
        ops->release_import(d, seen);
        assert_int_equal(seen_now(), 0);
        ops->download(d, host, sum, sizeof host);
        assert_true(host[0] == 40 && host[ELEMS - 1] == 39 + ELEMS);
        ops->free(d, sum), ops->free(d, bad);
        see(d, &a), see(d, &b);
        close_device(d);
        drop(&owners[0], 0);
    }
}

/* Two devices of one process, as members of a simulation have. */
static void devices_import_for_themselves(void **state)
{
    (void)state;
    set_way(&emulated_ways[0], 0);
    struct gw_device *one = open_device(), *two = open_device();
    make(&owners[0], 0, 40);
    struct answer shown = show(&owners[0], 0, 0);
    const float *a = see(one, &shown), *b = see(two, &shown);
    assert_adds_up(one, &a, 1, ELEMS, 40, 1);
    ops->release_import(one, a);
    assert_adds_up(two, &b, 1, ELEMS, 40, 1);
    ops->release_import(two, b);
    ops->close(one);
    drop(&owners[0], 0);
    close_device(two);
}

/* A network device reads the kernels' results there, and nothing outside the
   allocation. */
static void devices_of_the_network_take_pages(void **state)
{
    struct gw_pages pages;
    (void)state;
    for (size_t way = 0; way < EMULATED_WAYS; way++) {
        set_way(&emulated_ways[way], 0);
        struct gw_device *d = open_device();
        float *memory = ops->alloc(d, ELEMS * sizeof *memory);
        assert_true(fill(d, memory, 70));
        ops->pages(d, memory + 1, (ELEMS - 1) * sizeof *memory, &pages);
        size_t first = (size_t)((char *)memory - (char *)pages.base);
        assert_true(pages.fd >= 0 && pages.bytes % 4096 == 0);
        assert_true(first + ELEMS * sizeof *memory <= pages.bytes);
        char *seen =
            mmap(NULL, pages.bytes, PROT_READ, MAP_SHARED, pages.fd, 0);
        assert_true(seen != MAP_FAILED);
        assert_memory_equal(seen + first, &(float){70}, sizeof(float));
        assert_true(fill(d, memory, 800));
        assert_memory_equal(seen + first, &(float){800}, sizeof(float));
        munmap(seen, pages.bytes);
        close(pages.fd);
        ops->free(d, memory);
        close_device(d);
    }
}

static void without_a_dma_buf_pages_are_addresses(void **state)
{
    struct emulated_settings settings;
    struct gw_pages pages;
    (void)state;
    set_way(&emulated_ways[0], 0);
    emulated_control()->defaults(&settings);
    settings.no_dma_buf = 1;
    emulated_control()->set(&settings);
    struct gw_device *d = open_device();
    float *memory = ops->alloc(d, ELEMS * sizeof *memory);
    ops->pages(d, memory, ELEMS * sizeof *memory, &pages);
    assert_int_equal(pages.fd, -1);
    assert_true((char *)pages.base <= (char *)memory);
    assert_true((char *)pages.base + pages.bytes >= (char *)(memory + ELEMS));
    assert_int_equal(ops->sync(d, NULL), GW_OK); /* the device works */
    ops->free(d, memory);
    close_device(d);
}

/* The same GPU, and another one with each kind of path. */
static void paths_are_named(void **state)
{
    static const struct {
        const char *nvlink, *apart, *path; /* NULL: no path */
    } hosts[] = {{"", "", "PCIe"},
                 {"02,10", "", "NVLink"},
                 {"02", "12", "PCIe"},
                 {"01", "01", NULL}};
    struct emulated_settings settings;
    (void)state;
    make(&owners[0], 0, 1), make(&owners[1], 0, 2);
    struct answer here = show(&owners[0], 0, SHIFT);
    struct answer there = show(&owners[1], 0, SHIFT);
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        emulated_control()->defaults(&settings);
        strcpy(settings.nvlink, hosts[i].nvlink);
        strcpy(settings.apart, hosts[i].apart);
        emulated_control()->set(&settings);
        struct gw_device *d = open_device();
        const float *seen = see(d, &here);
        assert_string_equal(ops->path(d, seen), "the same GPU");
        assert_int_equal(ops->linked(0, 1), i == 1);
        assert_int_equal(ops->linked(1, 0), i == 1);
        if (hosts[i].path)
            assert_string_equal(ops->path(d, see(d, &there)), hosts[i].path);
        else
            cannot_see(d, there.words, "peer access is not supported");
        /* neither imported nor device memory */
        assert_string_equal(ops->path(d, &settings), "");
        assert_int_equal(ops->linked(0, 7), 0);
        assert_int_equal(ops->sync(d, NULL), GW_OK);
        close_device(d);
    }
    drop(&owners[0], 0), drop(&owners[1], 0);
}

/* Two processes that may use one GPU each both count it as 0: on another bus,
   this process's 0 is not the owner's 0. */
static void gpus_are_told_by_their_address(void **state)
{
    (void)state;
    set_way(&emulated_ways[0], 0);
    make(&owners[0], 0, 1), make(&owners[1], 0, 2);
    struct answer first = show(&owners[0], 0, 0);
    struct answer second = show(&owners[1], 0, 0);
    setenv("GW_FAKE_CUDA", "devices=2 bus=194", 1); /* the second one's */
    struct gw_device *d = open_device();
    assert_string_equal(ops->path(d, see(d, &first)),
                        "a GPU that this process does not see");
    assert_string_equal(ops->path(d, see(d, &second)), "the same GPU");
    close_device(d);
    setenv("GW_FAKE_CUDA", "devices=2", 1);
    drop(&owners[0], 0), drop(&owners[1], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exported_memory_is_imported),
        cmocka_unit_test(imported_memory_is_copied),
        cmocka_unit_test(allocations_are_opened_once),
        cmocka_unit_test(queued_work_keeps_imports),
        cmocka_unit_test(devices_import_for_themselves),
        cmocka_unit_test(devices_of_the_network_take_pages),
        cmocka_unit_test(without_a_dma_buf_pages_are_addresses),
        cmocka_unit_test(paths_are_named),
        cmocka_unit_test(gpus_are_told_by_their_address),
    };
    return cmocka_run_group_tests_name("shared memory of GPUs", tests,
                                       start_owners, end_owners);
}
