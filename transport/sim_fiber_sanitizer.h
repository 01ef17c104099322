/*
 * The calls by which sim_fiber.c tells a sanitizer that the stack changes; the
 * linker takes those that the sanitizer at hand has.
 */
#ifndef GW_TRANSPORT_SIM_FIBER_SANITIZER_H
#define GW_TRANSPORT_SIM_FIBER_SANITIZER_H

#include <stddef.h>

__attribute__((weak)) void
__sanitizer_start_switch_fiber(void **fake, const void *bottom, size_t bytes);
__attribute__((weak)) void
__sanitizer_finish_switch_fiber(void *fake, const void **bottom, size_t *bytes);
__attribute__((weak)) void *__tsan_get_current_fiber(void);
__attribute__((weak)) void *__tsan_create_fiber(unsigned flags);
__attribute__((weak)) void __tsan_destroy_fiber(void *fiber);
__attribute__((weak)) void __tsan_switch_to_fiber(void *fiber, unsigned flags);

static void sanitizer_new(struct gw_sim_fiber *fiber)
{
    if (__tsan_create_fiber)
        fiber->inside_thread = __tsan_create_fiber(0);
}

static void sanitizer_free(struct gw_sim_fiber *fiber)
{
    if (__tsan_destroy_fiber)
        __tsan_destroy_fiber(fiber->inside_thread);
}

static void sanitizer_go_in(struct gw_sim_fiber *fiber)
{
    if (__sanitizer_start_switch_fiber)
        __sanitizer_start_switch_fiber(&fiber->outside_fake, fiber->stack,
                                       STACK_BYTES);
    if (__tsan_switch_to_fiber) {
        fiber->outside_thread = __tsan_get_current_fiber();
        __tsan_switch_to_fiber(fiber->inside_thread, 0);
    }
}

static void sanitizer_is_in(struct gw_sim_fiber *fiber)
{
    if (__sanitizer_finish_switch_fiber)
        __sanitizer_finish_switch_fiber(
            fiber->inside_fake, &fiber->outside_stack, &fiber->outside_bytes);
}

/* A fiber that has finished gives its fake stack up (NULL). */
static void sanitizer_go_out(struct gw_sim_fiber *fiber)
{
    if (__sanitizer_start_switch_fiber)
        __sanitizer_start_switch_fiber(
            fiber->finished ? NULL : &fiber->inside_fake, fiber->outside_stack,
            fiber->outside_bytes);
    if (__tsan_switch_to_fiber)
        __tsan_switch_to_fiber(fiber->outside_thread, 0);
}

static void sanitizer_is_out(struct gw_sim_fiber *fiber)
{
    if (__sanitizer_finish_switch_fiber)
        __sanitizer_finish_switch_fiber(fiber->outside_fake, NULL, NULL);
}

#endif
