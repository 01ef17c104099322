/*
 * Fibers: a simulated worker computes and waits in ordinary blocking code while
 * nothing else runs in its thread. On the C library's contexts; the address and
 * thread sanitizers are told about every switch.
 */
#include "config.h"

#include "transport/sim/sim_world.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "transport/sim/fiber_tell.h"

/* A guard lies below each stack: an overflow faults, and changes nothing. */
#define STACK_BYTES ((size_t)1 << 20)
#define GUARD_BYTES ((size_t)64 << 10)

struct gw_sim_fiber {
    ucontext_t inside, outside;
    void (*main)(void *argument);
    void *argument;
    int finished;
    void *stack;
    struct gw_fiber_told told;
};

/* makecontext passes ints only: the pointer is split in two. */
static void enter(unsigned high, unsigned low)
{
    struct gw_sim_fiber *fiber =
        (struct gw_sim_fiber *)((uintptr_t)high << 32 | low);
    gw_fiber_tell_is_in(&fiber->told);
    fiber->main(fiber->argument);
    fiber->finished = 1;
    gw_fiber_tell_going_out(&fiber->told, 1);
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
    gw_fiber_tell_new(&fiber->told, fiber->stack, STACK_BYTES);
    *fiber_p = fiber;
    return GW_OK;
}

void gw_sim_fiber_free(struct gw_sim_fiber *fiber)
{
    if (!fiber)
        return;
    gw_fiber_tell_free(&fiber->told);
    munmap((char *)fiber->stack - GUARD_BYTES, GUARD_BYTES + STACK_BYTES);
    free(fiber);
}

int gw_sim_fiber_resume(struct gw_sim_fiber *fiber)
{
    gw_fiber_tell_going_in(&fiber->told);
    swapcontext(&fiber->outside, &fiber->inside);
    gw_fiber_tell_is_out(&fiber->told);
    return !fiber->finished;
}

void gw_sim_fiber_yield(struct gw_sim_fiber *fiber)
{
    gw_fiber_tell_going_out(&fiber->told, 0);
    swapcontext(&fiber->inside, &fiber->outside);
    gw_fiber_tell_is_in(&fiber->told);
}
