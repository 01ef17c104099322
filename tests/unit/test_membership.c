/*
 * server/checkpoint/membership: the members of a running job come back whole,
 * damage is named, and a write that fails leaves the ones before.
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
#include "server/checkpoint/membership.h"
#include "server/checkpoint/store.h"
#include "transport/sim/sim.h"

#define FILE_NAME    "ckpt/" GW_MEMBERSHIP_NAME
#define MEMBERS_MOST 65536
#define BYTES_MOST   ((uint64_t)32 << 20)

/* A simulated host with a directory for checkpoints. */
struct site {
    struct gw_sim *sim;
    struct gw_loop *loop;
    struct gw_disk dir;
    struct gw_error error;
};

static int begin(void **state)
{
    struct site *site = calloc(1, sizeof *site);
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

static int end(void **state)
{
    struct site *site = *state;
    gw_store_leave(&site->dir);
    gw_loop_close(site->loop);
    gw_sim_destroy(site->sim);
    free(site);
    return 0;
}

static struct gw_membership_member some_members[] = {
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

static uint32_t some_threads[] = {1, 65536, 3, 2};

static struct gw_membership some_membership(void)
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
        .threads = some_threads,
        .servers = sizeof some_threads / sizeof *some_threads,
        .member = some_members,
        .members = sizeof some_members / sizeof *some_members};
    memset(some.address, 'a', sizeof some.address - 1);
    return some;
}

static void is_same(const struct gw_membership *read,
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

static void write_it(struct site *site, const struct gw_membership *membership)
{
    assert_int_equal(gw_membership_write(&site->dir, membership, &site->error),
                     GW_OK);
}

/* This one is in the file, and no remains of another are beside it. */
static void holds(struct site *site, const struct gw_membership *is)
{
    struct gw_membership read;
    struct gw_file *file;
    assert_int_equal(gw_membership_read(&site->dir, &read, &site->error),
                     GW_OK);
    is_same(&read, is);
    gw_membership_free(&read);
    assert_null(read.member);
    assert_int_equal(site->dir.ops->open(&site->dir,
                                         GW_MEMBERSHIP_NAME GW_TEMPORARY,
                                         GW_FILE_READ, &file, NULL),
                     GW_ENOENT);
}

/* ---- what is written comes back ---- */

static void members_come_back(void **state)
{
    struct site *site = *state;
    struct gw_membership is = some_membership();
    write_it(site, &is);
    holds(site, &is);
    is = (struct gw_membership){.job = 1,
                                .threads = some_threads,
                                .servers = 1,
                                .member = &some_members[2],
                                .members = 1};
    write_it(site, &is); /* in the place of the longer one */
    holds(site, &is);
}

/* As many as may be, each with all it can have. */
static void many_members_come_back(void **state)
{
    struct site *site = *state;
    struct gw_membership is = some_membership();
    is.members = MEMBERS_MOST;
    is.member = calloc(is.members, sizeof *is.member);
    assert_non_null(is.member);
    for (size_t i = 0; i < is.members; i++) {
        is.member[i] = some_members[1];
        is.member[i].incarnation -= i;
    }
    write_it(site, &is);
    holds(site, &is);
    free(is.member);
}

/* A host may have a name that is no UTF-8, or be cut off in a character: what
   people read of it is less, and nothing else. */
static void any_host_may_be_listed(void **state)
{
    struct site *site = *state;
    struct gw_membership is = some_membership();
    struct gw_membership_member member = some_members[0];
    is.member = &member;
    is.members = 1;
    strcpy(member.host, "caf\xe9-\xc3"); /* Latin-1, and half of an o */
    write_it(site, &is);
    strcpy(member.host, "caf?-?");
    holds(site, &is);
}

static void there_may_be_none(void **state)
{
    struct site *site = *state;
    struct gw_membership is = some_membership(), read;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(gw_membership_read(&site->dir, &read, &site->error),
                         GW_ENOENT);
        assert_non_null(strstr(site->error.text, FILE_NAME));
        write_it(site, &is);
        gw_membership_remove(&site->dir);
        gw_membership_remove(&site->dir); /* one that is gone is no error */
    }
}

/* ---- damage ---- */

/* As it is written, for a test to change. */
static json_t *whole(struct site *site)
{
    const struct gw_membership is = some_membership();
    uint8_t *text;
    size_t n;
    write_it(site, &is);
    assert_int_equal(gw_store_read(&site->dir, GW_MEMBERSHIP_NAME, BYTES_MOST,
                                   &text, &n, &site->error),
                     GW_OK);
    json_t *json = json_loadb((const char *)text, n, 0, NULL);
    assert_non_null(json);
    free(text);
    return json;
}

static void put(struct site *site, const char *text)
{
    assert_int_equal(
        gw_store_replace(&site->dir, GW_MEMBERSHIP_NAME, text, &site->error),
        GW_OK);
}

/* One line names the file, and nothing is given to the caller. */
static void is_damaged(struct site *site, const char *what)
{
    struct gw_membership read = {.job = 77};
    site->error.text[0] = '\0';
    enum gw_status status = gw_membership_read(&site->dir, &read, &site->error);
    if (status != GW_ECORRUPT)
        fail_msg("%s: %s", what, gw_status_text(status));
    assert_non_null(strstr(site->error.text, GW_MEMBERSHIP_NAME));
    assert_null(strchr(site->error.text, '\n'));
    assert_true(read.job == 77 && read.member == NULL);
}

static void put_json(struct site *site, const json_t *json)
{
    char *text = json_dumps(json, 0);
    assert_non_null(text);
    put(site, text);
    free(text);
}

/* The object of a field: the file's, `from`, the second member or the fourth.
 */
static json_t *object_in(json_t *json, const char *where)
{
    if (strcmp(where, "from") == 0)
        return json_object_get(json, "from");
    if (strcmp(where, "standby") == 0)
        return json_array_get(json_object_get(json, "members"), 3);
    if (strcmp(where, "member") == 0)
        return json_array_get(json_object_get(json, "members"), 1);
    return json;
}

static void one_is_damaged(struct site *site,
                           const char *where,
                           const char *field,
                           json_t *value)
{
    char what[128], *text = json_dumps(value, JSON_ENCODE_ANY);
    json_t *json = whole(site);
    json_t *in = object_in(json, where);
    snprintf(what, sizeof what, "%s %s %.60s", where, field,
             text ? text : "is not there");
    free(text);
    if (value)
        assert_int_equal(json_object_set_new(in, field, value), 0);
    else
        assert_int_equal(json_object_del(in, field), 0);
    put_json(site, json);
    is_damaged(site, what);
    json_decref(json);
}

/* Fields that are counts, and the first number above their range; 0: there is
   none that JSON could have. */
static const struct {
    const char *where, *field;
    uint64_t above;
} counts[] = {
    {"", "format", 3},
    {"", "epoch", (uint64_t)UINT32_MAX + 1},
    {"", "silence_us", (uint64_t)GW_SILENCE_MAX_US + 1},
    {"", "begin", GW_CLOCK_MAX + 1},
    {"", "sums", 2},
    {"from", "clock", GW_CLOCK_MAX + 1},
    {"from", "since", GW_CLOCK_MAX + 1},
    {"from", "epoch", 0},
    {"from", "sample", 60000}, /* of so many */
    {"from", "batch", 0},
    {"from", "samples", 0},
    {"member", "role", 256 + GW_ROLE_WORKER},
    {"member", "role", ((uint64_t)1 << 32) + GW_ROLE_WORKER},
    {"member", "role", GW_ROLE_COORDINATOR},
    {"member", "caught", 1}, /* of a worker */
    {"standby", "caught", 2},
    {"standby", "server", 4}, /* of so many */
    {"member", "id", (uint64_t)UINT32_MAX + 1},
    {"member", "server", (uint64_t)UINT32_MAX + 1},
    {"member", "pid", (uint64_t)UINT32_MAX + 1},
};

static void a_damaged_count_is_named(void **state)
{
    struct site *site = *state;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        const char *where = counts[i].where, *field = counts[i].field;
        one_is_damaged(site, where, field, NULL);
        one_is_damaged(site, where, field, json_null());
        one_is_damaged(site, where, field, json_string("1"));
        one_is_damaged(site, where, field, json_real(1.0));
        one_is_damaged(site, where, field, json_array());
        one_is_damaged(site, where, field, json_integer(-1));
        one_is_damaged(site, where, field, json_integer(INT64_MIN));
        if (counts[i].above)
            one_is_damaged(site, where, field,
                           json_integer((json_int_t)counts[i].above));
    }
    one_is_damaged(site, "", "format", json_integer(((json_int_t)1 << 32) + 2));
}

/* Texts of so many digits. */
static const struct {
    const char *where, *field;
    int digits;
} digits[] = {
    {"", "job", 16},
    {"", "text", 64},
    {"member", "incarnation", 16},
    {"member", "machine", 16},
    {"member", "secret", 64},
};

static void damaged_digits_are_named(void **state)
{
    struct site *site = *state;
    static const char zeros[] = "00000000000000000000000000000000"
                                "00000000000000000000000000000000";
    static const char *const begins[] = {"0x", "-1", "+1", " 1", "g0", "\t0"};
    for (size_t i = 0; i < sizeof digits / sizeof *digits; i++) {
        const char *where = digits[i].where, *field = digits[i].field;
        int n = digits[i].digits;
        one_is_damaged(site, where, field, NULL);
        one_is_damaged(site, where, field, json_integer(1));
        one_is_damaged(site, where, field, json_string(""));
        one_is_damaged(site, where, field, json_sprintf("%.*s1", n - 2, zeros));
        one_is_damaged(site, where, field,
                       json_sprintf("%.*s10", n - 1, zeros));
        one_is_damaged(site, where, field, json_sprintf("%.*sx", n - 1, zeros));
        one_is_damaged(site, where, field, json_sprintf("%.*s ", n - 1, zeros));
        for (size_t k = 0; k < sizeof begins / sizeof *begins; k++)
            one_is_damaged(site, where, field,
                           json_sprintf("%s%.*s1", begins[k], n - 3, zeros));
    }
    one_is_damaged(site, "", "job", json_sprintf("%.16s", zeros)); /* no job */
}

static void damaged_texts_are_named(void **state)
{
    struct site *site = *state;
    char text[GW_ADDRESS_MAX + 1];
    memset(text, 'x', GW_ADDRESS_MAX);
    text[GW_ADDRESS_MAX] = '\0';
    one_is_damaged(site, "", "address", json_string(text));
    one_is_damaged(site, "", "address", json_integer(5));
    one_is_damaged(site, "", "address", NULL);
    text[sizeof some_members[0].host] = '\0';
    one_is_damaged(site, "member", "host", json_string(text));
    one_is_damaged(site, "member", "host", json_integer(5));
    one_is_damaged(site, "member", "host", NULL);
}

static void damaged_parts_are_named(void **state)
{
    struct site *site = *state;
    one_is_damaged(site, "", "from", NULL);
    one_is_damaged(site, "", "from", json_array());
    one_is_damaged(site, "", "from", json_string("x"));
    one_is_damaged(site, "", "threads", NULL);
    one_is_damaged(site, "", "threads", json_array());
    one_is_damaged(site, "", "threads", json_integer(4));
    one_is_damaged(site, "", "threads", json_pack("[i, i, i, i]", 1, 0, 1, 1));
    one_is_damaged(site, "", "threads", json_pack("[i, i, i, n]", 1, 1, 1));
    one_is_damaged(site, "", "threads",
                   json_pack("[i, i, i, i]", 1, 1, 1, 65537));
    one_is_damaged(site, "", "members", NULL);
    one_is_damaged(site, "", "members", json_object());
    one_is_damaged(site, "", "members", json_array()); /* a job has some */
    one_is_damaged(site, "", "members", json_pack("[n]"));
    one_is_damaged(site, "", "members", json_pack("[[]]"));
    json_t *json = whole(site), *many = json_array();
    for (size_t i = 0; i <= MEMBERS_MOST; i++)
        json_array_append(many, object_in(json, "member"));
    one_is_damaged(site, "", "members", many);
    json_decref(json);
}

static void a_text_that_is_none_of_ours_is_named(void **state)
{
    struct site *site = *state;
    static const char *const texts[] = {"",
                                        " ",
                                        "x",
                                        "{",
                                        "{}",
                                        "[]",
                                        "null",
                                        "1",
                                        "\"\"",
                                        "{\"format\": 1}",
                                        "{\"format\": 1, \"format\": 1}",
                                        "\xff\xfe"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        put(site, texts[i]);
        is_damaged(site, texts[i]);
    }
}

/* So is a file with more behind it, or with a key that is there twice. */
static void half_a_file_is_damaged(void **state)
{
    struct site *site = *state;
    json_t *json = whole(site);
    char *text = json_dumps(json, JSON_COMPACT);
    size_t n = strlen(text);
    char *more = calloc(1, 2 * n);
    for (size_t half = 0; half < n; half++) {
        memcpy(more, text, half);
        more[half] = '\0';
        put(site, more);
        is_damaged(site, "half");
    }
    snprintf(more, 2 * n, "%s}", text);
    put(site, more);
    is_damaged(site, "more");
    snprintf(more, 2 * n, "{\"format\":1,%s", text + 1);
    put(site, more);
    is_damaged(site, "twice");
    put(site, text);
    const struct gw_membership is = some_membership();
    holds(site, &is);
    free(more);
    free(text);
    json_decref(json);
}

/* Nor is all memory taken for what somebody put there. */
static void a_huge_file_is_not_read(void **state)
{
    struct site *site = *state;
    struct gw_file *file;
    struct gw_disk *dir = &site->dir;
    assert_int_equal(dir->ops->open(dir, GW_MEMBERSHIP_NAME, GW_FILE_CREATE,
                                    &file, &site->error),
                     GW_OK);
    assert_int_equal(dir->ops->write(file, BYTES_MOST, "{", 1, &site->error),
                     GW_OK);
    dir->ops->close(file, NULL);
    is_damaged(site, "huge");
    assert_non_null(strstr(site->error.text, "too large"));
}

/* ---- the one before, or the new one ---- */

/* Each operation of a write fails in turn: a file that could not be written is
   not there, unless it is whole and only its name was not yet synced. */
static void a_write_that_fails_leaves_the_one_before(void **state)
{
    struct site *site = *state;
    const struct gw_membership old = some_membership();
    struct gw_membership new = old;
    new.epoch = 7;
    new.members = 1;
    write_it(site, &old);
    uint64_t operations = gw_sim_disk_operations(site->loop);
    write_it(site, &new);
    operations = gw_sim_disk_operations(site->loop) - operations;
    assert_true(operations >= 5); /* open, write, sync, rename, sync_dir */
    for (uint64_t at = 1; at <= operations; at++) {
        write_it(site, &old);
        gw_sim_disk_fail(site->loop, at, GW_ENOSPC);
        assert_int_equal(gw_membership_write(&site->dir, &new, &site->error),
                         GW_ENOSPC);
        assert_non_null(strstr(site->error.text, "ckpt"));
        holds(site, at < operations ? &old : &new);
    }
}

/* Power is lost: one of both is there, the new one if its write was done. */
static void lost_power_leaves_one_of_both(void **state)
{
    struct site *site = *state;
    const struct gw_membership old = some_membership();
    struct gw_membership new = old, read;
    enum gw_status status = GW_EIO;
    new.epoch = 7;
    for (uint64_t at = 1; status != GW_OK; at++) {
        write_it(site, &old);
        gw_sim_disk_fail(site->loop, at, GW_OK);
        status = gw_membership_write(&site->dir, &new, &site->error);
        /* the next one meets the failure, where this one did not */
        if (status == GW_OK)
            gw_membership_remove(&site->dir);
        gw_sim_disk_restart(site->loop);
        assert_int_equal(gw_membership_read(&site->dir, &read, &site->error),
                         GW_OK);
        is_same(&read, read.epoch == 7 ? &new : &old);
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
    struct site *site = *state;
    struct gw_membership old = some_membership(), new = old;
    unsigned long lacked = 0;
    new.epoch = 7;
    for (failing = asked = 1; asked + 1 >= failing; failing++) {
        write_it(site, &old);
        json_set_alloc_funcs(allocate, free);
        asked = 0;
        enum gw_status status =
            gw_membership_write(&site->dir, &new, &site->error);
        json_set_alloc_funcs(malloc, free);
        assert_true(status == GW_OK || status == GW_ENOMEM);
        holds(site, status == GW_OK ? &new : &old);
        lacked += status == GW_ENOMEM;
    }
    assert_true(lacked > 20);
}

/* But where jansson lacks it while it reads a text: it may call that bad
   syntax, or lose a character (2.14), which only a digest would find. */
static void a_lack_of_memory_is_no_damage(void **state)
{
    struct site *site = *state;
    const struct gw_membership is = some_membership();
    unsigned long lacked = 0, damaged = 0;
    write_it(site, &is);
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
    holds(site, &is);
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

#define AT_SITE(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        AT_SITE(members_come_back),
        AT_SITE(many_members_come_back),
        AT_SITE(any_host_may_be_listed),
        AT_SITE(there_may_be_none),
        AT_SITE(a_damaged_count_is_named),
        AT_SITE(damaged_digits_are_named),
        AT_SITE(damaged_texts_are_named),
        AT_SITE(damaged_parts_are_named),
        AT_SITE(a_text_that_is_none_of_ours_is_named),
        AT_SITE(half_a_file_is_damaged),
        AT_SITE(a_huge_file_is_not_read),
        AT_SITE(a_write_that_fails_leaves_the_one_before),
        AT_SITE(lost_power_leaves_one_of_both),
        AT_SITE(a_lack_of_memory_writes_no_less),
        AT_SITE(a_lack_of_memory_is_no_damage),
        cmocka_unit_test(digests_are_sha256),
    };
    return cmocka_run_group_tests_name("membership", tests, NULL, NULL);
}
