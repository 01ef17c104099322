/*
 * What is of the rdma transport alone: that nothing is left on the device, that
 * large messages come whole, that a device may keep what it is to let go of, or
 * be taken away under it. Needs a device of its own, rxe0, and the right to
 * take it away.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "tests/table/couple.h"
#include "transport/rdma/rdma.h"
#include "transport/rdma/rdma_port.h"

#define DELETE "rdma link delete rxe0"
#define ADD    "rdma link add rxe0 type rxe netdev ${GW_LINK:-d0}"

/* Descriptors of this process. */
static int descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int n = 0;
    assert_non_null(dir);
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

/* What there is on the device, of all processes: "... qp 1 cm_id 0 mr 0 ..". */
static void resources(char text[256])
{
    FILE *pipe = popen("rdma resource show rxe0", "r");
    assert_non_null(pipe);
    assert_non_null(fgets(text, 256, pipe));
    pclose(pipe);
}

static void dropped(struct gw_send *send, enum gw_status status)
{
    (void)send, (void)status;
}

/* The link that frames go over; another one may have come up before it. */
static int first_is_up(void *owner)
{
    struct couple *couple = owner;
    return couple->a.peer && gw_peer_is_up(couple->a.peer, 0) &&
           gw_peer_is_up(couple->b.peer, 0);
}

static int a_has_frame(void *owner)
{
    return ((struct couple *)owner)->a.frames > 0;
}

static void exchange(size_t bytes)
{
    struct couple *couple = couple_new("rdma");
    uint8_t *from = malloc(bytes), *to = calloc(1, bytes);
    uint32_t window;
    dial(couple, 0, 2);
    world_run(&couple->world, first_is_up, couple);
    memset(from, 7, bytes);
    assert_int_equal(gw_window_open(&couple->a.peer->windows, GW_FRAME_PUSH, to,
                                    bytes, &window),
                     GW_OK);
    struct gw_send send = {.frame = {.kind = GW_FRAME_PUSH,
                                     .window = window,
                                     .length = (uint32_t)bytes},
                           .payload = from,
                           .done = dropped};
    gw_peer_send(couple->b.peer, 0, &send);
    world_run(&couple->world, a_has_frame, couple);
    assert_memory_equal(from, to, bytes);
    gw_window_close(&couple->a.peer->windows, window);
    couple_free(couple);
    free(from);
    free(to);
}

static void nothing_is_left_behind(void **state)
{
    char before[256], after[256];
    (void)state;
    exchange(100000); /* librdmacm keeps what it has opened */
    int had = descriptors();
    resources(before);
    for (int i = 0; i < 20; i++)
        exchange(100000);
    resources(after);
    assert_string_equal(before, after);
    assert_int_equal(descriptors(), had);
}

struct counted {
    struct couple *couple;
    size_t sent, wanted;
};

static void count_sent(struct gw_send *send, enum gw_status status)
{
    struct counted *counted = send->owner;
    assert_int_equal(status, GW_OK);
    counted->sent++;
}

static int all_have_come(void *owner)
{
    struct counted *counted = owner;
    return counted->sent == counted->wanted &&
           counted->couple->a.frames == counted->wanted;
}

/* More than one slot, more than all slots: in pieces, and whole. */
static void messages_come_whole(void **state)
{
    static const uint32_t sizes[] = {40,   1,    1024,  1025,
                                     4096, 4097, 60000, GW_MESSAGE_BYTES_MAX};
    static uint8_t bytes[GW_MESSAGE_BYTES_MAX];
    struct couple *couple = couple_new("rdma");
    struct counted counted = {.couple = couple};
    struct gw_send send[8];
    (void)state;
    dial(couple, 0, 1);
    world_run(&couple->world, first_is_up, couple);
    for (size_t round = 0; round < 5; round++) {
        for (size_t i = 0; i < 8; i++) {
            send[i] = (struct gw_send){.frame = {.kind = GW_FRAME_WANT,
                                                 .chunk = GW_CHUNK_NONE,
                                                 .length = sizes[i]},
                                       .payload = bytes,
                                       .done = count_sent,
                                       .owner = &counted};
            gw_peer_send(couple->b.peer, 0, &send[i]);
        }
        counted.wanted += 8;
        world_run(&couple->world, all_have_come, &counted);
    }
    assert_int_equal(couple->a.downs + couple->b.downs, 0);
    couple_free(couple);
}

/* ---- a queue pair that does not end ---- */

static atomic_int keeps, kept;

/* In the place of the library's: a device that keeps a queue pair, as soft-RoCE
   does with one whose packets are stuck, for some seconds at most. */
__attribute__((visibility("default"))) int ibv_destroy_qp(struct ibv_qp *qp)
{
    int (*destroy)(struct ibv_qp * qp);
    void *library = dlopen("libibverbs.so.1", RTLD_NOW);
    void *next = dlsym(library, "ibv_destroy_qp");
    memcpy(&destroy, &next, sizeof destroy);
    for (int i = 0; i < 500 && atomic_load(&keeps); i++) {
        atomic_store(&kept, 1);
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    dlclose(library); /* the transport has it as well */
    return destroy(qp);
}

static int a_lost_and_kept(void *owner)
{
    return a_lost(owner) && atomic_load(&kept);
}

static void a_queue_pair_that_stays_stops_nothing(void **state)
{
    struct couple *couple = couple_new("rdma");
    (void)state;
    dial(couple, 0, 2);
    world_run(&couple->world, first_is_up, couple);
    atomic_store(&keeps, 1);
    uint64_t began = gw_loop_now(couple->world.loop[0]);
    gw_peer_close(couple->b.peer);
    couple->b.peer = NULL;
    world_run(&couple->world, a_lost_and_kept, couple);
    uint64_t took = gw_loop_now(couple->world.loop[0]) - began;
    print_message("lost after %.3f s\n", (double)took / 1e6);
    assert_true(took < 2500000);
    atomic_store(&keeps, 0);
    couple_free(couple);
}

/* ---- memory of a GPU ---- */

static int b_is_down(void *owner)
{
    return ((struct couple *)owner)->b.downs > 0;
}

/* What soft-RoCE cannot register, though somebody takes it for a GPU's: the put
   is told what is wrong, large or small, and nobody touches the memory. */
static void put_far(uint32_t bytes, int far_at_sender, const char *why)
{
    struct couple *couple = couple_new("rdma");
    uint8_t *from = calloc(1, bytes), *to = calloc(1, bytes);
    struct side *owner = far_at_sender ? &couple->b : &couple->a;
    struct gw_memory memory = {GW_MEMORY_CUDA, far_at_sender ? from : to, bytes,
                               -1};
    uint32_t window;
    dial(couple, 0, 1);
    world_run(&couple->world, first_is_up, couple);
    memset(from, 7, bytes);
    gw_member_register_memory(owner->member, &memory);
    assert_int_equal(gw_window_open(&couple->a.peer->windows, GW_FRAME_PUSH, to,
                                    bytes, &window),
                     GW_OK);
    struct gw_send send = {.frame = {.kind = GW_FRAME_PUSH,
                                     .flags = GW_FLAG_NO_CRC,
                                     .window = window,
                                     .length = bytes},
                           .payload = from,
                           .done = dropped};
    gw_peer_send(couple->b.peer, 0, &send);
    world_run(&couple->world, b_is_down, couple);
    print_message("%u bytes: %s\n", bytes, couple->b.down_why);
    if (!strstr(couple->b.down_why, why))
        assert_string_equal(couple->b.down_why, why);
    assert_int_equal(to[0] + to[bytes - 1], 0);
    couple_free(couple);
    free(from);
    free(to);
}

static void far_memory_is_not_touched(void **state)
{
    char text[512];
    (void)state;
    if (gw_rdma_gpu_memory("rxe0", 1, text, sizeof text) != GW_EUNSUPPORTED)
        skip();
    print_message("rxe0: %s\n", text);
    put_far(100000, 0, "cannot register");
    put_far(100000, 1, "cannot register");
    put_far(40, 0, "");
}

/* ---- a device that goes ---- */

struct removal {
    struct couple *couple;
    struct gw_task over;
    int result, done;
    uint64_t took_us;
};

static void on_removed(struct gw_task *task)
{
    ((struct removal *)task->owner)->done = 1;
}

static void *remove_main(void *argument)
{
    struct removal *removal = argument;
    struct gw_loop *loop = removal->couple->world.loop[0];
    uint64_t began = gw_loop_now(loop);
    removal->result = system(DELETE);
    removal->took_us = gw_loop_now(loop) - began;
    gw_loop_post(loop, &removal->over);
    return NULL;
}

static int is_removed(void *owner)
{
    struct removal *removal = owner;
    return removal->done && removal->couple->a.downs > 0 &&
           removal->couple->b.downs > 0;
}

/* Sends itself again, as long as there is a link. */
static void again(struct gw_send *send, enum gw_status status)
{
    struct couple *couple = send->owner;
    if (status == GW_OK)
        gw_peer_send(couple->b.peer, 0, send);
}

static void a_device_may_be_taken_away(void **state)
{
    struct couple *couple = couple_new("rdma");
    static uint8_t from[1 << 20], to[1 << 20];
    struct removal removal = {.couple = couple,
                              .over = {.run = on_removed, .owner = &removal}};
    struct gw_send send[4];
    uint32_t window;
    pthread_t thread;
    (void)state;
    dial(couple, 0, 2);
    world_run(&couple->world, first_is_up, couple);
    assert_int_equal(gw_window_open(&couple->a.peer->windows, GW_FRAME_PUSH, to,
                                    sizeof to, &window),
                     GW_OK);
    for (size_t i = 0; i < 4; i++) {
        send[i] = (struct gw_send){.frame = {.kind = GW_FRAME_PUSH,
                                             .flags = GW_FLAG_NO_CRC,
                                             .window = window,
                                             .length = sizeof from},
                                   .payload = from,
                                   .done = again,
                                   .owner = couple};
        gw_peer_send(couple->b.peer, 0, &send[i]);
    }
    world_run(&couple->world, a_has_frame, couple);
    assert_int_equal(pthread_create(&thread, NULL, remove_main, &removal), 0);
    world_run(&couple->world, is_removed, &removal);
    pthread_join(thread, NULL);
    print_message("removed after %.3f s: %s\n", (double)removal.took_us / 1e6,
                  couple->b.down_why);
    assert_int_equal(removal.result, 0);
    assert_true(removal.took_us < 5000000);
    couple_free(couple);
    /* and comes back */
    assert_int_equal(system(ADD), 0);
    exchange(5000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_left_behind),
        cmocka_unit_test(messages_come_whole),
        cmocka_unit_test(a_queue_pair_that_stays_stops_nothing),
        cmocka_unit_test(far_memory_is_not_touched),
        cmocka_unit_test(a_device_may_be_taken_away),
    };
    return cmocka_run_group_tests_name("rdma", tests, NULL, NULL);
}
