/* proto/control: every kind of message there and back, with every field. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "proto/control.h"
#include "tests/unit/control_samples.h"

static struct gw_control_arena encode_arena, decode_arena;
static uint8_t bytes[GW_MESSAGE_BYTES_MAX];

static enum gw_status encode(const struct gw_message *message, size_t *n_p)
{
    return gw_message_encode(message, &encode_arena, bytes, sizeof bytes, n_p);
}

#define SAME(part, field) assert_true(one->part.field == other->part.field)
#define SAME_TEXT(part, field)                                                 \
    assert_string_equal(one->part.field, other->part.field)
#define SAME_BYTES(part, field)                                                \
    assert_memory_equal(one->part.field, other->part.field,                    \
                        sizeof one->part.field)
#define SAME_COURSE(field)                                                     \
    assert_true(gw_course_is_same(&one->field, &other->field))
#define SAME_LIST(part, field, n)                                              \
    do {                                                                       \
        SAME(part, n);                                                         \
        assert_memory_equal(one->part.field, other->part.field,                \
                            one->part.n * sizeof *one->part.field);            \
    } while (0)

static void same_declare(const struct gw_message *one,
                         const struct gw_message *other)
{
    SAME(declare, keys_hash);
    SAME(declare, test_samples);
    SAME_BYTES(declare, data_digest);
    SAME_COURSE(declare.course);
    SAME(declare, total_steps);
    SAME_TEXT(declare, device);
    SAME_TEXT(declare, tuned);
    SAME_TEXT(declare, note);
    SAME(declare, shares);
    SAME(declare, keys_total);
    SAME(declare, keys_first);
    SAME(declare, keys_n);
    for (size_t i = 0; i < one->declare.keys_n; i++) {
        SAME_TEXT(declare, keys[i].name);
        SAME(declare, keys[i].dtype);
        SAME(declare, keys[i].dims);
        SAME_BYTES(declare, keys[i].shape);
    }
}

static void same_view(const struct gw_message *one,
                      const struct gw_message *other)
{
    SAME(view, epoch);
    SAME(view, members_total);
    SAME(view, members_first);
    SAME(view, members_n);
    for (size_t i = 0; i < one->view.members_n; i++) {
        SAME(view, members[i].role);
        SAME(view, members[i].id);
        SAME(view, members[i].server);
        SAME(view, members[i].incarnation);
        SAME_TEXT(view, members[i].address);
        SAME_TEXT(view, members[i].host);
        SAME(view, members[i].machine);
        SAME(view, members[i].need.threads);
        SAME(view, members[i].need.device);
        SAME(view, members[i].need.network);
        SAME(view, members[i].has_secret);
        SAME_BYTES(view, members[i].secret.byte);
    }
}

static void same_joining(const struct gw_message *one,
                         const struct gw_message *other)
{
    switch (one->kind) {
    case GW_MESSAGE_JOIN:
        SAME(join, role);
        SAME_TEXT(join, host);
        SAME(join, machine);
        SAME(join, pid);
        SAME(join, process);
        SAME(join, threads);
        SAME(join, thread);
        SAME_TEXT(join, address);
        SAME_TEXT(join, cannot);
        SAME(join, rank);
        SAME(join, need.threads);
        SAME(join, need.device);
        SAME(join, need.network);
        SAME_BYTES(join, secret.byte);
        SAME(join, has_proof);
        SAME_BYTES(join, proof);
        break;
    case GW_MESSAGE_WELCOME:
        SAME(welcome, rank);
        SAME_TEXT(welcome, job);
        SAME_TEXT(welcome, tuned);
        SAME_COURSE(welcome.from.course);
        SAME(welcome, from.clock);
        SAME(welcome, silence_us);
        break;
    case GW_MESSAGE_DECLARE:
        same_declare(one, other);
        break;
    case GW_MESSAGE_VIEW:
        same_view(one, other);
        break;
    case GW_MESSAGE_READY:
        SAME(ready, version);
        break;
    case GW_MESSAGE_WINDOW:
        SAME(window, kind);
        SAME(window, id);
        SAME(window, bytes);
        break;
    default:
        break;
    }
}

static void same_start(const struct gw_message *one,
                       const struct gw_message *other)
{
    SAME(start, total_steps);
    SAME_COURSE(start.course);
    SAME(start, silence_us);
    SAME(start, test_samples);
    SAME(start, state.clock);
    SAME(start, state.applied);
    SAME(start, state.loss_scale);
    SAME(start, state.good_steps);
    SAME(start, state.skipped_in_a_row);
    SAME(start, state.best_loss);
    SAME(start, state.best_clock);
    SAME(start, state.evaluations);
    SAME(start, state.evaluations_without_progress);
    SAME(start, state.pushes);
    SAME(start, has_inner);
    SAME_LIST(start, clocks, clocks_n);
    SAME_LIST(start, split, split_n);
    SAME_TEXT(start, resume);
    SAME_TEXT(start, dir);
    SAME_TEXT(start, token);
}

static void same_deciding(const struct gw_message *one,
                          const struct gw_message *other)
{
    switch (one->kind) {
    case GW_MESSAGE_DECISION:
        SAME(decision, number);
        SAME(decision, stands_for);
        SAME(decision, kind);
        SAME(decision, reason);
        SAME(decision, apply);
        SAME(decision, clock);
        SAME_LIST(decision, values, values_n);
        SAME_LIST(decision, ranks, ranks_n);
        SAME_LIST(decision, clocks, clocks_n);
        break;
    case GW_MESSAGE_SETTLED:
        SAME(settled, decision);
        SAME_LIST(settled, clocks, clocks_n);
        SAME_LIST(settled, blocked, blocked_n);
        break;
    case GW_MESSAGE_ARRIVED:
        SAME(arrived, clock);
        SAME_LIST(arrived, ranks, ranks_n);
        break;
    case GW_MESSAGE_POLL:
        SAME(poll, clock);
        break;
    case GW_MESSAGE_SPEED:
        SAME(speed, clock);
        SAME(speed, samples_per_s);
        break;
    case GW_MESSAGE_FAULT:
        SAME(fault, role);
        SAME(fault, id);
        SAME_TEXT(fault, text);
        break;
    case GW_MESSAGE_SIGHT:
        SAME(sight, verdict);
        assert_memory_equal(&one->sight.gradients, &other->sight.gradients,
                            sizeof one->sight.gradients);
        assert_memory_equal(&one->sight.weights, &other->sight.weights,
                            sizeof one->sight.weights);
        assert_memory_equal(&one->sight.trial, &other->sight.trial,
                            sizeof one->sight.trial);
        SAME(sight, nonce);
        break;
    case GW_MESSAGE_VOTE:
        SAME(vote, clock);
        SAME(vote, phase);
        SAME(vote, first);
        SAME(vote, total);
        SAME(vote, samples);
        SAME_LIST(vote, values, values_n);
        SAME_LIST(vote, bad_ranks, bad_ranks_n);
        break;
    case GW_MESSAGE_SCORE:
        SAME(score, clock);
        SAME(score, loss);
        SAME(score, correct);
        SAME(score, samples);
        break;
    case GW_MESSAGE_REPORT:
        SAME(report, clock);
        SAME(report, loss);
        SAME(report, samples);
        SAME(report, correct);
        SAME(report, rss_bytes);
        SAME_LIST(report, counters, counters_n);
        SAME_LIST(report, staleness, staleness_n);
        break;
    default:
        break;
    }
}

static void same_ending(const struct gw_message *one,
                        const struct gw_message *other)
{
    switch (one->kind) {
    case GW_MESSAGE_STOP:
        SAME_TEXT(stop, text);
        break;
    case GW_MESSAGE_SAVED:
        SAME(saved, clock);
        SAME(saved, status);
        SAME_TEXT(saved, file);
        SAME(saved, bytes);
        SAME_BYTES(saved, sha256);
        SAME_TEXT(saved, text);
        break;
    case GW_MESSAGE_STORED:
        SAME(stored, clock);
        SAME(stored, ok);
        break;
    case GW_MESSAGE_END:
        SAME(end, status);
        SAME(end, clock);
        SAME_TEXT(end, text);
        break;
    case GW_MESSAGE_BYE:
        SAME(bye, clock);
        SAME(bye, has_sha256);
        SAME_BYTES(bye, sha256);
        SAME(bye, rss_bytes);
        SAME_LIST(bye, counters, counters_n);
        break;
    case GW_MESSAGE_STALL:
        SAME(stall, clock);
        SAME(stall, seconds);
        SAME_TEXT(stall, text);
        break;
    case GW_MESSAGE_FILE_OPEN:
        SAME_TEXT(file_open, name);
        SAME(file_open, offset);
        SAME(file_open, bytes);
        break;
    case GW_MESSAGE_FILE_REPLY:
        SAME_TEXT(file_reply, text);
        SAME(file_reply, offset);
        SAME(file_reply, bytes);
        SAME(file_reply, window);
        break;
    case GW_MESSAGE_STATUS:
        SAME(status, request);
        SAME_TEXT(status, text);
        SAME(status, status);
        break;
    case GW_MESSAGE_REQUEST:
        SAME(request, kind);
        SAME_TEXT(request, text);
        break;
    default:
        break;
    }
}

static void every_kind_goes_round(void **state)
{
    (void)state;
    for (size_t i = 0; i < CONTROL_SAMPLES; i++) {
        struct gw_message again = {0};
        size_t n = 0;
        assert_int_equal(encode(&control_samples[i], &n), GW_OK);
        assert_int_equal(gw_message_decode(bytes, n, &decode_arena, &again),
                         GW_OK);
        assert_int_equal(again.kind, control_samples[i].kind);
        same_joining(&control_samples[i], &again);
        same_deciding(&control_samples[i], &again);
        same_ending(&control_samples[i], &again);
        if (again.kind == GW_MESSAGE_START)
            same_start(&control_samples[i], &again);
        assert_string_not_equal(gw_message_name(again.kind), "unknown");
    }
    assert_string_equal(gw_message_name(GW_MESSAGE_KINDS), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_goes_round),
    };
    return cmocka_run_group_tests_name("control", tests, NULL, NULL);
}
