/*
 * What a process of this host can do over shm that says, and writes into the
 * memory that it shares, what and when it likes: the victim does not crash or
 * hang, no byte outside of the window that it granted changes, the link is
 * closed and says why, and nothing is left of it.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/unit/shm_peer.h"

/* ---- before the login ---- */

/* A descriptor as a link's memory must not be. */
static int wrong_memory(int which)
{
    const size_t bytes = sizeof(struct gw_shm_area);
    int fd, ends[2];
    switch (which) {
    case 0: /* can be made smaller */
        fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
        return fd;
    case 1:
        return gw_memory_file("test", bytes - 4096);
    case 2: /* cannot be written */
        fd = gw_memory_file("test", bytes);
        close(fd);
        fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
        return fd;
    case 3:
        assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
        close(ends[0]);
        return ends[1];
    case 4:
        return open("/dev/zero", O_RDWR | O_CLOEXEC);
    default:
        return -1;
    }
}

static int has_no_more_descriptors(void *before)
{
    return shm_descriptors() == *(const int *)before;
}

static void strangers_get_no_link(void **state)
{
    (void)state;
    struct victim victim;
    uint8_t hello[GW_SHM_HELLO_BYTES], junk[4096];
    memset(junk, 0xa5, sizeof junk);
    victim_open(&victim, "shm", GW_MEMORY_SHARED);
    int before = shm_descriptors();
    for (int i = 0; i < 14; i++) {
        struct shm_peer peer;
        shm_peer_connect(&peer, victim_address(&victim));
        shm_peer_hello(hello);
        int fd = wrong_memory(i);
        if (i < 6)
            shm_peer_say(&peer, hello, sizeof hello, fd, -1);
        else if (i == 6)
            shm_peer_say(&peer, hello, sizeof hello - 1, 0, -1);
        else if (i == 7)
            shm_peer_say(&peer, hello, sizeof hello, 0, 1);
        else if (i == 8)
            gw_put_u32(hello + 4, GW_SHM_VERSION + 1),
                shm_peer_say(&peer, hello, sizeof hello, 0, -1);
        else if (i == 9)
            gw_put_u32(hello, GW_SHM_GRANT),
                shm_peer_say(&peer, hello, GW_SHM_GRANT_BYTES, 0, -1);
        else if (i == 10)
            gw_put_u32(hello, GW_SHM_WAKE),
                shm_peer_say(&peer, hello, GW_SHM_WORD_BYTES, -1, -1);
        else if (i == 11)
            shm_peer_say(&peer, junk, sizeof junk, -1, -1);
        else if (i == 12)
            shm_peer_say(&peer, junk, 1, -1, -1);
        else
            shutdown(peer.fd, SHUT_RDWR);
        if (fd >= 0)
            close(fd);
        /* lines are limited: what is closed is seen at the other end */
        uint8_t byte;
        int is_closed = 0;
        for (int turns = 0; !is_closed && turns < 1000; turns++) {
            world_settle(&victim.world, 1000);
            ssize_t got = recv(peer.fd, &byte, 1, MSG_DONTWAIT);
            is_closed = got == 0 || (got < 0 && errno == ECONNRESET);
        }
        assert_true(is_closed);
        shm_peer_close(&peer);
    }
    assert_int_equal(victim.ups, 0);
    assert_true(victim.refused > 0);
    world_run(&victim.world, has_no_more_descriptors, &before);
    victim_close(&victim);
}

static int told_of_files(void *owner)
{
    return strstr(((struct victim *)owner)->line, "open files here") != NULL;
}

/* Not the peer's fault, and not told as that. */
static void a_lack_of_descriptors_is_told(void **state)
{
    struct victim victim;
    struct shm_peer peer;
    struct rlimit files, few;
    uint8_t hello[GW_SHM_HELLO_BYTES];
    (void)state;
    victim_open(&victim, "shm", GW_MEMORY_SHARED);
    shm_peer_connect(&peer, victim_address(&victim));
    shm_peer_hello(hello);
    world_settle(&victim.world, 20000); /* it is accepted */
    int fd = gw_memory_file("test", sizeof(struct gw_shm_area));
    shm_peer_say(&peer, hello, sizeof hello, fd, -1);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    few = files;
    few.rlim_cur = (rlim_t)fd + 1;
    setrlimit(RLIMIT_NOFILE, &few);
    world_run(&victim.world, told_of_files, &victim);
    setrlimit(RLIMIT_NOFILE, &files);
    assert_non_null(strstr(victim.line, "no descriptor for memory"));
    close(fd);
    shm_peer_close(&peer);
    victim_close(&victim);
}

/* ---- after it ---- */

struct attack {
    const char *name;
    void (*run)(struct shm_peer *peer, const struct victim *victim);
};

static void put_header(struct shm_peer *peer,
                       const struct victim *victim,
                       uint32_t length,
                       uint8_t header[GW_FRAME_BYTES])
{
    victim_header(peer->session, victim->window, 0, length, header);
}

static void no_type(struct shm_peer *peer, const struct victim *victim)
{
    (void)victim;
    shm_peer_publish(peer, 77, 0, 0, NULL);
}

static void far_ahead(struct shm_peer *peer, const struct victim *victim)
{
    (void)victim;
    atomic_store(&peer->area->queue[0].published, GW_SHM_ENTRIES + 1);
}

static void behind(struct shm_peer *peer, const struct victim *victim)
{
    (void)victim;
    atomic_store(&peer->area->queue[0].published, UINT32_MAX);
}

static void no_header(struct shm_peer *peer, const struct victim *victim)
{
    uint8_t header[GW_FRAME_BYTES];
    memset(header, 0x5a, sizeof header);
    (void)victim;
    shm_peer_publish(peer, GW_SHM_FRAME, 0, 16, header);
}

static void another_session(struct shm_peer *peer, const struct victim *victim)
{
    uint8_t header[GW_FRAME_BYTES];
    peer->session++;
    put_header(peer, victim, 16, header);
    shm_peer_publish(peer, GW_SHM_FRAME, 0, 16, header);
}

static void not_granted(struct shm_peer *peer, const struct victim *victim)
{
    uint8_t header[GW_FRAME_BYTES];
    put_header(peer, victim, 4096, header);
    shm_peer_publish(peer, GW_SHM_PUT, 0, 0, header);
}

static void outside(struct shm_peer *peer, const struct victim *victim)
{
    uint8_t header[GW_FRAME_BYTES];
    victim_header(peer->session, victim->window, VICTIM_WINDOW - 4, 8, header);
    shm_peer_publish(peer, GW_SHM_FRAME, 0, 8, header);
}

static void out_of_ring(struct shm_peer *peer, const struct victim *victim)
{
    uint8_t header[GW_FRAME_BYTES];
    put_header(peer, victim, 4096, header);
    shm_peer_publish(peer, GW_SHM_FRAME, GW_SHM_RING_BYTES - 4095, 4096,
                     header);
}

static void far_out_of_ring(struct shm_peer *peer, const struct victim *victim)
{
    uint8_t header[GW_FRAME_BYTES];
    put_header(peer, victim, 4096, header);
    shm_peer_publish(peer, GW_SHM_FRAME, UINT32_MAX - 63, 4096, header);
}

static void too_long(struct shm_peer *peer, const struct victim *victim)
{
    uint8_t header[GW_FRAME_BYTES];
    put_header(peer, victim, 64, header);
    shm_peer_publish(peer, GW_SHM_FRAME, 0, 65, header);
}

static void nothing_in_it(struct shm_peer *peer, const struct victim *victim)
{
    uint8_t header[GW_FRAME_BYTES];
    put_header(peer, victim, 64, header);
    shm_peer_publish(peer, GW_SHM_FRAME, 0, 0, header);
}

static void more_of_nothing(struct shm_peer *peer, const struct victim *victim)
{
    (void)victim;
    shm_peer_publish(peer, GW_SHM_MORE, 0, 64, NULL);
}

static void within_another(struct shm_peer *peer, const struct victim *victim)
{
    uint8_t header[GW_FRAME_BYTES];
    put_header(peer, victim, 4096, header);
    shm_peer_publish(peer, GW_SHM_FRAME, 0, 64, header);
    shm_peer_publish(peer, GW_SHM_FRAME, 0, 64, header);
}

static void asks_for_none(struct shm_peer *peer, const struct victim *victim)
{
    uint8_t header[GW_FRAME_BYTES];
    (void)victim;
    victim_header(peer->session, GW_WINDOW_NONE, 0, 0, header);
    shm_peer_publish(peer, GW_SHM_ASK, 0, 0, header);
}

static void asks_for_anothers(struct shm_peer *peer,
                              const struct victim *victim)
{
    uint8_t header[GW_FRAME_BYTES];
    victim_header(peer->session, victim->window + GW_WINDOWS_MAX, 0, 64,
                  header);
    shm_peer_publish(peer, GW_SHM_ASK, 0, 0, header);
}

static void asks_for_too_much(struct shm_peer *peer,
                              const struct victim *victim)
{
    uint8_t header[GW_FRAME_BYTES];
    victim_header(peer->session, victim->window, 1, VICTIM_WINDOW, header);
    shm_peer_publish(peer, GW_SHM_ASK, 0, 0, header);
}

static void grants_unasked(struct shm_peer *peer, const struct victim *victim)
{
    uint8_t bytes[GW_SHM_GRANT_BYTES] = {0};
    gw_put_u32(bytes, GW_SHM_GRANT);
    gw_put_u32(bytes + 4, victim->window);
    gw_put_u64(bytes + 16, 4096);
    shm_peer_say(peer, bytes, sizeof bytes, 0, -1);
}

static void logs_in_again(struct shm_peer *peer, const struct victim *victim)
{
    uint8_t hello[GW_SHM_HELLO_BYTES];
    (void)victim;
    shm_peer_hello(hello);
    shm_peer_say(peer, hello, sizeof hello, 0, -1);
}

static void wakes_with_more(struct shm_peer *peer, const struct victim *victim)
{
    uint8_t word[GW_SHM_WORD_BYTES];
    (void)victim;
    gw_put_u32(word, GW_SHM_WAKE);
    shm_peer_say(peer, word, sizeof word, 0, -1);
}

static void a_flood_of_descriptors(struct shm_peer *peer,
                                   const struct victim *victim)
{
    uint8_t junk[512] = {0};
    (void)victim;
    shm_peer_say(peer, junk, sizeof junk, 0, 1);
}

/* What is announced to the victim is never to be found in its ring again. */
static void wrong_checksum(struct shm_peer *peer, const struct victim *victim)
{
    const struct gw_frame frame = {.kind = GW_FRAME_PUSH,
                                   .session = peer->session,
                                   .window = victim->window,
                                   .length = 64,
                                   .payload_crc = 1};
    uint8_t header[GW_FRAME_BYTES];
    gw_frame_encode(&frame, header);
    shm_peer_publish(peer, GW_SHM_FRAME, 0, 64, header);
}

static const struct attack attacks[] = {
    {"an entry of no type", no_type},
    {"more entries than there are", far_ahead},
    {"fewer than before", behind},
    {"no header", no_header},
    {"another session", another_session},
    {"a put that was not granted", not_granted},
    {"a put outside of the window", outside},
    {"bytes beyond the ring", out_of_ring},
    {"bytes far beyond the ring", far_out_of_ring},
    {"more bytes than the frame has", too_long},
    {"a piece without bytes", nothing_in_it},
    {"more of nothing", more_of_nothing},
    {"a frame within another", within_another},
    {"asks for no window", asks_for_none},
    {"asks for another's window", asks_for_anothers},
    {"asks for more than the window", asks_for_too_much},
    {"grants what was not asked for", grants_unasked},
    {"logs in again", logs_in_again},
    {"wakes with a descriptor", wakes_with_more},
    {"two descriptors at once", a_flood_of_descriptors},
    {"a wrong checksum", wrong_checksum},
};

static void login(struct victim *victim, struct shm_peer *peer)
{
    int ups = victim->ups;
    shm_peer_begin_login(peer, victim_address(victim));
    victim_await(victim, &victim->ups, ups + 1);
    shm_peer_end_login(peer);
}

static void lies_close_the_link(void **state)
{
    (void)state;
    struct victim victim;
    victim_open(&victim, "shm", GW_MEMORY_SHARED);
    int before = shm_descriptors();
    for (size_t i = 0; i < sizeof attacks / sizeof *attacks; i++) {
        struct shm_peer peer;
        login(&victim, &peer);
        attacks[i].run(&peer, &victim);
        victim_await(&victim, &victim.downs, (int)i + 1);
        if (victim.status != GW_EPROTO && victim.status != GW_ECRC)
            fail_msg("%s: %s", attacks[i].name, victim.why);
        shm_peer_close(&peer);
    }
    assert_int_equal(victim.frames, 0);
    world_settle(&victim.world, 2000);
    assert_int_equal(shm_descriptors(), before);
    victim_close(&victim);
}

/* A put of which the window closes when half of it is there: the rest is for
   memory that may be another's by now. */
static void a_window_that_closes_takes_no_more(void **state)
{
    (void)state;
    struct victim victim;
    struct shm_peer peer;
    uint8_t header[GW_FRAME_BYTES];
    victim_open(&victim, "shm", GW_MEMORY_SHARED);
    login(&victim, &peer);
    uint8_t *window = victim_window(&victim);
    put_header(&peer, &victim, 4096, header);
    memset(peer.area->queue[0].ring, 0xa5, 4096);
    shm_peer_publish(&peer, GW_SHM_FRAME, 0, 2048, header);
    world_settle(&victim.world, 20000);
    assert_int_equal(victim.downs, 0);
    assert_int_equal(window[2047], 0xa5);
    memset(window, 0, 4096);
    gw_window_close(&victim.windows, victim.window);
    shm_peer_publish(&peer, GW_SHM_MORE, 2048, 2048, NULL);
    victim_await(&victim, &victim.downs, 1);
    assert_int_equal(victim.status, GW_EPROTO);
    assert_string_equal(victim.why, "put into a window that has closed");
    for (size_t i = 0; i < 4096; i++)
        assert_int_equal(window[i], 0);
    assert_int_equal(victim.frames, 0);
    shm_peer_close(&peer);
    victim_close(&victim);
}

/* ---- whom the victim dials ---- */

static void on_sent(struct gw_send *send, enum gw_status status)
{
    *(int *)send->owner += status == GW_ECLOSED;
}

/* Listens as an honest one, and lets the victim in. */
static void let_in(struct victim *victim, struct shm_peer *peer)
{
    static const struct gw_hello hello = {.role = GW_ROLE_SERVER,
                                          .links = 1,
                                          .generation = 1,
                                          .incarnation = 7,
                                          .version = "t"};
    static const struct gw_reply reply = {.session = 5, .version = "test"};
    uint8_t bytes[GW_SHM_REPLY_BYTES];
    char address[GW_ADDRESS_MAX], host[GW_ADDRESS_MAX];
    struct sockaddr_un at;
    socklen_t n;
    struct gw_error error;
    struct gw_link *link;
    int ups = victim->ups;
    assert_int_equal(gw_shm_meet(host, &error), GW_OK);
    snprintf(address, sizeof address, "%.100s:test-%d-%d", host, (int)getpid(),
             ups);
    assert_int_equal(gw_shm_place(address, &at, &n, &error), GW_OK);
    *peer = (struct shm_peer){.window_fd = -1, .session = 5};
    int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (const struct sockaddr *)&at, n), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(victim->world.ops->dial(victim->world.transport[1],
                                             address, &hello, victim->handler,
                                             victim, &victim->windows, &link,
                                             &error),
                     GW_OK);
    world_settle(&victim->world, 2000);
    peer->fd = accept(listener, NULL, NULL);
    close(listener);
    gw_put_u32(bytes, GW_SHM_REPLY);
    gw_reply_encode(&reply, bytes + 4);
    shm_peer_say(peer, bytes, sizeof bytes, -1, -1);
    victim_await(victim, &victim->ups, ups + 1);
}

/* Memory of the peer's, as it gives or shows it. */
struct its_memory {
    int memory; /* of wrong_memory, 6: as it should be, 7: none */
    uint32_t window;
    uint64_t offset, bytes;
};

/* Says it, with the descriptor, and awaits the end of the link. */
static void end_by(struct victim *victim,
                   struct shm_peer *peer,
                   uint32_t word,
                   const struct its_memory *its)
{
    uint8_t bytes[GW_SHM_GRANT_BYTES];
    int downs = victim->downs, fd = -1;
    if (its->memory != 7)
        fd = its->memory == 6 ? gw_memory_file("test", 16384)
                              : wrong_memory(its->memory);
    gw_put_u32(bytes, word);
    gw_put_u32(bytes + 4, its->window);
    gw_put_u64(bytes + 8, its->offset);
    gw_put_u64(bytes + 16, its->bytes);
    shm_peer_say(peer, bytes, sizeof bytes, fd, -1);
    if (fd >= 0)
        close(fd);
    victim_await(victim, &victim->downs, downs + 1);
    assert_int_equal(victim->status, GW_EPROTO);
}

/* What it is given to write into could kill it, or is not what it asked for. */
static void bad_grants_close_the_link(void **state)
{
    (void)state;
    const struct its_memory bad[] = {{0, 9, 0, 8192},
                                     {1, 9, 1 << 20, 8 << 20},
                                     {3, 9, 0, 8192},
                                     {4, 9, 0, 8192},
                                     {6, 9, 0, 0},
                                     {6, 9, UINT64_MAX - 8191, 8192},
                                     {6, 9, 8192, UINT64_MAX},
                                     {6, 10, 0, 8192},
                                     {6, 0, 0, 8192},
                                     {7, 9, 0, 0}};
    struct victim victim;
    uint8_t payload[8192] = {1};
    victim_open(&victim, "shm", GW_MEMORY_SHARED);
    world_settle(&victim.world, 2000);
    int before = shm_descriptors(), given_back = 0;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct shm_peer peer;
        let_in(&victim, &peer);
        struct gw_send send = {.frame = {.kind = GW_FRAME_PUSH,
                                         .window = 9,
                                         .length = sizeof payload},
                               .payload = payload,
                               .done = on_sent,
                               .owner = &given_back};
        gw_link_send(victim.link, &send);
        world_settle(&victim.world, 2000);
        end_by(&victim, &peer, GW_SHM_GRANT, &bad[i]);
        assert_int_equal(given_back, (int)i + 1);
        shm_peer_close(&peer);
    }
    world_settle(&victim.world, 2000);
    assert_int_equal(shm_descriptors(), before);
    victim_close(&victim);
}

/* What it shows could kill who looks at it, or is nothing. */
static void bad_shows_close_the_link(void **state)
{
    (void)state;
    const struct its_memory bad[] = {
        {0, 9, 0, 8192},     {1, 9, 1 << 20, 8 << 20},
        {6, 9, 0, 0},        {6, 9, UINT64_MAX - 8191, 8192},
        {6, 9, 8192, 16384}, {6, 0, 0, 8192},
        {7, 9, 0, 8192},     {6, 9, 2, 4096}};
    struct victim victim;
    victim_open(&victim, "shm", GW_MEMORY_SHARED);
    world_settle(&victim.world, 2000);
    int before = shm_descriptors();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct shm_peer peer;
        let_in(&victim, &peer);
        end_by(&victim, &peer, GW_SHM_EXPORT, &bad[i]);
        shm_peer_close(&peer);
    }
    world_settle(&victim.world, 2000);
    world_run(&victim.world, has_no_more_descriptors, &before);
    victim_close(&victim);
}

static int was_heard(void *owner)
{
    const struct victim *victim = owner;
    return victim->link->heard_us > victim->link->sent_us;
}

/* A side that is asked to wake, and does so each time, sends no heartbeat
   besides: what it says is its sign of life. */
static void a_word_is_a_sign_of_life(void **state)
{
    (void)state;
    struct victim victim;
    struct shm_peer peer;
    uint8_t word[GW_SHM_WORD_BYTES];
    gw_put_u32(word, GW_SHM_WAKE);
    victim_open(&victim, "shm", GW_MEMORY_SHARED);
    let_in(&victim, &peer);
    world_settle(&victim.world, 2000);
    victim.link->sent_us = victim.link->heard_us + 1000; /* later than that */
    assert_false(was_heard(&victim));
    shm_peer_say(&peer, word, sizeof word, -1, -1);
    world_run(&victim.world, was_heard, &victim);
    assert_true(victim.link->up);
    shm_peer_close(&peer);
    victim_close(&victim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strangers_get_no_link),
        cmocka_unit_test(a_lack_of_descriptors_is_told),
        cmocka_unit_test(lies_close_the_link),
        cmocka_unit_test(a_window_that_closes_takes_no_more),
        cmocka_unit_test(bad_grants_close_the_link),
        cmocka_unit_test(bad_shows_close_the_link),
        cmocka_unit_test(a_word_is_a_sign_of_life),
    };
    return cmocka_run_group_tests_name("shm hostile", tests, NULL, NULL);
}
