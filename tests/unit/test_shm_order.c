/*
 * A link in shared memory: who is told of bytes sees them (docs/design.md,
 * "Order in shared memory"), by patterns, and by the thread sanitizer. Two
 * threads converse, and neither sleeps; test_shm_meet has what acquire and
 * release do not give.
 */
#include "config.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/shm_couple.h"

#define FOR_US   1000000 /* a conversation, which has at least */
#define AT_LEAST 400     /* frames */

static int is_quiet(const struct shm_end *end)
{
    for (int i = 0; i < SHM_COUPLE_SENDS; i++)
        if (end->put[i].busy || !end->put[i].heard || end->answer_busy[i])
            return 0;
    return 1;
}

static int goes_on(const struct shm_end *end)
{
    return !end->wrong && end->link;
}

/* Messages as there is room, and puts into places that were judged. */
static void begin_all(struct shm_end *end)
{
    for (uint32_t i = 0; i < SHM_COUPLE_SENDS; i++)
        if (!end->put[i].busy)
            shm_begin(end, i, !end->put[i].heard || shm_draw(end) % 2 == 0,
                      1 + shm_draw(end) % SHM_COUPLE_WORDS);
}

/* Ends when it is time and all puts are answered. */
static void *converse(void *owner)
{
    struct shm_couple *couple = owner;
    struct shm_end *end = &couple->b;
    uint64_t until = gw_loop_now(end->loop) + FOR_US;
    int more = 1;
    shm_go_elsewhere(couple);
    while (!atomic_load(&couple->stop) && goes_on(end) &&
           (more || !is_quiet(end))) {
        if (more)
            begin_all(end);
        shm_wait_a_little(end, 512);
        shm_look(end);
        more = gw_loop_now(end->loop) < until || end->sent < AT_LEAST;
    }
    atomic_store(&couple->stop, 1);
    return NULL;
}

static void who_is_told_sees(void **state)
{
    struct shm_couple *couple = shm_couple_open();
    struct shm_end *a = &couple->a, *b = &couple->b;
    pthread_t thread;
    (void)state;
    a->judges = 1;
    assert_int_equal(pthread_create(&thread, NULL, converse, couple), 0);
    while (!atomic_load(&couple->stop) && goes_on(a))
        shm_look(a);
    atomic_store(&couple->stop, 1);
    pthread_join(thread, NULL);
    print_message("# %d frames\n", (int)b->sent);
    assert_int_equal(a->wrong + b->wrong, 0);
    assert_true(b->sent >= AT_LEAST && b->answered == b->puts);
    shm_couple_close(couple);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_is_told_sees),
    };
    return cmocka_run_group_tests_name("shm order", tests, NULL, NULL);
}
