/*
 * Tells the address and thread sanitizers about fibers: each new one, and every
 * switch, on both sides of it. For code that switches stacks itself
 * (sim_fiber.c, and the emulated CUDA of the tests).
 */
#ifndef GW_TRANSPORT_FIBER_TELL_H
#define GW_TRANSPORT_FIBER_TELL_H

#include <stddef.h>

/* State of the sanitizers for a stack that is not running: of the fiber,
   "inside", and of its resumer. */
struct gw_fiber_told {
    const void *stack; /* lowest address of the fiber's */
    size_t bytes;
    void *inside_fake, *outside_fake;
    const void *outside_stack;
    size_t outside_bytes;
    void *inside_thread, *outside_thread;
};

/* Weak: the linker finds the functions of the sanitizer in use, mostly none. */
__attribute__((weak)) void
__sanitizer_start_switch_fiber(void **fake, const void *bottom, size_t bytes);
__attribute__((weak)) void
__sanitizer_finish_switch_fiber(void *fake, const void **bottom, size_t *bytes);
__attribute__((weak)) void *__tsan_get_current_fiber(void);
__attribute__((weak)) void *__tsan_create_fiber(unsigned flags);
__attribute__((weak)) void __tsan_destroy_fiber(void *fiber);
__attribute__((weak)) void __tsan_switch_to_fiber(void *fiber, unsigned flags);

/* The thread sanitizer counts calls and returns per fiber, so the switching
   code must not be a call of its own. */
#define GW_SWITCHES __attribute__((always_inline)) static inline

static inline void
gw_fiber_tell_new(struct gw_fiber_told *told, const void *stack, size_t bytes)
{
    *told = (struct gw_fiber_told){.stack = stack, .bytes = bytes};
    if (__tsan_create_fiber)
        told->inside_thread = __tsan_create_fiber(0);
}

static inline void gw_fiber_tell_free(struct gw_fiber_told *told)
{
    if (__tsan_destroy_fiber)
        __tsan_destroy_fiber(told->inside_thread);
}

/* Called right before the switch to the fiber, and first of all in it. */
GW_SWITCHES void gw_fiber_tell_going_in(struct gw_fiber_told *told)
{
    if (__sanitizer_start_switch_fiber)
        __sanitizer_start_switch_fiber(&told->outside_fake, told->stack,
                                       told->bytes);
    if (__tsan_switch_to_fiber) {
        told->outside_thread = __tsan_get_current_fiber();
        __tsan_switch_to_fiber(told->inside_thread, 0);
    }
}

static inline void gw_fiber_tell_is_in(struct gw_fiber_told *told)
{
    if (__sanitizer_finish_switch_fiber)
        __sanitizer_finish_switch_fiber(told->inside_fake, &told->outside_stack,
                                        &told->outside_bytes);
}

/* Called right before the switch back, and first of all after it. A fiber that
   will not be resumed gives its fake stack up (NULL). */
GW_SWITCHES void gw_fiber_tell_going_out(struct gw_fiber_told *told,
                                         int finished)
{
    if (__sanitizer_start_switch_fiber)
        __sanitizer_start_switch_fiber(finished ? NULL : &told->inside_fake,
                                       told->outside_stack,
                                       told->outside_bytes);
    if (__tsan_switch_to_fiber)
        __tsan_switch_to_fiber(told->outside_thread, 0);
}

static inline void gw_fiber_tell_is_out(struct gw_fiber_told *told)
{
    if (__sanitizer_finish_switch_fiber)
        __sanitizer_finish_switch_fiber(told->outside_fake, NULL, NULL);
}

#endif
