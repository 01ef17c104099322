/* proto/config: whole jobs: printed and read again, compared. */
#include "config.h"

#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kernels/kernels.h"
#include "kernels/update/update.h"
#include "proto/config.h"
#include "proto/config_value.h"
#include "proto/log.h"
#include "proto/random.h"
#include "transport/link/transport.h"

/* large: not on the stack */
static struct gw_config config, other;
static char text[4 * GW_JOB_TEXT_MAX], again[sizeof text];

struct draws {
    uint64_t seed, at;
};

static uint64_t draw(struct draws *draws, uint64_t below)
{
    uint32_t bits[4];
    gw_random4(draws->seed, GW_RANDOM_TEST, 1, draws->at++, bits);
    return ((uint64_t)bits[0] << 32 | bits[1]) % below;
}

/* Any double within the bounds, all exponents alike, the bounds often. */
static double draw_real(struct draws *draws, double min, double max)
{
    if (draw(draws, 8) == 0)
        return draw(draws, 2) ? min : max;
    for (;;) {
        uint64_t bits = draw(draws, UINT64_MAX);
        double real;
        memcpy(&real, &bits, sizeof real);
        if (real >= min && real <= max)
            return real;
    }
}

static void draw_text(struct draws *draws, char *to, size_t least)
{
    size_t bytes = least + draw(draws, GW_STRING_MAX - least);
    for (size_t i = 0; i < bytes; i++) {
        static const char hard[] = "\"\\#/*;{}@=, n x0";
        to[i] = draw(draws, 2) ? hard[draw(draws, sizeof hard - 1)]
                               : (char)(' ' + draw(draws, 95));
        if (draw(draws, 20) == 0 && i + 1 < bytes) { /* a letter in UTF-8 */
            to[i++] = (char)(0xc2 + draw(draws, 0x1e));
            to[i] = (char)(0x80 + draw(draws, 0x40));
        }
    }
    to[bytes] = '\0';
}

static void
draw_choice(struct draws *draws, const struct gw_config_key *key, char *to)
{
    char words[128];
    strcpy(words, key->choices);
    unsigned n = 0;
    char *word[16], *save;
    for (char *w = strtok_r(words, "|", &save); w;
         w = strtok_r(NULL, "|", &save))
        word[n++] = w;
    strcpy(to, word[draw(draws, n)]);
    if (strcmp(to, "NUMBER") == 0)
        sprintf(to, "%u", 1 + (unsigned)draw(draws, 65536));
}

static void draw_interface(struct draws *draws, char *to)
{
    sprintf(to, "eth%u", (unsigned)draw(draws, 1000));
}

/* A plan of one to four phases. */
static void draw_plan(struct draws *draws, char *to)
{
    static const char *const words[] = {
        "sync",       "backup:1", "ssp:4",    "async",      "easgd:10",
        "stale-lr:2", "dc-async", "local:16", "diloco:500", "downpour:8"};
    uint64_t until = 0, phases = 1 + draw(draws, 4);
    for (uint64_t i = 0; i < phases; i++) {
        to += sprintf(to, "%s", words[draw(draws, 10)]);
        until += 1 + draw(draws, 1000000);
        if (i + 1 < phases)
            to += sprintf(to, " until %d, ", (int)until);
    }
}

static int is_device(const struct gw_config_key *key)
{
    return strcmp(key->name, "worker.device") == 0;
}

static void draw_device(struct draws *draws, char *to)
{
    static const char *const kinds[] = {"auto", "cpu", "cuda"};
    uint64_t kind = draw(draws, 4);
    if (kind < 3)
        strcpy(to, kinds[kind]);
    else
        sprintf(to, "cuda:%u", (unsigned)draw(draws, 1000));
}

static void
draw_value(struct draws *draws, const struct gw_config_key *key, void *place)
{
    struct gw_every *every = place;
    struct gw_string_list *strings = place;
    struct gw_path_list *paths = place;
    struct gw_cadence *cadence = place;
    struct gw_number_list *numbers = place;
    unsigned choices = 1, index;
    switch (key->type) {
    case GW_TYPE_BOOL:
        *(int *)place = (int)draw(draws, 2);
        break;
    case GW_TYPE_COUNT:
        *(uint64_t *)place = (uint64_t)key->min +
                             draw(draws, (uint64_t)(key->max - key->min) + 1);
        break;
    case GW_TYPE_REAL:
        *(double *)place = draw_real(draws, key->min, key->max);
        break;
    case GW_TYPE_STRING:
        if (key->choices)
            draw_choice(draws, key, place);
        else if (is_device(key))
            draw_device(draws, place);
        else if (key->own)
            draw_interface(draws, place);
        else if (key->check)
            draw_plan(draws, place);
        else
            draw_text(draws, place, 0);
        break;
    case GW_TYPE_PATH:
        draw_text(draws, place, 0);
        break;
    case GW_TYPE_CADENCE:
        cadence->steps = draw(draws, 2) ? 1 + draw(draws, 1000000) : 0;
        cadence->seconds = draw(draws, 2) ? 1 + draw(draws, 1000) : 0;
        break;
    case GW_TYPE_PATHS:
        for (uint64_t left = draw(draws, GW_LIST_MAX / 4 + 1); left; left--) {
            char path[GW_STRING_MAX] = "";
            draw_text(draws, path, 1);
            assert_true(gw_path_add(paths, path));
        }
        break;
    case GW_TYPE_CHOICE:
        for (const char *at = key->choices; *at; at++)
            choices += *at == '|';
        index = (unsigned)draw(draws, choices);
        memcpy(place, &index, sizeof index);
        break;
    case GW_TYPE_EVERY:
        every->unit = (enum gw_every_unit)draw(draws, 4);
        every->n = every->unit ? 1 + draw(draws, 1000000000000) : 0;
        break;
    case GW_TYPE_STRINGS:
        strings->n = draw(draws, GW_LIST_MAX / 4 + 1);
        for (size_t i = 0; i < strings->n; i++)
            draw_text(draws, strings->item[i], 1);
        break;
    case GW_TYPE_NUMBERS:
        numbers->n = draw(draws, GW_LIST_MAX + 1);
        for (size_t i = 0; i < numbers->n; i++)
            numbers->item[i] = draw_real(draws, key->min, key->max);
        break;
    }
}

static void draw_config(uint64_t seed, struct gw_config *to)
{
    struct draws draws = {.seed = seed};
    size_t n;
    const struct gw_config_key *keys = gw_config_keys(&n);
    memset(to, 0, sizeof *to);
    for (size_t i = 0; i < n; i++)
        draw_value(&draws, &keys[i], (char *)to + keys[i].offset);
}

static void printed_jobs_are_read_again(void **state)
{
    (void)state;
    int long_ones = 0;
    for (uint64_t seed = 0; seed < 300; seed++) {
        struct gw_error error;
        draw_config(seed, &config);
        int help = seed % 2 == 0;
        size_t bytes = gw_config_print(&config, help, text, sizeof text);
        assert_true(bytes < sizeof text);
        assert_int_equal(strlen(text), bytes);
        if (bytes > GW_JOB_TEXT_MAX) {
            long_ones++;
            continue;
        }
        gw_config_default(&other);
        if (gw_config_parse(&other, "printed", text, &error))
            fail_msg("seed %d: %s", (int)seed, error.text);
        assert_int_equal(gw_config_print(&other, help, again, sizeof again),
                         bytes);
        assert_string_equal(text, again);
        assert_true(gw_config_hash(&config) == gw_config_hash(&other));
    }
    assert_true(long_ones < 100);
}

/* Bit for bit, not only as text: the bytes of every key's place. */
static void numbers_come_back_exactly(void **state)
{
    (void)state;
    for (uint64_t seed = 1000; seed < 1100; seed++) {
        struct gw_error error;
        draw_config(seed, &config);
        config.data.train.n = config.data.test.n = config.data.augment.n = 0;
        config.data.normalize.item[0] = -0.0;
        gw_config_print(&config, 0, text, sizeof text);
        gw_config_default(&other);
        if (gw_config_parse(&other, "printed", text, &error))
            fail_msg("seed %d: %s", (int)seed, error.text);
        assert_memory_equal(&config.optimizer.lr, &other.optimizer.lr,
                            6 * sizeof(double));
        assert_memory_equal(&config.data.normalize.item,
                            &other.data.normalize.item,
                            config.data.normalize.n * sizeof(double));
        assert_int_equal(config.train.seed, other.train.seed);
        assert_int_equal(config.data.normalize.n, other.data.normalize.n);
    }
}

static void printing_stops_at_the_end(void **state)
{
    (void)state;
    gw_config_default(&config);
    size_t bytes = gw_config_print(&config, 1, text, sizeof text);
    for (size_t room = 0; room < bytes + 2; room += 7) {
        memset(again, 'x', bytes + 10);
        assert_int_equal(gw_config_print(&config, 1, again, room), bytes);
        assert_int_equal(again[room], 'x');
        if (room > 0) {
            size_t kept = room - 1 < bytes ? room - 1 : bytes;
            assert_memory_equal(again, text, kept);
            assert_int_equal(again[kept], '\0');
        }
    }
    assert_int_equal(gw_config_print(&config, 1, NULL, 0), bytes);
}

static void every_key_has_help_and_default(void **state)
{
    (void)state;
    size_t n;
    const struct gw_config_key *keys = gw_config_keys(&n);
    gw_config_default(&config);
    gw_config_print(&config, 0, text, sizeof text);
    for (size_t i = 0; i < n; i++) {
        char leaf[64], takes[256];
        snprintf(leaf, sizeof leaf,
                 "\n    %s = ", strchr(keys[i].name, '.') + 1);
        assert_non_null(strstr(text, leaf));
        assert_true(strlen(keys[i].help) > 10);
        assert_true(gw_config_describe(&keys[i], takes, sizeof takes) <
                    sizeof takes);
        assert_ptr_equal(gw_config_find(keys[i].name), &keys[i]);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(keys[i].name, keys[k].name);
    }
    assert_null(gw_config_find("train"));
    assert_null(gw_config_find_section("train."));
    assert_null(gw_config_find_section(""));
}

/* "a|b|c" without the words of `besides`, which are no entries of a table. */
static unsigned choices_of(const char *name, const char *besides)
{
    unsigned n = 0, index;
    const struct gw_config_key *key = gw_config_find(name);
    for (const char *at = key->choices; at; at = strchr(at, '|')) {
        at += *at == '|';
        n++;
    }
    return n - (besides && gw_config_choice(key, besides, &index));
}

static int is_choice(const char *name, const char *word)
{
    unsigned index;
    return gw_config_choice(gw_config_find(name), word, &index);
}

/* The words of the table in proto are the tables of the other rooms. */
static void choices_are_what_is_there(void **state)
{
    (void)state;
    unsigned n;
    for (n = 0; gw_optimizers[n]; n++)
        assert_true(is_choice("optimizer.kind", gw_optimizers[n]->name));
    assert_int_equal(n, choices_of("optimizer.kind", "auto"));
    static const char *const own[] = {"policy.inner", "policy.outer"};
    for (size_t i = 0; i < 2; i++) {
        for (n = 0; gw_optimizers[n]; n++) {
            const char *name = gw_optimizers[n]->name;
            int fits = strcmp(name, "lamb") != 0 && strcmp(name, "none") != 0;
            assert_int_equal(is_choice(own[i], name), fits);
        }
        assert_int_equal(n - 2, choices_of(own[i], "auto"));
    }
    for (n = 0; n < gw_backend_count(); n++)
        assert_int_equal(
            gw_config_find("worker.device")->check(gw_backend_name(n), NULL),
            GW_OK);
    for (n = 0; gw_transports[n]; n++)
        assert_true(is_choice("cluster.transport", gw_transports[n]->name));
    assert_int_equal(n, choices_of("cluster.transport", "auto"));

    static const char *const levels[] = {"error", "warn", "info", "debug",
                                         "trace"};
    for (n = 0; n < sizeof levels / sizeof *levels; n++) {
        enum gw_log_level level;
        assert_true(is_choice("log.level", levels[n]));
        assert_true(gw_log_level_find(levels[n], &level));
    }
    assert_int_equal(n, choices_of("log.level", NULL));
}

static const char *const local[] = {
    "data.train",
    "data.test",
    "worker.device",
    "worker.threads",
    "worker.pin",
    "server.pin",
    "worker.autotune",
    "worker.gpudirect",
    "cluster.interface",
    "log.access",
    "log.dir",
    "server.threads",
    "cluster.control_interface",
};

static int is_local(const char *name)
{
    for (size_t i = 0; i < sizeof local / sizeof *local; i++) {
        if (strcmp(local[i], name) == 0)
            return 1;
    }
    return 0;
}

static void local_keys_stay(void **state)
{
    (void)state;
    size_t n, kept = 0;
    const struct gw_config_key *keys = gw_config_keys(&n);
    static struct gw_config mixed;
    draw_config(1, &config);
    draw_config(2, &other);
    mixed = config;
    gw_config_keep_local(&mixed, &other);
    for (size_t i = 0; i < n; i++) {
        int here = is_local(keys[i].name);
        const struct gw_config *from = here ? &other : &config;
        assert_memory_equal((const char *)&mixed + keys[i].offset,
                            (const char *)from + keys[i].offset,
                            gw_config_bytes(&keys[i]));
        kept += (size_t)here;
    }
    assert_int_equal(kept, sizeof local / sizeof *local);
}

/* A coordinator does not tell what is each host's own. */
static void own_keys_are_forgotten(void **state)
{
    (void)state;
    size_t n, own = 0;
    const struct gw_config_key *keys = gw_config_keys(&n);
    static struct gw_config all, told;
    draw_config(3, &all);
    strcpy(all.cluster.interface, "eth0,eth1");
    strcpy(all.cluster.control_interface, "10.0.0.1");
    told = all;
    gw_config_forget_own(&told);
    for (size_t i = 0; i < n; i++) {
        if (!keys[i].own)
            assert_memory_equal((const char *)&told + keys[i].offset,
                                (const char *)&all + keys[i].offset,
                                gw_config_bytes(&keys[i]));
        else
            assert_true(keys[i].local);
        own += keys[i].own != 0;
    }
    assert_int_equal(own, 2);
    assert_string_equal(told.cluster.interface, "");
    assert_string_equal(told.cluster.control_interface, "");
}

/* A value other than the default, for any key. */
static const char *other_value(const struct gw_config_key *key)
{
    switch (key->type) {
    case GW_TYPE_BOOL:
        return "true";
    case GW_TYPE_COUNT:
        return key->max < 7 ? "2" : "7";
    case GW_TYPE_REAL:
        return "0.625";
    case GW_TYPE_EVERY:
    case GW_TYPE_CADENCE:
        return "7 seconds";
    case GW_TYPE_STRINGS:
    case GW_TYPE_NUMBERS:
        return "7";
    case GW_TYPE_PATH:
    case GW_TYPE_PATHS:
        return "elsewhere";
    case GW_TYPE_CHOICE:
    case GW_TYPE_STRING:
        if (is_device(key))
            return "cuda:7";
        if (key->own)
            return "eth7";
        if (!key->choices)
            return key->check ? "sync until 9, ssp:4" : "elsewhere";
        if (strncmp(key->choices, key->fallback, strlen(key->fallback)) != 0)
            return key->choices;
        return strchr(key->choices, '|') + 1;
    }
    return NULL;
}

static void hashes_follow_the_job(void **state)
{
    (void)state;
    size_t n;
    const struct gw_config_key *keys = gw_config_keys(&n);
    gw_config_default(&config);
    uint64_t hash = gw_config_hash(&config);
    for (size_t i = 0; i < n; i++) {
        char assignment[128];
        struct gw_error error;
        snprintf(assignment, sizeof assignment, "%s=%s", keys[i].name,
                 other_value(&keys[i]));
        assignment[strcspn(assignment, "|")] = '\0';
        gw_config_default(&other);
        if (gw_config_set(&other, assignment, &error))
            fail_msg("%s", error.text);
        if ((gw_config_hash(&other) == hash) != is_local(keys[i].name))
            fail_msg("%s", keys[i].name);
    }
    /* the end of a list counts, what lies behind it does not */
    gw_config_set(&config, "model.layers=1,2", NULL);
    gw_config_set(&other, "model.layers=12", NULL);
    assert_true(gw_config_hash(&config) != gw_config_hash(&other));
}

/* A locale with another decimal point changes neither reading nor printing. */
static void locales_change_nothing(void **state)
{
    (void)state;
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8",
                                        "fr_FR.UTF-8", "de_DE"};
    const char *found = NULL;
    struct gw_error error;
    gw_config_default(&config);
    gw_config_print(&config, 1, text, sizeof text);
    for (size_t i = 0; i < sizeof names / sizeof *names && !found; i++)
        found = setlocale(LC_NUMERIC, names[i]);
    if (!found) {
        print_message("# no locale with a decimal comma is installed\n");
        return;
    }
    gw_config_default(&other);
    size_t bytes = gw_config_print(&other, 1, again, sizeof again);
    enum gw_status status = gw_config_parse(&other, "job.cfg", again, &error);
    int set = !gw_config_set(&other, "optimizer.lr=0.25", &error);
    setlocale(LC_NUMERIC, "C");
    assert_int_equal(strlen(text), bytes);
    assert_string_equal(text, again);
    assert_int_equal(status, GW_OK);
    assert_true(set && other.optimizer.lr == 0.25);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(printed_jobs_are_read_again),
        cmocka_unit_test(numbers_come_back_exactly),
        cmocka_unit_test(printing_stops_at_the_end),
        cmocka_unit_test(every_key_has_help_and_default),
        cmocka_unit_test(choices_are_what_is_there),
        cmocka_unit_test(local_keys_stay),
        cmocka_unit_test(own_keys_are_forgotten),
        cmocka_unit_test(hashes_follow_the_job),
        cmocka_unit_test(locales_change_nothing),
    };
    return cmocka_run_group_tests_name("config_job", tests, NULL, NULL);
}
