/*
 * Processes that are met over shm, and what they leave: one that writes into
 * all that it shares, one that is killed, one that is stopped in the middle of
 * a write, one of another user and one of another network namespace.
 */
#include "config.h"

#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/unit/shm_peer.h"

static void login(struct victim *victim, struct shm_peer *peer)
{
    int ups = victim->ups;
    shm_peer_begin_login(peer, victim_address(victim));
    victim_await(victim, &victim->ups, ups + 1);
    shm_peer_end_login(peer);
}

/* ---- a peer of its own process ---- */

/* Asks for the window and takes it. The caller's loop is turned elsewhere. */
static int take_window(struct shm_peer *peer, uint32_t window)
{
    uint8_t header[GW_FRAME_BYTES];
    uint32_t granted = 0;
    victim_header(peer->session, window, 0, 64, header);
    shm_peer_publish(peer, GW_SHM_ASK, 0, 0, header);
    for (int i = 0; i < 5000 && !granted; i++) {
        usleep(1000);
        shm_peer_granted(peer, &granted);
    }
    return granted == window;
}

static pid_t start_peer(struct victim *victim,
                        void (*run)(struct shm_peer *peer, uint32_t window))
{
    char address[GW_ADDRESS_MAX];
    snprintf(address, sizeof address, "%s", victim_address(victim));
    pid_t parent = getpid(), child = fork();
    assert_true(child >= 0);
    if (child > 0)
        return child;
    struct shm_peer peer;
    shm_peer_begin_login(&peer, address);
    shm_peer_end_login(&peer);
    if (take_window(&peer, victim->window))
        run(&peer, victim->window);
    while (getppid() == parent)
        usleep(1000);
    _exit(0);
}

static void end_peer(pid_t child)
{
    int status;
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &status, 0), child);
}

/* Everything that both may write, while honest frames come. */
static void scribble(struct shm_peer *peer, uint32_t window)
{
    uint8_t header[GW_FRAME_BYTES];
    uint32_t random = 1;
    for (;;) {
        random = random * 1664525 + 1013904223;
        victim_header(peer->session, window, 0, 4096, header);
        struct gw_shm_queue *queue = &peer->area->queue[0];
        shm_peer_publish(peer, random >> 30 ? GW_SHM_PUT : GW_SHM_FRAME,
                         random >> 8, 4096, header);
        memset(queue->entry[random >> 24].header, (int)(random >> 16), 8);
        memset(peer->window + VICTIM_WINDOW, (int)random, VICTIM_WINDOW);
        peer->area->queue[1].entry[random >> 24].type = random;
        atomic_store(&peer->area->queue[1].open[random >> 29], random);
        if (ftruncate(peer->window_fd, 0) == 0)
            _exit(1);
    }
}

/* The victim takes what comes, and closes the link when it cannot. */
static void what_is_rewritten_does_no_harm(void **state)
{
    (void)state;
    for (int i = 0; i < 10; i++) {
        struct victim victim;
        victim_open(&victim, "shm", GW_MEMORY_SHARED);
        pid_t child = start_peer(&victim, scribble);
        victim_await(&victim, &victim.ups, 1);
        victim_await(&victim, &victim.downs, 1);
        end_peer(child);
        victim_close(&victim);
    }
}

/* Is in the middle of a write when it stops for good. */
static void stop_while_writing(struct shm_peer *peer, uint32_t window)
{
    uint8_t header[GW_FRAME_BYTES];
    victim_header(peer->session, window, 0, 64, header);
    atomic_store(&peer->area->queue[0].writing, window);
    shm_peer_publish(peer, GW_SHM_FRAME, 0, 64, header);
    raise(SIGSTOP);
}

static void who_dies_is_told_and_leaves_nothing(void **state)
{
    (void)state;
    struct victim victim;
    victim_open(&victim, "shm", GW_MEMORY_SHARED);
    int before = shm_descriptors();
    for (int i = 1; i <= 3; i++) {
        pid_t child = start_peer(&victim, stop_while_writing);
        victim_await(&victim, &victim.frames, i);
        end_peer(child);
        victim_await(&victim, &victim.downs, i);
        assert_int_equal(victim.status, GW_ECLOSED);
        assert_string_equal(victim.why, "closed by the peer");
    }
    world_settle(&victim.world, 2000);
    assert_int_equal(shm_descriptors(), before);
    victim_close(&victim);
}

/* A window in whose memory somebody may still write is nobody else's. */
static void a_stopped_writer_keeps_others_out(void **state)
{
    (void)state;
    struct victim victim;
    struct shm_peer peer;
    uint8_t header[GW_FRAME_BYTES];
    uint32_t granted = 0;
    victim_open(&victim, "shm", GW_MEMORY_SHARED);
    int before = shm_descriptors();
    pid_t child = start_peer(&victim, stop_while_writing);
    victim_await(&victim, &victim.frames, 1);
    gw_link_close(victim.link);
    assert_non_null(strstr(victim.line, "stopped in the middle of a write"));
    login(&victim, &peer);
    victim_header(peer.session, victim.window, 0, 64, header);
    shm_peer_publish(&peer, GW_SHM_ASK, 0, 0, header);
    world_settle(&victim.world, 20000);
    assert_false(shm_peer_granted(&peer, &granted));
    end_peer(child);
    for (int i = 0; i < 1000 && !granted; i++) {
        world_settle(&victim.world, 1000);
        shm_peer_granted(&peer, &granted);
    }
    assert_int_equal(granted, victim.window);
    shm_peer_close(&peer);
    victim_await(&victim, &victim.downs, 1);
    world_settle(&victim.world, 2000);
    assert_int_equal(shm_descriptors(), before);
    victim_close(&victim);
}

/* ---- who may come at all ---- */

/* What a child of another kind is told when it dials: its exit status. */
enum told {
    TOLD_NOTHING,
    TOLD_UP,
    TOLD_CLOSED,
    TOLD_SPACE,
    TOLD_USER,
    CANNOT
};

struct dialler {
    enum told told;
};

static void dialler_up(struct gw_link *link, const struct gw_reply *reply)
{
    (void)reply;
    ((struct dialler *)link->owner)->told = TOLD_UP;
}

static void
dialler_down(struct gw_link *link, enum gw_status status, const char *why)
{
    struct dialler *dialler = link->owner;
    (void)status;
    dialler->told = strstr(why, "another network namespace") ? TOLD_SPACE
                    : strstr(why, "another user")            ? TOLD_USER
                                                             : TOLD_CLOSED;
}

static int dialler_told(void *owner)
{
    return ((struct dialler *)owner)->told != TOLD_NOTHING;
}

static const struct gw_link_handler dialler_handler = {.up = dialler_up,
                                                       .down = dialler_down};

static enum told dial_from_here(const char *address)
{
    const struct gw_hello hello = {.role = GW_ROLE_WORKER,
                                   .links = 1,
                                   .generation = 1,
                                   .incarnation = 7,
                                   .version = "t"};
    struct dialler dialler = {TOLD_NOTHING};
    struct gw_windows windows = {0};
    struct gw_error error;
    struct gw_link *link;
    struct world world;
    world_open(&world, "shm");
    if (world.ops->dial(world.transport[0], address, &hello, &dialler_handler,
                        &dialler, &windows, &link, &error) != GW_OK)
        return CANNOT;
    world_run(&world, dialler_told, &dialler);
    world_close(&world);
    return dialler.told;
}

/* Connects whatever the address says of its user. */
static enum told knock_from_here(const char *address)
{
    char own[GW_ADDRESS_MAX];
    struct shm_peer peer;
    struct gw_error error;
    uint8_t byte;
    if (gw_shm_meet(own, &error) != GW_OK)
        return CANNOT;
    strncat(own, strrchr(address, ':'), sizeof own - strlen(own) - 1);
    shm_peer_connect(&peer, own);
    ssize_t got = recv(peer.fd, &byte, sizeof byte, 0);
    shm_peer_close(&peer);
    return got <= 0 ? TOLD_CLOSED : TOLD_UP;
}

static int become_another_user(void)
{
    return setgid(65534) == 0 && setuid(65534) == 0;
}

static int write_to(const char *file, const char *text)
{
    FILE *out = fopen(file, "we");
    if (!out)
        return 0;
    int written = fputs(text, out) >= 0;
    return fclose(out) == 0 && written;
}

/* The same one, under a number of a namespace of its own. */
static int take_another_number(void)
{
    char map[64];
    snprintf(map, sizeof map, "7 %ju 1", (uintmax_t)geteuid());
    return unshare(CLONE_NEWUSER) == 0 && write_to("/proc/self/uid_map", map) &&
           geteuid() == 7;
}

static int go_elsewhere(void)
{
    return unshare(CLONE_NEWNET) == 0;
}

/* What a process that has become another is told at the victim's address. */
static int dial_as(struct victim *victim,
                   int (*become)(void),
                   enum told (*dial)(const char *address))
{
    char address[GW_ADDRESS_MAX];
    snprintf(address, sizeof address, "%s", victim_address(victim));
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(become() ? (int)dial(address) : CANNOT);
    int status;
    pid_t ended = 0;
    for (int i = 0; i < 10000 && !ended; i++) {
        world_settle(&victim->world, 1000);
        ended = waitpid(child, &status, WNOHANG);
    }
    assert_int_equal(ended, child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void only_this_user_and_this_namespace(void **state)
{
    (void)state;
    struct victim victim;
    victim_open(&victim, "shm", GW_MEMORY_SHARED);
    int user = dial_as(&victim, become_another_user, dial_from_here);
    int knock = dial_as(&victim, become_another_user, knock_from_here);
    int space = dial_as(&victim, go_elsewhere, dial_from_here);
    assert_int_equal(victim.ups, 0);
    int number = dial_as(&victim, take_another_number, dial_from_here);
    victim_close(&victim);
    assert_true(user == CANNOT || user == TOLD_USER);
    assert_true(knock == CANNOT || knock == TOLD_CLOSED);
    assert_true(space == CANNOT || space == TOLD_SPACE);
    assert_true(number == CANNOT || number == TOLD_UP);
    if (user == CANNOT || space == CANNOT || number == CANNOT) {
        print_message("# this user cannot become another one, or leave\n");
        skip();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_rewritten_does_no_harm),
        cmocka_unit_test(who_dies_is_told_and_leaves_nothing),
        cmocka_unit_test(a_stopped_writer_keeps_others_out),
        cmocka_unit_test(only_this_user_and_this_namespace),
    };
    return cmocka_run_group_tests_name("shm processes", tests, NULL, NULL);
}
