/* server/checkpoint/manifest: what is written comes back, damage is named, and
   a lack of memory makes no manifest smaller. */
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

#include "proto/digest.h"
#include "server/checkpoint/manifest.h"

static struct gw_key keys[] = {
    {.name = "fc1.weight", .dtype = 1, .dims = 2, .shape = {784, 32}},
    {.name = "fc1.bias",
     .dtype = 1,
     .dims = 1,
     .rule = GW_KEY_RULE_MEAN,
     .group = 3,
     .shape = {32}},
};
static struct gw_manifest_file files[] = {
    {.name = "shard-0-of-2.safetensors", .bytes = 12, .sha256 = {1, 2, 255}},
    {.name = "shard-1-of-2.safetensors", .bytes = 0},
};
static struct gw_manifest_rank ranks[] = {
    {.data_cursor = 7, .device = "cpu Haswell, 1 thread", .inner = "adamw"},
    {.data_cursor = 8, .device = "", .tuned = "H100: 0 3", .split = 1048576},
};

static struct gw_manifest some_manifest(void)
{
    static char job[] = "data : { train = \"\xc3\xa4\"; };\n";
    return (struct gw_manifest){
        .state = {.clock = 120,
                  .applied = 118,
                  .loss_scale = 65536,
                  .good_steps = 3,
                  .skipped_in_a_row = 1,
                  .best_loss = 0.1,
                  .best_clock = 100,
                  .evaluations = 12,
                  .evaluations_without_progress = 2},
        .course = {.clock = 100,
                   .epoch = 7,
                   .sample = 40,
                   .batch = 30,
                   .samples = 1000},
        .best = 1,
        .keys_hash = gw_keys_hash(keys, 2),
        .keys = keys,
        .n_keys = 2,
        .optimizer = "momentum",
        .policy = "ssp:4",
        .job = job,
        .files = files,
        .n_files = 2,
        .ranks = ranks,
        .n_ranks = 2,
    };
}

static char *print(void)
{
    const struct gw_manifest manifest = some_manifest();
    char *text = gw_manifest_print(&manifest);
    assert_non_null(text);
    return text;
}

static enum gw_status
parse(const char *text, struct gw_manifest *manifest, struct gw_error *error)
{
    *error = (struct gw_error){.text = ""};
    return gw_manifest_parse("m.json", text, strlen(text), manifest, error);
}

static void a_manifest_comes_back(void **state)
{
    (void)state;
    const struct gw_manifest is = some_manifest();
    struct gw_manifest read;
    struct gw_error error;
    char *text = print();
    assert_int_equal(parse(text, &read, &error), GW_OK);
    assert_memory_equal(&read.state, &is.state, sizeof is.state);
    assert_true(gw_course_is_same(&read.course, &is.course));
    assert_int_equal(read.best, 1);
    assert_true(read.keys_hash == is.keys_hash);
    assert_int_equal(read.n_keys, 2);
    assert_memory_equal(read.keys, keys, sizeof keys);
    assert_string_equal(read.optimizer, is.optimizer);
    assert_string_equal(read.policy, "ssp:4");
    assert_string_equal(read.job, is.job);
    assert_int_equal(read.n_files, 2);
    assert_memory_equal(read.files, files, sizeof files);
    assert_int_equal(read.n_ranks, 2);
    assert_memory_equal(read.ranks, ranks, sizeof ranks);
    gw_manifest_free(&read);
    free(text);
}

/* The manifest with one field of its body replaced, its digest put right. */
static char *with(const char *field, json_t *value)
{
    uint8_t digest[GW_DIGEST_BYTES];
    char hex[2 * GW_DIGEST_BYTES + 1];
    char *text = print();
    json_t *whole = json_loads(text, 0, NULL);
    json_t *body = json_object_get(whole, "body");
    assert_int_equal(json_object_set_new(body, field, value), 0);
    char *compact = json_dumps(body, JSON_COMPACT);
    struct gw_digest *sum = gw_digest_begin();
    gw_digest_add(sum, compact, strlen(compact));
    gw_digest_end(sum, digest);
    gw_digest_hex(digest, hex);
    json_object_set_new(whole, "sha256", json_string(hex));
    free(text);
    free(compact);
    text = json_dumps(whole, 0);
    json_decref(whole);
    return text;
}

static void is_damaged(char *text, const char *line)
{
    struct gw_manifest read;
    struct gw_error error;
    assert_int_equal(parse(text, &read, &error), GW_ECORRUPT);
    assert_string_equal(error.text, line);
    free(text);
}

static void damage_is_named(void **state)
{
    (void)state;
    char *text = print();
    *strstr(text, "momentum") = 'n';
    is_damaged(text, "m.json: \"sha256\" is damaged");
    text = print();
    memcpy(strrchr(text, ',') + 3, "\"sha257", 7);
    is_damaged(text, "m.json: \"body\" is damaged");
    is_damaged(with("format", json_integer(9)),
               "m.json: \"format\" is damaged");
    is_damaged(with("program", json_null()), "m.json: \"body\" is damaged");
    is_damaged(with("keys", json_array()), "m.json: \"keys\" is damaged");
    is_damaged(with("keys_hash", json_string("x")),
               "m.json: \"keys\" is damaged");
    is_damaged(with("keys", json_pack("[{s:s, s:i, s:[i], s:i}]", "name", "w",
                                      "dtype", 1, "shape", 2, "group", -1)),
               "m.json: \"keys\" is damaged");
    is_damaged(with("keys", json_pack("[{s:s, s:i, s:[i], s:i}]", "name", "w",
                                      "dtype", 1, "shape", 2, "rule", 9)),
               "m.json: \"keys\" is damaged");
    is_damaged(with("state", json_object()), "m.json: \"state\" is damaged");
    is_damaged(
        with("optimizer", json_string("a name that no optimizer of ours has")),
        "m.json: \"optimizer\" is damaged");
    is_damaged(
        with("files", json_pack("[{s:s, s:i, s:s}]", "name", "../../etc/passwd",
                                "bytes", 1, "sha256", "")),
        "m.json: \"files\" is damaged");
    is_damaged(with("ranks",
                    json_pack("[{s:i, s:s}]", "data_cursor", -1, "device", "")),
               "m.json: \"ranks\" is damaged");
    is_damaged(with("ranks", json_pack("[{s:i, s:s, s:i}]", "data_cursor", 1,
                                       "device", "", "split", -1)),
               "m.json: \"ranks\" is damaged");
    is_damaged(with("ranks", json_pack("[{s:i, s:s, s:i}]", "data_cursor", 1,
                                       "device", "", "inner", 1)),
               "m.json: \"ranks\" is damaged");
    is_damaged(
        with("ranks",
             json_pack("[{s:i, s:s, s:s}]", "data_cursor", 1, "device", "",
                       "inner", "a name that no optimizer of ours could have")),
        "m.json: \"ranks\" is damaged");
}

/* A place and the course that led to it say the same, or are damaged. */
static void the_place_in_the_data_is_one(void **state)
{
    (void)state;
    static const struct {
        int epoch, sample, batch, clock, from;
    } wrong[] = {
        {7, 641, 30, 100, 40},    /* not where the steps lead */
        {8, 640, 30, 100, 40},    /* another epoch */
        {7, 640, 0, 100, 40},     /* no step at all */
        {7, 640, -30, 100, 40},   /* no number of samples */
        {7, 1000, 30, 121, 1000}, /* beyond the training set */
        {7, 40, 30, 121, 40},     /* steps that are to come */
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        is_damaged(
            with("data",
                 json_pack("{s:i, s:i, s:i, s:i, s:{s:i, s:i, s:i}}", "epoch",
                           wrong[i].epoch, "sample", wrong[i].sample, "samples",
                           1000, "global_batch", wrong[i].batch, "since",
                           "clock", wrong[i].clock, "epoch", 7, "sample",
                           wrong[i].from)),
            "m.json: \"data\" is damaged");
    is_damaged(with("data", json_array()), "m.json: \"data\" is damaged");
}

static void what_was_tuned_is_text_of_no_more_than_it_may_be(void **state)
{
    (void)state;
    char text[GW_TUNED_BYTES + 1] = "";
    memset(text, '1', GW_TUNED_BYTES - 1);
    json_t *ranks_of = json_pack("[{s:i, s:s, s:s}]", "data_cursor", 1,
                                 "device", "", "tuned", text);
    struct gw_manifest read;
    struct gw_error error;
    char *good = with("ranks", ranks_of);
    assert_int_equal(
        gw_manifest_parse("m.json", good, strlen(good), &read, &error), GW_OK);
    assert_string_equal(read.ranks[0].tuned, text);
    gw_manifest_free(&read);
    free(good);
    text[GW_TUNED_BYTES - 1] = '1';
    is_damaged(with("ranks", json_pack("[{s:i, s:s, s:s}]", "data_cursor", 1,
                                       "device", "", "tuned", text)),
               "m.json: \"ranks\" is damaged");
}

/* Nothing is written of workers that keep nothing, and nothing need be there.
 */
static void a_worker_may_keep_nothing(void **state)
{
    (void)state;
    struct gw_manifest read;
    struct gw_error error;
    char *text = print();
    char *first = strstr(text, "\"inner\": \"adamw\"");
    assert_non_null(first);
    assert_null(strstr(first + 1, "\"inner\""));
    free(text);
    text = with("ranks",
                json_pack("[{s:i, s:s}]", "data_cursor", 1, "device", ""));
    assert_int_equal(parse(text, &read, &error), GW_OK);
    assert_string_equal(read.ranks[0].inner, "");
    gw_manifest_free(&read);
    free(text);
}

/* The longest name fits, too. */
static void files_say_whose_they_are(void **state)
{
    (void)state;
    char name[GW_FILE_NAME_MAX];
    gw_shard_file_name(0, 2, name);
    assert_string_equal(name, "shard-0-of-2.safetensors");
    assert_int_equal(gw_is_worker_file(name), 0);
    gw_worker_file_name(UINT32_MAX, UINT32_MAX, name);
    assert_string_equal(name, "worker-4294967295-of-4294967295.safetensors");
    assert_true(gw_is_worker_file(name));
    assert_int_equal(gw_is_worker_file(GW_MANIFEST_NAME), 0);
}

/* ---- without memory ---- */

static unsigned long asked, failing; /* allocations of jansson; which fails */

static void *allocate(size_t n)
{
    return ++asked == failing ? NULL : malloc(n);
}

static void a_lack_of_memory_loses_nothing(void **state)
{
    (void)state;
    const struct gw_manifest is = some_manifest();
    char *whole = print();
    unsigned long lacked = 0;
    json_set_alloc_funcs(allocate, free);
    for (failing = asked = 1; asked + 1 >= failing; failing++) {
        asked = 0;
        char *text = gw_manifest_print(&is);
        lacked += text == NULL;
        if (text)
            assert_string_equal(text, whole);
        free(text);
    }
    json_set_alloc_funcs(malloc, free);
    assert_true(lacked > 20);
    free(whole);
}

/* But where jansson lacks it while it reads: it may call that bad syntax, or
   lose a character, which the digest finds. */
static void a_lack_of_memory_is_no_damage(void **state)
{
    (void)state;
    char *whole = print();
    unsigned long lacked = 0;
    json_set_alloc_funcs(allocate, free);
    for (failing = asked = 1; asked + 1 >= failing; failing++) {
        struct gw_manifest read;
        struct gw_error error;
        asked = 0;
        enum gw_status status = parse(whole, &read, &error);
        if (status == GW_OK) {
            assert_int_equal(read.n_files, 2);
            gw_manifest_free(&read);
            continue;
        }
        assert_true(status == GW_ENOMEM || status == GW_ECORRUPT);
        if (status == GW_ENOMEM)
            assert_non_null(strstr(error.text, "no memory"));
        else if (strstr(error.text, "damaged") && !strstr(error.text, "sha256"))
            fail_msg("allocation %lu: %s", failing, error.text);
        lacked += status == GW_ENOMEM;
    }
    json_set_alloc_funcs(malloc, free);
    assert_true(lacked > 20);
    free(whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_manifest_comes_back),
        cmocka_unit_test(damage_is_named),
        cmocka_unit_test(the_place_in_the_data_is_one),
        cmocka_unit_test(what_was_tuned_is_text_of_no_more_than_it_may_be),
        cmocka_unit_test(a_worker_may_keep_nothing),
        cmocka_unit_test(files_say_whose_they_are),
        cmocka_unit_test(a_lack_of_memory_loses_nothing),
        cmocka_unit_test(a_lack_of_memory_is_no_damage),
    };
    return cmocka_run_group_tests_name("manifest", tests, NULL, NULL);
}
