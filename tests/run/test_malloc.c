/*
 * No allocation between two steps: a whole job over tcp, every member a thread
 * of this process, with malloc counted per thread. The threads that step, that
 * own a shard and that communicate must not call it; the coordinator may.
 */
#include "config.h"

#include <execinfo.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "server/coordinator/coordinator.h"
#include "server/server.h"
#include "tests/sim/cluster.h"
#include "worker/worker.h"

#ifdef GW_SANITIZED
#define OWN_MALLOC 0
#else
#define OWN_MALLOC 1
#endif

#define THREADS_MAX 64
#define WORKERS     2
#define SERVERS     2
#define STEPS       60
#define FROM        10 /* steps between which nothing may be allocated */
#define TO          50

/* ---- malloc, counted ---- */

static atomic_ulong calls[THREADS_MAX];
static atomic_int watching, shown;
static _Thread_local int exempt;

#if OWN_MALLOC
/* Shared libraries are to call these as well. */
#define EXPORT __attribute__((visibility("default")))

static atomic_uint threads;
static _Thread_local unsigned own; /* + 1 */

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *memory, size_t n);
void *__libc_memalign(size_t alignment, size_t n);
int posix_memalign(void **memory, size_t alignment, size_t n);

static void count(void)
{
    if (exempt || !atomic_load(&watching))
        return;
    if (!own)
        own = 1 + atomic_fetch_add(&threads, 1) % THREADS_MAX;
    atomic_fetch_add(&calls[own - 1], 1);
    if (atomic_fetch_add(&shown, 1) < 3) {
        void *frame[16];
        exempt = 1; /* for what backtrace does */
        backtrace_symbols_fd(frame, backtrace(frame, 16), 2);
        exempt = 0;
    }
}

EXPORT void *malloc(size_t n)
{
    count();
    return __libc_malloc(n);
}

EXPORT void *calloc(size_t n, size_t size)
{
    count();
    return __libc_calloc(n, size);
}

EXPORT void *realloc(void *memory, size_t n)
{
    count();
    return __libc_realloc(memory, n);
}

EXPORT int posix_memalign(void **memory, size_t alignment, size_t n)
{
    count();
    *memory = __libc_memalign(alignment, n);
    return *memory ? 0 : 12;
}

EXPORT void *aligned_alloc(size_t alignment, size_t n)
{
    count();
    return __libc_memalign(alignment, n);
}
#endif

/* ---- the members ---- */

struct member {
    pthread_t thread;
    struct gw_metrics metrics;
    const char *coordinator;
    size_t number;
    enum gw_status status;
    struct gw_error error;
    struct gw_loop *loop;
};

struct job {
    struct gw_config config;
    struct gw_loop *loop;
    struct gw_coordinator *coordinator;
    struct member worker[WORKERS], server[SERVERS];
    enum gw_status status;
    unsigned long before, after;
    char text[GW_ERROR_TEXT_BYTES];
};

static struct gw_loop *new_loop(void)
{
    struct gw_loop *loop = NULL;
    struct gw_error error;
    if (gw_loop_open_uv(&loop, &error) != GW_OK)
        fail_msg("%s", error.text);
    return loop;
}

static void *run_worker(void *argument)
{
    struct member *member = argument;
    const struct gw_worker_options options = {
        .client = {.loop = member->loop,
                   .transport = gw_transport_find("tcp", &member->error),
                   .interface = "",
                   .coordinator = member->coordinator,
                   .host = "w",
                   .machine = 1,
                   .pid = (uint32_t)getpid(),
                   .rank = (uint32_t)member->number,
                   .metrics = &member->metrics},
    };
    member->status = gw_worker_run(&options, &member->error);
    return NULL;
}

static void
server_finished(void *owner, enum gw_status status, const char *text)
{
    struct member *member = owner;
    member->status = gw_fail(&member->error, status, "%s", text);
    gw_loop_stop(member->loop);
}

static void *run_server(void *argument)
{
    struct member *member = argument;
    struct gw_server *server = NULL;
    const struct gw_server_options options = {
        .loop = member->loop,
        .transport = gw_transport_find("tcp", &member->error),
        .coordinator = member->coordinator,
        .listen = "127.0.0.1:0",
        .advertise = "",
        .host = "s",
        .machine = 1,
        .process = 200 + member->number,
        .pid = (uint32_t)getpid(),
        .threads = 1,
        .metrics = &member->metrics,
        .finished = server_finished,
        .owner = member,
    };
    member->status = gw_server_open(&options, &server, &member->error);
    if (member->status == GW_OK)
        gw_loop_run(member->loop);
    gw_server_close(server);
    return NULL;
}

static void open_members(struct member *member,
                         size_t n,
                         const char *coordinator,
                         void *(*run)(void *argument))
{
    for (size_t i = 0; i < n; i++) {
        member[i].coordinator = coordinator;
        member[i].number = i;
        member[i].loop = new_loop();
        assert_int_equal(
            pthread_create(&member[i].thread, NULL, run, &member[i]), 0);
    }
}

static void close_members(struct member *member, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        pthread_join(member[i].thread, NULL);
        gw_loop_close(member[i].loop);
        if (member[i].status != GW_OK)
            fail_msg("member %zu: %s", i, member[i].error.text);
    }
}

/* ---- the job ---- */

static unsigned long all_calls(void)
{
    unsigned long sum = 0;
    for (size_t i = 0; i < THREADS_MAX; i++)
        sum += atomic_load(&calls[i]);
    return sum;
}

static void on_running(void *owner)
{
    (void)owner;
}

static void on_step(void *owner, const struct gw_step_report *report)
{
    struct job *job = owner;
    if (report->step == FROM) {
        job->before = all_calls();
        atomic_store(&shown, 0);
        atomic_store(&watching, 1);
    } else if (report->step == TO) {
        atomic_store(&watching, 0);
        job->after = all_calls();
    }
}

static void on_score(void *owner, const struct gw_score_report *report)
{
    (void)owner;
    (void)report;
}

static void on_split(void *owner, const struct gw_split_report *report)
{
    (void)owner;
    (void)report;
}

static void on_note(void *owner, const char *text)
{
    (void)owner;
    print_message("# %s\n", text);
}

static void on_finished(void *owner, const struct gw_final_report *report)
{
    struct job *job = owner;
    job->status = report->status;
    snprintf(job->text, sizeof job->text, "%s", report->text);
    gw_loop_stop(job->loop);
}

static const struct gw_coordinator_events events = {
    .running = on_running,
    .step = on_step,
    .score = on_score,
    .split = on_split,
    .note = on_note,
    .warning = on_note,
    .finished = on_finished,
};

static void run_job(struct job *job, const char *const *settings)
{
    struct gw_error error = {.text = ""};
    cluster_config(&job->config, settings);
    exempt = 1; /* the coordinator: this thread */
    job->loop = new_loop();
    const struct gw_coordinator_options options = {
        .loop = job->loop,
        .transport = gw_transport_find("tcp", &error),
        .listen = "127.0.0.1:0",
        .config = &job->config,
        .events = &events,
        .owner = job,
    };
    if (gw_coordinator_open(&options, &job->coordinator, &error) != GW_OK)
        fail_msg("%s", error.text);
    const char *address = gw_coordinator_address(job->coordinator);
    open_members(job->server, SERVERS, address, run_server);
    open_members(job->worker, WORKERS, address, run_worker);
    gw_loop_run(job->loop);
    gw_coordinator_close(job->coordinator);
    gw_loop_close(job->loop);
    close_members(job->worker, WORKERS);
    close_members(job->server, SERVERS);
    if (job->status != GW_OK)
        fail_msg("%s", job->text);
}

static const char *const streaming[] = {
    "cluster.workers=2",       "cluster.servers=2",
    "cluster.transport=tcp",   "train.steps=250",
    "train.commit=streaming",  "train.batch=20",
    "optimizer.kind=momentum", NULL};
static const char *const whole[] = {"cluster.workers=2",
                                    "cluster.servers=2",
                                    "cluster.transport=tcp",
                                    "train.steps=250",
                                    "train.commit=whole",
                                    "train.batch=20",
                                    "optimizer.kind=adamw",
                                    "optimizer.lr=0.001",
                                    "train.clip=1",
                                    "cluster.connections=2",
                                    NULL};
static const char *const cnn[] = {
    "cluster.workers=2",
    "cluster.servers=2",
    "cluster.transport=tcp",
    "train.steps=250",
    "train.batch=10",
    "model.kind=cnn",
    "model.layers=[\"conv 4 3\", \"pool 2\", \"dropout 0.2\", \"dense 10\"]",
    NULL};

static void no_step_allocates(void **state)
{
    struct job *job = calloc(1, sizeof *job);
    assert_non_null(job);
    if (!OWN_MALLOC)
        print_message("# a sanitizer has its own malloc: nothing is counted\n");
    run_job(job, *state);
    assert_int_equal(job->after - job->before, 0);
    free(job);
}

/* The counting itself: what another thread allocates is seen. */
static void *allocate(void *argument)
{
    (void)argument;
    void *volatile memory = malloc(100);
    free(memory);
    return NULL;
}

static void an_allocation_is_counted(void **state)
{
    pthread_t thread;
    unsigned long before = all_calls();
    (void)state;
    atomic_store(&shown, 3);
    atomic_store(&watching, 1);
    assert_int_equal(pthread_create(&thread, NULL, allocate, NULL), 0);
    pthread_join(thread, NULL);
    atomic_store(&watching, 0);
    if (OWN_MALLOC)
        assert_true(all_calls() > before);
}

#define ON(job)                                                                \
    {                                                                          \
        "no_step_allocates/" #job, no_step_allocates, NULL, NULL,              \
            (void *)(uintptr_t)job                                             \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_allocation_is_counted),
        ON(streaming),
        ON(whole),
        ON(cnn),
    };
    return cmocka_run_group_tests_name("malloc", tests, NULL, NULL);
}
