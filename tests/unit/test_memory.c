/* transport/link/memory: mappings of one descriptor, their place, their pages.
 */
#include "config.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "transport/link/memory.h"

#define HUGE GW_MEMORY_HUGE_BYTES

/* Of MFD_HUGETLB, whose own size may be another one. */
#define HUGE_2MB (21U << 26)

static const size_t sizes[] = {1, 4096, HUGE - 1, HUGE, 3 * HUGE + 5000};
#define SIZES (sizeof sizes / sizeof *sizes)

/* Bytes that this process has mapped, of everything. */
static size_t mapped(void)
{
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%lu", &pages), 1);
    fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static void two_mappings_are_one_memory(void **state)
{
    (void)state;
    for (size_t s = 0; s < SIZES; s++) {
        int fd = gw_memory_file("test", sizes[s]);
        assert_true(fd >= 0);
        char *one = gw_memory_map(fd, sizes[s]);
        char *other = gw_memory_map(fd, sizes[s]);
        assert_non_null(one);
        assert_non_null(other);
        one[0] = 1;
        one[sizes[s] - 1] = 2;
        assert_int_equal(other[sizes[s] - 1], 2);
        assert_int_equal(other[0], sizes[s] == 1 ? 2 : 1);
        if (sizes[s] >= HUGE)
            assert_true((uintptr_t)one % HUGE == 0 &&
                        (uintptr_t)other % HUGE == 0);
        munmap(one, sizes[s]);
        munmap(other, sizes[s]);
        close(fd);
    }
}

static void nothing_is_left_of_a_mapping(void **state)
{
    (void)state;
    size_t before = mapped();
    for (int i = 0; i < 20; i++)
        for (size_t s = 0; s < SIZES; s++) {
            struct gw_memory memory;
            assert_int_equal(
                gw_memory_open(GW_MEMORY_SHARED, sizes[s], &memory), GW_OK);
            gw_memory_prefault(&memory);
            gw_memory_close(&memory);
        }
    assert_true(mapped() < before + HUGE);
}

static void what_cannot_be_mapped_leaves_nothing(void **state)
{
    (void)state;
    size_t before = mapped();
    for (int i = 0; i < 20; i++) {
        assert_null(gw_memory_map(-1, 4096));
        assert_null(gw_memory_map(-1, 3 * HUGE));
    }
    assert_true(mapped() < before + HUGE);
}

/* KiB of a field, over all of our mappings; -1: this kernel does not say. */
static long smaps(const char *field)
{
    char line[512];
    long all = -1, kib;
    FILE *file = fopen("/proc/self/smaps_rollup", "re");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, field, strlen(field)) == 0 &&
            sscanf(line + strlen(field), " %ld", &kib) == 1)
            all = kib;
    if (file)
        fclose(file);
    return all;
}

static void settled_memory_is_zeros_in_huge_pages(void **state)
{
    struct gw_memory memory;
    (void)state;
    long before = smaps("ShmemPmdMapped:");
    assert_int_equal(gw_memory_open(GW_MEMORY_SHARED, 4 * HUGE, &memory),
                     GW_OK);
    const char *bytes = memory.base;
    int quiesced =
        memory.kind == GW_MEMORY_SHARED && gw_memory_prefault(&memory);
    for (size_t i = 0; i < memory.bytes; i++)
        assert_int_equal(bytes[i], 0);
    if (!quiesced || before < 0) {
        gw_memory_close(&memory);
        print_message("no huge pages for shared memory here\n");
        skip();
    }
    long now = smaps("ShmemPmdMapped:") - before;
    gw_memory_close(&memory);
    assert_int_equal(now, 4 * HUGE / 1024);
}

/* -1: this system has no such memory */
static int sealed(unsigned flags, int seals, size_t bytes)
{
    int fd = memfd_create("test", flags | MFD_ALLOW_SEALING);
    if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0) {
        print_message("no memory of flags %#x here\n", flags);
        if (fd >= 0)
            close(fd);
        return -1;
    }
    assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

/* Reserved huge pages may be gone when they are read, whatever is sealed: their
   owner gives them back, and somebody else takes them. */
static void what_can_be_taken_away_is_not_safe(void **state)
{
    (void)state;
    int ours = gw_memory_file("test", HUGE);
    int shrinks = sealed(0, F_SEAL_GROW, HUGE);
    int reserved =
        sealed(MFD_HUGETLB | HUGE_2MB, F_SEAL_SHRINK | F_SEAL_GROW, HUGE);
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_true(gw_memory_is_safe(ours, HUGE));
    assert_false(gw_memory_is_safe(ours, HUGE + 1));
    assert_false(gw_memory_is_safe(shrinks, HUGE));
    assert_false(gw_memory_is_safe(reserved, HUGE));
    assert_false(gw_memory_is_safe(ends[0], HUGE));
    int all[] = {ours, shrinks, reserved, ends[0], ends[1]};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i] >= 0)
            close(all[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_mappings_are_one_memory),
        cmocka_unit_test(nothing_is_left_of_a_mapping),
        cmocka_unit_test(what_cannot_be_mapped_leaves_nothing),
        cmocka_unit_test(settled_memory_is_zeros_in_huge_pages),
        cmocka_unit_test(what_can_be_taken_away_is_not_safe),
    };
    return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
