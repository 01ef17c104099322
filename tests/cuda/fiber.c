/*
 * Fibers for the threads of a block: millions of switches, so without the
 * system calls of swapcontext where we know the machine. The sanitizers are
 * told about every switch, as in transport/sim_fiber.c.
 */
#include "config.h"

#include "tests/cuda/inside.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

/* Below a stack lies a guard: what overflows it faults, and changes nothing. */
#define STACK_BYTES ((size_t)128 << 10)
#define GUARD_BYTES ((size_t)4 << 10)

struct emulated_fiber {
    void *inside, *outside; /* stack pointers of who does not run */
    ucontext_t inside_context, outside_context; /* where there is no fast way */
    void (*main)(void);
    char *stack;
    /* what the sanitizers keep for a stack that is not running */
    void *inside_fake, *outside_fake;
    const void *outside_stack;
    size_t outside_bytes;
    void *inside_thread, *outside_thread;
};

/* ---- what the sanitizers are told ---- */

__attribute__((weak)) void
__sanitizer_start_switch_fiber(void **fake, const void *bottom, size_t bytes);
__attribute__((weak)) void
__sanitizer_finish_switch_fiber(void *fake, const void **bottom, size_t *bytes);
__attribute__((weak)) void *__tsan_get_current_fiber(void);
__attribute__((weak)) void *__tsan_create_fiber(unsigned flags);
__attribute__((weak)) void __tsan_switch_to_fiber(void *fiber, unsigned flags);

/* The thread sanitizer counts calls and returns per fiber, so whatever switches
   must not be a call of its own. */
#define SWITCHES __attribute__((always_inline)) static inline

SWITCHES void tell_going_in(struct emulated_fiber *fiber)
{
    if (__sanitizer_start_switch_fiber)
        __sanitizer_start_switch_fiber(&fiber->outside_fake, fiber->stack,
                                       STACK_BYTES);
    if (__tsan_switch_to_fiber) {
        fiber->outside_thread = __tsan_get_current_fiber();
        __tsan_switch_to_fiber(fiber->inside_thread, 0);
    }
}

static void tell_is_in(struct emulated_fiber *fiber)
{
    if (__sanitizer_finish_switch_fiber)
        __sanitizer_finish_switch_fiber(
            fiber->inside_fake, &fiber->outside_stack, &fiber->outside_bytes);
}

SWITCHES void tell_going_out(struct emulated_fiber *fiber)
{
    if (__sanitizer_start_switch_fiber)
        __sanitizer_start_switch_fiber(
            &fiber->inside_fake, fiber->outside_stack, fiber->outside_bytes);
    if (__tsan_switch_to_fiber)
        __tsan_switch_to_fiber(fiber->outside_thread, 0);
}

static void tell_is_out(struct emulated_fiber *fiber)
{
    if (__sanitizer_finish_switch_fiber)
        __sanitizer_finish_switch_fiber(fiber->outside_fake, NULL, NULL);
}

/* ---- switching ---- */

#if defined __x86_64__

/* Leaves what a function must keep on this stack, and goes on with another. */
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

SWITCHES void go_in(struct emulated_fiber *fiber)
{
    emulated_switch(&fiber->outside, fiber->inside);
}

SWITCHES void go_out(struct emulated_fiber *fiber)
{
    emulated_switch(&fiber->inside, fiber->outside);
}

/* A stack as if it had been left at the beginning of `enter`, which must find
   it as after a call. */
static void prepare(struct emulated_fiber *fiber, void (*enter)(void))
{
    void **top = (void **)(void *)(fiber->stack + STACK_BYTES);
    *--top = NULL; /* who called */
    *--top = (void *)(uintptr_t)enter;
    for (int kept = 0; kept < 6; kept++)
        *--top = NULL;
    fiber->inside = top;
}

#else

SWITCHES void go_in(struct emulated_fiber *fiber)
{
    swapcontext(&fiber->outside_context, &fiber->inside_context);
}

SWITCHES void go_out(struct emulated_fiber *fiber)
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
    tell_is_in(fiber);
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
    if (__tsan_create_fiber)
        fiber->inside_thread = __tsan_create_fiber(0);
    prepare(fiber, enter);
    return fiber;
}

void emulated_fiber_resume(struct emulated_fiber *fiber)
{
    entered = fiber;
    tell_going_in(fiber);
    go_in(fiber);
    tell_is_out(fiber);
}

void emulated_fiber_yield(struct emulated_fiber *fiber)
{
    tell_going_out(fiber);
    go_out(fiber);
    tell_is_in(fiber);
}
