#include "config.h"

#include "tests/sim/sweep.h"

#include <assert.h>
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#define CHILDREN_MAX 16

/* A seed takes milliseconds; one that takes this long hangs. */
#define SEED_SECONDS 30

/* What the processes of a sweep share. */
struct board {
    atomic_uint_least64_t next; /* seed to be taken */
    uint64_t seeds;
    atomic_uint_least64_t failed;
    atomic_uint_least64_t count[SWEEP_COUNTS];
    struct {
        uint64_t seed;
        char why[SWEEP_WHY_MAX];
    } failure[SWEEP_FAILURES];
    uint64_t doing[CHILDREN_MAX]; /* seed, or 0 between two */
};

static uint64_t number_of(const char *variable, uint64_t otherwise)
{
    const char *text = getenv(variable);
    return text && text[0] ? strtoull(text, NULL, 10) : otherwise;
}

int sweep_is_replay(void)
{
    return number_of("GW_SIM_SEED", 0) != 0;
}

static void note_failure(struct board *board, uint64_t seed, const char *why)
{
    uint64_t place = atomic_fetch_add(&board->failed, 1);
    if (place >= SWEEP_FAILURES)
        return;
    board->failure[place].seed = seed;
    snprintf(board->failure[place].why, SWEEP_WHY_MAX, "%s", why);
}

static void do_seed(struct board *board,
                    uint64_t seed,
                    void (*one)(uint64_t seed, struct sweep_outcome *outcome))
{
    struct sweep_outcome outcome = {.why = ""};
    one(seed, &outcome);
    for (size_t i = 0; i < SWEEP_COUNTS; i++)
        atomic_fetch_add(&board->count[i], outcome.count[i]);
    if (outcome.why[0])
        note_failure(board, seed, outcome.why);
}

static void child(struct board *board,
                  size_t place,
                  void (*one)(uint64_t seed, struct sweep_outcome *outcome))
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setenv("CMOCKA_TEST_ABORT", "1", 1); /* a failed assertion ends it */
    for (;;) {
        uint64_t seed = atomic_fetch_add(&board->next, 1);
        if (seed > board->seeds)
            break;
        board->doing[place] = seed;
        alarm(SEED_SECONDS);
        do_seed(board, seed, one);
        board->doing[place] = 0;
    }
    fflush(NULL);
    _exit(0);
}

static void reap(struct board *board, const pid_t *pid, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char why[64];
        int status = 0;
        if (waitpid(pid[i], &status, 0) != pid[i])
            status = -1;
        if (status == 0)
            continue;
        if (WIFSIGNALED(status))
            snprintf(why, sizeof why, "its process ended with signal %d",
                     WTERMSIG(status));
        else
            snprintf(why, sizeof why, "its process ended with status %d",
                     WEXITSTATUS(status));
        note_failure(board, board->doing[i], why);
    }
}

static void run_children(struct board *board,
                         void (*one)(uint64_t seed,
                                     struct sweep_outcome *outcome))
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    size_t n = cores < 1 ? 1 : (size_t)cores, started = 0;
    pid_t pid[CHILDREN_MAX];
    if (n > CHILDREN_MAX)
        n = CHILDREN_MAX;
    fflush(NULL);
    for (; started < n; started++) {
        pid[started] = fork();
        if (pid[started] < 0)
            break;
        if (pid[started] == 0)
            child(board, started, one);
    }
    if (started == 0)
        note_failure(board, 0, "cannot fork");
    reap(board, pid, started);
}

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

uint64_t sweep(const char *name,
               uint64_t seeds,
               void (*one)(uint64_t seed, struct sweep_outcome *outcome),
               uint64_t sum[SWEEP_COUNTS])
{
    double began = seconds_now();
    struct board *board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE,
                               MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert(board != MAP_FAILED);
    board->seeds = number_of("GW_SIM_SEEDS", seeds);
    atomic_store(&board->next, 1);
    if (sweep_is_replay()) {
        board->seeds = 1;
        do_seed(board, number_of("GW_SIM_SEED", 0), one);
    } else {
        run_children(board, one);
    }
    uint64_t failed = atomic_load(&board->failed);
    for (uint64_t i = 0; i < failed && i < SWEEP_FAILURES; i++)
        printf("# %s: seed %" PRIu64 ": %s (GW_SIM_SEED=%" PRIu64
               " replays it)\n",
               name, board->failure[i].seed, board->failure[i].why,
               board->failure[i].seed);
    printf("# %s: %" PRIu64 " seeds, %" PRIu64 " failed, %.1f s\n", name,
           board->seeds, failed, seconds_now() - began);
    for (size_t i = 0; i < SWEEP_COUNTS; i++)
        sum[i] = atomic_load(&board->count[i]);
    munmap(board, sizeof *board);
    return failed;
}

void sweep_all(const char *name,
               uint64_t seeds,
               void (*one)(uint64_t seed, struct sweep_outcome *outcome),
               const char *const happened[SWEEP_COUNTS])
{
    uint64_t sum[SWEEP_COUNTS];
    uint64_t failed = sweep(name, seeds, one, sum);
    printf("# %s:", name);
    for (size_t i = 0; i < SWEEP_COUNTS && happened[i]; i++)
        printf("%s %" PRIu64 " %s", i > 0 ? "," : "", sum[i], happened[i]);
    printf("\n");
    assert_int_equal(failed, 0);
    for (size_t i = 0; i < SWEEP_COUNTS && happened[i]; i++)
        assert_true(sum[i] > 0 || sweep_is_replay());
}
