/*
 * Local sockets of the tcp transport: which addresses are some, whose file it
 * is and how long it stays, and who is known to have come through one.
 */
#include "config.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/table/couple.h"
#include "transport/tcp/tcp.h"

static void addresses_are_told_apart(void **state)
{
    (void)state;
    static const char *const right[] = {"a:1",    "127.0.0.1:0", "[::1]:80",
                                        ":7",     "unix:/a",     "unix:a:b",
                                        "unix:.", "unix::",      NULL};
    static const char *const wrong[] = {"",        "a",    "a:",    "::1:80",
                                        "[::1:80", "unix", "unix:", NULL};
    struct gw_error error;
    for (size_t i = 0; right[i]; i++)
        assert_int_equal(gw_tcp_check(right[i], &error), GW_OK);
    for (size_t i = 0; wrong[i]; i++) {
        assert_int_equal(gw_tcp_check(wrong[i], &error), GW_EINVAL);
        assert_non_null(strstr(error.text, "is no address: expected "));
    }
}

static void paths_have_an_end(void **state)
{
    (void)state;
    char address[256] = "unix:";
    struct gw_places *places;
    struct gw_error error;
    memset(address + 5, 'p', 108);
    address[5 + 107] = '\0';
    assert_int_equal(gw_tcp_resolve(address, 0, 0, &places, &error), GW_OK);
    assert_int_equal(places->n, 1);
    const struct sockaddr_un *at = (const void *)&places->place[0].at;
    assert_int_equal(at->sun_family, AF_UNIX);
    assert_string_equal(at->sun_path, address + 5);
    free(places);
    address[5 + 107] = 'p';
    assert_int_equal(gw_tcp_resolve(address, 0, 0, &places, &error), GW_EINVAL);
    assert_non_null(strstr(error.text, "too long for the path of a socket"));
    assert_non_null(strstr(error.text, "at most 107 bytes"));
}

static enum gw_status refuse_all(struct gw_acceptor *acceptor,
                                 struct gw_link *link,
                                 const struct gw_hello *hello,
                                 struct gw_reply *reply)
{
    (void)acceptor, (void)link, (void)hello, (void)reply;
    return GW_EREFUSED;
}

static struct gw_acceptor acceptor = {.judge = refuse_all};

static enum gw_status
listen_at(struct world *world, const char *address, struct gw_listener **at_p)
{
    struct gw_error error;
    enum gw_status status = world->ops->listen(world->transport[0], address,
                                               &acceptor, at_p, &error);
    if (status != GW_OK)
        assert_non_null(strstr(error.text, address));
    return status;
}

static int mode_of(const char *path)
{
    struct stat file;
    return lstat(path, &file) == 0 ? (int)(file.st_mode & 07777) : -1;
}

/* A socket that nobody listens at, as a process that was killed leaves it. */
static void leave_socket(const char *path)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_true(strlen(path) < sizeof at.sun_path);
    memcpy(at.sun_path, path, strlen(path));
    assert_int_equal(bind(fd, (const void *)&at, sizeof at), 0);
    close(fd);
}

static void the_file_is_the_users_and_goes_with_the_listener(void **state)
{
    (void)state;
    struct world world;
    struct gw_listener *listener;
    world_open(&world, "unix");
    char address[GW_ADDRESS_MAX];
    snprintf(address, sizeof address, "%s", world_any_port(&world));
    mode_t before = umask(0);
    assert_int_equal(listen_at(&world, address, &listener), GW_OK);
    assert_int_equal(mode_of(address + 5), 0600);
    assert_string_equal(world.ops->listener_address(listener), address);
    world.ops->close_listener(listener);
    assert_int_equal(mode_of(address + 5), -1);
    assert_int_equal(listen_at(&world, address, &listener), GW_OK);
    umask(before);
    world_close(&world);
    assert_int_equal(mode_of(address + 5), -1);
}

static void only_what_is_dead_is_replaced(void **state)
{
    (void)state;
    struct world world;
    struct gw_listener *listener, *second;
    char address[GW_ADDRESS_MAX], target[GW_ADDRESS_MAX];
    world_open(&world, "unix");
    snprintf(address, sizeof address, "%s", world_any_port(&world));
    snprintf(target, sizeof target, "%s", world_any_port(&world));
    const char *path = address + 5;

    leave_socket(path);
    assert_int_equal(listen_at(&world, address, &listener), GW_OK);
    assert_int_equal(listen_at(&world, address, &second), GW_EADDRINUSE);
    assert_int_equal(mode_of(path), 0600);
    world.ops->close_listener(listener);

    int fd = open(path, O_CREAT | O_WRONLY, 0640);
    close(fd);
    assert_int_equal(listen_at(&world, address, &second), GW_EADDRINUSE);
    assert_int_equal(mode_of(path), 0640);
    assert_int_equal(unlink(path), 0);

    leave_socket(target + 5);
    assert_int_equal(symlink(target + 5, path), 0);
    assert_int_equal(listen_at(&world, address, &second), GW_EADDRINUSE);
    assert_int_not_equal(mode_of(target + 5), -1);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(unlink(target + 5), 0);

    assert_int_equal(listen_at(&world, "unix:/nowhere/to/be/found", &second),
                     GW_EIO);
    world_close(&world);
}

static void what_took_its_place_stays(void **state)
{
    (void)state;
    struct world world;
    struct gw_listener *listener;
    char address[GW_ADDRESS_MAX];
    world_open(&world, "unix");
    snprintf(address, sizeof address, "%s", world_any_port(&world));
    assert_int_equal(listen_at(&world, address, &listener), GW_OK);
    assert_int_equal(unlink(address + 5), 0);
    leave_socket(address + 5);
    world.ops->close_listener(listener);
    assert_int_equal(unlink(address + 5), 0);
    world_close(&world);
}

/* ---- members ---- */

static int two_ups(void *owner)
{
    return ((struct couple *)owner)->a.ups == 2;
}

/* One member listens in both ways: whoever comes is told apart, also one who
   claims to be who came through the local socket. */
static void who_came_by_which_way_is_known(void **state)
{
    (void)state;
    struct couple *couple = couple_new("unix");
    struct gw_error error;
    char first[GW_ADDRESS_MAX];
    snprintf(first, sizeof first, "%s", gw_member_address(couple->a.member));
    struct gw_listener *probe;
    assert_int_equal(gw_member_listen(couple->a.member, "127.0.0.1:0", &error),
                     GW_OK);
    assert_string_equal(gw_member_address(couple->a.member), first);
    assert_int_equal(listen_at(&couple->world, first, &probe), GW_EADDRINUSE);
    dial(couple, 0, 1);
    world_run(&couple->world, all_up, couple);
    struct gw_peer *local = couple->a.peer;
    assert_true(local->local);
    char name[64];
    snprintf(name, sizeof name, "worker 0 (local, pid %d)", (int)getpid());
    assert_string_equal(local->name, name);
    couple_free(couple);

    couple = couple_new("tcp");
    char address[GW_ADDRESS_MAX], directory[] = "/tmp/gradweir-unix-XXXXXX";
    assert_non_null(mkdtemp(directory));
    snprintf(address, sizeof address, "unix:%s/s", directory);
    assert_int_equal(gw_member_listen(couple->a.member, address, &error),
                     GW_OK);
    assert_int_equal(gw_member_dial(couple->b.member, address,
                                    GW_ROLE_COORDINATOR, 0, 1, NULL,
                                    &couple->b.peer, &error),
                     GW_OK);
    world_run(&couple->world, all_up, couple);
    local = couple->a.peer;
    assert_true(local->local);
    dial(couple, 0, 1); /* the same incarnation */
    world_run(&couple->world, two_ups, couple);
    assert_ptr_not_equal(couple->a.peer, local);
    assert_false(couple->a.peer->local);
    assert_true(gw_peer_is_up(local, 0));
    assert_int_equal(couple->a.downs, 0);
    couple_free(couple);
    assert_int_equal(rmdir(directory), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_are_told_apart),
        cmocka_unit_test(paths_have_an_end),
        cmocka_unit_test(the_file_is_the_users_and_goes_with_the_listener),
        cmocka_unit_test(only_what_is_dead_is_replaced),
        cmocka_unit_test(what_took_its_place_stays),
        cmocka_unit_test(who_came_by_which_way_is_known),
    };
    return cmocka_run_group_tests_name("tcp local", tests, NULL, NULL);
}
