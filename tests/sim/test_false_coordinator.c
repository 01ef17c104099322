/*
 * A coordinator that lies to a worker: whatever it says of ranks and members,
 * the worker ends with a line, and touches no memory that is not its own.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "tests/sim/cluster.h"
#include "transport/member/member.h"

#define LIMIT_US 10000000

struct lie {
    const char *name;
    uint32_t rank;
    struct gw_view_member member;
    uint32_t members_total;
    int ends;         /* before anything has begun, and all is well */
    int early;        /* keys of worker 0, before this one has declared any */
    int same;         /* its own keys, as those of worker 0 */
    const char *job;  /* not the one that there is */
    const char *set;  /* in it, unchecked */
    const char *text; /* in the worker's line */
};

static const struct lie lies[] = {
    {.name = "a rank that the job does not have", .rank = 3, .text = "rank 3"},
    {.name = "more members than a number can count",
     .members_total = UINT32_MAX,
     .member = {.role = GW_ROLE_SERVER, .id = 100000},
     .text = "view"},
    {.name = "more members than the job has",
     .members_total = 1 << 20,
     .member = {.role = GW_ROLE_SERVER, .id = 1000},
     .text = "view"},
    {.name = "no server at all",
     .members_total = 1,
     .member = {.role = GW_ROLE_WORKER, .id = 0},
     .text = "view"},
    {.name = "all is done", .ends = 1, .text = "before"},
    {.name = "keys that nobody waits for",
     .early = 1,
     .text = "keys came out of order"},
    {.name = "keys that differ in nothing", .same = 1, .text = "none here"},
    {.name = "a job of nothing", .job = "", .text = "the coordinator's job"},
    {.name = "no text", .job = "\x01{{", .text = "the coordinator's job"},
    {.name = "a policy that leaves out everybody",
     .set = "cluster.policy=\"backup:2\"",
     .text = "the coordinator's job"},
    {.name = "a commit that does not go with it",
     .set = "train.clip=1.0",
     .text = "the coordinator's job"},
};

struct site {
    struct gw_sim *sim;
    struct gw_loop *loop;
    struct gw_member *member;
    const struct lie *lie;
    struct gw_world_worker worker;
    struct gw_dataset *train, *test;
};

static enum gw_status admit(void *owner,
                            struct gw_peer *peer,
                            const struct gw_hello *hello,
                            char *why,
                            size_t why_bytes)
{
    (void)owner, (void)peer, (void)hello, (void)why, (void)why_bytes;
    return GW_OK;
}

static void link_up(void *owner, struct gw_peer *peer, unsigned link)
{
    (void)owner, (void)peer, (void)link;
}

static void welcome(const struct site *site, struct gw_peer *peer)
{
    static char job[GW_JOB_TEXT_MAX];
    static struct gw_config config;
    cluster_config(&config, NULL);
    if (site->lie->set) {
        struct gw_error error;
        config.train.commit = GW_COMMIT_STREAMING;
        assert_int_equal(gw_config_set(&config, site->lie->set, &error), GW_OK);
    }
    gw_config_print(&config, 0, job, sizeof job);
    struct gw_message message = {
        .kind = GW_MESSAGE_WELCOME,
        .welcome = {.rank = site->lie->rank,
                    .job = site->lie->job ? site->lie->job : job,
                    .tuned = ""}};
    assert_int_equal(gw_peer_tell(peer, &message), GW_OK);
}

static void show_members(const struct site *site, struct gw_peer *peer)
{
    struct gw_view_member member = site->lie->member;
    member.address = member.host = "";
    struct gw_message message = {
        .kind = GW_MESSAGE_VIEW,
        .view = {.epoch = 1,
                 .members_total = site->lie->members_total,
                 .members_n = 1,
                 .members = &member}};
    assert_int_equal(gw_peer_tell(peer, &message), GW_OK);
    message =
        (struct gw_message){.kind = GW_MESSAGE_START,
                            .start = {.total_steps = 1,
                                      .course = {.batch = 1, .samples = 1},
                                      .resume = "",
                                      .dir = "",
                                      .token = ""}};
    assert_int_equal(gw_peer_tell(peer, &message), GW_OK);
}

static void show_keys(struct gw_peer *peer, const struct gw_declare *declare)
{
    static const struct gw_key key = {.name = "a", .dtype = GW_DTYPE_F32};
    struct gw_message message = {.kind = GW_MESSAGE_DECLARE};
    message.declare = declare ? *declare
                              : (struct gw_declare){.device = "",
                                                    .tuned = "",
                                                    .note = "",
                                                    .optimizer = "",
                                                    .keys_total = 1,
                                                    .keys_n = 1,
                                                    .keys = &key};
    assert_int_equal(gw_peer_tell(peer, &message), GW_OK);
}

static void
on_message(void *owner, struct gw_peer *peer, const struct gw_message *message)
{
    const struct site *site = owner;
    if (message->kind == GW_MESSAGE_JOIN && site->lie->early)
        show_keys(peer, NULL);
    if (message->kind == GW_MESSAGE_JOIN)
        welcome(site, peer);
    if (message->kind == GW_MESSAGE_DECLARE && site->lie->same)
        show_keys(peer, &message->declare);
    if (message->kind == GW_MESSAGE_DECLARE && site->lie->members_total)
        show_members(site, peer);
    if (message->kind == GW_MESSAGE_DECLARE && site->lie->ends) {
        const struct gw_message end = {
            .kind = GW_MESSAGE_END, .end = {.status = GW_OK, .text = "done"}};
        assert_int_equal(gw_peer_tell(peer, &end), GW_OK);
    }
}

static void on_frame(void *owner,
                     struct gw_peer *peer,
                     unsigned link,
                     const struct gw_frame *frame,
                     const void *payload)
{
    (void)owner, (void)peer, (void)link, (void)frame, (void)payload;
}

static void link_down(void *owner,
                      struct gw_peer *peer,
                      unsigned link,
                      enum gw_status status,
                      const char *why)
{
    (void)owner, (void)peer, (void)link, (void)status, (void)why;
}

static void
lost(void *owner, struct gw_peer *peer, enum gw_status status, const char *why)
{
    (void)owner, (void)peer, (void)status, (void)why;
}

static const struct gw_member_handler handler = {.admit = admit,
                                                 .link_up = link_up,
                                                 .message = on_message,
                                                 .frame = on_frame,
                                                 .link_down = link_down,
                                                 .lost = lost,
                                                 .stuck =
                                                     gw_member_stuck_unheard};

static void worker_main(void *argument)
{
    struct gw_world_worker *worker = argument;
    worker->status = gw_worker_run(&worker->options, &worker->error);
}

static void worker_finished(void *argument)
{
    ((struct gw_world_worker *)argument)->finished = 1;
}

static int has_finished(void *owner)
{
    return ((struct site *)owner)->worker.finished;
}

static void site_open(struct site *site)
{
    const struct gw_sim_options calm = {.seed = 1, .latency_us = 50};
    struct gw_error error = {.text = ""};
    assert_int_equal(gw_sim_create(&calm, &site->sim, &error), GW_OK);
    assert_int_equal(gw_sim_process(site->sim, "c", &site->loop, &error),
                     GW_OK);
    struct gw_member_options options = {
        .loop = site->loop,
        .transport = gw_transport_find("sim", &error),
        .role = GW_ROLE_COORDINATOR,
        .rank = GW_RANK_NONE,
        .job = 1,
        .handler = &handler,
        .owner = site,
    };
    assert_int_equal(gw_member_open(&options, &site->member, &error), GW_OK);
    assert_int_equal(gw_member_listen(site->member, "any:0", &error), GW_OK);
}

static void run_worker(struct site *site)
{
    struct gw_world_worker *worker = &site->worker;
    struct gw_error error = {.text = ""};
    assert_int_equal(gw_sim_process(site->sim, "w", &worker->loop, &error),
                     GW_OK);
    worker->options = (struct gw_worker_options){
        .client = {.loop = worker->loop,
                   .transport = gw_transport_find("sim", &error),
                   .interface = "",
                   .coordinator = gw_member_address(site->member),
                   .host = "w",
                   .rank = GW_RANK_NONE,
                   .metrics = &worker->metrics},
        .train = site->train,
        .test = site->test,
    };
    assert_int_equal(gw_sim_spawn(worker->loop, worker_main, worker_finished,
                                  worker, &error),
                     GW_OK);
    if (!gw_sim_run(site->sim, has_finished, site, LIMIT_US))
        fail_msg("%s: the worker does not end", site->lie->name);
}

static void lies_end_the_worker_in_words(void **state)
{
    static struct site site;
    (void)state;
    cluster_data_open(&site.train, &site.test);
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        site.lie = &lies[i];
        memset(&site.worker, 0, sizeof site.worker);
        site_open(&site);
        run_worker(&site);
        int refused = site.worker.status == GW_EPROTO ||
                      site.worker.status == GW_EUSAGE ||
                      (site.lie->same && site.worker.status == GW_EMISMATCH);
        assert_true(refused);
        if (!strstr(site.worker.error.text, site.lie->text))
            fail_msg("%s: %s", site.lie->name, site.worker.error.text);
        gw_loop_close(site.worker.loop);
        gw_member_close(site.member);
        gw_loop_close(site.loop);
        gw_sim_destroy(site.sim);
    }
    gw_dataset_close(site.train);
    gw_dataset_close(site.test);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lies_end_the_worker_in_words)};
    return cmocka_run_group_tests_name("false coordinator", tests, NULL, NULL);
}
