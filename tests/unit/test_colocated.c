/* Who of a job is on one host, whatever order a view names them in. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "proto/login.h"
#include "proto/colocated.h"

#define HERE      7
#define ELSEWHERE 8

static const struct gw_view_member members[] = {
    {.role = GW_ROLE_SERVER, .id = 1, .machine = HERE, .need = {.network = 4}},
    {.role = GW_ROLE_WORKER, .id = 2, .machine = HERE, .need = {4, 2, 1}},
    {.role = GW_ROLE_WORKER, .id = 1, .machine = ELSEWHERE},
    {.role = GW_ROLE_SERVER, .id = 0, .machine = ELSEWHERE},
    {.role = GW_ROLE_WORKER, .id = 0, .machine = HERE, .need = {.device = 1}},
};
#define MEMBERS (sizeof members / sizeof *members)

/* As the member `self` of them, on `machine`, that begins with number `first`.
 */
static void meet(struct gw_colocation *colocation,
                 size_t self,
                 uint64_t machine,
                 size_t first,
                 struct gw_colocated *colocated)
{
    assert_int_equal(gw_colocation_open(colocation, MEMBERS), GW_OK);
    for (size_t i = 0; i < MEMBERS; i++) {
        size_t at = (first + i) % MEMBERS;
        gw_colocation_add(colocation, machine, at == self, &members[at]);
    }
    gw_colocation_seen_by(colocation, members[self].role, members[self].id,
                          colocated);
}

static void all_see_the_same(void **state)
{
    (void)state;
    static const uint32_t places[MEMBERS] = {0, 1, 0, 0, 0};
    for (size_t n = 0; n < MEMBERS * MEMBERS; n++) {
        size_t self = n % MEMBERS;
        struct gw_colocation colocation;
        struct gw_colocated colocated;
        if (members[self].machine != HERE)
            continue;
        meet(&colocation, self, HERE, n / MEMBERS, &colocated);
        assert_int_equal(colocated.workers, 2);
        assert_int_equal(colocated.shards, 1);
        assert_int_equal(colocated.place, places[self]);
        assert_int_equal(colocated.worker[0].threads, 1); /* it does not say */
        assert_int_equal(colocated.worker[0].device, 1);
        assert_int_equal(colocated.worker[1].threads, 4);
        assert_int_equal(colocated.worker[1].device, 2);
        assert_int_equal(colocated.worker[1].network, 1);
        assert_int_equal(colocated.shard[0].network, 4);
        gw_colocation_close(&colocation);
    }
}

/* A view of one who leaves out machines, or who has none. */
static void who_says_no_machine_is_alone(void **state)
{
    (void)state;
    for (uint64_t machine = 0; machine <= ELSEWHERE + 1;
         machine += ELSEWHERE + 1) {
        struct gw_colocation colocation;
        struct gw_colocated colocated;
        meet(&colocation, 0, machine, 3, &colocated);
        assert_int_equal(colocated.workers, 0);
        assert_int_equal(colocated.shards, 1);
        assert_int_equal(colocated.place, 0);
        gw_colocation_close(&colocation);
        meet(&colocation, 1, machine, 0, &colocated);
        assert_int_equal(colocated.workers, 1);
        assert_int_equal(colocated.shards, 0);
        assert_int_equal(colocated.place, 0);
        assert_int_equal(colocated.worker[0].threads, 4);
        gw_colocation_close(&colocation);
    }
    /* nor are two who both say none on one host */
    const struct gw_view_member none = {.role = GW_ROLE_WORKER, .id = 1};
    struct gw_colocation colocation;
    struct gw_colocated colocated;
    assert_int_equal(gw_colocation_open(&colocation, 2), GW_OK);
    gw_colocation_add(&colocation, 0, 0, &none);
    gw_colocation_add(&colocation, 0, 1, &none);
    gw_colocation_seen_by(&colocation, GW_ROLE_WORKER, 1, &colocated);
    assert_int_equal(colocated.workers, 1);
    gw_colocation_close(&colocation);
}

static void more_than_were_said_are_left_out(void **state)
{
    (void)state;
    struct gw_colocation colocation;
    struct gw_colocated colocated;
    assert_int_equal(gw_colocation_open(&colocation, 1), GW_OK);
    gw_colocation_add(&colocation, HERE, 1, &members[1]);
    gw_colocation_add(&colocation, HERE, 0, &members[4]);
    gw_colocation_seen_by(&colocation, GW_ROLE_WORKER, 2, &colocated);
    assert_int_equal(colocated.workers, 1);
    assert_int_equal(colocated.place, 0);
    gw_colocation_close(&colocation);
    assert_int_equal(gw_colocation_open(&colocation, 0), GW_OK);
    gw_colocation_seen_by(&colocation, GW_ROLE_WORKER, 0, &colocated);
    assert_int_equal(colocated.workers + colocated.shards, 0);
    gw_colocation_close(&colocation);
    gw_colocation_close(&colocation);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_see_the_same),
        cmocka_unit_test(who_says_no_machine_is_alone),
        cmocka_unit_test(more_than_were_said_are_left_out),
    };
    return cmocka_run_group_tests_name("colocated", tests, NULL, NULL);
}
