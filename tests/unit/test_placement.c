/* Words for the placement of servers, and the resulting hosts. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "cli/lab/placement.h"

#define HOSTS 16

static void
count(const char *text, uint32_t workers, uint32_t servers, uint32_t has[HOSTS])
{
    struct gw_placement placement;
    struct gw_error error;
    uint32_t host[64];
    memset(has, 0, HOSTS * sizeof *has);
    assert_int_equal(gw_placement_parse(text, &placement, &error), GW_OK);
    assert_int_equal(gw_placement_fits(&placement, workers, &error), GW_OK);
    assert_int_equal(
        gw_placement_fill(&placement, workers, servers, host, &error), GW_OK);
    for (uint32_t server = 0; server < servers; server++) {
        assert_in_range(host[server], 0, HOSTS - 1);
        has[host[server]]++;
    }
}

static void servers_are_where_they_are_said_to_be(void **state)
{
    uint32_t has[HOSTS];
    (void)state;
    count("apart", 3, 4, has);
    for (uint32_t host = 0; host < HOSTS; host++)
        assert_int_equal(has[host], host >= 3 && host < 7);
    count("together", 4, 10, has);
    for (uint32_t host = 0; host < HOSTS; host++)
        assert_in_range(has[host], host < 4 ? 2 : 0, host < 4 ? 3 : 0);
}

/* n = 8: parts of 2(n-1) = 14 and n-k, of 64, 76, 88 and 112 in all. */
static void spare_hosts_have_more_servers(void **state)
{
    static const struct {
        const char *text;
        uint32_t servers, spare, on_worker, on_spare;
    } row[] = {{"spare 0", 8, 0, 1, 0},
               {"spare 2", 38, 2, 3, 7},
               {"spare 4", 44, 4, 2, 7},
               {"spare 8", 8, 8, 0, 1}};
    uint32_t has[HOSTS];
    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        count(row[i].text, 8, row[i].servers, has);
        for (uint32_t host = 0; host < 8; host++)
            assert_int_equal(has[host], row[i].on_worker);
        for (uint32_t host = 8; host < 8 + row[i].spare; host++)
            assert_int_equal(has[host], row[i].on_spare);
    }
    count("spare 1", 1, 3, has);
    assert_int_equal(has[1], 3);
}

static void other_words_are_refused(void **state)
{
    static const char *const words[] = {"",        "near",     "spare",
                                        "spare x", "spare -1", "spare 2 more",
                                        "Aparts",  "spare 1.5"};
    struct gw_placement placement = {.spare = 7};
    struct gw_error error;
    (void)state;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        assert_int_equal(gw_placement_parse(words[i], &placement, &error),
                         GW_EUSAGE);
    assert_int_equal(placement.spare, 7);
    assert_int_equal(gw_placement_fits(&placement, 7, &error), GW_OK);
    assert_int_equal(gw_placement_fits(&placement, 6, &error), GW_EUSAGE);
    assert_non_null(strstr(error.text, "spare 7"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(servers_are_where_they_are_said_to_be),
        cmocka_unit_test(spare_hosts_have_more_servers),
        cmocka_unit_test(other_words_are_refused),
    };
    return cmocka_run_group_tests_name("placement", tests, NULL, NULL);
}
