/*
 * Fibers: a simulated worker computes and waits in ordinary blocking code while
 * nothing else runs in its thread. On the C library's contexts; the address
 * and thread sanitizers are told about every switch.
 */
#include "config.h"

#include "transport/sim_world.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

/* Below a stack lies a guard: what overflows it faults, and changes nothing. */
#define STACK_BYTES ((size_t)1 << 20)
#define GUARD_BYTES ((size_t)64 << 10)

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

/* ---- what the sanitizers are told ---- */

/* The linker takes those that the sanitizer at hand has; mostly none. */
__attribute__((weak)) void
__sanitizer_start_switch_fiber(void **fake, const void *bottom, size_t bytes);
__attribute__((weak)) void
__sanitizer_finish_switch_fiber(void *fake, const void **bottom, size_t *bytes);
__attribute__((weak)) void *__tsan_get_current_fiber(void);
__attribute__((weak)) void *__tsan_create_fiber(unsigned flags);
__attribute__((weak)) void __tsan_destroy_fiber(void *fiber);
__attribute__((weak)) void __tsan_switch_to_fiber(void *fiber, unsigned flags);

/* The thread sanitizer counts calls and returns per fiber, so whatever switches
   must not be a call of its own. */
#define SWITCHES __attribute__((always_inline)) static inline

static void tell_new(struct gw_sim_fiber *fiber)
{
    if (__tsan_create_fiber)
        fiber->inside_thread = __tsan_create_fiber(0);
}

static void tell_free(struct gw_sim_fiber *fiber)
{
    if (__tsan_destroy_fiber)
        __tsan_destroy_fiber(fiber->inside_thread);
}

SWITCHES void tell_going_in(struct gw_sim_fiber *fiber)
{
    if (__sanitizer_start_switch_fiber)
        __sanitizer_start_switch_fiber(&fiber->outside_fake, fiber->stack,
                                       STACK_BYTES);
    if (__tsan_switch_to_fiber) {
        fiber->outside_thread = __tsan_get_current_fiber();
        __tsan_switch_to_fiber(fiber->inside_thread, 0);
    }
}

static void tell_is_in(struct gw_sim_fiber *fiber)
{
    if (__sanitizer_finish_switch_fiber)
        __sanitizer_finish_switch_fiber(
            fiber->inside_fake, &fiber->outside_stack, &fiber->outside_bytes);
}

/* A fiber that has finished gives its fake stack up (NULL). */
SWITCHES void tell_going_out(struct gw_sim_fiber *fiber)
{
    if (__sanitizer_start_switch_fiber)
        __sanitizer_start_switch_fiber(
            fiber->finished ? NULL : &fiber->inside_fake, fiber->outside_stack,
            fiber->outside_bytes);
    if (__tsan_switch_to_fiber)
        __tsan_switch_to_fiber(fiber->outside_thread, 0);
}

static void tell_is_out(struct gw_sim_fiber *fiber)
{
    if (__sanitizer_finish_switch_fiber)
        __sanitizer_finish_switch_fiber(fiber->outside_fake, NULL, NULL);
}

/* ---- fibers ---- */

/* makecontext passes ints only: a pointer comes in two halves. */
static void enter(unsigned high, unsigned low)
{
    struct gw_sim_fiber *fiber =
        (struct gw_sim_fiber *)((uintptr_t)high << 32 | low);
    tell_is_in(fiber);
    fiber->main(fiber->argument);
    fiber->finished = 1;
    tell_going_out(fiber);
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
    char *memory = mmap(NULL, GUARD_BYTES + STACK_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (memory == MAP_FAILED) {
        free(fiber);
        return gw_fail(error, GW_ENOMEM, "no memory for a fiber's stack");
    }
    mprotect(memory, GUARD_BYTES, PROT_NONE);
    fiber->stack = memory + GUARD_BYTES;
    fiber->main = main;
    fiber->argument = argument;
    getcontext(&fiber->inside);
    fiber->inside.uc_stack.ss_sp = fiber->stack;
    fiber->inside.uc_stack.ss_size = STACK_BYTES;
    fiber->inside.uc_link = NULL;
    uintptr_t self = (uintptr_t)fiber;
    makecontext(&fiber->inside, (void (*)(void))enter, 2,
                (unsigned)(self >> 32), (unsigned)self);
    tell_new(fiber);
    *fiber_p = fiber;
    return GW_OK;
}

void gw_sim_fiber_free(struct gw_sim_fiber *fiber)
{
    if (!fiber)
        return;
    tell_free(fiber);
    munmap((char *)fiber->stack - GUARD_BYTES, GUARD_BYTES + STACK_BYTES);
    free(fiber);
}

int gw_sim_fiber_resume(struct gw_sim_fiber *fiber)
{
    tell_going_in(fiber);
    swapcontext(&fiber->outside, &fiber->inside);
    tell_is_out(fiber);
    return !fiber->finished;
}

void gw_sim_fiber_yield(struct gw_sim_fiber *fiber)
{
    tell_going_out(fiber);
    swapcontext(&fiber->inside, &fiber->outside);
    tell_is_in(fiber);
}
