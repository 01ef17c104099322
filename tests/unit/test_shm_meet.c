/*
 * A link in shared memory: where each side writes one word and then reads the
 * other's, one of them sees the other (docs/design.md, "Order in shared
 * memory"). Who goes to sleep, a moment before or after the peer does what
 * would wake it, is woken or has seen it; a window that is closed in the middle
 * of puts stays as it is. Both act at the same time, again and again.
 */
#include "config.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/shm_couple.h"

#define MEET_US   600000 /* each way of meeting */
#define ROUNDS    300    /* of a window that is closed */
#define SMALL_PUT 2048u  /* words; of one that is written directly */

/* An end's act while the peer does its part: `act` returns 1 where it would
   sleep, having found nothing, and `last` follows when both have done
   `after`. */
struct part {
    int sleeps; /* else nobody wakes it */
    void (*before)(struct shm_end *end);
    int (*act)(struct shm_end *end);
    void (*after)(struct shm_end *end);
    void (*last)(struct shm_end *end);
};

struct attendant {
    struct shm_couple *couple;
    struct shm_end *end;
    const struct part *part;
    int rounds;
};

/* Both go on at the same time, whoever came first. */
static void meet(struct shm_couple *couple, unsigned *times)
{
    unsigned both = 2 * ++*times;
    atomic_fetch_add(&couple->came, 1);
    for (unsigned i = 1; atomic_load(&couple->came) < both; i++)
        if (i % 4096 == 0)
            sched_yield();
}

/* Whether a word has come; it is heard. */
static int is_woken(struct shm_end *end)
{
    struct gw_shm_link *link = gw_shm_link_of(end->link);
    struct pollfd wakes = {.fd = link->fd, .events = POLLIN};
    int came = poll(&wakes, 1, 0) > 0;
    gw_shm_socket_receive(link);
    return came;
}

/* A word is looked for when both have acted, and no sooner. */
static void *attend(void *owner)
{
    struct attendant *mine = owner;
    struct shm_couple *couple = mine->couple;
    struct shm_end *end = mine->end;
    uint64_t until = gw_loop_now(end->loop) + MEET_US;
    unsigned times = 0;
    while (!atomic_load(&couple->stop)) {
        mine->part->before(end);
        meet(couple, &times);
        shm_wait_a_little(end, 200);
        int found_nothing = mine->part->act(end);
        meet(couple, &times);
        int woken = mine->part->sleeps && is_woken(end);
        end->lost += found_nothing && !woken;
        meet(couple, &times);
        mine->part->after(end);
        meet(couple, &times);
        mine->part->last(end);
        mine->rounds++;
        if (gw_loop_now(end->loop) > until || end->lost)
            atomic_store(&couple->stop, 1);
        meet(couple, &times);
    }
    return NULL;
}

static void *attend_elsewhere(void *owner)
{
    struct attendant *mine = owner;
    shm_go_elsewhere(mine->couple);
    return attend(mine);
}

static void all_who_sleep_are_woken(const struct part *a, const struct part *b)
{
    struct shm_couple *couple = shm_couple_open();
    struct attendant mine = {couple, &couple->a, a, 0};
    struct attendant other = {couple, &couple->b, b, 0};
    pthread_t thread;
    couple->b.random = 2; /* another one than a's */
    assert_int_equal(pthread_create(&thread, NULL, attend_elsewhere, &other),
                     0);
    attend(&mine);
    pthread_join(thread, NULL);
    print_message("# %d rounds\n", mine.rounds);
    assert_int_equal(couple->a.lost + couple->b.lost, 0);
    shm_couple_close(couple);
}

static void do_nothing(struct shm_end *end)
{
    (void)end;
}

static void do_all(struct shm_end *end)
{
    while (shm_look(end))
        continue;
}

/* Words that came although it did not sleep are of no other round. */
static void forget_words(struct shm_end *end)
{
    is_woken(end);
}

/* ---- for what comes ---- */

static void have_one(struct shm_end *end)
{
    shm_begin(end, 0, 1, 1);
}

static int send_it(struct shm_end *end)
{
    do_all(end);
    return 0;
}

static int sleep_if_nothing_came(struct shm_end *end)
{
    return !shm_arm_and_look(end);
}

static void who_sleeps_is_woken_for_what_comes(void **state)
{
    static const struct part sleeper = {1, do_nothing, sleep_if_nothing_came,
                                        do_all, forget_words};
    static const struct part sender = {0, have_one, send_it, do_nothing,
                                       do_nothing};
    (void)state;
    all_who_sleep_are_woken(&sleeper, &sender);
}

/* ---- for room ---- */

/* All entries are in use, and one more is to be sent. */
static void fill_and_have_one(struct shm_end *end)
{
    const struct gw_shm_out *out = &gw_shm_link_of(end->link)->out;
    while (out->published - atomic_load(&out->queue->taken) < GW_SHM_ENTRIES) {
        shm_begin(end, 0, 1, 1);
        shm_look(end);
    }
    shm_begin(end, 0, 1, 1);
}

static int sleep_if_no_room_came(struct shm_end *end)
{
    return !shm_arm_and_look(end) && end->put[0].busy;
}

/* There is room. */
static void send_the_rest(struct shm_end *end)
{
    while (end->put[0].busy)
        shm_look(end);
    forget_words(end);
}

static int take_one(struct shm_end *end)
{
    gw_shm_read(gw_shm_link_of(end->link), 1);
    return 0;
}

static void who_sleeps_is_woken_for_room(void **state)
{
    static const struct part taker = {0, do_nothing, take_one, do_all,
                                      do_nothing};
    static const struct part sender = {
        1, fill_and_have_one, sleep_if_no_room_came, do_nothing, send_the_rest};
    (void)state;
    all_who_sleep_are_woken(&taker, &sender);
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
        cmocka_unit_test(who_sleeps_is_woken_for_what_comes),
        cmocka_unit_test(who_sleeps_is_woken_for_room),
        cmocka_unit_test(a_closed_window_stays_as_it_is),
    };
    return cmocka_run_group_tests_name("shm meet", tests, NULL, NULL);
}
