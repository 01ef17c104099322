/*
 * A program over include/gradweir.h, for tests/run/api.sh: `api MODE`. It fits
 * 60 numbers, in three keys of three types, to a target, and says what
 * happened.
 */
#include "config.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <dirent.h>
#include <time.h>
#include <unistd.h>

#include "include/gradweir.h"

enum {
    KEYS = 3,
    ELEMS = 20
};

static const struct gradweir_key keys[KEYS] = {
    {sizeof keys[0], "whole", GRADWEIR_F32, 2, {4, 5}, 0},
    {sizeof keys[0], "brain", GRADWEIR_BF16, 1, {ELEMS}, 0},
    {sizeof keys[0], "half", GRADWEIR_F16, 1, {ELEMS}, 0}};

static const struct gradweir_declaration declaration = {
    .struct_size = sizeof declaration, .keys = keys, .n_keys = KEYS};

static gradweir_job *job;
static int has_optimizer; /* the program, of its own */

static void die(const char *what, int status)
{
    fprintf(stderr, "api: %s: %d %s\n", what, status,
            job ? gradweir_error(job) : "");
    gradweir_close(job);
    exit(1);
}

#define CHECK(call)                                                            \
    do {                                                                       \
        int checked = (call);                                                  \
        if (checked != GRADWEIR_OK)                                            \
            die(#call, checked);                                               \
    } while (0)

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* ---- types: multiples of 1/8, which all three have ---- */

static float target(size_t i)
{
    return (float)(i % 13) / 8 - 0.5f;
}

static void narrow(int type, const float *from, void *to)
{
    for (size_t i = 0; i < ELEMS; i++) {
        uint32_t bits;
        memcpy(&bits, &from[i], sizeof bits);
        if (type == GRADWEIR_F32)
            memcpy((float *)to + i, &from[i], sizeof bits);
        else if (type == GRADWEIR_BF16)
            ((uint16_t *)to)[i] = (uint16_t)(bits >> 16);
        else /* 0, or a normal number of few bits */
            ((uint16_t *)to)[i] =
                from[i] == 0 ? 0
                             : (uint16_t)((bits >> 16 & 0x8000) |
                                          ((bits >> 13 & 0x3ffff) - 0x1c000));
    }
}

static void widen(int type, const void *from, float *to)
{
    for (size_t i = 0; i < ELEMS; i++) {
        uint16_t half = ((const uint16_t *)from)[i];
        uint32_t bits = (uint32_t)half << 16;
        if (type == GRADWEIR_F32)
            memcpy(&to[i], (const float *)from + i, sizeof to[i]);
        else if (type == GRADWEIR_BF16)
            memcpy(&to[i], &bits, sizeof bits);
        else
            to[i] =
                (float)(ldexp(1024 * (half >> 10 & 31 ? 1 : 0) + (half & 1023),
                              (half >> 10 & 31 ? half >> 10 & 31 : 1) - 25) *
                        (half & 0x8000 ? -1 : 1));
    }
}

/* ---- training ---- */

static void open_job(void)
{
    const struct gradweir_options options = {.struct_size = sizeof options,
                                             .rank = GRADWEIR_ANY_RANK};
    char why[512];
    if (gradweir_open(&options, &job, why, sizeof why) != GRADWEIR_OK) {
        fprintf(stderr, "api: %s\n", why);
        exit(1);
    }
}

static void put_first(void)
{
    static const float zero[ELEMS];
    for (size_t key = 0; key < KEYS && gradweir_makes_weights(job); key++)
        CHECK(gradweir_put(job, key, zero));
}

static void start(void)
{
    open_job();
    CHECK(gradweir_join(job, -1));
    struct gradweir_declaration mine = declaration;
    mine.own_steps = has_optimizer;
    CHECK(gradweir_declare(job, &mine, -1));
    put_first();
    CHECK(gradweir_start(job, -1));
}

/* The gradient w - target, rounded to the key's type, from an array of the
   program's or, every other step, from the library's. In a step of the
   program's own: the weights after it. */
static double push(size_t key, const struct gradweir_step *now, float *w)
{
    uint64_t step = now->number;
    float g[ELEMS];
    char narrowed[ELEMS * sizeof(float)];
    double loss = 0;
    for (size_t i = 0; i < ELEMS; i++) {
        g[i] = (float)(floor(64 * (double)(w[i] - target(i)) + 0.5) / 64);
        loss += pow((double)(w[i] - target(i)), 2) / 2;
        if (now->own)
            g[i] = w[i] - 0.25f * g[i];
    }
    if (keys[key].type == GRADWEIR_F32 && step % 2) {
        memcpy(gradweir_gradients(job, key), g, sizeof g);
        CHECK(gradweir_push(job, key, NULL));
    } else {
        narrow(keys[key].type, g, narrowed);
        CHECK(gradweir_push(job, key, narrowed));
    }
    return loss;
}

/* Key 2 has no gradient in each third step. */
static int step(struct gradweir_step *next)
{
    struct gradweir_result result = {.struct_size = sizeof result};
    char narrowed[ELEMS * sizeof(float)];
    float w[ELEMS];
    int status = gradweir_begin(job, next, -1);
    if (status != GRADWEIR_OK)
        return status;
    for (size_t key = 0; key < KEYS && status == GRADWEIR_OK; key++) {
        status = gradweir_wait(job, key, 1, -1);
        if (status != GRADWEIR_OK)
            break;
        CHECK(gradweir_take(job, key, narrowed));
        widen(keys[key].type, narrowed, w);
        if (key == 2 && next->number % 3 == 2)
            status = gradweir_skip(job, key, 1, 0, -1);
        else
            result.loss += push(key, next, w);
    }
    if (status == GRADWEIR_OK || status == GRADWEIR_EEND)
        status = gradweir_end(job, &result, -1);
    return status;
}

static void train(int steps)
{
    struct gradweir_step next = {.struct_size = sizeof next};
    int status = GRADWEIR_OK;
    for (int i = 0; i < steps && status == GRADWEIR_OK; i++)
        status = step(&next);
    if (status != GRADWEIR_OK && status != GRADWEIR_EEND)
        die("step", status);
}

static void finish(void)
{
    double most = 0;
    CHECK(gradweir_finish(job, -1));
    for (size_t key = 0; key < KEYS; key++) {
        char narrowed[ELEMS * sizeof(float)];
        float w[ELEMS];
        CHECK(gradweir_take(job, key, narrowed));
        widen(keys[key].type, narrowed, w);
        for (size_t i = 0; i < ELEMS; i++)
            most = fmax(most, fabs((double)(w[i] - target(i))));
    }
    printf("off by %.4f\n", most);
    gradweir_close(job);
    job = NULL;
}

/* ---- modes ---- */

static void do_train(void)
{
    start();
    train(gradweir_rank(job) == 1 ? 60 : 150);
    finish();
}

/* A step that has begun is given up by gradweir_finish. Where ranks do not wait
   for each other the others may have ended the job by then. */
static void do_ahead(void)
{
    struct gradweir_step next = {.struct_size = sizeof next};
    start();
    train(gradweir_rank(job) == 1 ? 60 : 150);
    int status = gradweir_begin(job, &next, -1);
    if (status == GRADWEIR_OK &&
        gradweir_wait(job, 0, KEYS, -1) == GRADWEIR_EEND)
        status = gradweir_end(job, NULL, -1);
    if (status != GRADWEIR_OK && status != GRADWEIR_EEND)
        die("begin", status);
    finish();
}

/* Rank 0 ends the job, and rank 1 hears after how many steps. */
static void do_early(void)
{
    struct gradweir_step next = {.struct_size = sizeof next};
    start();
    train(gradweir_rank(job) == 0 ? 150 : 300);
    if (gradweir_rank(job) == 1) {
        int status = gradweir_begin(job, &next, -1);
        printf("%d after %" PRIu64 " steps\n", status, next.number);
    }
    finish();
}

static void do_own(void)
{
    has_optimizer = 1;
    do_train();
}

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
    start();
    signal(SIGALRM, on_alarm);
    if (gradweir_rank(job) == 1)
        setitimer(ITIMER_REAL, &tick, NULL);
    for (int i = 0; i < 10; i++) {
        CHECK(gradweir_begin(job, &next, -1));
        while ((status = gradweir_wait(job, 0, KEYS, 7)) != GRADWEIR_OK) {
            timeouts += status == GRADWEIR_ETIMEOUT;
            signals += status == GRADWEIR_EAGAIN;
            if (status != GRADWEIR_ETIMEOUT && status != GRADWEIR_EAGAIN)
                die("wait", status);
            if (i % 2 && status == GRADWEIR_ETIMEOUT) { /* not again */
                usleep(200000);
                usleep(200000); /* of which signals take a part */
                while (!gradweir_has(job, 0, KEYS))
                    usleep(1000);
                break;
            }
        }
        if (!gradweir_has(job, 0, KEYS))
            die("a wait has ended without weights", 0);
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
            die("finish", status);
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
    start();
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
            narrow(keys[key].type, w, narrowed);
            CHECK(gradweir_push(job, key, narrowed));
            if (key < 2)
                asked += gradweir_pull(job, 0, key + 1, 0) == GRADWEIR_ETIMEOUT;
            waited += now_s() - begin > 0.01;
        }
        CHECK(gradweir_pull(job, 0, KEYS, -1));
        for (size_t key = 0; key < KEYS; key++) {
            CHECK(gradweir_take(job, key, narrowed));
            widen(keys[key].type, narrowed, w);
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

/* All ranks ask for a checkpoint, and rank 1 dies when it is there. */
static void do_save(void)
{
    int status, times = 0;
    start();
    train(5);
    while ((status = gradweir_save(job, -1)) == GRADWEIR_ETIMEOUT) {
        usleep(5000); /* the disk is slower than these steps */
        train(1);
        times++;
    }
    printf("save: %d after %s\n", status, times ? "steps" : "no step");
    fflush(stdout);
    for (int i = 0; gradweir_rank(job) == 1 && i < 50; i++) {
        usleep(5000); /* rank 0 hears of it in a step of its own */
        train(1);
    }
    if (gradweir_rank(job) == 1)
        _exit(3);
    train(100000);
    die("train", 0);
}

/* Rank 1 leaves while it waits. */
static void do_leave(void)
{
    struct gradweir_step next = {.struct_size = sizeof next};
    start();
    if (gradweir_rank(job) == 0) {
        sleep(2); /* so that rank 1 waits */
        train(1000);
        die("train", 0);
    }
    CHECK(step(&next));
    CHECK(gradweir_begin(job, &next, -1));
    if (gradweir_wait(job, 0, KEYS, 300) != GRADWEIR_ETIMEOUT)
        die("wait", 0);
    double begin = now_s();
    gradweir_close(job);
    printf("left after %s\n", now_s() - begin < 1 ? "a moment" : "too long");
}

static void do_fail(void)
{
    struct gradweir_step next = {.struct_size = sizeof next};
    start();
    CHECK(step(&next));
    if (gradweir_rank(job) == 1) {
        CHECK(gradweir_fail(job, "the camera is gone"));
        gradweir_close(job);
        return;
    }
    train(100000);
    die("train", 0);
}

/* None of a child's calls waits for a thread that it has not. */
static void fork_child(void)
{
    struct gradweir_step next = {.struct_size = sizeof next};
    float w[ELEMS] = {0};
    int ended;
    pid_t child = fork();
    if (child == 0) {
        int status = gradweir_begin(job, &next, -1);
        alarm(5);
        printf("child: %d, %s\n", status, gradweir_error(job));
        printf("child: %d %d %d %d %d\n", gradweir_push(job, 0, w),
               gradweir_take(job, 0, w), gradweir_weigh(job, 1),
               gradweir_wait(job, 0, 1, -1), gradweir_has(job, 0, 1));
        fflush(stdout);
        gradweir_close(job);
        _exit(0);
    }
    waitpid(child, &ended, 0);
}

/* Between two calls, and while one goes on. */
static void do_fork(void)
{
    start();
    fork_child();
    train(20);
    if (gradweir_finish(job, 0) != GRADWEIR_ETIMEOUT)
        die("finish", 0);
    fork_child();
    finish();
}

static void say(const char *call, int status)
{
    printf("%d %s\n", status, status ? gradweir_error(job) : call);
}

static void do_misuse(void)
{
    struct gradweir_step next = {.struct_size = sizeof next};
    struct gradweir_step small = {.struct_size = 8};
    struct gradweir_key key = keys[0];
    struct gradweir_terms terms = {.struct_size = sizeof terms, .beta1 = 1};
    const struct gradweir_group groups[] = {{.struct_size = sizeof *groups},
                                            {sizeof *groups, 2}};
    struct gradweir_declaration wrong = {
        .struct_size = sizeof wrong, .keys = &key, .n_keys = 1};
    char long_name[300], value[64];
    open_job();
    say("begin", gradweir_begin(job, &next, 0));
    CHECK(gradweir_join(job, -1));
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
    CHECK(gradweir_declare(job, &declaration, -1));
    say("declare", gradweir_declare(job, &declaration, -1));
    say("end", gradweir_end(job, NULL, -1));
    say("put", gradweir_put(job, 77, NULL));
    put_first();
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
    terms.struct_size = sizeof terms;
    say("terms", gradweir_terms(job, 0, &terms));
    say("push", gradweir_push(job, 0, NULL));
    gradweir_close(job);
}

/* ---- groups: two with rates of their own, and one of values ---- */

enum {
    GROUP_STEPS = 12,
    ODD_STEP = 7
};

static int is_odd; /* rank 1 has another rate in a step */

static struct gradweir_terms terms_at(uint32_t group, uint64_t step)
{
    return (struct gradweir_terms){.struct_size = sizeof(struct gradweir_terms),
                                   .lr =
                                       0.1 / (double)(1 + step / 3 + 2 * group),
                                   .weight_decay = step < 6 ? 0.1 : 0,
                                   .beta1 = 0.9,
                                   .beta2 = step < 4 ? 0.99 : 0.9,
                                   .eps = 1e-6};
}

static void declare_groups(void)
{
    static const struct gradweir_group rules[] = {
        {sizeof *rules, GRADWEIR_RULE_OPTIMIZER},
        {sizeof *rules, GRADWEIR_RULE_OPTIMIZER},
        {sizeof *rules, GRADWEIR_RULE_MEAN}};
    struct gradweir_key grouped[KEYS];
    const struct gradweir_declaration own = {.struct_size = sizeof own,
                                             .keys = grouped,
                                             .n_keys = KEYS,
                                             .groups = rules,
                                             .n_groups = 3,
                                             .optimizer = "adamw"};
    for (uint32_t key = 0; key < KEYS; key++) {
        grouped[key] = keys[key];
        grouped[key].type = GRADWEIR_F32;
        grouped[key].group = key;
    }
    open_job();
    CHECK(gradweir_join(job, -1));
    CHECK(gradweir_declare(job, &own, -1));
    put_first();
    CHECK(gradweir_start(job, -1));
}

/* The mean over both ranks of a gradient that does not depend on weights. */
static float slope(size_t i, uint32_t rank)
{
    return target(i) + (float)rank / 4;
}

static void step_groups(uint64_t step)
{
    uint32_t rank = gradweir_rank(job);
    float g[ELEMS];
    for (uint32_t group = 0; group < 2; group++) {
        struct gradweir_terms terms = terms_at(group, step);
        if (is_odd && rank == 1 && step == ODD_STEP)
            terms.lr = 3;
        CHECK(gradweir_terms(job, group, &terms));
    }
    CHECK(gradweir_wait(job, 0, KEYS, -1));
    for (size_t key = 0; key < KEYS; key++) {
        for (size_t i = 0; i < ELEMS; i++)
            g[i] =
                key < 2 ? slope(i, rank) : (float)(step + i) + 4 * (float)rank;
        CHECK(gradweir_push(job, key, g));
    }
    CHECK(gradweir_end(job, NULL, -1));
}

/* AdamW by hand. */
static double stepped(uint32_t group, size_t i)
{
    double w = 0, m = 0, v = 0, g = 0;
    for (uint32_t rank = 0; rank < 2; rank++)
        g += (double)slope(i, rank) / 2;
    for (uint64_t step = 0; step < GROUP_STEPS; step++) {
        const struct gradweir_terms terms = terms_at(group, step);
        double t = (double)step + 1;
        m = terms.beta1 * m + (1 - terms.beta1) * g;
        v = terms.beta2 * v + (1 - terms.beta2) * g * g;
        w -= terms.lr * (terms.weight_decay * w +
                         m / (1 - pow(terms.beta1, t)) /
                             (sqrt(v / (1 - pow(terms.beta2, t))) + terms.eps));
    }
    return w;
}

static void do_groups(void)
{
    struct gradweir_step next = {.struct_size = sizeof next};
    double far = 0;
    declare_groups();
    for (uint64_t step = 0; step < GROUP_STEPS; step++) {
        CHECK(gradweir_begin(job, &next, -1));
        step_groups(step);
    }
    CHECK(gradweir_finish(job, -1));
    for (size_t key = 0; key < KEYS; key++) {
        float w[ELEMS];
        CHECK(gradweir_take(job, key, w));
        for (size_t i = 0; i < ELEMS; i++)
            far = fmax(far, fabs((double)w[i] -
                                 (key < 2 ? stepped((uint32_t)key, i)
                                          : GROUP_STEPS - 1 + (double)i + 2)));
    }
    gradweir_close(job);
    printf("groups are %s\n", far < 1e-6 ? "right" : "wrong");
}

static void do_odd(void)
{
    is_odd = 1;
    do_groups();
}

static size_t count_in(const char *path)
{
    size_t n = 0;
    DIR *dir = opendir(path);
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

/* What 900 jobs leave behind, after 100 that have filled caches. */
static struct kept {
    struct rusage usage;
    size_t descriptors, threads;
} kept;

static struct kept count_kept(void)
{
    struct kept now = {.descriptors = count_in("/proc/self/fd"),
                       .threads = count_in("/proc/self/task")};
    getrusage(RUSAGE_SELF, &now.usage);
    return now;
}

static void say_kept(const char *jobs)
{
    const struct kept now = count_kept();
    printf("%s: %ld KiB more, %zu descriptors more, %zu threads more\n", jobs,
           now.usage.ru_maxrss - kept.usage.ru_maxrss,
           now.descriptors - kept.descriptors, now.threads - kept.threads);
}

/* Jobs that nobody answers, in all states of joining. */
static void do_many(void)
{
    for (int i = 0; i < 1000; i++) {
        const struct gradweir_options options = {.struct_size = sizeof options,
                                                 .coordinator = "127.0.0.1:1",
                                                 .rank = GRADWEIR_ANY_RANK};
        char why[512];
        if (i == 100)
            kept = count_kept();
        if (gradweir_open(&options, &job, why, sizeof why) != GRADWEIR_OK)
            die(why, 0);
        if (i % 4 == 0)
            gradweir_join(job, 1);
        gradweir_close(job);
    }
    say_kept("unheard");
}

static void ignore(void *owner, int level, const char *line)
{
    (void)owner, (void)level, (void)line;
}

/* Jobs that the coordinator turns away, since it has its worker. */
static void do_refused(void)
{
    start();
    for (int i = 0; i < 1000; i++) {
        const struct gradweir_options options = {.struct_size = sizeof options,
                                                 .rank = GRADWEIR_ANY_RANK,
                                                 .log = ignore};
        gradweir_job *other;
        char why[512];
        if (i == 100)
            kept = count_kept();
        if (gradweir_open(&options, &other, why, sizeof why) != GRADWEIR_OK)
            die(why, 0);
        if (gradweir_join(other, -1) != GRADWEIR_EREFUSED)
            die(gradweir_error(other), 0);
        gradweir_close(other);
    }
    say_kept("refused");
    train(150);
    finish();
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } modes[] = {
        {"train", do_train},   {"ahead", do_ahead},   {"waits", do_waits},
        {"pull", do_pull},     {"own", do_own},       {"early", do_early},
        {"save", do_save},     {"leave", do_leave},   {"fail", do_fail},
        {"fork", do_fork},     {"misuse", do_misuse}, {"odd", do_odd},
        {"groups", do_groups}, {"many", do_many},     {"refused", do_refused}};
    for (size_t i = 0; argc > 1 && i < sizeof modes / sizeof *modes; i++) {
        if (strcmp(argv[1], modes[i].name) == 0) {
            modes[i].run();
            return 0;
        }
    }
    return 2;
}
