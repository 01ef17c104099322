/* proto/dispatch: rows are found by sender and kind. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "proto/dispatch.h"

struct actor {
    const char *called;
    uint64_t clock;
};

static void
got_poll(void *actor, struct gw_peer *peer, const struct gw_message *message)
{
    struct actor *self = actor;
    (void)peer;
    self->called = "poll";
    self->clock = message->poll.clock;
}

static void repeat_decision(void *actor,
                            struct gw_peer *peer,
                            const struct gw_message *message)
{
    struct actor *self = actor;
    (void)peer;
    self->called = "repeat";
    self->clock = message->decision.clock;
}

static void follow_decision(void *actor,
                            struct gw_peer *peer,
                            const struct gw_message *message)
{
    struct actor *self = actor;
    (void)peer;
    self->called = "follow";
    self->clock = message->decision.clock;
}

static void
got_report(void *actor, struct gw_peer *peer, const struct gw_message *message)
{
    struct actor *self = actor;
    (void)peer;
    self->called = "report";
    self->clock = message->report.clock;
}

static const struct gw_message_handler handlers[] = {
    {GW_FROM_COORDINATOR, GW_MESSAGE_POLL, got_poll},
    {GW_FROM_COORDINATOR, GW_MESSAGE_DECISION, repeat_decision},
    {GW_FROM_LEADER, GW_MESSAGE_DECISION, follow_decision},
    {GW_FROM_MEMBER, GW_MESSAGE_REPORT, got_report},
};

/* "" where nothing was called. */
static const char *called_by(unsigned sender, const struct gw_message *message)
{
    struct actor actor = {.called = ""};
    int found =
        gw_message_dispatch(handlers, sizeof handlers / sizeof *handlers,
                            sender, &actor, NULL, message);
    assert_int_equal(found, actor.called[0] != '\0');
    assert_int_equal(actor.clock, found ? 7 : 0);
    return actor.called;
}

static void a_kind_has_a_handler_per_sender(void **state)
{
    (void)state;
    const struct gw_message decision = {.kind = GW_MESSAGE_DECISION,
                                        .decision = {.clock = 7}};
    assert_string_equal(called_by(GW_FROM_COORDINATOR, &decision), "repeat");
    assert_string_equal(called_by(GW_FROM_SHARD | GW_FROM_LEADER, &decision),
                        "follow");
    assert_string_equal(called_by(GW_FROM_SHARD, &decision), "");
    assert_string_equal(called_by(GW_FROM_STRANGER, &decision), "");
}

static void a_handler_may_have_several_senders(void **state)
{
    (void)state;
    const struct gw_message report = {.kind = GW_MESSAGE_REPORT,
                                      .report = {.clock = 7}};
    assert_string_equal(called_by(GW_FROM_WORKER, &report), "report");
    assert_string_equal(called_by(GW_FROM_SHARD, &report), "report");
    assert_string_equal(called_by(GW_FROM_OBSERVER, &report), "");
    assert_string_equal(called_by(0, &report), "");
}

static void a_message_without_a_row_calls_nothing(void **state)
{
    (void)state;
    const struct gw_message stored = {.kind = GW_MESSAGE_STORED,
                                      .stored = {.clock = 7}};
    for (unsigned sender = GW_FROM_STRANGER; sender <= GW_FROM_LEADER;
         sender <<= 1)
        assert_string_equal(called_by(sender, &stored), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_kind_has_a_handler_per_sender),
        cmocka_unit_test(a_handler_may_have_several_senders),
        cmocka_unit_test(a_message_without_a_row_calls_nothing),
    };
    return cmocka_run_group_tests_name("dispatch", tests, NULL, NULL);
}
