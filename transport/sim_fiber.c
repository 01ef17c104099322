/*
 * Fibers: a simulated worker computes and waits in ordinary blocking code while
 * exactly one thing runs at a time. On the C library's contexts; the address
 * and thread sanitizers are told about every switch.
 */
#include "config.h"

#include "transport/sim_world.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HAVE_FIBER_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define HAVE_FIBER_SANITIZER 1
#endif
#endif

#define STACK_BYTES ((size_t)1 << 20)

struct gw_sim_fiber {
    ucontext_t inside, outside;
    void (*main)(void *argument);
    void *argument;
    int finished;
    void *stack;
    /* what the sanitizers keep for a stack that is not running */
    void *inside_fake, *outside_fake;
    const void *outside_stack;
    size_t outside_bytes;
    void *inside_thread, *outside_thread;
};

#ifdef HAVE_FIBER_SANITIZER
#include "transport/sim_fiber_sanitizer.h"
#else
static void sanitizer_new(struct gw_sim_fiber *fiber)
{
    (void)fiber;
}
static void sanitizer_free(struct gw_sim_fiber *fiber)
{
    (void)fiber;
}
static void sanitizer_go_in(struct gw_sim_fiber *fiber)
{
    (void)fiber;
}
static void sanitizer_is_in(struct gw_sim_fiber *fiber)
{
    (void)fiber;
}
static void sanitizer_go_out(struct gw_sim_fiber *fiber)
{
    (void)fiber;
}
static void sanitizer_is_out(struct gw_sim_fiber *fiber)
{
    (void)fiber;
}
#endif

/* makecontext passes ints only: a pointer comes in two halves. */
static void enter(unsigned high, unsigned low)
{
    struct gw_sim_fiber *fiber =
        (struct gw_sim_fiber *)((uintptr_t)high << 32 | low);
    sanitizer_is_in(fiber);
    fiber->main(fiber->argument);
    fiber->finished = 1;
    sanitizer_go_out(fiber);
    swapcontext(&fiber->inside, &fiber->outside);
}

enum gw_status gw_sim_fiber_new(void (*main)(void *argument),
                                void *argument,
                                struct gw_sim_fiber **fiber_p,
                                struct gw_error *error)
{
    struct gw_sim_fiber *fiber = calloc(1, sizeof *fiber);
    if (!fiber)
        return gw_fail(error, GW_ENOMEM, "no memory for a fiber");
    fiber->stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (fiber->stack == MAP_FAILED) {
        free(fiber);
        return gw_fail(error, GW_ENOMEM, "no memory for a fiber's stack");
    }
    fiber->main = main;
    fiber->argument = argument;
    getcontext(&fiber->inside);
    fiber->inside.uc_stack.ss_sp = fiber->stack;
    fiber->inside.uc_stack.ss_size = STACK_BYTES;
    fiber->inside.uc_link = NULL;
    uintptr_t self = (uintptr_t)fiber;
    makecontext(&fiber->inside, (void (*)(void))enter, 2,
                (unsigned)(self >> 32), (unsigned)self);
    sanitizer_new(fiber);
    *fiber_p = fiber;
    return GW_OK;
}

void gw_sim_fiber_free(struct gw_sim_fiber *fiber)
{
    if (!fiber)
        return;
    sanitizer_free(fiber);
    munmap(fiber->stack, STACK_BYTES);
    free(fiber);
}

int gw_sim_fiber_resume(struct gw_sim_fiber *fiber)
{
    sanitizer_go_in(fiber);
    swapcontext(&fiber->outside, &fiber->inside);
    sanitizer_is_out(fiber);
    return !fiber->finished;
}

void gw_sim_fiber_yield(struct gw_sim_fiber *fiber)
{
    sanitizer_go_out(fiber);
    swapcontext(&fiber->inside, &fiber->outside);
    sanitizer_is_in(fiber);
}
