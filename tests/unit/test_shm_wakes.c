/*
 * Who waits for room in a ring of shared memory says so, and looks once more:
 * the other side may have taken everything, and found that nobody waits, just
 * before. That order of the two is one of a few instructions, so the writer is
 * run one instruction at a time, and the other side takes all in between.
 */
#include "config.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "tests/unit/shm_peer.h"

#define FRAMES (GW_SHM_ENTRIES + 1)

/* The ring that is written to, for the signal's handler. */
static struct gw_shm_queue *volatile ring;

/* After each instruction: at the first that says that the writer waits, the
   reader has just taken all, and looked whether anybody waits. */
static void on_step(int signal_number)
{
    (void)signal_number;
    if (atomic_load(&ring->starved) && atomic_load(&ring->taken) == 0)
        atomic_store(&ring->taken, GW_SHM_ENTRIES);
}

/* The processor's trap flag, for this thread. */
#if defined __x86_64__
#define CAN_STEP 1
static void step_by_step(int on)
{
    uint64_t flags;
    __asm__ volatile("pushfq\n\tpopq %0" : "=r"(flags));
    flags = on ? flags | 0x100 : flags & ~(uint64_t)0x100;
    __asm__ volatile("pushq %0\n\tpopfq" : : "r"(flags) : "cc", "memory");
}
#else
#define CAN_STEP 0
static void step_by_step(int on)
{
    (void)on;
}
#endif

static void on_sent(struct gw_send *send, enum gw_status status)
{
    *(int *)send->owner += status == GW_OK;
}

static void who_waits_for_room_looks_once_more(void **state)
{
    (void)state;
    static struct gw_send send[FRAMES];
    struct victim victim;
    struct shm_peer peer;
    int sent = 0;
    if (!CAN_STEP)
        skip(); /* no way to stop between two instructions here */
    victim_open(&victim, "shm", GW_MEMORY_SHARED);
    shm_peer_begin_login(&peer, victim_address(&victim));
    victim_await(&victim, &victim.ups, 1);
    shm_peer_end_login(&peer);
    ring = &peer.area->queue[1];
    for (size_t i = 0; i < FRAMES; i++) {
        send[i] = (struct gw_send){
            .frame = {.kind = GW_FRAME_WANT, .chunk = GW_CHUNK_NONE},
            .done = on_sent,
            .owner = &sent};
        if (i == FRAMES - 1) /* all but the last fit into the ring */
            gw_shm_write(gw_shm_link_of(victim.link));
        gw_link_send(victim.link, &send[i]);
    }
    assert_int_equal(atomic_load(&ring->published), GW_SHM_ENTRIES);
    assert_true(signal(SIGTRAP, on_step) != SIG_ERR);
    step_by_step(1);
    gw_shm_write(gw_shm_link_of(victim.link));
    step_by_step(0);
    signal(SIGTRAP, SIG_DFL);
    assert_int_equal(atomic_load(&ring->taken), GW_SHM_ENTRIES);
    assert_int_equal(sent, FRAMES);
    assert_int_equal(atomic_load(&ring->published), FRAMES);
    victim_close(&victim);
    shm_peer_close(&peer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_waits_for_room_looks_once_more)};
    return cmocka_run_group_tests_name("shm wakes", tests, NULL, NULL);
}
