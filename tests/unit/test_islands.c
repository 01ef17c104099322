/* kernels/islands.h: the order in which workers take GPUs. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "kernels/islands.h"

#define MOST 8

static const char *islands; /* a letter for each device; none: '.' */
static const char (*links)[2];
static size_t links_n;

static int of_one_island(unsigned one, unsigned other)
{
    return islands[one] != '.' && islands[one] == islands[other];
}

static int of_one_link(unsigned one, unsigned other)
{
    for (size_t i = 0; i < links_n; i++)
        if ((links[i][0] == (char)one && links[i][1] == (char)other) ||
            (links[i][0] == (char)other && links[i][1] == (char)one))
            return 1;
    return 0;
}

static void islands_are_taken_one_after_the_other(void **state)
{
    static const struct {
        const char *islands;
        unsigned n, order[MOST];
    } hosts[] = {
        {"a", 1, {0}},
        {"aaaa", 4, {0, 1, 2, 3}},
        {"....", 4, {0, 1, 2, 3}},
        {"abab", 4, {0, 2, 1, 3}},
        {"abba", 4, {0, 3, 1, 2}},
        {".aa.", 4, {0, 1, 2, 3}},
        {"a.a.", 4, {0, 2, 1, 3}},
        {"abcabcab", 8, {0, 3, 6, 1, 4, 7, 2, 5}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        unsigned order[MOST];
        islands = hosts[i].islands;
        gw_islands_order(hosts[i].n, of_one_island, order);
        assert_memory_equal(order, hosts[i].order, hosts[i].n * sizeof *order);
    }
}

/* Links that form a ring or a chain make one island. */
static void links_reach_far(void **state)
{
    static const char chain[][2] = {{0, 5}, {5, 2}, {2, 4}, {1, 3}};
    static const unsigned should[] = {0, 2, 4, 5, 1, 3};
    unsigned order[6];
    (void)state;
    links = chain, links_n = 4;
    gw_islands_order(6, of_one_link, order);
    assert_memory_equal(order, should, sizeof should);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(islands_are_taken_one_after_the_other),
        cmocka_unit_test(links_reach_far),
    };
    return cmocka_run_group_tests_name("islands", tests, NULL, NULL);
}
