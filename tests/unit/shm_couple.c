#include "config.h"

#include "tests/unit/shm_couple.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <cmocka.h>

#define ROOM (SHM_COUPLE_WORDS * sizeof(uint32_t)) /* of a place */

uint32_t shm_draw(struct shm_end *end)
{
    end->random = end->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(end->random >> 33);
}

void shm_wait_a_little(struct shm_end *end, uint32_t most)
{
    for (uint32_t i = shm_draw(end) % most; i > 0; i--)
        atomic_signal_fence(memory_order_seq_cst);
}

void shm_go_elsewhere(const struct shm_couple *couple)
{
    cpu_set_t others;
    if (couple->processor < 0 ||
        sched_getaffinity(0, sizeof others, &others) != 0)
        return;
    CPU_CLR((size_t)couple->processor, &others);
    if (CPU_COUNT(&others) > 0)
        pthread_setaffinity_np(pthread_self(), sizeof others, &others);
}

/* ---- frames ---- */

static void on_up(struct gw_link *link, const struct gw_reply *reply)
{
    struct shm_end *end = link->owner;
    (void)reply;
    end->link = link;
    end->ups++;
}

static void
on_down(struct gw_link *link, enum gw_status status, const char *why)
{
    struct shm_end *end = link->owner;
    (void)status, (void)why;
    end->link = NULL;
}

static uint32_t word_of(uint64_t number, size_t i)
{
    return (uint32_t)(number * 2654435761u + i);
}

static void on_put_done(struct gw_send *send, enum gw_status status)
{
    (void)status;
    ((struct shm_put *)send->owner)->busy = 0;
}

static void on_answer_done(struct gw_send *send, enum gw_status status)
{
    (void)status;
    *(int *)send->owner = 0;
}

static void answer(struct shm_end *end, const struct gw_frame *frame)
{
    struct gw_send *send = &end->answer[frame->count % SHM_COUPLE_SENDS];
    int *busy = &end->answer_busy[frame->count % SHM_COUPLE_SENDS];
    end->wrong += *busy; /* it was heard: it has left */
    *busy = 1;
    *send = (struct gw_send){.frame = {.kind = GW_FRAME_ACK,
                                       .clock = frame->clock,
                                       .count = frame->count},
                             .done = on_answer_done,
                             .owner = busy};
    gw_link_send(end->link, send);
}

static void on_frame(struct gw_link *link,
                     const struct gw_frame *frame,
                     const void *payload)
{
    struct shm_end *end = link->owner;
    const uint32_t *word = payload;
    if (frame->kind == GW_FRAME_ACK) {
        end->put[frame->count % SHM_COUPLE_SENDS].heard = 1;
        end->answered++;
        return;
    }
    end->wrong += frame->clock < end->got;
    end->got = frame->clock;
    if (!end->judges)
        return;
    for (size_t i = 0; i < frame->length / sizeof *word; i++)
        end->wrong += word[i] != word_of(frame->clock, i);
    if (frame->window != GW_WINDOW_NONE)
        answer(end, frame);
}

static const struct gw_link_handler handler = {
    .up = on_up, .frame = on_frame, .down = on_down};

/* A put into a part of the window of its own, or a message through the ring. */
void shm_begin(struct shm_end *end, uint32_t slot, int message, size_t words)
{
    struct shm_put *put = &end->put[slot];
    for (size_t i = 0; i < words; i++)
        put->payload[i] = word_of(end->sent, i);
    put->send = (struct gw_send){
        .frame = {.kind = message ? GW_FRAME_CONTROL : GW_FRAME_PUSH,
                  .clock = end->sent,
                  .count = slot,
                  .window = message ? GW_WINDOW_NONE : end->into,
                  .offset = message ? 0 : slot * ROOM,
                  .length = (uint32_t)(words * sizeof(uint32_t))},
        .payload = put->payload,
        .done = on_put_done,
        .owner = put};
    put->busy = 1;
    put->heard = put->heard && message;
    end->puts += !message;
    end->sent++;
    gw_link_send(end->link, &put->send);
}

/* ---- a couple ---- */

static enum gw_status judge(struct gw_acceptor *acceptor,
                            struct gw_link *link,
                            const struct gw_hello *hello,
                            struct gw_reply *reply)
{
    struct shm_couple *couple = acceptor->owner;
    (void)hello, (void)reply;
    link->handler = &handler;
    link->owner = &couple->a;
    link->windows = &couple->a.windows;
    return GW_OK;
}

static void open_end(struct shm_end *end)
{
    struct gw_error error;
    end->ops = gw_transport_find("shm", &error);
    assert_non_null(end->ops);
    assert_int_equal(gw_loop_open_uv(&end->loop, &error), GW_OK);
    assert_int_equal(end->ops->open(end->loop, NULL, &end->transport, &error),
                     GW_OK);
    assert_int_equal(
        gw_memory_open(GW_MEMORY_SHARED, SHM_COUPLE_SENDS * ROOM, &end->memory),
        GW_OK);
    end->ops->register_memory(end->transport, &end->memory);
    assert_int_equal(gw_window_open(&end->windows, GW_FRAME_PUSH,
                                    end->memory.base, SHM_COUPLE_SENDS * ROOM,
                                    &end->window),
                     GW_OK);
    for (int i = 0; i < SHM_COUPLE_SENDS; i++)
        end->put[i].heard = 1;
    end->random = 1;
}

/* Memory that two processes map apart is at one address in both, for a
   sanitizer that knows memory by its address. */
static void map_as_one(struct shm_couple *couple)
{
    struct gw_shm_link *a = gw_shm_link_of(couple->a.link);
    struct gw_shm_link *b = gw_shm_link_of(couple->b.link);
    struct gw_shm *shm = gw_shm_of(couple->b.transport);
    struct stat file;
    munmap(a->area, sizeof *a->area);
    a->area = b->area;
    a->in.queue = b->out.queue;
    a->out.queue = b->in.queue;
    assert_int_equal(fstat(couple->a.memory.fd, &file), 0);
    couple->map = (struct gw_shm_map){.windows = 1,
                                      .device = file.st_dev,
                                      .inode = file.st_ino,
                                      .base = couple->a.memory.base,
                                      .bytes = couple->a.memory.bytes};
    shm->maps = &couple->map;
}

struct shm_couple *shm_couple_open(void)
{
    const struct gw_hello hello = {.role = GW_ROLE_WORKER,
                                   .links = 1,
                                   .generation = 1,
                                   .incarnation = 1,
                                   .version = "t"};
    char address[GW_ADDRESS_MAX];
    struct gw_error error;
    struct shm_couple *couple = calloc(1, sizeof *couple);
    assert_non_null(couple);
    open_end(&couple->a);
    open_end(&couple->b);
    const struct gw_transport_ops *ops = couple->a.ops;
    couple->acceptor = (struct gw_acceptor){.judge = judge, .owner = couple};
    assert_int_equal(ops->meet(address, &error), GW_OK);
    strncat(address, ":0", sizeof address - strlen(address) - 1);
    assert_int_equal(ops->listen(couple->a.transport, address,
                                 &couple->acceptor, &couple->a.listener,
                                 &error),
                     GW_OK);
    assert_int_equal(ops->dial(couple->b.transport,
                               ops->listener_address(couple->a.listener),
                               &hello, &handler, &couple->b, &couple->b.windows,
                               &couple->b.link, &error),
                     GW_OK);
    while (!couple->a.ups || !couple->b.ups) {
        gw_loop_turn(couple->b.loop);
        assert_non_null(couple->b.link); /* else it was refused */
        gw_loop_turn(couple->a.loop);
    }
    couple->b.into = couple->a.window;
    couple->a.into = couple->b.window;
    map_as_one(couple);
    couple->processor = sched_getcpu();
    return couple;
}

static void close_end(struct shm_end *end)
{
    gw_window_close(&end->windows, end->window);
    end->ops->close(end->transport);
    gw_loop_close(end->loop);
    gw_memory_close(&end->memory);
}

static void close_link(struct shm_end *end)
{
    if (end->link)
        gw_link_close(end->link);
    end->link = NULL;
    while (gw_shm_of(end->transport)->handles > 1 + !!end->listener)
        gw_loop_turn(end->loop);
}

/* Memory that both have mapped as one, one of them unmaps. */
void shm_couple_close(struct shm_couple *couple)
{
    if (couple->a.link)
        gw_shm_link_of(couple->a.link)->area = NULL;
    close_link(&couple->a);
    close_link(&couple->b);
    gw_shm_of(couple->b.transport)->maps = NULL;
    close_end(&couple->a);
    close_end(&couple->b);
    free(couple);
}

/* ---- turns ---- */

int shm_look(struct shm_end *end)
{
    struct gw_shm_link *link = gw_shm_link_of(end->link);
    struct gw_poller *poller = &gw_shm_of(end->transport)->poller;
    if (link->out.asked != GW_WINDOW_NONE)
        gw_shm_socket_receive(link);
    return poller->poll(poller, gw_loop_now(end->loop));
}

int shm_arm_and_look(struct shm_end *end)
{
    struct gw_poller *poller = &gw_shm_of(end->transport)->poller;
    poller->arm(poller);
    return poller->poll(poller, gw_loop_now(end->loop));
}
