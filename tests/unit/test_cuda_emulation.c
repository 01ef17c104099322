/*
 * tests/cuda: the emulated CUDA computes, and detects the errors that it is
 * made for.
 */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/cuda/emulation.h"
#include "tests/cuda/try/try.h"

#define BLOCKS 5
#define ELEMS  ((size_t)BLOCKS * 256)
#define BYTES  (ELEMS * sizeof(float))

/* Memory of a case. */
struct bench {
    cudaStream_t one, two;
    cudaEvent_t event;
    float *x, *y;      /* device memory, ELEMS each */
    float *host;       /* pinned, ELEMS */
    float back[ELEMS]; /* pageable */
};

static void ok(cudaError_t error)
{
    if (error != cudaSuccess)
        fail_msg("%s", cudaGetErrorString(error));
}

static void with(enum emulated_order order, enum emulated_pace pace)
{
    struct emulated_settings settings;
    emulated_cuda.defaults(&settings);
    settings.order = order;
    settings.pace = pace;
    emulated_cuda.set(&settings);
}

static void *device_memory(size_t bytes)
{
    void *memory;
    ok(cudaMalloc(&memory, bytes));
    return memory;
}

static struct bench *open_bench(void)
{
    struct bench *b = test_calloc(1, sizeof *b);
    void *host;
    ok(cudaStreamCreateWithFlags(&b->one, cudaStreamNonBlocking));
    ok(cudaStreamCreateWithFlags(&b->two, cudaStreamNonBlocking));
    ok(cudaEventCreateWithFlags(&b->event, cudaEventDisableTiming));
    b->x = device_memory(BYTES);
    b->y = device_memory(BYTES);
    ok(cudaHostAlloc(&host, BYTES, cudaHostAllocDefault));
    b->host = host;
    for (size_t i = 0; i < ELEMS; i++)
        b->host[i] = (float)(i % 256);
    return b;
}

static void close_bench(struct bench *b)
{
    ok(cudaDeviceSynchronize());
    ok(cudaFree(b->x));
    ok(cudaFree(b->y));
    ok(cudaFreeHost(b->host));
    ok(cudaStreamDestroy(b->one));
    ok(cudaStreamDestroy(b->two));
    ok(cudaEventDestroy(b->event));
    test_free(b);
}

static void up(cudaStream_t stream, float *to, const float *from)
{
    ok(cudaMemcpyAsync(to, from, BYTES, cudaMemcpyHostToDevice, stream));
}

static const float *back(struct bench *b, cudaStream_t stream)
{
    ok(cudaMemcpyAsync(b->back, b->y, BYTES, cudaMemcpyDeviceToHost, stream));
    return b->back;
}

/* ---- correct programs ---- */

static int sums_are_right(enum try_mistake mistake)
{
    struct bench *b = open_bench();
    int right = 1;
    up(b->one, b->x, b->host);
    ok(try_sums(b->one, BLOCKS, mistake, b->x, b->y));
    const float *y = back(b, b->one);
    for (size_t i = 0; i < BLOCKS; i++)
        right &= y[i] == 255 * 128;
    right &= (int)isnan(y[BLOCKS]); /* not written */
    close_bench(b);
    return right;
}

static void blocks_compute(void **state)
{
    (void)state;
    for (int order = EMULATED_FORWARD; order <= EMULATED_RANDOM; order++)
        for (int pace = EMULATED_LATE; pace <= EMULATED_SOMETIMES; pace++) {
            with((enum emulated_order)order, (enum emulated_pace)pace);
            assert_true(sums_are_right(TRY_RIGHT));
        }
    struct emulated_counts counts;
    emulated_cuda.counts(&counts);
    assert_int_equal(counts.live_allocations + counts.live_host_allocations, 0);
    assert_int_equal(counts.live_streams + counts.live_events, 0);
    assert_int_equal(counts.live_bytes, 0);
}

/* Threads of a grid share work without barriers. */
static void grids_compute(void **state)
{
    (void)state;
    for (int order = EMULATED_FORWARD; order <= EMULATED_RANDOM; order++) {
        with((enum emulated_order)order, EMULATED_LATE);
        struct bench *b = open_bench();
        up(b->one, b->x, b->host);
        up(b->one, b->y, b->host);
        ok(try_axpy(b->one, ELEMS - 1, 2, b->x, b->y));
        const float *y = back(b, b->one);
        for (size_t i = 0; i < ELEMS; i++)
            assert_true(y[i] == (i + 1 < ELEMS ? 3 : 1) * (float)(i % 256));
        close_bench(b);
    }
}

/* ---- kernels that are wrong ---- */

static void races_change_with_the_order(void **state)
{
    (void)state;
    const enum try_mistake races[] = {TRY_NO_BARRIER, TRY_OTHER_BLOCK,
                                      TRY_UNWRITTEN};
    for (size_t i = 0; i < sizeof races / sizeof *races; i++) {
        int wrong = 0;
        for (int order = EMULATED_FORWARD; order <= EMULATED_RANDOM; order++) {
            with((enum emulated_order)order, EMULATED_LATE);
            wrong += !sums_are_right(races[i]);
        }
        assert_true(wrong > 0);
    }
}

/* The thread sanitizer does not follow fibers into a child. */
__attribute__((weak)) void *__tsan_get_current_fiber(void);

/* Runs a case in a child, and reads its last message; the child must fail. */
static void
dies(void (*run)(int argument), int argument, char *said, size_t bytes)
{
    int ends[2], status;
    size_t n = 0;
    if (__tsan_get_current_fiber)
        skip();
    fflush(NULL);
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        const int faults[] = {SIGSEGV, SIGILL, SIGBUS};
        for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
            signal(faults[i], SIG_DFL); /* cmocka has its own */
        dup2(ends[1], STDERR_FILENO);
        close(ends[1]);
        run(argument);
        _exit(0);
    }
    close(ends[1]);
    for (ssize_t got; n + 1 < bytes; n += (size_t)got) {
        got = read(ends[0], said + n, bytes - 1 - n);
        if (got <= 0)
            break;
    }
    said[n] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        fail_msg("mistake %d went through", argument);
}

static void run_mistake(int mistake)
{
    sums_are_right((enum try_mistake)mistake);
}

static void mistakes_are_named(void **state)
{
    (void)state;
    const struct {
        enum try_mistake mistake;
        const char *says;
    } cases[] = {
        {TRY_EARLY_RETURN, "threads, the first 3, have returned"},
        {TRY_TWO_BARRIERS, "threads, the first 100, wait at __syncthreads"},
        {TRY_PART_OF_A_WARP, "248 threads, the first 0, wait at a shuffle"},
        {TRY_OUT_OF_SHARED, "outside of an array"},
        {TRY_MISALIGNED, "misaligned"},
        {TRY_FAR_BEHIND, "touches memory that is not its own"},
    };
    for (int order = EMULATED_FORWARD; order <= EMULATED_RANDOM; order++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            char said[4096];
            with((enum emulated_order)order, EMULATED_LATE);
            dies(run_mistake, (int)cases[i].mistake, said, sizeof said);
            if (!strstr(said, cases[i].says) ||
                !strstr(said, "kernel sums (") || !strstr(said, "try.cu:"))
                fail_msg("mistake %d: %s", (int)cases[i].mistake, said);
        }
}

/* ---- memory ---- */

enum misuse {
    WRITE_BEHIND,
    HOST_POINTER,
    FREED_SINCE,
    TOUCH_FROM_HOST,
    COPY_TOO_MUCH,
    WRONG_KIND,
    MISUSES,
};

static void run_misuse(int misuse)
{
    struct bench *b = open_bench();
    float *small = device_memory(3 * sizeof *small), far[2] = {0};
    switch ((enum misuse)misuse) {
    case WRITE_BEHIND:
        ok(try_sums(b->one, 3, TRY_BEHIND, b->x, small));
        break;
    case HOST_POINTER:
        ok(try_axpy(b->one, 1, 1, b->x, far));
        break;
    case FREED_SINCE:
        up(b->one, b->x, b->host);
        ok(cudaFreeHost(b->host));
        break;
    case TOUCH_FROM_HOST:
        far[0] = *(volatile float *)b->x;
        break;
    case COPY_TOO_MUCH:
        up(b->one, small, b->host);
        break;
    case WRONG_KIND:
        ok(cudaMemcpyAsync(b->x, b->y, 4, cudaMemcpyHostToDevice, b->one));
        break;
    case MISUSES:
        break;
    }
    ok(cudaStreamSynchronize(b->one));
}

static void memory_is_guarded(void **state)
{
    (void)state;
    static const char *const says[MISUSES] = {
        [WRITE_BEHIND] = "right behind the 12 bytes",
        [HOST_POINTER] = "argument 3 of the kernel",
        [FREED_SINCE] = "freed or unpinned since",
        [TOUCH_FROM_HOST] = "", /* a plain fault */
        [COPY_TOO_MUCH] = "only in part",
        [WRONG_KIND] = "not what it says",
    };
    with(EMULATED_FORWARD, EMULATED_LATE);
    for (int i = 0; i < MISUSES; i++) {
        char said[4096];
        dies(run_misuse, i, said, sizeof said);
        if (!strstr(said, says[i]))
            fail_msg("misuse %d: %s", i, said);
    }
}

static void pageable_memory_is_free_at_once(void **state)
{
    (void)state;
    for (int pace = EMULATED_LATE; pace <= EMULATED_SOMETIMES; pace++) {
        with(EMULATED_FORWARD, (enum emulated_pace)pace);
        struct bench *b = open_bench();
        for (size_t i = 0; i < ELEMS; i++)
            b->back[i] = 1;
        up(b->one, b->y, b->back);
        memset(b->back, 0, sizeof b->back);
        assert_true(back(b, b->one)[7] == 1);
        /* registered, so it is read when the copy runs */
        ok(cudaHostRegister(b->back, BYTES, cudaHostRegisterDefault));
        up(b->one, b->y, b->back);
        memset(b->back, 0, sizeof b->back);
        ok(cudaStreamSynchronize(b->one));
        back(b, b->one);
        ok(cudaStreamSynchronize(b->one));
        assert_true(b->back[7] == (pace == EMULATED_LATE ? 0 : b->back[7]));
        ok(cudaHostUnregister(b->back));
        close_bench(b);
    }
}

/* ---- streams ---- */

/* An upload concurrent with a kernel that needs it; returns 1 if the kernel
   found it. */
static int uploads_in_time(int waits)
{
    struct bench *b = open_bench();
    up(b->one, b->y, b->host);
    up(b->two, b->x, b->host);
    ok(cudaEventRecord(b->event, b->two));
    if (waits)
        ok(cudaStreamWaitEvent(b->one, b->event, 0));
    ok(try_axpy(b->one, ELEMS, 1, b->x, b->y));
    int right = back(b, b->one)[3] == 6;
    close_bench(b);
    return right;
}

static void missing_waits_are_seen(void **state)
{
    (void)state;
    with(EMULATED_FORWARD, EMULATED_LATE);
    assert_false(uploads_in_time(0));
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct emulated_settings settings;
        emulated_cuda.defaults(&settings);
        settings.seed = seed;
        settings.pace = EMULATED_SOMETIMES;
        emulated_cuda.set(&settings);
        assert_true(uploads_in_time(1));
    }
}

/* A pinned buffer that is overwritten before its copy has run. */
static void early_reuse_is_seen(void **state)
{
    (void)state;
    with(EMULATED_FORWARD, EMULATED_LATE);
    struct bench *b = open_bench();
    up(b->one, b->y, b->host);
    ok(cudaEventRecord(b->event, b->one));
    b->host[1] = 77;
    assert_true(back(b, b->one)[1] == 77);
    ok(cudaEventSynchronize(b->event));
    close_bench(b);
}

static void queries_make_progress(void **state)
{
    (void)state;
    with(EMULATED_FORWARD, EMULATED_LATE);
    struct bench *b = open_bench();
    int asked = 0;
    assert_int_equal(cudaEventQuery(b->event), cudaSuccess);
    for (int i = 0; i < 20; i++)
        up(b->one, b->y, b->host);
    ok(cudaEventRecord(b->event, b->one));
    while (cudaEventQuery(b->event) == cudaErrorNotReady)
        asked++;
    assert_true(asked > 3 && asked < 1000);
    assert_int_equal(cudaGetLastError(), cudaErrorNotReady);
    close_bench(b);
}

/* ---- faults ---- */

static void memory_runs_out(void **state)
{
    (void)state;
    struct emulated_settings settings;
    size_t available, total;
    void *first, *second;
    emulated_cuda.defaults(&settings);
    settings.memory_bytes = 1000;
    emulated_cuda.set(&settings);
    ok(cudaMalloc(&first, 600));
    assert_int_equal(cudaMalloc(&second, 401), cudaErrorMemoryAllocation);
    ok(cudaMemGetInfo(&available, &total));
    assert_int_equal(available, 400);
    assert_int_equal(total, 1000);
    assert_int_equal(cudaGetLastError(), cudaErrorMemoryAllocation);
    assert_int_equal(cudaGetLastError(), cudaSuccess);
    ok(cudaFree(first));
    ok(cudaMalloc(&first, 1000));
    ok(cudaFree(first));
}

static void failures_stay(void **state)
{
    (void)state;
    struct emulated_settings settings;
    with(EMULATED_FORWARD, EMULATED_LATE);
    struct bench *b = open_bench();
    emulated_cuda.defaults(&settings);
    settings.fail_at = 2;
    emulated_cuda.set(&settings);
    for (int i = 0; i < 3; i++)
        up(b->one, b->y, b->host);
    assert_int_equal(cudaStreamSynchronize(b->one), cudaErrorIllegalAddress);
    assert_int_equal(cudaGetLastError(), cudaErrorIllegalAddress);
    assert_int_equal(cudaGetLastError(), cudaErrorIllegalAddress);
    assert_int_equal(try_axpy(b->one, 1, 1, b->x, b->y),
                     cudaErrorIllegalAddress);
    assert_int_equal(cudaEventQuery(b->event), cudaErrorIllegalAddress);
    with(EMULATED_FORWARD, EMULATED_LATE);
    close_bench(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_compute),
        cmocka_unit_test(grids_compute),
        cmocka_unit_test(races_change_with_the_order),
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(memory_is_guarded),
        cmocka_unit_test(pageable_memory_is_free_at_once),
        cmocka_unit_test(missing_waits_are_seen),
        cmocka_unit_test(early_reuse_is_seen),
        cmocka_unit_test(queries_make_progress),
        cmocka_unit_test(memory_runs_out),
        cmocka_unit_test(failures_stay),
    };
    return cmocka_run_group_tests_name("emulated CUDA", tests, NULL, NULL);
}
