/* server/checkpoint/membership: damage of the list of members is named. */
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

#define MEMBERS_MOST 65536
#define BYTES_MOST   ((uint64_t)32 << 20)

/* As it is written, for a test to change. */
static json_t *whole(struct membership_site *site)
{
    const struct gw_membership is = membership_some();
    uint8_t *text;
    size_t n;
    membership_write(site, &is);
    assert_int_equal(gw_store_read(&site->dir, GW_MEMBERSHIP_NAME, BYTES_MOST,
                                   &text, &n, &site->error),
                     GW_OK);
    json_t *json = json_loadb((const char *)text, n, 0, NULL);
    assert_non_null(json);
    free(text);
    return json;
}

static void put(struct membership_site *site, const char *text)
{
    assert_int_equal(
        gw_store_replace(&site->dir, GW_MEMBERSHIP_NAME, text, &site->error),
        GW_OK);
}

/* One line names the file, and nothing is given to the caller. */
static void is_damaged(struct membership_site *site, const char *what)
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

static void put_json(struct membership_site *site, const json_t *json)
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

static void one_is_damaged(struct membership_site *site,
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
    struct membership_site *site = *state;
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
    struct membership_site *site = *state;
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
    struct membership_site *site = *state;
    char text[GW_ADDRESS_MAX + 1];
    memset(text, 'x', GW_ADDRESS_MAX);
    text[GW_ADDRESS_MAX] = '\0';
    one_is_damaged(site, "", "address", json_string(text));
    one_is_damaged(site, "", "address", json_integer(5));
    one_is_damaged(site, "", "address", NULL);
    text[sizeof membership_some_members[0].host] = '\0';
    one_is_damaged(site, "member", "host", json_string(text));
    one_is_damaged(site, "member", "host", json_integer(5));
    one_is_damaged(site, "member", "host", NULL);
}

static void damaged_parts_are_named(void **state)
{
    struct membership_site *site = *state;
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
    struct membership_site *site = *state;
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
    struct membership_site *site = *state;
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
    const struct gw_membership is = membership_some();
    membership_holds(site, &is);
    free(more);
    free(text);
    json_decref(json);
}

/* Nor is all memory taken for what somebody put there. */
static void a_huge_file_is_not_read(void **state)
{
    struct membership_site *site = *state;
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

#define AT_SITE(test)                                                          \
    cmocka_unit_test_setup_teardown(test, membership_begin, membership_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        AT_SITE(a_damaged_count_is_named),
        AT_SITE(damaged_digits_are_named),
        AT_SITE(damaged_texts_are_named),
        AT_SITE(damaged_parts_are_named),
        AT_SITE(a_text_that_is_none_of_ours_is_named),
        AT_SITE(half_a_file_is_damaged),
        AT_SITE(a_huge_file_is_not_read),
    };
    return cmocka_run_group_tests_name("membership_damage", tests, NULL, NULL);
}
