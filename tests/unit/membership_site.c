#include "config.h"

#include "tests/unit/membership_site.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "proto/config.h"

int membership_begin(void **state)
{
    struct membership_site *site = calloc(1, sizeof *site);
    const struct gw_sim_options options = {.seed = 1};
    struct gw_error *error = &site->error;
    *state = site;
    if (gw_sim_create(&options, &site->sim, error) != GW_OK ||
        gw_sim_process(site->sim, "a", &site->loop, error) != GW_OK ||
        gw_store_enter_new(site->loop->disk, "ckpt", GW_ACCESS_PRIVATE,
                           &site->dir, error) != GW_OK)
        return -1;
    return 0;
}

int membership_end(void **state)
{
    struct membership_site *site = *state;
    gw_store_leave(&site->dir);
    gw_loop_close(site->loop);
    gw_sim_destroy(site->sim);
    free(site);
    return 0;
}

struct gw_membership_member membership_some_members[] = {
    {.role = GW_ROLE_SERVER,
     .id = 0,
     .server = 3,
     .pid = 4711,
     .incarnation = 0x0123456789abcdef,
     .machine = 1,
     .host = "nerd \"7\"\\",
     .secret = {0, 1, 2, 0xff, 0x7f}},
    {.role = GW_ROLE_WORKER,
     .id = UINT32_MAX,
     .server = UINT32_MAX,
     .pid = UINT32_MAX,
     .incarnation = UINT64_MAX,
     .machine = UINT64_MAX,
     .host = "a-host-with-a-name-as-long-as-a-name-may-be-in-the-file-000-63-",
     .secret = {[GW_DIGEST_BYTES - 1] = 0xfe}},
    {.role = GW_ROLE_WORKER, .host = ""},
    {.role = GW_ROLE_STANDBY, .caught = 1, .id = 7, .server = 2, .host = "b"},
};

uint32_t membership_some_threads[] = {1, 65536, 3, 2};

struct gw_membership membership_some(void)
{
    struct gw_membership some = {
        .job = UINT64_MAX,
        .epoch = UINT32_MAX,
        .text = {0xde, 0xad, [GW_DIGEST_BYTES - 1] = 1},
        .silence_us = GW_SILENCE_MAX_US,
        .begin = GW_CLOCK_MAX,
        .from = {.course = {.clock = GW_CLOCK_MAX,
                            .epoch = 5,
                            .sample = 59999,
                            .batch = 128,
                            .samples = 60000},
                 .clock = GW_CLOCK_MAX},
        .sums = 1,
        .threads = membership_some_threads,
        .servers =
            sizeof membership_some_threads / sizeof *membership_some_threads,
        .member = membership_some_members,
        .members =
            sizeof membership_some_members / sizeof *membership_some_members};
    memset(some.address, 'a', sizeof some.address - 1);
    return some;
}

void membership_is_same(const struct gw_membership *read,
                        const struct gw_membership *is)
{
    assert_true(read->job == is->job && read->epoch == is->epoch);
    assert_string_equal(read->address, is->address);
    assert_memory_equal(read->text, is->text, sizeof is->text);
    assert_true(read->silence_us == is->silence_us);
    assert_true(read->begin == is->begin);
    assert_true(gw_course_is_same(&read->from.course, &is->from.course));
    assert_true(read->from.clock == is->from.clock);
    assert_int_equal(read->sums, is->sums);
    assert_int_equal(read->servers, is->servers);
    assert_memory_equal(read->threads, is->threads,
                        is->servers * sizeof *is->threads);
    assert_int_equal(read->members, is->members);
    for (size_t i = 0; i < is->members; i++) {
        const struct gw_membership_member *a = &read->member[i];
        const struct gw_membership_member *b = &is->member[i];
        assert_int_equal(a->role, b->role);
        assert_int_equal(a->caught, b->caught);
        assert_true(a->id == b->id && a->server == b->server);
        assert_true(a->pid == b->pid && a->machine == b->machine);
        assert_true(a->incarnation == b->incarnation);
        assert_string_equal(a->host, b->host);
        assert_memory_equal(a->secret, b->secret, sizeof b->secret);
    }
}

void membership_write(struct membership_site *site,
                      const struct gw_membership *membership)
{
    assert_int_equal(gw_membership_write(&site->dir, membership, &site->error),
                     GW_OK);
}

/* This one is in the file, and no remains of another are beside it. */
void membership_holds(struct membership_site *site,
                      const struct gw_membership *is)
{
    struct gw_membership read;
    struct gw_file *file;
    assert_int_equal(gw_membership_read(&site->dir, &read, &site->error),
                     GW_OK);
    membership_is_same(&read, is);
    gw_membership_free(&read);
    assert_null(read.member);
    assert_int_equal(site->dir.ops->open(&site->dir,
                                         GW_MEMBERSHIP_NAME GW_TEMPORARY,
                                         GW_FILE_READ, &file, NULL),
                     GW_ENOENT);
}
