/* Lists of interfaces: reading them, which one a link takes, and how the links
   to a peer that is met at several addresses are spread over these. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/interfaces.h"
#include "tests/table/couple.h"
#include "transport/link/interface.h"
#include "transport/member/member_state.h"

/* ---- reading ---- */

static void lists_are_read(void **state)
{
    struct gw_interfaces list;
    (void)state;
    assert_int_equal(gw_interfaces_parse("", &list, NULL), GW_OK);
    assert_int_equal(list.n, 0);
    assert_int_equal(
        gw_interfaces_parse(" ib0 ,\t10.0.0.1,fe80::1%eth0", &list, NULL),
        GW_OK);
    assert_int_equal(list.n, 3);
    assert_string_equal(list.name[0], "ib0");
    assert_string_equal(list.name[1], "10.0.0.1");
    assert_string_equal(list.name[2], "fe80::1%eth0");
    assert_int_equal(gw_interfaces_count("a,b,c,d,e,f,g,h"), 8);
}

static void refused(const char *text, const char *why)
{
    struct gw_interfaces list = {.n = 77};
    struct gw_error error;
    assert_int_equal(gw_interfaces_parse(text, &list, &error), GW_EUSAGE);
    assert_string_equal(error.text, why);
    assert_int_equal(list.n, 77);
    assert_int_equal(gw_interfaces_count(text), 0);
}

static void what_is_wrong_is_named(void **state)
{
    char many[] = "a,b,c,d,e,f,g,h,eth9", text[256];
    (void)state;
    refused(",", "entry 1 of the list is empty");
    refused("ib0,,ib1", "entry 2 of the list is empty");
    refused("ib0, ", "entry 2 of the list is empty");
    refused("ib0,ib1 , ib0", "\"ib0\" is there twice");
    refused(many, "\"eth9\" is one too many, there can be 8");
    memset(text, 'x', 100);
    text[100] = '\0';
    refused(text, "\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...\" is too long "
                  "for an interface or an address");
}

/* ---- which interface ---- */

static struct sockaddr_storage make(int family, const char *host)
{
    struct sockaddr_storage at = {.ss_family = (sa_family_t)family};
    void *any = &at;
    assert_int_equal(
        inet_pton(family, host,
                  family == AF_INET
                      ? (void *)&((struct sockaddr_in *)any)->sin_addr
                      : (void *)&((struct sockaddr_in6 *)any)->sin6_addr),
        1);
    return at;
}

static void
add(struct gw_own_places *own, int family, const char *host, const char *mask)
{
    own->own[own->n++] = (struct gw_own_place){.place.at = make(family, host),
                                               .mask = make(family, mask)};
}

/* Which of them, by number; -1: none. */
static int towards(const struct gw_own_places *own,
                   const char *to,
                   unsigned link,
                   unsigned again)
{
    struct sockaddr_storage at = make(strchr(to, ':') ? AF_INET6 : AF_INET, to);
    const struct gw_place *place =
        gw_own_places_towards(own, (struct sockaddr *)&at, link, again);
    for (size_t i = 0; i < own->n; i++)
        if (place == &own->own[i].place)
            return (int)i;
    return -1;
}

static void the_network_of_the_other_end_decides(void **state)
{
    struct gw_own_places own = {.n = 0};
    (void)state;
    assert_int_equal(towards(&own, "10.0.0.1", 0, 0), -1);
    add(&own, AF_INET, "10.0.0.2", "255.255.255.0");
    add(&own, AF_INET, "10.0.1.2", "255.255.255.0");
    add(&own, AF_INET6, "fd00:1::2", "ffff:ffff:ffff:ffff::");
    for (unsigned link = 0; link < 4; link++) {
        assert_int_equal(towards(&own, "10.0.0.7", link, 0), 0);
        assert_int_equal(towards(&own, "10.0.0.7", link, 1), -1);
        assert_int_equal(towards(&own, "10.0.1.7", link, 0), 1);
        assert_int_equal(towards(&own, "fd00:1::7", link, 0), 2);
        /* nobody's neighbour: in turn, and of its family */
        assert_int_equal(towards(&own, "192.0.2.1", link, 0), (int)link % 2);
        assert_int_equal(towards(&own, "192.0.2.1", link, 1),
                         (int)(link + 1) % 2);
        assert_int_equal(towards(&own, "192.0.2.1", link, 2), -1);
        assert_int_equal(towards(&own, "fd00:2::7", link, 0), 2);
    }
    /* two in one network share it */
    add(&own, AF_INET, "10.0.0.3", "255.255.255.0");
    for (unsigned link = 0; link < 4; link++) {
        assert_int_equal(towards(&own, "10.0.0.7", link, 0), link % 2 ? 3 : 0);
        assert_int_equal(towards(&own, "10.0.0.7", link, 1), link % 2 ? 0 : 3);
    }
}

static void interfaces_of_the_host_are_found(void **state)
{
    struct gw_own_places own;
    struct gw_error error;
    (void)state;
    assert_int_equal(gw_own_places_find(NULL, NULL, &own, &error), GW_OK);
    assert_int_equal(own.n, 0);
    assert_int_equal(gw_own_places_find("127.0.0.1", NULL, &own, &error),
                     GW_OK);
    assert_int_equal(own.n, 1);
    assert_int_equal(towards(&own, "127.1.2.3", 0, 0), 0);
    own.n = 77;
    assert_int_equal(gw_own_places_find("127.0.0.1,none0", NULL, &own, &error),
                     GW_EINVAL);
    assert_non_null(strstr(error.text, "cluster.interface \"none0\""));
    assert_int_equal(own.n, 77);
}

/* ---- which way ---- */

static void links_are_spread_over_the_best_ways(void **state)
{
    const struct gw_transport_ops *tcp = gw_transport_find("tcp", NULL);
    struct gw_transport a = {.ops = tcp}, b = {.ops = tcp};
    struct gw_peer_route route[] = {
        {&a, "0"}, {&a, "1"}, {&a, "2"}, {&b, "3"}, {&b, "4"}};
    static const char *const order[] = {"01234", "12043", "20134", "01243"};
    struct gw_peer peer = {.route = route, .routes = 5};
    unsigned same;
    (void)state;
    for (unsigned link = 0; link < 4; link++) {
        struct gw_peer_link slot = {.peer = &peer, .index = link};
        for (unsigned moves = 0; moves < 5; moves++) {
            const struct gw_peer_route *one =
                gw_peer_route_of(&slot, moves, &same);
            assert_int_equal(one->address[0], order[link][moves]);
            assert_int_equal(same, moves < 3 ? 3 : 2);
        }
    }
}

/* ---- members ---- */

/* A port of a host that nobody listens at, taken while `fd` is open. */
static int dead_port(const char *host, char address[64])
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t bytes = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(inet_pton(AF_INET, host, &at.sin_addr), 1);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &bytes), 0);
    snprintf(address, 64, "%s:%u", host, ntohs(at.sin_port));
    return fd;
}

static void dial_at(struct couple *couple, const char *list, unsigned links)
{
    struct gw_error error = {0};
    assert_int_equal(gw_member_dial(couple->b.member, list, GW_ROLE_COORDINATOR,
                                    0, links, &couple->b, &couple->b.peer,
                                    &error),
                     GW_OK);
}

static int three_up(void *owner)
{
    struct couple *couple = owner;
    return couple->b.peer && gw_peer_is_up(couple->b.peer, 0) &&
           gw_peer_is_up(couple->b.peer, 1) && gw_peer_is_up(couple->b.peer, 2);
}

static const char *at(const struct couple *couple, unsigned link)
{
    return couple->b.peer->link[link].link->remote;
}

static void a_member_listens_at_several_addresses(void **state)
{
    struct couple *couple = couple_new("tcp");
    struct gw_member *member;
    struct gw_error error;
    (void)state;
    gw_member_close(couple->a.member);
    side_open(couple, &couple->a, 0, GW_ROLE_COORDINATOR);
    member = couple->a.member;
    assert_int_equal(
        gw_member_listen(member, "127.0.0.1:0,127.0.0.2:0", &error), GW_OK);
    const char *list = gw_member_address(member);
    assert_ptr_equal(strstr(list, "127.0.0.1:"), list);
    assert_non_null(strstr(list, ",127.0.0.2:"));
    dial_at(couple, list, 3);
    world_run(&couple->world, three_up, couple);
    assert_ptr_equal(strstr(at(couple, 0), "127.0.0.1:"), at(couple, 0));
    assert_ptr_equal(strstr(at(couple, 1), "127.0.0.2:"), at(couple, 1));
    assert_ptr_equal(strstr(at(couple, 2), "127.0.0.1:"), at(couple, 2));
    couple_free(couple);
}

static void one_of_several_addresses_is_enough(void **state)
{
    struct couple *couple = couple_new("tcp");
    struct gw_error error;
    char taken[64], list[256];
    (void)state;
    gw_member_close(couple->a.member);
    side_open(couple, &couple->a, 0, GW_ROLE_COORDINATOR);
    /* of no interface of a host */
    assert_int_equal(gw_member_listen(couple->a.member, "192.0.2.1:0", &error),
                     GW_EIO);
    assert_int_equal(
        gw_member_listen(couple->a.member, "192.0.2.1:0,127.0.0.1:0", &error),
        GW_OK);
    assert_ptr_equal(strstr(gw_member_address(couple->a.member), "127.0.0.1:"),
                     gw_member_address(couple->a.member));
    /* but a port that is taken is the caller's to do without */
    int fd = dead_port("127.0.0.2", taken);
    assert_int_equal(listen(fd, 1), 0);
    snprintf(list, sizeof list, "127.0.0.1:0,%s", taken);
    assert_int_equal(gw_member_listen(couple->a.member, list, &error),
                     GW_EADDRINUSE);
    close(fd);
    couple_free(couple);
}

static void a_link_goes_where_others_do(void **state)
{
    struct couple *couple = couple_new("tcp");
    const char *alive = gw_member_address(couple->a.member);
    char dead[64], list[256];
    (void)state;
    int fd = dead_port("127.0.0.1", dead);
    snprintf(list, sizeof list, "%s,%s", dead, alive);
    dial_at(couple, list, 3);
    world_run(&couple->world, three_up, couple);
    for (unsigned i = 0; i < 3; i++)
        assert_string_equal(at(couple, i), alive);
    /* and comes back in turn: the last ways are tried again and again */
    for (int round = 0; round < 3; round++) {
        gw_peer_reject(couple->b.peer, 1, "test");
        world_run(&couple->world, three_up, couple);
        assert_string_equal(at(couple, 1), alive);
    }
    assert_int_equal(couple->b.lost, 0);
    close(fd);
    couple_free(couple);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_are_read),
        cmocka_unit_test(what_is_wrong_is_named),
        cmocka_unit_test(the_network_of_the_other_end_decides),
        cmocka_unit_test(interfaces_of_the_host_are_found),
        cmocka_unit_test(links_are_spread_over_the_best_ways),
        cmocka_unit_test(a_member_listens_at_several_addresses),
        cmocka_unit_test(one_of_several_addresses_is_enough),
        cmocka_unit_test(a_link_goes_where_others_do),
    };
    return cmocka_run_group_tests_name("interfaces", tests, NULL, NULL);
}
