/*
 * server/checkpoint/membership: the members of a running job come back whole,
 * and a write that fails leaves the ones before.
 */
#include "config.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "proto/config.h"
#include "tests/unit/membership_site.h"

#define FILE_NAME    "ckpt/" GW_MEMBERSHIP_NAME
#define MEMBERS_MOST 65536

/* ---- what is written comes back ---- */

static void members_come_back(void **state)
{
    struct membership_site *site = *state;
    struct gw_membership is = membership_some();
    membership_write(site, &is);
    membership_holds(site, &is);
    is = (struct gw_membership){.job = 1,
                                .threads = membership_some_threads,
                                .servers = 1,
                                .member = &membership_some_members[2],
                                .members = 1};
    membership_write(site, &is); /* in the place of the longer one */
    membership_holds(site, &is);
}

/* As many as may be, each with all it can have. */
static void many_members_come_back(void **state)
{
    struct membership_site *site = *state;
    struct gw_membership is = membership_some();
    is.members = MEMBERS_MOST;
    is.member = calloc(is.members, sizeof *is.member);
    assert_non_null(is.member);
    for (size_t i = 0; i < is.members; i++) {
        is.member[i] = membership_some_members[1];
        is.member[i].incarnation -= i;
    }
    membership_write(site, &is);
    membership_holds(site, &is);
    free(is.member);
}

/* A host may have a name that is no UTF-8, or be cut off in a character: what
   people read of it is less, and nothing else. */
static void any_host_may_be_listed(void **state)
{
    struct membership_site *site = *state;
    struct gw_membership is = membership_some();
    struct gw_membership_member member = membership_some_members[0];
    is.member = &member;
    is.members = 1;
    strcpy(member.host, "caf\xe9-\xc3"); /* Latin-1, and half of an o */
    membership_write(site, &is);
    strcpy(member.host, "caf?-?");
    membership_holds(site, &is);
}

static void there_may_be_none(void **state)
{
    struct membership_site *site = *state;
    struct gw_membership is = membership_some(), read;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(gw_membership_read(&site->dir, &read, &site->error),
                         GW_ENOENT);
        assert_non_null(strstr(site->error.text, FILE_NAME));
        membership_write(site, &is);
        gw_membership_remove(&site->dir);
        gw_membership_remove(&site->dir); /* one that is gone is no error */
    }
}

/* ---- the one before, or the new one ---- */

/* Each operation of a write fails in turn: a file that could not be written is
   not there, unless it is whole and only its name was not yet synced. */
static void a_write_that_fails_leaves_the_one_before(void **state)
{
    struct membership_site *site = *state;
    const struct gw_membership old = membership_some();
    struct gw_membership new = old;
    new.epoch = 7;
    new.members = 1;
    membership_write(site, &old);
    uint64_t operations = gw_sim_disk_operations(site->loop);
    membership_write(site, &new);
    operations = gw_sim_disk_operations(site->loop) - operations;
    assert_true(operations >= 5); /* open, write, sync, rename, sync_dir */
    for (uint64_t at = 1; at <= operations; at++) {
        membership_write(site, &old);
        gw_sim_disk_fail(site->loop, at, GW_ENOSPC);
        assert_int_equal(gw_membership_write(&site->dir, &new, &site->error),
                         GW_ENOSPC);
        assert_non_null(strstr(site->error.text, "ckpt"));
        membership_holds(site, at < operations ? &old : &new);
    }
}

/* Power is lost: one of both is there, the new one if its write was done. */
static void lost_power_leaves_one_of_both(void **state)
{
    struct membership_site *site = *state;
    const struct gw_membership old = membership_some();
    struct gw_membership new = old, read;
    enum gw_status status = GW_EIO;
    new.epoch = 7;
    for (uint64_t at = 1; status != GW_OK; at++) {
        membership_write(site, &old);
        gw_sim_disk_fail(site->loop, at, GW_OK);
        status = gw_membership_write(&site->dir, &new, &site->error);
        /* the next one meets the failure, where this one did not */
        if (status == GW_OK)
            gw_membership_remove(&site->dir);
        gw_sim_disk_restart(site->loop);
        assert_int_equal(gw_membership_read(&site->dir, &read, &site->error),
                         GW_OK);
        membership_is_same(&read, read.epoch == 7 ? &new : &old);
        assert_true(status != GW_OK || read.epoch == 7);
        gw_membership_free(&read);
    }
}

/* ---- without memory ---- */

static unsigned long asked, failing; /* allocations of jansson; which fails */

static void *allocate(size_t n)
{
    return ++asked == failing ? NULL : malloc(n);
}

static void a_lack_of_memory_writes_no_less(void **state)
{
    struct membership_site *site = *state;
    struct gw_membership old = membership_some(), new = old;
    unsigned long lacked = 0;
    new.epoch = 7;
    for (failing = asked = 1; asked + 1 >= failing; failing++) {
        membership_write(site, &old);
        json_set_alloc_funcs(allocate, free);
        asked = 0;
        enum gw_status status =
            gw_membership_write(&site->dir, &new, &site->error);
        json_set_alloc_funcs(malloc, free);
        assert_true(status == GW_OK || status == GW_ENOMEM);
        membership_holds(site, status == GW_OK ? &new : &old);
        lacked += status == GW_ENOMEM;
    }
    assert_true(lacked > 20);
}

/* But where jansson lacks it while it reads a text: it may call that bad
   syntax, or lose a character (2.14), which only a digest would find. */
static void a_lack_of_memory_is_no_damage(void **state)
{
    struct membership_site *site = *state;
    const struct gw_membership is = membership_some();
    unsigned long lacked = 0, damaged = 0;
    membership_write(site, &is);
    json_set_alloc_funcs(allocate, free);
    for (failing = asked = 1; asked + 1 >= failing; failing++) {
        struct gw_membership read = {.members = 0};
        asked = 0;
        enum gw_status status =
            gw_membership_read(&site->dir, &read, &site->error);
        lacked += status == GW_ENOMEM;
        damaged += status == GW_ECORRUPT &&
                   strstr(site->error.text, "damaged") != NULL;
        assert_int_equal(read.members, status == GW_OK ? is.members : 0);
        if (status == GW_ENOMEM)
            assert_non_null(strstr(site->error.text, "no memory"));
        gw_membership_free(&read);
    }
    json_set_alloc_funcs(malloc, free);
    assert_true(lacked > 20);
    assert_true(damaged < 6);
    membership_holds(site, &is);
}

/* SHA-256 of "abc", FIPS 180-2. */
static void digests_are_sha256(void **state)
{
    (void)state;
    static const uint8_t begins[] = {0xba, 0x78, 0x16, 0xbf};
    uint8_t digest[GW_DIGEST_BYTES];
    gw_membership_digest("abc", 3, digest);
    assert_memory_equal(digest, begins, sizeof begins);
}

#define AT_SITE(test)                                                          \
    cmocka_unit_test_setup_teardown(test, membership_begin, membership_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        AT_SITE(members_come_back),
        AT_SITE(many_members_come_back),
        AT_SITE(any_host_may_be_listed),
        AT_SITE(there_may_be_none),
        AT_SITE(a_write_that_fails_leaves_the_one_before),
        AT_SITE(lost_power_leaves_one_of_both),
        AT_SITE(a_lack_of_memory_writes_no_less),
        AT_SITE(a_lack_of_memory_is_no_damage),
        cmocka_unit_test(digests_are_sha256),
    };
    return cmocka_run_group_tests_name("membership", tests, NULL, NULL);
}
