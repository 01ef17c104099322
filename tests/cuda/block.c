/*
 * Runs a kernel: one block after the other, the threads of a block in turns. A
 * thread runs until it waits at a barrier or a shuffle, or ends. A wait for
 * threads that will not come is an error of the kernel.
 */
#include "config.h"

#include "tests/cuda/inside.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda/launch.h"

#define THREADS_MAX 1024
#define WARP        32
/* Initial content of shared memory: NaN, -1, 255. */
#define GARBAGE 0xff

extern struct emulated_index {
    unsigned x, y, z;
} emulated_thread, emulated_block, emulated_block_dim, emulated_grid_dim;
struct emulated_index emulated_thread, emulated_block;
struct emulated_index emulated_block_dim, emulated_grid_dim;

void emulated_barrier(const char *file, int line);
uint64_t emulated_shuffle(
    const char *file, int line, unsigned mask, uint64_t bits, unsigned source);

/* Shared memory of all kernels in this module, if there is any. */
extern char __start_emulated_shared[]
    __attribute__((weak, visibility("hidden")));
extern char __stop_emulated_shared[]
    __attribute__((weak, visibility("hidden")));

enum state {
    FRESH,
    RUNNING, /* running, or ready */
    AT_BARRIER,
    AT_SHUFFLE,
    RETURNED,
};

static struct thread {
    enum state state;
    struct emulated_fiber *fiber;
    const char *file; /* position of its wait */
    int line;
} threads[THREADS_MAX];

static struct warp {
    unsigned waiting; /* lanes that wait at the shuffle */
    unsigned round;   /* lanes may be one ahead of others that read */
    uint64_t bits[2][WARP];
} warps[THREADS_MAX / WARP];

static const struct emulated_launch *launch; /* the running one, or NULL */
static unsigned thread_count, barrier_count;

/* Ready threads: taken from the front, the back or anywhere. */
static unsigned ready[THREADS_MAX], ready_first, ready_count;
/* A thread that was taken, but has its own fiber; or NOBODY. */
static unsigned taken;
#define NOBODY UINT_MAX

/* Fibers without a thread. */
static struct emulated_fiber *idle[THREADS_MAX];
static unsigned idle_count;

/* ---- messages ---- */

/* Cuts the kernel's name out of the arguments of gw_cuda_launch. */
static void kernel_name(const char *text, char *name, size_t bytes)
{
    int depth = 0, argument = 0;
    size_t n = 0;
    for (; *text && argument < 4; text++) {
        depth += strchr("([{", *text) != NULL;
        depth -= strchr(")]}", *text) != NULL;
        if (*text == ',' && depth == 0)
            argument++;
        else if (argument == 3 && n + 1 < bytes && (n > 0 || *text != ' '))
            name[n++] = *text;
    }
    name[n] = '\0';
}

void emulated_where(char *text, size_t bytes)
{
    char name[128];
    *text = '\0';
    if (!launch)
        return;
    kernel_name(launch->text, name, sizeof name);
    snprintf(text, bytes, "kernel %s (%s:%d), block (%u, %u, %u), thread %u",
             name, launch->file, launch->line, emulated_block.x,
             emulated_block.y, emulated_block.z, emulated_thread.x);
}

static int alike(const struct thread *a, const struct thread *b)
{
    return a->state == b->state && a->line == b->line && a->file == b->file;
}

/* Prints "threads 1.. (31 of them) wait at a.cu:7" for each such place. */
static _Noreturn void nobody_can_go_on(void)
{
    static const char *const words[] = {
        [FRESH] = "have not begun",
        [RUNNING] = "run",
        [AT_BARRIER] = "wait at __syncthreads",
        [AT_SHUFFLE] = "wait at a shuffle",
        [RETURNED] = "have returned",
    };
    char text[768] = "", where[128];
    size_t used = 0;
    for (unsigned t = 0; t < thread_count; t++) {
        unsigned first = 0, same = 0;
        while (!alike(&threads[first], &threads[t]))
            first++;
        if (first < t)
            continue;
        for (unsigned other = t; other < thread_count; other++)
            same += (unsigned)alike(&threads[other], &threads[t]);
        snprintf(where, sizeof where, ", %s:%d", threads[t].file,
                 threads[t].line);
        int n = snprintf(text + used, sizeof text - used,
                         "; %u threads, the first %u, %s%s", same, t,
                         words[threads[t].state],
                         threads[t].state == RETURNED ? "" : where);
        used += n > 0 ? (size_t)n : 0;
        if (used >= sizeof text)
            break;
    }
    emulated_wrong("not all %u threads come to one place%s", thread_count,
                   text);
}

/* ---- scheduling ---- */

static void make_ready(unsigned thread)
{
    ready[(ready_first + ready_count++) % THREADS_MAX] = thread;
}

static void make_all_ready(unsigned first, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        make_ready(first + i);
}

static unsigned take_ready(void)
{
    if (taken != NOBODY) {
        unsigned thread = taken;
        taken = NOBODY;
        return thread;
    }
    unsigned at = 0, last = (ready_first + --ready_count) % THREADS_MAX;
    switch (emulated_now.order) {
    case EMULATED_REVERSE:
        return ready[last];
    case EMULATED_RANDOM:
        at = emulated_draw(ready_count + 1);
        break;
    case EMULATED_FORWARD:
        break;
    }
    at = (ready_first + at) % THREADS_MAX;
    unsigned thread = ready[at];
    ready[at] = ready[ready_first];
    ready_first = (ready_first + 1) % THREADS_MAX;
    return thread;
}

/* ---- threads ---- */

/* Fresh threads that end without waiting share a fiber, without a switch. */
static void run_threads(void)
{
    for (;;) {
        struct thread *self = &threads[emulated_thread.x];
        self->state = RUNNING;
        launch->thread(launch->call);
        self->state = RETURNED;
        self->file = NULL, self->line = 0;
        if (ready_count == 0)
            return;
        unsigned next = take_ready();
        if (threads[next].state != FRESH) {
            taken = next;
            return;
        }
        emulated_thread.x = next;
        threads[next].fiber = self->fiber;
    }
}

static void resume(unsigned thread)
{
    emulated_thread.x = thread;
    if (threads[thread].state == FRESH)
        threads[thread].fiber = idle_count > 0
                                    ? idle[--idle_count]
                                    : emulated_fiber_new(run_threads);
    struct emulated_fiber *fiber = threads[thread].fiber;
    emulated_fiber_resume(fiber);
    /* the fiber may have moved on to other threads */
    if (threads[emulated_thread.x].state == RETURNED)
        idle[idle_count++] = fiber;
}

static void wait_for_others(enum state state, const char *file, int line)
{
    unsigned thread = emulated_thread.x;
    struct thread *self = &threads[thread];
    self->state = state;
    self->file = file, self->line = line;
    emulated_fiber_yield(self->fiber);
    self->state = RUNNING;
}

void emulated_barrier(const char *file, int line)
{
    barrier_count++;
    wait_for_others(AT_BARRIER, file, line);
}

static void open_barrier(void)
{
    for (unsigned t = 1; t < thread_count; t++)
        if (!alike(&threads[t], &threads[0]))
            nobody_can_go_on();
    barrier_count = 0;
    make_all_ready(0, thread_count);
}

static void open_shuffle(unsigned first)
{
    struct warp *warp = &warps[first / WARP];
    for (unsigned t = first; t < first + WARP; t++)
        if (threads[t].line != threads[first].line ||
            threads[t].file != threads[first].file)
            nobody_can_go_on();
    warp->waiting = 0;
    warp->round++;
}

uint64_t emulated_shuffle(
    const char *file, int line, unsigned mask, uint64_t bits, unsigned source)
{
    unsigned thread = emulated_thread.x, first = thread - thread % WARP;
    struct warp *warp = &warps[thread / WARP];
    if (mask != UINT32_MAX)
        emulated_wrong("a shuffle at %s:%d with mask %#x, not of a whole warp",
                       file, line, mask);
    if (first + WARP > thread_count)
        emulated_wrong("a shuffle at %s:%d in a warp of %u threads", file, line,
                       thread_count - first);
    uint64_t *slots = warp->bits[warp->round % 2];
    slots[thread % WARP] = bits;
    if (++warp->waiting < WARP) {
        wait_for_others(AT_SHUFFLE, file, line);
        return slots[source];
    }
    threads[thread].state = AT_SHUFFLE;
    threads[thread].file = file, threads[thread].line = line;
    open_shuffle(first);
    for (unsigned t = first; t < first + WARP; t++)
        if (t != thread)
            make_ready(t);
    threads[thread].state = RUNNING;
    return slots[source];
}

/* ---- blocks ---- */

static void run_block(void)
{
    if (__start_emulated_shared)
        memset(__start_emulated_shared, GARBAGE,
               (size_t)(__stop_emulated_shared - __start_emulated_shared));
    barrier_count = ready_first = ready_count = 0;
    taken = NOBODY;
    for (unsigned t = 0; t < thread_count; t++) {
        threads[t] = (struct thread){.state = FRESH};
        warps[t / WARP].waiting = 0;
    }
    make_all_ready(0, thread_count);
    for (;;) {
        while (ready_count > 0 || taken != NOBODY)
            resume(take_ready());
        if (barrier_count == thread_count) {
            open_barrier();
            continue;
        }
        for (unsigned t = 0; t < thread_count; t++)
            if (threads[t].state != RETURNED)
                nobody_can_go_on();
        return;
    }
}

/* A stride with which a walk modulo n visits each number once. */
static uint64_t stride_of(uint64_t n)
{
    uint64_t stride = n > 1 ? 1 + emulated_draw(UINT32_MAX) % n : 1;
    for (;; stride++) {
        uint64_t a = n, b = stride;
        while (b > 0) {
            uint64_t rest = a % b;
            a = b;
            b = rest;
        }
        if (a == 1)
            return stride;
    }
}

static uint64_t block_at(uint64_t turn, uint64_t n, uint64_t stride)
{
    if (emulated_now.order == EMULATED_RANDOM)
        return turn * stride % n;
    return emulated_now.order == EMULATED_REVERSE ? n - 1 - turn : turn;
}

static void check_pointers(void)
{
    for (unsigned i = 0; i < launch->pointer_count; i++)
        if (launch->pointers[i] &&
            emulated_find("a kernel's argument", launch->pointers[i], 0) ==
                EMULATED_PAGEABLE)
            emulated_wrong("argument %u of the kernel, %p, is no memory of the "
                           "device and is not pinned",
                           i, launch->pointers[i]);
}

static void run_grid(void)
{
    uint64_t xs = launch->grid[0], ys = launch->grid[1];
    uint64_t n = xs * ys * launch->grid[2], stride = stride_of(n);
    for (uint64_t turn = 0; turn < n; turn++) {
        uint64_t at = block_at(turn, n, stride);
        emulated_block.x = (unsigned)(at % xs);
        emulated_block.y = (unsigned)(at / xs % ys);
        emulated_block.z = (unsigned)(at / xs / ys);
        run_block();
    }
}

/* ---- launches: a struct emulated_launch, its pointers, its call ---- */

static size_t aligned(size_t bytes)
{
    return (bytes + 15) / 16 * 16;
}

static size_t pointer_bytes(const struct emulated_launch *asked)
{
    return aligned(asked->pointer_count * sizeof *asked->pointers);
}

static void run_launch(const void *argument)
{
    struct emulated_launch now = *(const struct emulated_launch *)argument;
    const char *rest = (const char *)argument + aligned(sizeof now);
    now.pointers = (const void *const *)(const void *)rest;
    now.call = rest + pointer_bytes(&now);
    launch = &now;
    thread_count = now.block[0];
    emulated_block_dim = (struct emulated_index){thread_count, 1, 1};
    emulated_grid_dim =
        (struct emulated_index){now.grid[0], now.grid[1], now.grid[2]};
    emulated_thread = emulated_block = (struct emulated_index){0};
    check_pointers();
    run_grid();
    launch = NULL;
}

static int is_launchable(const struct emulated_launch *asked)
{
    const unsigned *grid = asked->grid, *block = asked->block;
    if (block[1] != 1 || block[2] != 1)
        emulated_wrong("%s:%d: a block of two dimensions", asked->file,
                       asked->line);
    return grid[0] > 0 && grid[0] <= INT32_MAX && grid[1] > 0 &&
           grid[1] <= 65535 && grid[2] > 0 && grid[2] <= 65535 &&
           block[0] > 0 && block[0] <= THREADS_MAX;
}

cudaError_t emulated_queue_launch(const struct emulated_launch *asked,
                                  cudaStream_t stream)
{
    cudaError_t error = emulated_enter_device();
    if (error != cudaSuccess)
        return emulated_leave(error);
    if (!is_launchable(asked))
        return emulated_leave(cudaErrorInvalidConfiguration);
    size_t head = aligned(sizeof *asked), pointers = pointer_bytes(asked);
    char *all = calloc(1, head + pointers + asked->call_bytes);
    if (!all)
        emulated_wrong("no memory for a launch");
    memcpy(all, asked, sizeof *asked);
    memcpy(all + head, asked->pointers,
           asked->pointer_count * sizeof *asked->pointers);
    memcpy(all + head + pointers, asked->call, asked->call_bytes);
    error = emulated_queue(stream, "a kernel", run_launch, all,
                           head + pointers + asked->call_bytes);
    free(all);
    return emulated_leave(error);
}
