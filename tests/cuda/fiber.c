/*
 * Fibers for the threads of a block: with millions of switches, the system
 * calls of swapcontext are avoided on known machines. The sanitizers are told
 * of each switch (transport/sim/fiber_tell.h).
 */
#include "config.h"

#include "tests/cuda/inside.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "transport/sim/fiber_tell.h"

/* A guard page below each stack: an overflow faults and corrupts nothing. */
#define STACK_BYTES ((size_t)128 << 10)
#define GUARD_BYTES ((size_t)4 << 10)

struct emulated_fiber {
    void *inside, *outside; /* stack pointers of the suspended side */
    ucontext_t inside_context, outside_context; /* fallback of other machines */
    void (*main)(void);
    char *stack;
    struct gw_fiber_told told;
};

/* ---- switching ---- */

#if defined __x86_64__

/* Saves the callee-saved registers on this stack and continues on the other. */
void emulated_switch(void **from, void *to);
__asm__(".text\n"
        ".p2align 4\n"
        ".hidden emulated_switch\n"
        ".globl emulated_switch\n"
        ".type emulated_switch, @function\n"
        "emulated_switch:\n"
        "    pushq %rbp\n    pushq %rbx\n    pushq %r12\n"
        "    pushq %r13\n    pushq %r14\n    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n    popq %r14\n    popq %r13\n"
        "    popq %r12\n    popq %rbx\n    popq %rbp\n"
        "    ret\n"
        ".size emulated_switch, . - emulated_switch\n");

GW_SWITCHES void go_in(struct emulated_fiber *fiber)
{
    emulated_switch(&fiber->outside, fiber->inside);
}

GW_SWITCHES void go_out(struct emulated_fiber *fiber)
{
    emulated_switch(&fiber->inside, fiber->outside);
}

/* Prepares a stack as if it had been switched away at the start of `enter`,
   with the alignment of a call. */
static void prepare(struct emulated_fiber *fiber, void (*enter)(void))
{
    void **top = (void **)(void *)(fiber->stack + STACK_BYTES);
    *--top = NULL; /* return address */
    *--top = (void *)(uintptr_t)enter;
    for (int kept = 0; kept < 6; kept++)
        *--top = NULL;
    fiber->inside = top;
}

#else

GW_SWITCHES void go_in(struct emulated_fiber *fiber)
{
    swapcontext(&fiber->outside_context, &fiber->inside_context);
}

GW_SWITCHES void go_out(struct emulated_fiber *fiber)
{
    swapcontext(&fiber->inside_context, &fiber->outside_context);
}

static void prepare(struct emulated_fiber *fiber, void (*enter)(void))
{
    getcontext(&fiber->inside_context);
    fiber->inside_context.uc_stack.ss_sp = fiber->stack;
    fiber->inside_context.uc_stack.ss_size = STACK_BYTES;
    fiber->inside_context.uc_link = NULL;
    makecontext(&fiber->inside_context, enter, 0);
}

#endif

/* ---- fibers ---- */

static struct emulated_fiber *entered;

static void enter(void)
{
    struct emulated_fiber *fiber = entered;
    gw_fiber_tell_is_in(&fiber->told);
    for (;;) {
        fiber->main();
        emulated_fiber_yield(fiber);
    }
}

struct emulated_fiber *emulated_fiber_new(void (*main)(void))
{
    struct emulated_fiber *fiber = calloc(1, sizeof *fiber);
    char *memory = mmap(NULL, GUARD_BYTES + STACK_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (!fiber || memory == MAP_FAILED)
        emulated_wrong("no memory for a fiber");
    mprotect(memory, GUARD_BYTES, PROT_NONE);
    fiber->stack = memory + GUARD_BYTES;
    fiber->main = main;
    gw_fiber_tell_new(&fiber->told, fiber->stack, STACK_BYTES);
    prepare(fiber, enter);
    return fiber;
}

void emulated_fiber_resume(struct emulated_fiber *fiber)
{
    entered = fiber;
    gw_fiber_tell_going_in(&fiber->told);
    go_in(fiber);
    gw_fiber_tell_is_out(&fiber->told);
}

void emulated_fiber_yield(struct emulated_fiber *fiber)
{
    gw_fiber_tell_going_out(&fiber->told, 0);
    go_out(fiber);
    gw_fiber_tell_is_in(&fiber->told);
}
