/*
 * The order in which two threads see each other's writes to a link in shared
 * memory (docs/design.md, "Order in shared memory"):
 *
 *   who is told of bytes sees them    patterns, and the thread sanitizer
 *   a closed window stays as it is    closed in the middle of puts
 *
 * The third promise, that who sleeps is woken, is test_shm_sleep's.
 */
#include "config.h"

#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/shm_couple.h"

#define FOR_US    1000000 /* a conversation, which has at least */
#define AT_LEAST  400     /* frames */
#define LOST_MS   20000   /* nobody is busy for so long */
#define ROUNDS    300     /* of a window that is closed */
#define SMALL_PUT 2048u   /* words; of one that is written directly */

/* ---- who is told of bytes sees them ---- */

static void turn(struct shm_end *end)
{
    struct gw_shm_link *link = gw_shm_link_of(end->link);
    struct pollfd wakes = {.fd = link->fd, .events = POLLIN};
    if (shm_look(end) || shm_arm_and_look(end))
        return;
    end->lost = poll(&wakes, 1, LOST_MS) == 0;
    gw_shm_hear(link);
}

static int is_quiet(const struct shm_end *end)
{
    for (int i = 0; i < SHM_COUPLE_SENDS; i++)
        if (end->put[i].busy || !end->put[i].heard || end->answer_busy[i])
            return 0;
    return 1;
}

static int goes_on(const struct shm_end *end)
{
    return !end->lost && !end->wrong && end->link;
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
    while (goes_on(end) && (more || !is_quiet(end))) {
        if (more)
            begin_all(end);
        shm_wait_a_little(end, 512);
        turn(end);
        more = gw_loop_now(end->loop) < until || end->sent < AT_LEAST;
    }
    atomic_store(&couple->stop, 1);
    /* which it looks at when it is woken */
    if (end->link)
        gw_shm_say(gw_shm_link_of(end->link), (const uint8_t[4]){GW_SHM_WAKE},
                   4, -1);
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
        turn(a);
    if (!goes_on(a))
        gw_link_close(a->link), a->link = NULL; /* b ends with it */
    pthread_join(thread, NULL);
    print_message("# %d frames\n", (int)b->sent);
    assert_int_equal(a->wrong + b->wrong, 0);
    assert_int_equal(a->lost + b->lost, 0);
    assert_true(b->sent >= AT_LEAST && b->answered == b->puts);
    shm_couple_close(couple);
}

/* ---- a closed window stays as it is ---- */

/* Many small puts, each of which asks whether the window is open. */
static void *put_on(void *owner)
{
    struct shm_couple *couple = owner;
    struct shm_end *end = &couple->b;
    shm_go_elsewhere(couple);
    while (!atomic_load(&couple->stop) && end->link) {
        for (uint32_t i = 0; i < SHM_COUPLE_SENDS; i++)
            if (!end->put[i].busy)
                shm_begin(end, i, 0, SMALL_PUT);
        shm_look(end);
    }
    return NULL;
}

/* A put that goes on writes its last word last. */
static int is_written(struct shm_end *end)
{
    volatile uint32_t *word = end->memory.base;
    int written = 0;
    word += SMALL_PUT - 1;
    for (uint32_t i = 0; i < SHM_COUPLE_SENDS; i++)
        word[i * SHM_COUPLE_WORDS] = 0;
    shm_wait_a_little(end, 20000);
    for (uint32_t i = 0; i < SHM_COUPLE_SENDS; i++)
        written |= word[i * SHM_COUPLE_WORDS] != 0;
    return written;
}

/* A peer that is held in the middle of a write breaks its link, and may go on
   writing. */
static int is_written_when_closed(uint64_t round)
{
    struct shm_couple *couple = shm_couple_open();
    struct shm_end *a = &couple->a;
    pthread_t thread;
    a->random = round;
    assert_int_equal(pthread_create(&thread, NULL, put_on, couple), 0);
    while (a->got < 20 && a->link)
        shm_look(a);
    assert_non_null(a->link);
    /* what was just read the peer has to get back: it is slow to write there */
    for (uint32_t i = shm_draw(a) % 32; i > 0; i--)
        shm_look(a);
    gw_window_close(&a->windows, a->window);
    int written = !gw_shm_link_of(a->link)->broken && is_written(a);
    atomic_store(&couple->stop, 1);
    pthread_join(thread, NULL);
    shm_couple_close(couple);
    return written;
}

static void a_closed_window_stays_as_it_is(void **state)
{
    int written = 0;
    (void)state;
    for (uint64_t round = 1; round <= ROUNDS; round++)
        written += is_written_when_closed(round);
    assert_int_equal(written, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_is_told_sees),
        cmocka_unit_test(a_closed_window_stays_as_it_is),
    };
    return cmocka_run_group_tests_name("shm order", tests, NULL, NULL);
}
