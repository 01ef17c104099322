/* Words for networks of simulated hosts. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "cli/lab/network.h"

static void rates_and_times(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double bytes_per_us;
        uint64_t latency_us;
    } words[] = {
        {"unlimited", 0, 0},
        {"1 Gbit/s", 125, 0},
        {"100 Mbit/s, 20 ms", 12.5, 10000},
        {"0.2 ms,10 Gbit/s", 1250, 100},
        {"56 kbit/s", 0.007, 0},
        {"8 bit/s, 2 s", 1e-6, 1000000},
        {"1Gbit/s,3us", 125, 2},
        {"0 us", 0, 0},
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        struct gw_sim_host_options network;
        struct gw_error error = {.text = ""};
        if (gw_network_parse(words[i].text, &network, &error) != GW_OK)
            fail_msg("%s", error.text);
        double apart = network.bytes_per_us - words[i].bytes_per_us;
        if (apart > 1e-9 || apart < -1e-9 ||
            network.latency_us != words[i].latency_us)
            fail_msg("%s: %g bytes/us, %u us", words[i].text,
                     network.bytes_per_us, (unsigned)network.latency_us);
    }
}

static void other_words_are_refused(void **state)
{
    (void)state;
    static const char *const words[] = {
        "",           "fast",       "1",         "1 GB/s",
        "-1 Gbit/s",  "0 Gbit/s",   "1 Gbit/s,", "1 ms, 2 ms",
        "61 s",       "1 gbyte/s",  "1 s 2",     "nan s",
        "inf Gbit/s", "1e30 bit/s", ",",         "1 Gbit/s, unlimited",
        "-1 ms",
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        struct gw_sim_host_options network = {.bytes_per_us = 5};
        struct gw_error error = {.text = ""};
        if (gw_network_parse(words[i], &network, &error) != GW_EUSAGE)
            fail_msg("\"%s\" is taken", words[i]);
        assert_non_null(strstr(error.text, "is no network"));
        assert_true(network.bytes_per_us == 5);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates_and_times),
        cmocka_unit_test(other_words_are_refused),
    };
    return cmocka_run_group_tests_name("network", tests, NULL, NULL);
}
