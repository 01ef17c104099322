/* Artificial hosts as hwloc shows them, for pin.h. */
#include "config.h"

#include <errno.h>
#include <hwloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "cli/host/pin_hwloc.h"

#define WORKERS_MAX 8
#define TWO_NODES   "pack:2 [numa] core:4 pu:2"

struct made {
    hwloc_topology_t topology;
    struct gw_pin_host host;
};

/* Cpus of `allowed`, as hwloc lists them; NULL: all. */
static void read_host(struct made *made, const char *allowed)
{
    struct gw_error error = {.text = ""};
    hwloc_bitmap_t cpus =
        hwloc_bitmap_dup(hwloc_topology_get_topology_cpuset(made->topology));
    if (allowed)
        assert_int_equal(hwloc_bitmap_list_sscanf(cpus, allowed), 0);
    enum gw_status status =
        gw_pin_hwloc_read(made->topology, cpus, &made->host, &error);
    hwloc_bitmap_free(cpus);
    assert_string_equal(error.text, "");
    assert_int_equal(status, GW_OK);
}

static void make_host(struct made *made, const char *what, const char *allowed)
{
    assert_int_equal(hwloc_topology_init(&made->topology), 0);
    assert_int_equal(gw_pin_hwloc_prepare(made->topology), 0);
    assert_int_equal(hwloc_topology_set_synthetic(made->topology, what), 0);
    assert_int_equal(hwloc_topology_load(made->topology), 0);
    read_host(made, allowed);
}

static void end_host(struct made *made)
{
    hwloc_topology_destroy(made->topology);
}

static void check_core(const struct gw_pin_host *host,
                       uint32_t i,
                       uint8_t node,
                       uint8_t cpus,
                       uint16_t first)
{
    assert_true(i < host->cores);
    assert_int_equal(host->core[i].node, node);
    assert_int_equal(host->core[i].cpus, cpus);
    assert_int_equal(host->core[i].cpu[0], first);
}

static void check_compute(const struct gw_pin_host *host,
                          uint32_t workers,
                          struct gw_need each,
                          uint32_t place,
                          const char *wanted)
{
    struct gw_pin_worker pin;
    struct gw_need worker[WORKERS_MAX];
    char text[128];
    const struct gw_colocated colocated = {
        .workers = workers, .place = place, .worker = worker};
    for (uint32_t i = 0; i < WORKERS_MAX; i++)
        worker[i] = each;
    gw_pin_worker(host, &colocated, &pin);
    gw_cpus_print(&pin.compute, text, sizeof text);
    assert_string_equal(text, wanted);
}

static void two_packages(void **state)
{
    (void)state;
    struct made made;
    make_host(&made, TWO_NODES, NULL);
    assert_int_equal(made.host.cores, 8);
    assert_int_equal(made.host.nodes, 2);
    assert_int_equal(made.host.number[1], 1);
    check_core(&made.host, 0, 0, 2, 0);
    check_core(&made.host, 3, 0, 2, 6);
    check_core(&made.host, 4, 1, 2, 8);
    const struct gw_need need = {.threads = 2};
    check_compute(&made.host, 2, need, 0, "0,2");
    check_compute(&made.host, 2, need, 1, "8,10");
    end_host(&made);
}

static void one_node(void **state)
{
    (void)state;
    struct made made;
    make_host(&made, "numa:1 core:3 pu:1", NULL);
    assert_int_equal(made.host.cores, 3);
    assert_int_equal(made.host.nodes, 1);
    const struct gw_need need = {.threads = 1};
    check_compute(&made.host, 3, need, 2, "2");
    end_host(&made);
}

/* Numbers are the system's, and of nodes without a core of ours nothing is
   known. */
static void what_is_not_allowed_is_not_there(void **state)
{
    (void)state;
    struct made made;
    make_host(&made, TWO_NODES, "9-12");
    assert_int_equal(made.host.nodes, 1);
    assert_int_equal(made.host.number[0], 1);
    assert_int_equal(made.host.cores, 3);
    check_core(&made.host, 0, 0, 1, 9);
    check_core(&made.host, 1, 0, 2, 10);
    check_core(&made.host, 2, 0, 1, 12);
    const struct gw_need need = {.threads = 1};
    check_compute(&made.host, 2, need, 0, "9");
    check_compute(&made.host, 2, need, 1, "10");
    end_host(&made);
    make_host(&made, TWO_NODES, "5");
    struct gw_pin_worker pin;
    const struct gw_colocated colocated = {
        .workers = 2,
        .place = 1,
        .worker = (const struct gw_need[]){{.threads = 1}, {.threads = 1}}};
    gw_pin_worker(&made.host, &colocated, &pin);
    assert_int_equal(pin.how, GW_PIN_LEFT);
    end_host(&made);
}

static void more_workers_than_cores(void **state)
{
    (void)state;
    struct made made;
    make_host(&made, TWO_NODES, "0-3,8-11");
    const struct gw_need need = {.threads = 1};
    check_compute(&made.host, 5, need, 3, "8-11");
    check_compute(&made.host, 5, need, 4, "0-3");
    end_host(&made);
}

static void too_large_hosts_are_told(void **state)
{
    (void)state;
    hwloc_topology_t topology;
    struct gw_pin_host host;
    struct gw_error error;
    assert_int_equal(hwloc_topology_init(&topology), 0);
    assert_int_equal(
        hwloc_topology_set_synthetic(topology, "pack:2 core:1025 pu:1"), 0);
    assert_int_equal(hwloc_topology_load(topology), 0);
    assert_int_equal(gw_pin_hwloc_read(
                         topology, hwloc_topology_get_topology_cpuset(topology),
                         &host, &error),
                     GW_ERANGE);
    assert_non_null(strstr(error.text, "2048 cores"));
    hwloc_topology_destroy(topology);
}

/* ---- devices ---- */

/* hwloc's XML of a GPU and a network card. */
#define GPU                                                                    \
    "<object type=\"Bridge\" gp_index=\"900\" bridge_type=\"0-1\" "            \
    "depth=\"0\" bridge_pci=\"0000:[80-82]\">"                                 \
    "<object type=\"PCIDev\" gp_index=\"901\" pci_busid=\"0000:81:00.0\" "     \
    "pci_type=\"0302 [10de:2330] [10de:1626] a1\" "                            \
    "pci_link_speed=\"63.0\"/></object>"
#define NET(bus, name, index)                                                  \
    "<object type=\"Bridge\" gp_index=\"" index "0\" bridge_type=\"0-1\" "     \
    "depth=\"0\" bridge_pci=\"0000:[" bus "-" bus "]\">"                       \
    "<object type=\"PCIDev\" gp_index=\"" index "1\" "                         \
    "pci_busid=\"0000:" bus ":00.0\" "                                         \
    "pci_type=\"0200 [15b3:1021] [15b3:0023] 00\" pci_link_speed=\"63.0\">"    \
    "<object type=\"OSDev\" gp_index=\"" index "2\" name=\"" name "\" "        \
    "osdev_type=\"2\"/></object></object>"

/* Devices in the second package of a topology's XML, and in none. */
static char *with_devices(const char *xml)
{
    static const char package[] = GPU NET("85", "net7", "91");
    static const char machine[] = NET("20", "net8", "92");
    static const char close[] = "</object>\n  </object>";
    const char *second = strstr(strstr(xml, "\"Package\"") + 1, "\"Package\"");
    const char *end = strstr(second, close);
    assert_non_null(end);
    size_t room = strlen(xml) + sizeof package + sizeof machine;
    char *made = malloc(room);
    assert_non_null(made);
    snprintf(made, room, "%.*s%s</object>%s%s", (int)(end - xml), xml, package,
             machine, end + strlen("</object>"));
    return made;
}

static void make_with_devices(struct made *made)
{
    struct made bare;
    char *xml;
    int bytes;
    make_host(&bare, TWO_NODES, NULL);
    assert_int_equal(
        hwloc_topology_export_xmlbuffer(bare.topology, &xml, &bytes, 0), 0);
    char *full = with_devices(xml);
    hwloc_free_xmlbuffer(bare.topology, xml);
    end_host(&bare);
    assert_int_equal(hwloc_topology_init(&made->topology), 0);
    assert_int_equal(gw_pin_hwloc_prepare(made->topology), 0);
    assert_int_equal(hwloc_topology_set_xmlbuffer(made->topology, full,
                                                  (int)strlen(full) + 1),
                     0);
    assert_int_equal(hwloc_topology_load(made->topology), 0);
    free(full);
    read_host(made, NULL);
}

static void devices_are_near_nodes(void **state)
{
    (void)state;
    struct made made;
    make_with_devices(&made);
    struct hwloc_topology *topology = made.topology;
    const struct gw_pin_host *host = &made.host;
    assert_int_equal(gw_pin_hwloc_device(topology, host, "0000:81:00.0"), 2);
    assert_int_equal(gw_pin_hwloc_device(topology, host, "0000:83:00.0"), 0);
    assert_int_equal(gw_pin_hwloc_device(topology, host, ""), 0);
    assert_int_equal(gw_pin_hwloc_interface(topology, host, "net7"), 2);
    assert_int_equal(gw_pin_hwloc_interface(topology, host, "net8"), 0);
    assert_int_equal(gw_pin_hwloc_interface(topology, host, "net9"), 0);
    const struct gw_need need = {
        .threads = 1,
        .device = gw_pin_hwloc_device(topology, host, "0000:81:00.0")};
    check_compute(host, 1, need, 0, "8");
    /* if all allowed cpus are of one node, nothing is nearer */
    read_host(&made, "0-7");
    assert_int_equal(gw_pin_hwloc_device(topology, host, "0000:81:00.0"), 0);
    end_host(&made);
}

/* ---- this host ---- */

static void this_host(void **state)
{
    (void)state;
    struct gw_pin_view *view;
    struct gw_error error;
    struct gw_cpus cpus;
    if (gw_pin_view_open(&view, &error) != GW_OK)
        fail_msg("%s", error.text);
    assert_true(gw_pin_view_is_here(view));
    assert_true(gw_pin_view_host(view)->cores > 0);
    assert_int_equal(gw_pin_view_interface(view, "lo"), 0);
    gw_pin_near(gw_pin_view_host(view), 0, &cpus);
    assert_int_equal(gw_pin_bind_thread(view, pthread_self(), &cpus, &error),
                     GW_OK);
    assert_int_equal(gw_pin_bind_process(view, &cpus, &error), GW_OK);
    memset(&cpus, 0, sizeof cpus);
    gw_cpus_add(&cpus, GW_PIN_CPUS_MAX - 1); /* not here */
    assert_int_equal(gw_pin_bind_thread(view, pthread_self(), &cpus, &error),
                     GW_EIO);
    assert_string_equal(error.text, strerror(EINVAL));
    gw_pin_view_close(view);
    gw_pin_view_close(NULL);
}

/* A topology from elsewhere is of no use for binding. */
static void another_host(void **state)
{
    (void)state;
    struct gw_pin_view *view;
    struct gw_error error;
    struct gw_cpus cpus;
    setenv("HWLOC_SYNTHETIC", TWO_NODES, 1);
    assert_int_equal(gw_pin_view_open(&view, &error), GW_OK);
    unsetenv("HWLOC_SYNTHETIC");
    assert_false(gw_pin_view_is_here(view));
    assert_int_equal(gw_pin_view_host(view)->cores, 8);
    gw_pin_near(gw_pin_view_host(view), 0, &cpus);
    assert_int_equal(gw_pin_bind_process(view, &cpus, &error), GW_EIO);
    assert_non_null(strstr(error.text, "another machine"));
    assert_int_equal(gw_pin_bind_memory(view, 0, &error), GW_EIO);
    gw_pin_view_close(view);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_packages),
        cmocka_unit_test(one_node),
        cmocka_unit_test(what_is_not_allowed_is_not_there),
        cmocka_unit_test(more_workers_than_cores),
        cmocka_unit_test(too_large_hosts_are_told),
        cmocka_unit_test(devices_are_near_nodes),
        cmocka_unit_test(this_host),
        cmocka_unit_test(another_host),
    };
    unsetenv("HWLOC_XMLFILE");
    unsetenv("HWLOC_SYNTHETIC");
    return cmocka_run_group_tests_name("pin, hwloc", tests, NULL, NULL);
}
