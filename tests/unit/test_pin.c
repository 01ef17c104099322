/* Cores of members on artificial hosts. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "cli/host/pin.h"
#include "cli/host/pin_print.h"
#include "tests/unit/pin_hosts.h"

/* Members that are alike but for their GPUs. */
struct members {
    uint32_t workers, shards;
    uint32_t threads;
    uint64_t network;
    const uint64_t *gpu; /* [workers]; NULL: they have none */
};

#define FIRST_NODE  UINT64_C(1)
#define SECOND_NODE UINT64_C(2)
#define WORKERS_MAX 16

static struct gw_colocated colocated_of(const struct members *members,
                                        uint32_t place)
{
    static struct gw_need worker[WORKERS_MAX], shard[WORKERS_MAX];
    assert_true(members->workers <= WORKERS_MAX);
    assert_true(members->shards <= WORKERS_MAX);
    for (uint32_t i = 0; i < members->workers; i++)
        worker[i] =
            (struct gw_need){.threads = members->threads,
                             .device = members->gpu ? members->gpu[i] : 0,
                             .network = members->network};
    for (uint32_t i = 0; i < members->shards; i++)
        shard[i] = (struct gw_need){.network = members->network};
    return (struct gw_colocated){.workers = members->workers,
                                 .shards = members->shards,
                                 .place = place,
                                 .worker = worker,
                                 .shard = shard};
}

static void decide_worker(const struct gw_pin_host *host,
                          const struct members *members,
                          uint32_t place,
                          struct gw_pin_worker *pin)
{
    const struct gw_colocated colocated = colocated_of(members, place);
    gw_pin_worker(host, &colocated, pin);
}

static void decide_shard(const struct gw_pin_host *host,
                         const struct members *members,
                         uint32_t place,
                         struct gw_pin_shard *pin)
{
    const struct gw_colocated colocated = colocated_of(members, place);
    gw_pin_shard(host, &colocated, pin);
}

static void check_worker(const struct gw_pin_host *host,
                         const struct members *members,
                         uint32_t place,
                         const char *compute,
                         const char *talks)
{
    struct gw_pin_worker pin;
    decide_worker(host, members, place, &pin);
    check_cpus(&pin.compute, compute);
    check_cpus(&pin.talks, talks);
}

static void check_shard(const struct gw_pin_host *host,
                        const struct members *members,
                        uint32_t place,
                        enum gw_pin_how how,
                        const char *cpus)
{
    struct gw_pin_shard pin;
    decide_shard(host, members, place, &pin);
    assert_int_equal(pin.how, how);
    check_cpus(&pin.cpus, cpus);
}

/* ---- sets ---- */

static void sets_are_printed(void **state)
{
    (void)state;
    struct gw_cpus cpus = {{0}};
    char text[8], whole[sizeof "3,63-65,4095"];
    check_cpus(&cpus, "");
    gw_cpus_add(&cpus, 3);
    check_cpus(&cpus, "3");
    gw_cpus_add(&cpus, 64), gw_cpus_add(&cpus, 63), gw_cpus_add(&cpus, 65);
    gw_cpus_add(&cpus, GW_PIN_CPUS_MAX - 1);
    gw_cpus_add(&cpus, GW_PIN_CPUS_MAX); /* none */
    check_cpus(&cpus, "3,63-65,4095");
    assert_int_equal(count_cpus(&cpus), 5);
    gw_cpus_print(&cpus, text, sizeof text);
    assert_string_equal(text, "3,.."); /* and it shows that it is cut */
    gw_cpus_print(&cpus, text, 5);
    assert_string_equal(text, "3,..");
    gw_cpus_print(&cpus, text, 3);
    assert_string_equal(text, "..");
    gw_cpus_print(&cpus, whole, sizeof whole);
    assert_string_equal(whole, "3,63-65,4095");
}

/* ---- workers ---- */

static void workers_are_spread_over_nodes(void **state)
{
    (void)state;
    const struct gw_pin_host *host = host_of(2, 4, 2);
    const struct members members = {.workers = 2, .threads = 2};
    check_worker(host, &members, 0, "0-1", "3,11");
    check_worker(host, &members, 1, "4-5", "7,15");
    const struct members four = {.workers = 4, .threads = 1};
    check_worker(host, &four, 0, "0", "3,11");
    check_worker(host, &four, 1, "4", "7,15");
    check_worker(host, &four, 2, "1", "2,10");
    check_worker(host, &four, 3, "5", "6,14");
}

/* Other threads of a process: a BLAS' threads compute, others do not. */
static void the_rest_is_near(void **state)
{
    (void)state;
    struct gw_pin_worker pin;
    struct members members = {.workers = 2, .threads = 2};
    decide_worker(host_of(2, 4, 2), &members, 1, &pin);
    check_cpus(&pin.rest, "4-5");
    members.threads = 1;
    decide_worker(host_of(2, 4, 2), &members, 1, &pin);
    check_cpus(&pin.rest, "4-7,12-15");
}

static void one_worker_is_near_the_network(void **state)
{
    (void)state;
    const struct gw_pin_host *host = host_of(2, 4, 1);
    const struct members members = {
        .workers = 1, .threads = 2, .network = SECOND_NODE};
    check_worker(host, &members, 0, "4-5", "7");
}

static void siblings_communicate_where_no_core_is_left(void **state)
{
    (void)state;
    const struct gw_pin_host *host = host_of(1, 4, 2);
    const struct members members = {.workers = 2, .threads = 2};
    check_worker(host, &members, 0, "0-1", "4-5");
    check_worker(host, &members, 1, "2-3", "6-7");
    /* one core is left: it is the first one's */
    const struct members three = {.workers = 3, .threads = 1};
    check_worker(host, &three, 0, "0", "3,7");
    check_worker(host, &three, 1, "1", "5");
}

static void who_gets_no_core_floats(void **state)
{
    (void)state;
    const struct gw_pin_host *host = host_of(1, 2, 1);
    const struct members members = {.workers = 2, .threads = 1};
    struct gw_pin_worker pin;
    check_worker(host, &members, 0, "0", "0-1");
    check_worker(host, &members, 1, "1", "0-1");
    decide_worker(host, &members, 1, &pin);
    assert_int_equal(pin.talk, GW_PIN_TALK_FLOATS);
    assert_int_equal(pin.how, GW_PIN_CORE);
    /* over all that is near the network */
    host = host_of(2, 2, 1);
    const struct members four = {
        .workers = 4, .threads = 1, .network = SECOND_NODE};
    check_worker(host, &four, 0, "2", "2-3");
    check_worker(host, &four, 1, "0", "2-3");
}

static void workers_are_near_their_gpus(void **state)
{
    (void)state;
    const struct gw_pin_host *host = host_of(2, 4, 1);
    const uint64_t gpu[] = {SECOND_NODE, SECOND_NODE, FIRST_NODE,
                            SECOND_NODE, SECOND_NODE, SECOND_NODE};
    const struct members members = {.workers = 6, .threads = 1, .gpu = gpu};
    check_worker(host, &members, 0, "4", "3");
    check_worker(host, &members, 1, "5", "2");
    check_worker(host, &members, 2, "0", "0-7");
    check_worker(host, &members, 4, "7", "0-7");
    check_worker(host, &members, 5, "1", "0-7"); /* its node is full */
    const struct members one = {
        .workers = 1, .threads = 1, .network = FIRST_NODE, .gpu = gpu};
    check_worker(host, &one, 0, "4", "3");
    /* both are near the network, and its own is full */
    const struct members both = {.workers = 4,
                                 .threads = 1,
                                 .network = FIRST_NODE | SECOND_NODE,
                                 .gpu = (const uint64_t[]){2, 2, 2, 2}};
    check_worker(host_of(2, 4, 2), &both, 3, "7", "0,8");
    struct gw_pin_worker pin;
    decide_worker(host_of(2, 4, 1), &one, 0, &pin);
    assert_int_equal(pin.node, 1);
    assert_int_equal(pin.talk_node, 0);
}

static void large_workers_span_nodes(void **state)
{
    (void)state;
    struct gw_pin_worker pin;
    const struct members members = {.workers = 1, .threads = 6};
    decide_worker(host_of(2, 4, 1), &members, 0, &pin);
    assert_int_equal(pin.node, -1);
    check_cpus(&pin.compute, "0-2,4-6");
    check_cpus(&pin.talks, "3");
}

static void fast_cores_compute(void **state)
{
    (void)state;
    struct gw_pin_host host = *host_of(1, 6, 1);
    for (uint32_t i = 3; i < 6; i++)
        host.core[i].strength = 1;
    const struct members members = {.workers = 2, .threads = 1};
    check_worker(&host, &members, 0, "3", "5");
    check_worker(&host, &members, 1, "4", "2");
}

/* Computing threads get the fast cores: shards get the rest. */
static void shards_leave_the_fast_cores(void **state)
{
    (void)state;
    struct gw_pin_host host = *host_of(1, 16, 1);
    for (uint32_t i = 0; i < 8; i++)
        host.core[i].strength = 1;
    struct members members = {.workers = 1, .threads = 8, .shards = 2};
    check_worker(&host, &members, 0, "0-7", "13");
    check_shard(&host, &members, 0, GW_PIN_CORE, "15");
    check_shard(&host, &members, 1, GW_PIN_CORE, "14");
    members.threads = 7; /* one is to spare */
    check_worker(&host, &members, 0, "0-6", "14");
    check_shard(&host, &members, 0, GW_PIN_CORE, "7");
    check_shard(&host, &members, 1, GW_PIN_CORE, "15");
    /* near the network, even if no core there can be spared */
    struct gw_pin_host two = *host_of(2, 4, 1);
    for (uint32_t i = 4; i < 8; i++)
        two.core[i].strength = 2;
    two.core[6].strength = 1;
    members.threads = 4;
    members.network = SECOND_NODE;
    check_shard(&two, &members, 0, GW_PIN_CORE, "6");
}

/* ---- too little ---- */

static void too_many_workers_are_left_alone(void **state)
{
    (void)state;
    struct gw_pin_worker pin;
    const struct members three = {.workers = 3, .threads = 1};
    decide_worker(host_of(1, 2, 2), &three, 1, &pin);
    assert_int_equal(pin.how, GW_PIN_LEFT);
    check_cpus(&pin.compute, "0-3");
    /* but each in its node */
    const struct gw_pin_host *host = host_of(2, 2, 1);
    const struct members six = {.workers = 6, .threads = 1};
    check_worker(host, &six, 0, "0-1", "0-1");
    check_worker(host, &six, 1, "2-3", "2-3");
    check_worker(host, &six, 5, "2-3", "2-3");
    decide_worker(host, &six, 5, &pin);
    assert_int_equal(pin.how, GW_PIN_NEAR);
    const uint64_t gpu[6] = {1, 1, 1, 1, 1, 1};
    const struct members near = {.workers = 6, .threads = 1, .gpu = gpu};
    check_worker(host, &near, 5, "0-1", "0-1");
}

static void who_needs_all_is_left_alone(void **state)
{
    (void)state;
    struct gw_pin_worker pin;
    for (uint32_t workers = 1; workers < 4; workers++)
        for (uint32_t threads = 1; threads < 5; threads++) {
            const struct members members = {.workers = workers,
                                            .threads = threads};
            const struct gw_pin_host *host = host_of(1, threads, 1);
            decide_worker(host, &members, workers - 1, &pin);
            assert_int_equal(pin.how, GW_PIN_LEFT);
        }
}

/* ---- shards ---- */

static void shards_have_the_last_cores_near_the_network(void **state)
{
    (void)state;
    const struct gw_pin_host *host = host_of(2, 4, 2);
    const struct members members = {
        .workers = 2, .shards = 3, .threads = 1, .network = FIRST_NODE};
    check_shard(host, &members, 0, GW_PIN_CORE, "3,11");
    check_shard(host, &members, 1, GW_PIN_CORE, "2,10");
    check_shard(host, &members, 2, GW_PIN_CORE, "1,9");
    check_worker(host, &members, 0, "0", "8"); /* its own sibling */
    check_worker(host, &members, 1, "4", "12");
    const struct members many = {.shards = 5, .network = FIRST_NODE};
    check_shard(host, &many, 4, GW_PIN_CORE, "7,15");
    const struct members apart = {.shards = 4};
    check_shard(host, &apart, 0, GW_PIN_CORE, "3,11");
    check_shard(host, &apart, 1, GW_PIN_CORE, "7,15");
}

static void shards_without_cores_float(void **state)
{
    (void)state;
    const struct members members = {.workers = 2, .shards = 1, .threads = 1};
    check_shard(host_of(1, 2, 1), &members, 0, GW_PIN_LEFT, "0-1");
    const struct members near = {
        .workers = 4, .shards = 1, .threads = 1, .network = SECOND_NODE};
    check_shard(host_of(2, 2, 1), &near, 0, GW_PIN_NEAR, "2-3");
}

/* ---- invariants ---- */

/* Cores of which a set has a cpu. */
static uint64_t cores_of(const struct gw_pin_host *host,
                         const struct gw_cpus *cpus)
{
    uint64_t cores = 0;
    for (uint32_t i = 0; i < host->cores; i++)
        for (uint32_t s = 0; s < host->core[i].cpus; s++)
            if (gw_cpus_has(cpus, host->core[i].cpu[s]))
                cores |= UINT64_C(1) << i;
    return cores;
}

static uint32_t bits(uint64_t word)
{
    return (uint32_t)__builtin_popcountll(word);
}

static void take(uint64_t *taken, uint64_t cores)
{
    assert_int_equal(*taken & cores, 0);
    *taken |= cores;
}

static void check_talk(const struct gw_pin_host *host,
                       const struct gw_pin_worker *pin,
                       uint64_t *taken)
{
    uint64_t cores = cores_of(host, &pin->talks);
    if (pin->talk == GW_PIN_TALK_SIBLING) {
        assert_int_equal(cores, cores_of(host, &pin->compute));
        for (size_t i = 0; i < sizeof pin->talks.word / 8; i++)
            assert_int_equal(pin->talks.word[i] & pin->compute.word[i], 0);
    } else if (pin->talk == GW_PIN_TALK_FLOATS) {
        assert_true(count_cpus(&pin->talks) > 0);
        assert_int_equal(bits(*taken), host->cores); /* none was left */
    } else {
        assert_int_equal(bits(cores), 1);
        take(taken, cores);
    }
}

static void check_layout(const struct gw_pin_host *host,
                         const struct members *members)
{
    struct gw_pin_worker worker[WORKERS_MAX];
    uint64_t taken = 0;
    uint32_t bound = 0;
    for (uint32_t i = 0; i < members->shards; i++) {
        struct gw_pin_shard pin;
        decide_shard(host, members, i, &pin);
        if (pin.how == GW_PIN_CORE)
            take(&taken, cores_of(host, &pin.cpus));
    }
    for (uint32_t i = 0; i < members->workers; i++) {
        decide_worker(host, members, i, &worker[i]);
        if (worker[i].how != GW_PIN_CORE)
            continue;
        bound++;
        uint64_t cores = cores_of(host, &worker[i].compute);
        assert_int_equal(bits(cores), members->threads);
        assert_int_equal(count_cpus(&worker[i].compute), members->threads);
        take(&taken, cores);
    }
    assert_true(bound == 0 || bound == members->workers);
    assert_true(bound > 0 ||
                members->workers * members->threads > host->cores ||
                host->cores <= members->threads);
    for (uint32_t i = 0; i < bound; i++)
        check_talk(host, &worker[i], &taken);
}

static void nobody_has_anothers_core(void **state)
{
    (void)state;
    uint64_t gpu[WORKERS_MAX];
    for (uint32_t n = 0; n < 3 * 5 * 2 * 8 * 3 * 4 * 4; n++) {
        uint32_t rest = n;
        uint32_t nodes = 1 + rest % 3, cores = 1 + (rest /= 3) % 5;
        uint32_t siblings = 1 + (rest /= 5) % 2;
        const struct gw_pin_host *host = host_of(nodes, cores, siblings);
        struct members members = {.workers = 1 + (rest /= 2) % 8,
                                  .threads = 1 + (rest /= 8) % 3,
                                  .shards = (rest /= 3) % 4};
        uint32_t near = rest / 4;
        members.network = near % 2 ? UINT64_C(1) << nodes / 2 : 0;
        for (uint32_t i = 0; i < members.workers; i++)
            gpu[i] = UINT64_C(1) << i * 7 % nodes;
        members.gpu = near / 2 ? gpu : NULL;
        check_layout(host, &members);
    }
}

/* ---- words ---- */

static void check_words(const struct gw_pin_host *host,
                        const struct members *members,
                        const char *gpu,
                        const char *wanted)
{
    struct gw_pin_worker pin;
    char text[GW_PIN_TEXT_MAX];
    const struct gw_pin_names names = {gpu, "mlx5_0"};
    const struct gw_colocated colocated = colocated_of(members, 0);
    gw_pin_worker(host, &colocated, &pin);
    gw_pin_print_worker(host, &colocated, &names, &pin, text);
    assert_string_equal(text, wanted);
}

static void workers_say_where_and_why(void **state)
{
    (void)state;
    const uint64_t gpu = SECOND_NODE;
    struct members members = {
        .workers = 1, .threads = 4, .network = FIRST_NODE, .gpu = &gpu};
    check_words(host_of(2, 4, 1), &members, "0000:81:00.0",
                "compute on cpu 4-7 (node 1, near GPU 0000:81:00.0), "
                "communication on cpu 3 (node 0, near mlx5_0)");
    members.shards = 4;
    members.network = SECOND_NODE;
    check_words(
        host_of(2, 4, 1), &members, "0000:81:00.0",
        "compute on cpu 0-3 (node 0, too few cores are left near GPU "
        "0000:81:00.0), communication anywhere on cpu 4-7 (node 1, near "
        "mlx5_0), no core is left for it");
    const struct members one = {.workers = 1, .threads = 1};
    check_words(host_of(1, 1, 2), &one, "",
                "left on cpu 0-1, all that it may use, and no more than "
                "worker.threads = 1 are to have");
    check_words(host_of(1, 2, 1), &one, "",
                "compute on cpu 0, communication on cpu 1");
    const struct members two = {.workers = 2, .threads = 1};
    check_words(host_of(1, 2, 2), &two, "",
                "compute on cpu 0, communication on cpu 2 (siblings of these)");
    const struct members nine = {.workers = 9, .threads = 1};
    check_words(host_of(2, 4, 1), &nine, "",
                "anywhere on cpu 0-3 (node 0): 9 workers of 1 thread are more "
                "than the 8 cores here, which the kernel shares out better");
}

static void shards_say_where_and_why(void **state)
{
    (void)state;
    struct gw_pin_shard pin;
    struct gw_colocated colocated;
    char text[GW_PIN_TEXT_MAX];
    const struct gw_pin_names names = {"", "eth0"};
    struct members members = {
        .workers = 2, .shards = 1, .threads = 2, .network = SECOND_NODE};
    const struct gw_pin_host *host = host_of(2, 4, 1);
    decide_shard(host, &members, 0, &pin);
    colocated = colocated_of(&members, 0);
    gw_pin_print_shard(host, &colocated, &names, &pin, text);
    assert_string_equal(text, "on cpu 7 (node 1, near eth0)");
    members.workers = 4;
    decide_shard(host, &members, 0, &pin);
    colocated = colocated_of(&members, 0);
    gw_pin_print_shard(host, &colocated, &names, &pin, text);
    assert_string_equal(
        text, "anywhere on cpu 4-7 (node 1, near eth0): 1 shard and 4 "
              "workers of 2 threads are more than the 8 cores here");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sets_are_printed),
        cmocka_unit_test(workers_are_spread_over_nodes),
        cmocka_unit_test(the_rest_is_near),
        cmocka_unit_test(one_worker_is_near_the_network),
        cmocka_unit_test(siblings_communicate_where_no_core_is_left),
        cmocka_unit_test(who_gets_no_core_floats),
        cmocka_unit_test(workers_are_near_their_gpus),
        cmocka_unit_test(large_workers_span_nodes),
        cmocka_unit_test(fast_cores_compute),
        cmocka_unit_test(shards_leave_the_fast_cores),
        cmocka_unit_test(too_many_workers_are_left_alone),
        cmocka_unit_test(who_needs_all_is_left_alone),
        cmocka_unit_test(shards_have_the_last_cores_near_the_network),
        cmocka_unit_test(shards_without_cores_float),
        cmocka_unit_test(nobody_has_anothers_core),
        cmocka_unit_test(workers_say_where_and_why),
        cmocka_unit_test(shards_say_where_and_why),
    };
    return cmocka_run_group_tests_name("pin", tests, NULL, NULL);
}
