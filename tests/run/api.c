/*
 * A program over include/gradweir.h, for tests/run/api.sh: `api MODE`, or
 * `api whole PROGRAM JOB N`. This file has its ways through one job;
 * api_fixture.h has the model, and other modes.
 */
#include "config.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "tests/run/api_fixture.h"

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* ---- to the end ---- */

static void train_unequally(void)
{
    api_train(gradweir_rank(job) == 1 ? 60 : 150);
}

static void do_train(void)
{
    api_start();
    train_unequally();
    api_finish();
}

/* With an optimizer of the program's own. */
static void do_own(void)
{
    struct gradweir_declaration own = api_declaration;
    own.own_steps = 1;
    api_open(NULL);
    api_declare(&own);
    train_unequally();
    api_finish();
}

/* A step that has begun is given up by gradweir_finish. Where ranks do not wait
   for each other the others may have ended the job by then. */
static void do_ahead(void)
{
    struct gradweir_step next = {.struct_size = sizeof next};
    api_start();
    train_unequally();
    int status = gradweir_begin(job, &next, -1);
    if (status == GRADWEIR_OK &&
        gradweir_wait(job, 0, KEYS, -1) == GRADWEIR_EEND)
        status = gradweir_end(job, NULL, -1);
    if (status != GRADWEIR_OK && status != GRADWEIR_EEND)
        api_die("begin", status);
    api_finish();
}

/* Rank 0 ends the job, and rank 1 hears after how many steps. */
static void do_early(void)
{
    struct gradweir_step next = {.struct_size = sizeof next};
    api_start();
    api_train(gradweir_rank(job) == 0 ? 150 : 300);
    if (gradweir_rank(job) == 1) {
        int status = gradweir_begin(job, &next, -1);
        printf("%d after %" PRIu64 " steps\n", status, next.number);
    }
    api_finish();
}

/* ---- waits ---- */

static volatile sig_atomic_t alarms;

static void on_alarm(int number)
{
    (void)number;
    alarms++;
}

/* Rank 0 comes to each wait late, so rank 1's take long. */
static void do_waits(void)
{
    const struct itimerval tick = {{0, 20000}, {0, 20000}};
    struct gradweir_step next = {.struct_size = sizeof next};
    int timeouts = 0, signals = 0, status;
    api_start();
    signal(SIGALRM, on_alarm);
    if (gradweir_rank(job) == 1)
        setitimer(ITIMER_REAL, &tick, NULL);
    for (int i = 0; i < 10; i++) {
        CHECK(gradweir_begin(job, &next, -1));
        while ((status = gradweir_wait(job, 0, KEYS, 7)) != GRADWEIR_OK) {
            timeouts += status == GRADWEIR_ETIMEOUT;
            signals += status == GRADWEIR_EAGAIN;
            if (status != GRADWEIR_ETIMEOUT && status != GRADWEIR_EAGAIN)
                api_die("wait", status);
            if (i % 2 && status == GRADWEIR_ETIMEOUT) { /* not again */
                usleep(200000);
                usleep(200000); /* of which signals take a part */
                while (!gradweir_has(job, 0, KEYS))
                    usleep(1000);
                break;
            }
        }
        if (!gradweir_has(job, 0, KEYS))
            api_die("a wait has ended without weights", 0);
        if (gradweir_rank(job) == 0)
            usleep(100000);
        for (size_t key = 0; key < KEYS; key++)
            CHECK(gradweir_skip(job, key, 1, 0, -1));
        while ((status = gradweir_end(job, NULL, 5)) != GRADWEIR_OK)
            timeouts += status == GRADWEIR_ETIMEOUT;
    }
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 0}}, NULL);
    while ((status = gradweir_finish(job, 10)) != GRADWEIR_OK)
        if (status != GRADWEIR_ETIMEOUT && status != GRADWEIR_EAGAIN)
            api_die("finish", status);
    printf("rank %u: %s time-outs, %s signals\n", gradweir_rank(job),
           timeouts > 3 ? "many" : "few", signals > 3 ? "many" : "few");
    gradweir_close(job);
}

/* Servers take means, and keys are lanes: rank 1 is late with each first one,
   so that rank 0's question has no answer yet, and its second push goes by. */
static void do_pull(void)
{
    struct gradweir_step next = {.struct_size = sizeof next};
    char narrowed[ELEMS * sizeof(float)];
    float w[ELEMS];
    int asked = 0, wrong = 0, waited = 0;
    api_start();
    unsigned rank = gradweir_rank(job);
    for (int i = 0; i < 20; i++) {
        CHECK(gradweir_begin(job, &next, -1));
        CHECK(gradweir_wait(job, 0, KEYS, -1));
        if (rank == 1)
            usleep(20000);
        for (size_t key = 0; key < KEYS; key++) {
            double begin = now_s();
            for (size_t e = 0; e < ELEMS; e++)
                w[e] = (float)((size_t)i + key + e + 2 * rank);
            api_narrow(api_keys[key].type, w, narrowed);
            CHECK(gradweir_push(job, key, narrowed));
            if (key < 2)
                asked += gradweir_pull(job, 0, key + 1, 0) == GRADWEIR_ETIMEOUT;
            waited += now_s() - begin > 0.01;
        }
        CHECK(gradweir_pull(job, 0, KEYS, -1));
        for (size_t key = 0; key < KEYS; key++) {
            CHECK(gradweir_take(job, key, narrowed));
            api_widen(api_keys[key].type, narrowed, w);
            for (size_t e = 0; e < ELEMS; e++)
                wrong += w[e] != (float)((size_t)i + key + e + 1);
        }
        CHECK(gradweir_end(job, NULL, -1));
    }
    CHECK(gradweir_finish(job, -1));
    printf("rank %u: %s asked, %d wrong, %s waited\n", rank,
           asked > 10 ? "often" : "seldom", wrong,
           waited > 5 ? "often" : "seldom");
    gradweir_close(job);
}

/* ---- ends in between ---- */

/* All ranks ask for a checkpoint, and rank 1 dies when it is there. */
static void do_save(void)
{
    int status, times = 0;
    api_start();
    api_train(5);
    while ((status = gradweir_save(job, -1)) == GRADWEIR_ETIMEOUT) {
        usleep(5000); /* the disk is slower than these steps */
        api_train(1);
        times++;
    }
    printf("save: %d after %s\n", status, times ? "steps" : "no step");
    fflush(stdout);
    for (int i = 0; gradweir_rank(job) == 1 && i < 50; i++) {
        usleep(5000); /* rank 0 hears of it in a step of its own */
        api_train(1);
    }
    if (gradweir_rank(job) == 1)
        _exit(3);
    api_train(100000);
    api_die("train", 0);
}

/* Rank 1 leaves while it waits. */
static void do_leave(void)
{
    struct gradweir_step next = {.struct_size = sizeof next};
    api_start();
    if (gradweir_rank(job) == 0) {
        sleep(2); /* so that rank 1 waits */
        api_train(1000);
        api_die("train", 0);
    }
    CHECK(api_step(&next));
    CHECK(gradweir_begin(job, &next, -1));
    if (gradweir_wait(job, 0, KEYS, 300) != GRADWEIR_ETIMEOUT)
        api_die("wait", 0);
    double begin = now_s();
    gradweir_close(job);
    printf("left after %s\n", now_s() - begin < 1 ? "a moment" : "too long");
}

static void do_fail(void)
{
    struct gradweir_step next = {.struct_size = sizeof next};
    api_start();
    CHECK(api_step(&next));
    if (gradweir_rank(job) == 1) {
        CHECK(gradweir_fail(job, "the camera is gone"));
        gradweir_close(job);
        return;
    }
    api_train(100000);
    api_die("train", 0);
}

/* ---- mistakes ---- */

static void say(const char *call, int status)
{
    printf("%d %s\n", status, status ? gradweir_error(job) : call);
}

static void misuse_declarations(void)
{
    struct gradweir_key key = api_keys[0];
    const struct gradweir_group groups[] = {{.struct_size = sizeof *groups},
                                            {sizeof *groups, 2}};
    struct gradweir_declaration wrong = {
        .struct_size = sizeof wrong, .keys = &key, .n_keys = 1};
    char long_name[300];
    memset(long_name, 'k', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    key.name = long_name;
    say("declare", gradweir_declare(job, &wrong, -1));
    key.name = "a", key.dims = 9;
    say("declare", gradweir_declare(job, &wrong, -1));
    key.dims = 1, key.type = 7;
    say("declare", gradweir_declare(job, &wrong, -1));
    key.type = 0, key.group = 3;
    say("declare", gradweir_declare(job, &wrong, -1));
    wrong.groups = groups, wrong.n_groups = 2;
    say("declare", gradweir_declare(job, &wrong, -1));
    wrong.groups = NULL, wrong.optimizer = "adamv";
    say("declare", gradweir_declare(job, &wrong, -1));
    key.group = 0, key.struct_size = 8, wrong.optimizer = NULL;
    say("declare", gradweir_declare(job, &wrong, -1));
}

/* Calls between the declaration and the first step. */
static void misuse_start(void)
{
    struct gradweir_step small = {.struct_size = 8};
    struct gradweir_terms terms = {.struct_size = sizeof terms, .beta1 = 1};
    say("declare", gradweir_declare(job, &api_declaration, -1));
    say("end", gradweir_end(job, NULL, -1));
    say("put", gradweir_put(job, 77, NULL));
    api_put_first();
    CHECK(gradweir_start(job, -1));
    say("start", gradweir_start(job, -1));
    say("terms", gradweir_terms(job, 1, &terms));
    say("terms", gradweir_terms(job, 0, &terms));
    terms.struct_size = 4;
    say("terms", gradweir_terms(job, 0, &terms));
    say("end", gradweir_end(job, NULL, -1));
    say("save", gradweir_save(job, -1));
    say("push", gradweir_push(job, 0, NULL));
    say("begin", gradweir_begin(job, &small, -1));
}

static void misuse_step(void)
{
    struct gradweir_step next = {.struct_size = sizeof next};
    struct gradweir_terms terms = {.struct_size = sizeof terms, .beta1 = 1};
    char value[64];
    CHECK(gradweir_begin(job, &next, -1));
    say("begin", gradweir_begin(job, &next, -1));
    say("wait", gradweir_wait(job, 2, 2, -1));
    printf("%d %s\n", gradweir_setting(job, "cluster.policy", value, 64),
           value);
    printf("%d\n", gradweir_setting(job, "cluster.nothing", value, 64));
    CHECK(gradweir_wait(job, 0, KEYS, -1));
    say("pull", gradweir_pull(job, 0, 1, -1));
    CHECK(gradweir_push(job, 0, gradweir_weights(job, 0)));
    say("pull", gradweir_pull(job, 0, KEYS, 0));
    CHECK(gradweir_pull(job, 0, 1, -1));
    say("weigh", gradweir_weigh(job, 5));
    say("terms", gradweir_terms(job, 0, &terms));
    say("push", gradweir_push(job, 0, NULL));
}

static void do_misuse(void)
{
    struct gradweir_step next = {.struct_size = sizeof next};
    api_open(NULL);
    say("begin", gradweir_begin(job, &next, 0));
    CHECK(gradweir_join(job, -1));
    misuse_declarations();
    CHECK(gradweir_declare(job, &api_declaration, -1));
    misuse_start();
    misuse_step();
    gradweir_close(job);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } modes[] = {
        {"train", do_train},     {"ahead", do_ahead},   {"waits", do_waits},
        {"pull", do_pull},       {"own", do_own},       {"early", do_early},
        {"save", do_save},       {"leave", do_leave},   {"fail", do_fail},
        {"fork", api_fork},      {"misuse", do_misuse}, {"odd", api_odd},
        {"groups", api_groups},  {"blind", api_blind},  {"many", api_many},
        {"refused", api_refused}};
    for (size_t i = 0; argc > 1 && i < sizeof modes / sizeof *modes; i++) {
        if (strcmp(argv[1], modes[i].name) == 0) {
            modes[i].run();
            return 0;
        }
    }
    if (argc == 5 && strcmp(argv[1], "whole") == 0) {
        api_whole(argv[2], argv[3], atoi(argv[4]));
        return 0;
    }
    return 2;
}
