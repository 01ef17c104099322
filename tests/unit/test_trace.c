/* proto/trace: the ring keeps the latest, readers never see half a span, the
   file is JSON. */
#include "config.h"

#include <jansson.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "proto/trace.h"

static struct gw_trace *trace_of(size_t spans)
{
    struct gw_trace *trace = NULL;
    struct gw_error error;
    assert_int_equal(gw_trace_create(spans, &trace, &error), GW_OK);
    return trace;
}

static void add(struct gw_trace *trace, uint64_t i)
{
    gw_trace_add(trace, &(struct gw_span){.name = i % 2 ? "push" : "wait",
                                          .begin_us = 10 * i,
                                          .end_us = 10 * i + 3,
                                          .a = i,
                                          .b = ~i});
}

static void the_latest_are_kept(void **state)
{
    (void)state;
    struct gw_trace *trace = trace_of(5);
    struct gw_span spans[8];
    assert_int_equal(gw_trace_read(trace, spans, 8), 0);
    for (uint64_t i = 0; i < 23; i++) {
        add(trace, i);
        assert_int_equal(gw_trace_count(trace), i + 1);
        size_t there = i + 1 < 5 ? (size_t)i + 1 : 5;
        assert_int_equal(gw_trace_read(trace, spans, 8), there);
        for (size_t k = 0; k < there; k++) {
            uint64_t number = i + 1 - there + k;
            assert_string_equal(spans[k].name, number % 2 ? "push" : "wait");
            assert_int_equal(spans[k].begin_us, 10 * number);
            assert_int_equal(spans[k].end_us, 10 * number + 3);
            assert_int_equal(spans[k].a, number);
            assert_true(spans[k].b == ~number);
        }
    }
    assert_int_equal(gw_trace_read(trace, spans, 2), 2);
    assert_int_equal(spans[1].a, 22);
    gw_trace_destroy(trace);
}

static void refused(void **state)
{
    (void)state;
    struct gw_trace *trace = NULL;
    struct gw_error error;
    assert_int_equal(gw_trace_create(0, &trace, &error), GW_EINVAL);
    assert_int_equal(gw_trace_create(SIZE_MAX / 8, &trace, &error), GW_ENOMEM);
    assert_null(trace);
    gw_trace_destroy(NULL);
    add(NULL, 1);
}

struct race {
    struct gw_trace *trace;
    _Atomic int stop;
};

static void *add_until_stopped(void *argument)
{
    struct race *race = argument;
    for (uint64_t i = 0; !race->stop; i++)
        add(race->trace, i);
    return NULL;
}

/* Every span that a reader gets belongs together, whatever is overwritten. */
static void readers_see_whole_spans(void **state)
{
    (void)state;
    struct race race = {.trace = trace_of(7)};
    struct gw_span spans[7];
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, add_until_stopped, &race),
                     0);
    size_t got = 0;
    for (int i = 0; i < 200000 || got == 0; i++) {
        size_t n = gw_trace_read(race.trace, spans, 7);
        got += n;
        for (size_t k = 0; k < n; k++) {
            assert_true(spans[k].b == ~spans[k].a);
            assert_true(spans[k].begin_us == 10 * spans[k].a);
            assert_true(spans[k].end_us == 10 * spans[k].a + 3);
            assert_true(k == 0 || spans[k].a > spans[k - 1].a);
        }
    }
    race.stop = 1;
    pthread_join(thread, NULL);
    gw_trace_destroy(race.trace);
}

struct file {
    char text[1 << 16];
    size_t bytes, most;
};

static enum gw_status keep(void *context, const char *text, size_t bytes)
{
    struct file *file = context;
    if (file->bytes + bytes > file->most)
        return GW_ENOSPC;
    memcpy(file->text + file->bytes, text, bytes);
    file->bytes += bytes;
    return GW_OK;
}

static const char *member(json_t *event, const char *name)
{
    return json_string_value(json_object_get(event, name));
}

static json_int_t number(json_t *event, const char *name)
{
    json_t *value = json_object_get(event, name);
    assert_true(json_is_integer(value));
    return json_integer_value(value);
}

static void the_file_is_json(void **state)
{
    (void)state;
    static struct file file = {.most = sizeof file.text};
    struct gw_trace *step = trace_of(4), *links = trace_of(4);
    for (uint64_t i = 0; i < 6; i++)
        gw_trace_add(step, &(struct gw_span){.name = i % 2 ? "push" : "wait",
                                             .begin_us = 10 * i,
                                             .end_us = 10 * i + 3,
                                             .a = i});
    gw_trace_add(links, &(struct gw_span){.name = "odd \"\\\n name",
                                          .begin_us = 9,
                                          .end_us = 4});
    const struct gw_trace_track tracks[] = {
        {step, "worker 3", "step", 7, 0},
        {links, "worker 3", "links", 7, 1},
    };
    assert_int_equal(gw_trace_write(tracks, 2, keep, &file), GW_OK);
    json_error_t error;
    json_t *events = json_loadb(file.text, file.bytes, 0, &error);
    if (!events)
        fail_msg("%s at byte %d", error.text, error.position);
    assert_int_equal(json_array_size(events), 2 + 4 + 2 + 1);

    json_t *event = json_array_get(events, 0);
    assert_string_equal(member(event, "ph"), "M");
    assert_string_equal(member(event, "name"), "process_name");
    assert_string_equal(member(json_object_get(event, "args"), "name"),
                        "worker 3");
    event = json_array_get(events, 2);
    assert_string_equal(member(event, "ph"), "X");
    assert_string_equal(member(event, "name"), "wait");
    assert_int_equal(number(event, "ts"), 20);
    assert_int_equal(number(event, "dur"), 3);
    assert_int_equal(number(event, "pid"), 7);
    assert_int_equal(number(event, "tid"), 0);
    assert_int_equal(number(json_object_get(event, "args"), "a"), 2);
    event = json_array_get(events, 8);
    assert_string_equal(member(event, "name"), "odd \"\\\n name");
    assert_int_equal(number(event, "dur"), 0);
    json_decref(events);

    gw_trace_destroy(step);
    gw_trace_destroy(links);
}

static void sinks_may_fail(void **state)
{
    (void)state;
    static struct file file;
    struct gw_trace *trace = trace_of(4);
    char name[500];
    memset(name, '\x01', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    gw_trace_add(trace, &(struct gw_span){.name = name});
    const struct gw_trace_track track = {trace, name, name, 1, 1};
    file.most = sizeof file.text;
    assert_int_equal(gw_trace_write(&track, 1, keep, &file), GW_OK);
    size_t whole = file.bytes;
    json_t *events = json_loadb(file.text, file.bytes, 0, NULL);
    assert_int_equal(json_array_size(events), 3);
    json_decref(events);
    for (file.most = 0; file.most < whole; file.most++) {
        file.bytes = 0;
        assert_int_equal(gw_trace_write(&track, 1, keep, &file), GW_ENOSPC);
    }
    file.bytes = 0;
    file.most = sizeof file.text;
    assert_int_equal(gw_trace_write(NULL, 0, keep, &file), GW_OK);
    assert_memory_equal(file.text, "[\n\n]\n", file.bytes);
    gw_trace_destroy(trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_latest_are_kept),
        cmocka_unit_test(refused),
        cmocka_unit_test(readers_see_whole_spans),
        cmocka_unit_test(the_file_is_json),
        cmocka_unit_test(sinks_may_fail),
    };
    return cmocka_run_group_tests_name("trace", tests, NULL, NULL);
}
