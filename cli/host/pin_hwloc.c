#include "config.h"

#include "cli/host/pin_hwloc.h"

#include <errno.h>
#include <hwloc.h>
#include <stdlib.h>
#include <string.h>

struct gw_pin_view {
    hwloc_topology_t topology;
    struct gw_pin_host host;
};

const char gw_pin_library[] = GW_HWLOC_NAME;

/* ---- reading ---- */

/* The index of a node, added if it is new; -1: no room. A core with memory of
   several kinds belongs to the first. */
static int index_of(struct gw_pin_host *host, hwloc_const_nodeset_t nodes)
{
    int number = hwloc_bitmap_first(nodes);
    uint32_t i = 0;
    if (number < 0)
        number = 0;
    while (i < host->nodes && host->number[i] != (uint32_t)number)
        i++;
    if (i == GW_PIN_NODES_MAX)
        return -1;
    if (i == host->nodes)
        host->number[host->nodes++] = (uint32_t)number;
    return (int)i;
}

static enum gw_status too_large(struct gw_error *error)
{
    return gw_fail(error, GW_ERANGE,
                   "this host has more than the %d cores, %d cpus or %d NUMA "
                   "nodes that threads can be bound to",
                   GW_PIN_CORES_MAX, GW_PIN_CPUS_MAX, GW_PIN_NODES_MAX);
}

static enum gw_status read_core(hwloc_topology_t topology,
                                hwloc_obj_t object,
                                hwloc_const_cpuset_t allowed,
                                struct gw_pin_host *host,
                                struct gw_error *error)
{
    struct gw_pin_core core = {.cpus = 0};
    unsigned cpu;
    for (int i = hwloc_bitmap_first(object->cpuset); i >= 0;
         i = hwloc_bitmap_next(object->cpuset, i)) {
        cpu = (unsigned)i;
        if (!hwloc_bitmap_isset(allowed, cpu))
            continue;
        if (cpu >= GW_PIN_CPUS_MAX)
            return too_large(error);
        if (core.cpus < GW_PIN_SIBLINGS)
            core.cpu[core.cpus++] = (uint16_t)cpu;
    }
    if (core.cpus == 0)
        return GW_OK;
    int node = index_of(host, object->nodeset);
    if (node < 0 || host->cores == GW_PIN_CORES_MAX)
        return too_large(error);
    int kind = hwloc_cpukinds_get_by_cpuset(topology, object->cpuset, 0);
    core.node = (uint8_t)node;
    core.strength = (uint8_t)(kind > 0 ? kind : 0);
    host->core[host->cores++] = core;
    return GW_OK;
}

enum gw_status gw_pin_hwloc_read(struct hwloc_topology *topology,
                                 const struct hwloc_bitmap_s *allowed,
                                 struct gw_pin_host *host_p,
                                 struct gw_error *error)
{
    enum gw_status status = GW_OK;
    hwloc_obj_type_t type =
        hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE) > 0 ? HWLOC_OBJ_CORE
                                                               : HWLOC_OBJ_PU;
    memset(host_p, 0, sizeof *host_p);
    for (hwloc_obj_t one = hwloc_get_next_obj_by_type(topology, type, NULL);
         one && status == GW_OK;
         one = hwloc_get_next_obj_by_type(topology, type, one))
        status = read_core(topology, one, allowed, host_p, error);
    if (status == GW_OK && host_p->cores == 0)
        status = gw_fail(error, GW_EIO, "hwloc finds no core here");
    return status;
}

/* ---- devices ---- */

/* Mask of the nodes with cores of ours near a device; 0 if that is all of
   them. */
static uint64_t nodes_near(hwloc_topology_t topology,
                           const struct gw_pin_host *host,
                           hwloc_obj_t device)
{
    hwloc_obj_t near = hwloc_get_non_io_ancestor_obj(topology, device);
    uint64_t nodes = 0;
    uint32_t n = 0;
    for (uint32_t i = 0; near && near->nodeset && i < host->nodes; i++) {
        if (!hwloc_bitmap_isset(near->nodeset, host->number[i]))
            continue;
        if (host->number[i] < 64)
            nodes |= UINT64_C(1) << host->number[i];
        n++;
    }
    return n < host->nodes ? nodes : 0;
}

uint64_t gw_pin_hwloc_device(struct hwloc_topology *topology,
                             const struct gw_pin_host *host,
                             const char *address)
{
    hwloc_obj_t device = hwloc_get_pcidev_by_busidstring(topology, address);
    return device ? nodes_near(topology, host, device) : 0;
}

uint64_t gw_pin_hwloc_interface(struct hwloc_topology *topology,
                                const struct gw_pin_host *host,
                                const char *name)
{
    for (hwloc_obj_t one = hwloc_get_next_osdev(topology, NULL); one;
         one = hwloc_get_next_osdev(topology, one))
        if (one->name && strcmp(one->name, name) == 0)
            return nodes_near(topology, host, one);
    return 0;
}

/* ---- looking ---- */

/* Leaves out the vendors' components, which start their drivers, and pci's,
   which reads the names of all devices and keeps them: the system itself
   tells the place of a device. Blacklisting fails harmlessly for a missing
   component. */
int gw_pin_hwloc_prepare(struct hwloc_topology *topology)
{
    static const char *const slow[] = {"pci",  "cuda",      "nvml", "opencl",
                                       "rsmi", "levelzero", "gl"};
    for (size_t i = 0; i < sizeof slow / sizeof *slow; i++)
        hwloc_topology_set_components(
            topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, slow[i]);
    return hwloc_topology_set_io_types_filter(topology,
                                              HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
}

/* Restricts the view to the cpus that a launcher has left to this process. */
static enum gw_status look(struct gw_pin_view *view, struct gw_error *error)
{
    hwloc_topology_t topology = view->topology;
    hwloc_bitmap_t allowed =
        hwloc_bitmap_dup(hwloc_topology_get_topology_cpuset(topology));
    hwloc_bitmap_t bound = hwloc_bitmap_alloc();
    enum gw_status status = GW_OK;
    if (!allowed || !bound)
        status = gw_fail(error, GW_ENOMEM, "no memory to look at cores");
    else if (gw_pin_view_is_here(view) &&
             hwloc_get_cpubind(topology, bound, HWLOC_CPUBIND_THREAD) == 0)
        hwloc_bitmap_and(allowed, allowed, bound);
    if (status == GW_OK)
        status = gw_pin_hwloc_read(topology, allowed, &view->host, error);
    hwloc_bitmap_free(bound);
    hwloc_bitmap_free(allowed);
    return status;
}

enum gw_status gw_pin_view_open(struct gw_pin_view **view_p,
                                struct gw_error *error)
{
    struct gw_pin_view *view = calloc(1, sizeof *view);
    if (!view || hwloc_topology_init(&view->topology) != 0) {
        free(view);
        return gw_fail(error, GW_ENOMEM, "no memory to look at cores");
    }
    enum gw_status status = GW_OK;
    if (gw_pin_hwloc_prepare(view->topology) != 0 ||
        hwloc_topology_load(view->topology) != 0)
        status = gw_fail(error, GW_EIO,
                         "hwloc does not find out what this "
                         "host has: %s (see: lstopo)",
                         strerror(errno));
    if (status == GW_OK)
        status = look(view, error);
    if (status != GW_OK) {
        gw_pin_view_close(view);
        return status;
    }
    *view_p = view;
    return GW_OK;
}

void gw_pin_view_close(struct gw_pin_view *view)
{
    if (!view)
        return;
    hwloc_topology_destroy(view->topology);
    free(view);
}

const struct gw_pin_host *gw_pin_view_host(const struct gw_pin_view *view)
{
    return &view->host;
}

int gw_pin_view_is_here(const struct gw_pin_view *view)
{
    return hwloc_topology_is_thissystem(view->topology);
}

uint64_t gw_pin_view_device(const struct gw_pin_view *view, const char *address)
{
    return gw_pin_hwloc_device(view->topology, &view->host, address);
}

uint64_t gw_pin_view_interface(const struct gw_pin_view *view, const char *name)
{
    return gw_pin_hwloc_interface(view->topology, &view->host, name);
}

/* ---- binding ---- */

static hwloc_bitmap_t bitmap_of(const struct gw_cpus *cpus)
{
    hwloc_bitmap_t bitmap = hwloc_bitmap_alloc();
    for (uint32_t cpu = 0; bitmap && cpu < GW_PIN_CPUS_MAX; cpu++)
        if (gw_cpus_has(cpus, cpu) && hwloc_bitmap_set(bitmap, cpu) != 0) {
            hwloc_bitmap_free(bitmap);
            bitmap = NULL;
        }
    return bitmap;
}

static enum gw_status done(const struct gw_pin_view *view,
                           hwloc_bitmap_t bitmap,
                           int failed,
                           struct gw_error *error)
{
    int number = errno;
    hwloc_bitmap_free(bitmap);
    if (!bitmap)
        return gw_fail(error, GW_ENOMEM, "no memory");
    /* hwloc pretends to bind then */
    if (!gw_pin_view_is_here(view))
        return gw_fail(
            error, GW_EIO,
            "HWLOC_XMLFILE or HWLOC_SYNTHETIC shows another machine");
    return failed ? gw_fail(error, GW_EIO, "%s", strerror(number)) : GW_OK;
}

enum gw_status gw_pin_bind_thread(const struct gw_pin_view *view,
                                  pthread_t thread,
                                  const struct gw_cpus *cpus,
                                  struct gw_error *error)
{
    hwloc_bitmap_t set = bitmap_of(cpus);
    int failed =
        set && hwloc_set_thread_cpubind(view->topology, thread, set, 0) != 0;
    return done(view, set, failed, error);
}

enum gw_status gw_pin_bind_process(const struct gw_pin_view *view,
                                   const struct gw_cpus *cpus,
                                   struct gw_error *error)
{
    hwloc_bitmap_t set = bitmap_of(cpus);
    int failed = set && hwloc_set_cpubind(view->topology, set,
                                          HWLOC_CPUBIND_PROCESS) != 0;
    return done(view, set, failed, error);
}

enum gw_status gw_pin_bind_memory(const struct gw_pin_view *view,
                                  uint32_t node,
                                  struct gw_error *error)
{
    hwloc_bitmap_t set = hwloc_bitmap_alloc();
    int failed =
        set && (hwloc_bitmap_set(set, node) != 0 ||
                hwloc_set_membind(view->topology, set, HWLOC_MEMBIND_BIND,
                                  HWLOC_MEMBIND_THREAD |
                                      HWLOC_MEMBIND_BYNODESET) != 0);
    return done(view, set, failed, error);
}
