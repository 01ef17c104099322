/*
 * Who is a member, and who only says so: a crowd that logs in and waits, who
 * has not got the secret of the job or of the member whose name it takes, and
 * members that break the protocol.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "server/coordinator/coordinator_state.h"
#include "server/server_state.h"
#include "tests/sim/stranger.h"

#define LIMIT_US 20000000

/* More than there are places for. */
#define CROWD 150

static struct cluster cluster;
static struct stranger crowd[CROWD];

static const struct gw_sim_options calm = {
    .seed = 1, .latency_us = 50, .bytes_per_us = 1000};

/* The servers listen on the ports behind the coordinator's. */
static const char *const address[] = {"disk:50000", "disk:50001", "disk:50002"};

static int is_finished(void *owner)
{
    (void)owner;
    return cluster.finished;
}

static int has_ended(void *owner)
{
    return ((struct stranger *)owner)->ended != GW_OK;
}

static void ends_well(uint64_t step)
{
    assert_true(cluster_run(&cluster, LIMIT_US));
    assert_string_equal(cluster.text, cluster.final.text);
    assert_int_equal(cluster.final.status, GW_OK);
    assert_int_equal(cluster.final.step, step);
    cluster_close(&cluster);
}

/* ---- a crowd ---- */

static unsigned peers_of_role(uint8_t role)
{
    unsigned n = 0;
    for (struct gw_peer *peer = gw_member_peers(cluster.coordinator->member);
         peer; peer = gw_peer_next(peer))
        n += peer->role == role;
    return n;
}

static void open_crowd(uint8_t role)
{
    for (size_t i = 0; i < CROWD; i++)
        stranger_open(&crowd[i], &cluster, 0, address[0], role, GW_RANK_NONE,
                      GW_ROLE_COORDINATOR);
}

static void close_crowd(void)
{
    for (size_t i = 0; i < CROWD; i++)
        stranger_close(&crowd[i]);
}

static void hold_up_members(uint64_t us)
{
    for (size_t i = 0; i < cluster.workers; i++)
        gw_sim_pause(cluster.worker[i].loop, us);
    for (size_t i = 0; i < cluster.servers; i++)
        gw_sim_pause(cluster.server[i].loop, us);
}

static int never(void *owner)
{
    (void)owner;
    return 0;
}

/* They are there first, they do not join, and all their places are taken; the
   job has its members all the same, and is that of a calm day. */
static void a_crowd_keeps_no_member_out(void **state)
{
    (void)state;
    static const uint8_t roles[] = {GW_ROLE_WORKER, GW_ROLE_SERVER,
                                    GW_ROLE_OBSERVER};
    const char *settings[] = {"train.steps=100", NULL};
    for (size_t i = 0; i < sizeof roles; i++) {
        cluster_open(&cluster, &calm, settings, NULL);
        hold_up_members(300000);
        open_crowd(roles[i]);
        assert_false(cluster_run_until(&cluster, never, NULL, 200000));
        assert_int_equal(gw_roster_workers(cluster.coordinator), 0);
        assert_in_range(peers_of_role(roles[i]), 60, 66);
        for (size_t k = 0; k < CROWD; k++)
            assert_int_equal(crowd[k].lost, GW_OK); /* it may come again */
        assert_true(cluster_run_until(&cluster, cluster_is_running, &cluster,
                                      LIMIT_US));
        assert_true(cluster_run_until(&cluster, is_finished, NULL, LIMIT_US));
        close_crowd();
        ends_well(100);
    }
}

static int is_answered(void *owner)
{
    return ((struct stranger *)owner)->answer[0] != '\0';
}

/* Observers have places that those who say they are members do not take. */
static void a_crowd_keeps_nobody_from_looking(void **state)
{
    (void)state;
    struct stranger looks;
    const char *settings[] = {"train.steps=300", NULL};
    cluster_open(&cluster, &calm, settings, NULL);
    stranger_open(&looks, &cluster, 0, address[0], GW_ROLE_OBSERVER,
                  GW_RANK_NONE, GW_ROLE_COORDINATOR);
    assert_true(cluster_run_until(&cluster, stranger_is_up, &looks, LIMIT_US));
    open_crowd(GW_ROLE_WORKER);
    assert_false(cluster_run_until(&cluster, never, NULL, 200000));
    stranger_tell(
        &looks,
        &(struct gw_message){.kind = GW_MESSAGE_STATUS,
                             .status = {.request = GW_ASK_STATUS, .text = ""}});
    assert_true(cluster_run_until(&cluster, is_answered, &looks, LIMIT_US));
    assert_int_equal(looks.down, 0);
    stranger_close(&looks);
    close_crowd();
    ends_well(300);
}

/* A process that says nothing is put out, with as much time as for a login. */
static void who_does_not_join_is_put_out(void **state)
{
    (void)state;
    struct stranger idle, looks;
    const char *settings[] = {"train.steps=100", NULL};
    cluster_open(&cluster, &calm, settings, NULL);
    hold_up_members(6500000);
    stranger_open(&idle, &cluster, 0, address[0], GW_ROLE_WORKER, GW_RANK_NONE,
                  GW_ROLE_COORDINATOR);
    stranger_open(&looks, &cluster, 0, address[0], GW_ROLE_OBSERVER,
                  GW_RANK_NONE, GW_ROLE_COORDINATOR);
    assert_false(cluster_run_until(&cluster, never, NULL, 4800000));
    assert_int_equal(idle.up, 1);
    assert_int_equal(idle.down, 0);
    assert_true(cluster_run_until(&cluster, stranger_is_down, &idle, 600000));
    assert_int_equal(looks.down, 0);
    stranger_close(&idle);
    stranger_close(&looks);
    ends_well(100);
}

/* ---- secrets ---- */

static uint64_t incarnation_of(uint8_t role, uint32_t id)
{
    return gw_roster_find(cluster.coordinator, role, id)->incarnation;
}

/* Everybody who has the view knows rank, number and incarnation of the others;
   that is not enough to be one of them, with whatever generation. */
static void no_member_is_another(void **state)
{
    (void)state;
    static const struct {
        uint8_t role;
        uint32_t id;
        uint8_t to; /* address */
    } claims[] = {{GW_ROLE_WORKER, 0, 0}, {GW_ROLE_WORKER, 0, 1},
                  {GW_ROLE_WORKER, 1, 2}, {GW_ROLE_SERVER, 0, 0},
                  {GW_ROLE_SERVER, 1, 0}, {GW_ROLE_SERVER, 1, 1}};
    const char *settings[] = {"train.steps=300", NULL};
    cluster_open(&cluster, &calm, settings, NULL);
    assert_true(
        cluster_run_until(&cluster, cluster_is_running, &cluster, LIMIT_US));
    uint64_t job = gw_member_job(cluster.coordinator->member);
    for (size_t i = 0; i < sizeof claims / sizeof *claims; i++) {
        struct stranger thief;
        stranger_open_as(
            &thief, &cluster, job, address[claims[i].to], claims[i].role,
            claims[i].id, incarnation_of(claims[i].role, claims[i].id),
            claims[i].to == 0 ? GW_ROLE_COORDINATOR : GW_ROLE_SERVER);
        thief.peer->link[0].generation = 1000;
        assert_true(
            cluster_run_until(&cluster, stranger_is_lost, &thief, LIMIT_US));
        assert_int_equal(thief.lost, GW_EREFUSED);
        /* shard 1 does not dial itself, nor is it dialled by shards */
        if (claims[i].to != 1 || claims[i].role == GW_ROLE_WORKER ||
            strcmp(thief.why, "not a member of this job's view") != 0)
            assert_non_null(strstr(thief.why, "no proof that this is "));
        stranger_close(&thief);
    }
    assert_int_equal(cluster_refused(&cluster), 0);
    ends_well(300);
}

/* The launcher's children are members, and nobody else. */
static void only_who_has_the_secret_joins(void **state)
{
    (void)state;
    static const struct gw_secret secret = {{1, 2, 3}}, other = {{1, 2, 4}};
    static const uint8_t roles[] = {GW_ROLE_WORKER, GW_ROLE_SERVER};
    const char *settings[] = {"train.steps=100", NULL};
    cluster.secret = &secret;
    for (size_t i = 0; i < 4; i++) {
        struct stranger stranger;
        struct gw_message join = {.kind = GW_MESSAGE_JOIN,
                                  .join = {.role = roles[i % 2],
                                           .host = "evil",
                                           .process = 1,
                                           .threads = 1,
                                           .address = "stranger:1",
                                           .rank = 0}};
        cluster_open(&cluster, &calm, settings, NULL);
        hold_up_members(300000);
        stranger_open(&stranger, &cluster, 0, address[0], roles[i % 2],
                      GW_RANK_NONE, GW_ROLE_COORDINATOR);
        assert_true(
            cluster_run_until(&cluster, stranger_is_up, &stranger, LIMIT_US));
        if (i >= 2) /* it has one, but of another job */
            assert_int_equal(gw_member_sign(stranger.member, stranger.peer,
                                            &other, &join.join),
                             GW_OK);
        stranger_tell(&stranger, &join);
        assert_true(
            cluster_run_until(&cluster, has_ended, &stranger, LIMIT_US));
        assert_int_equal(stranger.ended, GW_EREFUSED);
        assert_non_null(strstr(stranger.text, "gradweir train has started"));
        stranger_close(&stranger);
        ends_well(100);
    }
    cluster.secret = NULL;
}

/* ---- members that break the protocol ---- */

/* A worker's place: no worker gets ready. */
static const struct gw_message wrong = {.kind = GW_MESSAGE_READY};

static void open_with_one_wrong(struct stranger *stranger)
{
    static const char *const settings[] = {"cluster.step_deadline=1",
                                           "cluster.abort_after=8", NULL};
    cluster_open(&cluster, &calm, settings, NULL);
    gw_sim_kill(cluster.worker[1].loop);
    stranger_join(stranger, &cluster, GW_ROLE_WORKER);
    assert_true(
        cluster_run_until(&cluster, stranger_is_up, stranger, LIMIT_US));
}

/* It breaks the protocol, and is not heard again. */
static void a_fault_is_named_and_not_a_silence(void **state)
{
    (void)state;
    struct stranger stranger;
    open_with_one_wrong(&stranger);
    stranger_tell(&stranger, &wrong);
    assert_true(
        cluster_run_until(&cluster, stranger_is_down, &stranger, LIMIT_US));
    gw_sim_kill(stranger.loop);
    assert_true(cluster_run_until(&cluster, is_finished, NULL, LIMIT_US));
    assert_int_equal(cluster.final.status, GW_EDEAD);
    assert_string_equal(cluster.text,
                        "worker 1 (mute, pid 0) was lost at step 0: it broke "
                        "the protocol: message that its role does not send");
    stranger_close(&stranger);
    cluster_close(&cluster);
}

/* It comes back each time, for it does not know better. */
static void who_keeps_breaking_it_ends_the_job(void **state)
{
    (void)state;
    struct stranger stranger;
    open_with_one_wrong(&stranger);
    for (int i = 0; i < 20 && !cluster.finished; i++) {
        int down = stranger.down;
        stranger_tell(&stranger, &wrong);
        while (stranger.down == down && !cluster.finished)
            cluster_run_until(&cluster, never, NULL, 10000);
        cluster_run_until(&cluster, never, NULL, 100000);
    }
    assert_true(cluster_run_until(&cluster, is_finished, NULL, LIMIT_US));
    assert_int_equal(cluster.final.status, GW_EPROTO);
    assert_string_equal(cluster.text,
                        "worker 1 (mute, pid 0) keeps breaking the protocol: "
                        "message that its role does not send");
    stranger_close(&stranger);
    cluster_close(&cluster);
}

/* A shard has closed its link: the coordinator hears of it, and says so. */
static void a_fault_elsewhere_is_named(void **state)
{
    (void)state;
    const char *settings[] = {"train.steps=2000", NULL};
    cluster_open(&cluster, &calm, settings, NULL);
    assert_true(
        cluster_run_until(&cluster, cluster_is_running, &cluster, LIMIT_US));
    const struct gw_seat *who =
        gw_roster_find(cluster.coordinator, GW_ROLE_WORKER, 1);
    const struct gw_message fault = {
        .kind = GW_MESSAGE_FAULT,
        .fault = {GW_ROLE_WORKER, 1, "push of 9 samples"}};
    struct gw_peer *peer = gw_member_peers(cluster.server[0].server->member);
    while (peer->role != GW_ROLE_COORDINATOR)
        peer = gw_peer_next(peer);
    assert_int_equal(gw_peer_tell(peer, &fault), GW_OK);
    gw_sim_kill(cluster.worker[1].loop);
    assert_true(cluster_run_until(&cluster, is_finished, NULL, LIMIT_US));
    assert_int_equal(who->faults, 1);
    assert_int_equal(cluster.final.status, GW_EDEAD);
    assert_non_null(strstr(cluster.text, "worker 1 (w, pid "));
    assert_non_null(strstr(cluster.text, "it broke the protocol: push of 9 "
                                         "samples, says server "));
    cluster_close(&cluster);
}

/* ---- who cannot come ---- */

static void decline(struct stranger *stranger, uint8_t role, uint32_t pid)
{
    struct gw_message message = {.kind = GW_MESSAGE_JOIN,
                                 .join = {.role = role,
                                          .host = "far",
                                          .machine = 77,
                                          .pid = pid,
                                          .address = "",
                                          .rank = GW_RANK_NONE,
                                          .cannot = "no port is free"}};
    stranger_open(stranger, &cluster, 0, address[0], role, GW_RANK_NONE,
                  GW_ROLE_COORDINATOR);
    assert_int_equal(
        gw_member_sign(stranger->member, stranger->peer, NULL, &message.join),
        GW_OK);
    stranger_tell(stranger, &message);
}

/* Anybody can say so where members prove nothing: it is heard once, and those
   who come are waited for. */
static void who_cannot_come_is_heard_once(void **state)
{
    (void)state;
    struct stranger stranger;
    static const struct gw_secret secret = {{9}};
    const char *settings[] = {"cluster.step_deadline=0.1", NULL};
    const struct gw_message again = {.kind = GW_MESSAGE_JOIN,
                                     .join = {.role = GW_ROLE_WORKER,
                                              .host = "far",
                                              .address = "",
                                              .cannot = "no port is free"}};
    for (int proved = 0; proved < 2; proved++) {
        cluster.secret = proved ? &secret : NULL;
        cluster_open(&cluster, &calm, settings, NULL);
        hold_up_members(800000);
        decline(&stranger, GW_ROLE_WORKER, 5);
        for (size_t i = 0; i < 50; i++)
            stranger_tell(&stranger, &again);
        assert_false(cluster_run_until(&cluster, never, NULL, 600000));
        assert_int_equal(stranger.ended, GW_EREFUSED);
        assert_int_equal(strstr(stranger.text, "no port is free") == NULL,
                         proved);
        assert_true(proved || stranger.down > 0);
        /* one, and those of who waits for what */
        assert_in_range(cluster.notes, 1, 8);
        assert_false(cluster.finished);
        stranger_close(&stranger);
        ends_well(10);
    }
    cluster.secret = NULL;
}

static void a_crowd_that_cannot_come_fills_no_screen(void **state)
{
    (void)state;
    const char *settings[] = {NULL};
    cluster_open(&cluster, &calm, settings, NULL);
    hold_up_members(300000);
    for (uint32_t i = 0; i < CROWD; i++)
        decline(&crowd[i], GW_ROLE_SERVER, i);
    assert_false(cluster_run_until(&cluster, never, NULL, 200000));
    assert_in_range(cluster.notes, 1, 10);
    close_crowd();
    ends_well(10);
}

/* A job that lacks nobody but who has said that it cannot come says why it
   ends; one of another role is not whom it lacks. */
static void who_is_missing_and_cannot_come_is_not_waited_for(void **state)
{
    (void)state;
    struct stranger server, worker;
    const char *settings[] = {"cluster.workers=2", "cluster.step_deadline=0.5",
                              NULL};
    cluster_open(&cluster, &calm, settings, NULL);
    gw_sim_kill(cluster.worker[1].loop);
    decline(&server, GW_ROLE_SERVER, 6);
    assert_false(cluster_run_until(&cluster, is_finished, NULL, 2000000));
    decline(&worker, GW_ROLE_WORKER, 5);
    assert_true(cluster_run_until(&cluster, is_finished, NULL, 2000000));
    assert_int_equal(cluster.final.status, GW_EREFUSED);
    assert_string_equal(cluster.text,
                        "worker (far, pid 5) cannot join: no port is free");
    stranger_close(&server);
    stranger_close(&worker);
    cluster_close(&cluster);
}

int main(void)
{
    cluster_data_open(&cluster.train, &cluster.test);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_crowd_keeps_no_member_out),
        cmocka_unit_test(who_cannot_come_is_heard_once),
        cmocka_unit_test(a_crowd_that_cannot_come_fills_no_screen),
        cmocka_unit_test(who_is_missing_and_cannot_come_is_not_waited_for),
        cmocka_unit_test(a_crowd_keeps_nobody_from_looking),
        cmocka_unit_test(who_does_not_join_is_put_out),
        cmocka_unit_test(no_member_is_another),
        cmocka_unit_test(only_who_has_the_secret_joins),
        cmocka_unit_test(a_fault_is_named_and_not_a_silence),
        cmocka_unit_test(who_keeps_breaking_it_ends_the_job),
        cmocka_unit_test(a_fault_elsewhere_is_named),
    };
    int failed = cmocka_run_group_tests_name("members", tests, NULL, NULL);
    gw_dataset_close(cluster.train);
    gw_dataset_close(cluster.test);
    return failed;
}
