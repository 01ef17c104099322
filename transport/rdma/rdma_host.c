/* RDMA of this host: its devices, and their addresses. */
#include "config.h"

#include "transport/rdma/rdma.h"

#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "transport/rdma/rdma_memory.h"
#include "transport/rdma/rdma_port.h"

/* Explains how to make a file of a library accessible. Opens it again for the
   reason, since the libraries report each such file as missing. */
static void explain_closed(char *why,
                           size_t why_bytes,
                           const char *name,
                           const char *module)
{
    char file[64];
    snprintf(file, sizeof file, "/dev/infiniband/%.31s", name);
    int number = errno, fd = open(file, O_RDWR | O_CLOEXEC);
    if (fd >= 0)
        close(fd);
    else
        number = errno;
    if (number == EACCES || number == EPERM)
        snprintf(why, why_bytes,
                 "%s may not be opened by this user: chmod 666 %s, or a rule "
                 "of udev that does so",
                 file, file);
    else if (fd < 0 && (number == ENOENT || number == ENXIO))
        snprintf(why, why_bytes,
                 "%s is not there: modprobe %s; in a container, pass it on",
                 file, module);
    else
        snprintf(why, why_bytes, "%s cannot be opened: %s", file,
                 strerror(number));
}

void gw_rdma_explain_closed(char *why, size_t why_bytes)
{
    explain_closed(why, why_bytes, "rdma_cm", "rdma_ucm");
}

/* Non-zero if a port of the device is active; else with the reason. */
static int has_active_port(const struct gw_rdma_library *lib,
                           struct ibv_device *device,
                           char *why,
                           size_t why_bytes)
{
    struct ibv_context *verbs = lib->open_device(device);
    struct ibv_device_attr limits;
    int active = 0;
    if (!verbs) {
        explain_closed(why, why_bytes, device->dev_name, "ib_uverbs");
        return 0;
    }
    if (lib->query_device(verbs, &limits) == 0)
        for (uint8_t port = 1; port <= limits.phys_port_cnt && !active;
             port++) {
            struct ibv_port_attr state;
            active = gw_rdma_query_port(lib, verbs, port, &state) == 0 &&
                     state.state == IBV_PORT_ACTIVE;
        }
    lib->close_device(verbs);
    if (!active)
        snprintf(why, why_bytes, "RDMA device %s has no port that is active",
                 device->name);
    return active;
}

/* Non-zero if connections can be made; opens no device. */
static int
has_connections(const struct gw_rdma_library *lib, char *why, size_t why_bytes)
{
    struct rdma_event_channel *channel = lib->create_event_channel();
    if (!channel) {
        gw_rdma_explain_closed(why, why_bytes);
        return 0;
    }
    lib->destroy_event_channel(channel);
    return 1;
}

enum gw_status gw_rdma_probe(char *why, size_t why_bytes)
{
    struct gw_rdma_library lib;
    int n = 0, active = 0;
    if (gw_rdma_library_load(&lib, why, why_bytes) != GW_OK)
        return GW_EUNSUPPORTED;
    struct ibv_device **devices = lib.get_device_list(&n);
    snprintf(why, why_bytes, "there is no RDMA device here");
    for (int i = 0; devices && i < n && !active; i++) {
        active = has_active_port(&lib, devices[i], why, why_bytes) &&
                 has_connections(&lib, why, why_bytes);
        if (active)
            snprintf(why, why_bytes, "device %s", devices[i]->name);
    }
    if (devices)
        lib.free_device_list(devices);
    return active ? GW_OK : GW_EUNSUPPORTED;
}

/* ---- addresses of devices ---- */

#define GIDS_MAX 1024

static int has_gid(const struct gw_rdma_library *lib,
                   struct ibv_context *verbs,
                   const uint8_t gid[16])
{
    struct ibv_gid_entry *entry = calloc(GIDS_MAX, sizeof *entry);
    ssize_t n =
        entry ? lib->query_gid_table(verbs, entry, GIDS_MAX, 0, sizeof *entry)
              : 0;
    int found = 0;
    for (ssize_t i = 0; i < n && !found; i++)
        found = memcmp(entry[i].gid.raw, gid, 16) == 0;
    free(entry);
    return found;
}

/* RoCE: the address itself. */
static void gid_of_address(const struct sockaddr *address, uint8_t gid[16])
{
    const void *any = address;
    memset(gid, 0, 16);
    if (address->sa_family == AF_INET6) {
        memcpy(gid, &((const struct sockaddr_in6 *)any)->sin6_addr, 16);
        return;
    }
    gid[10] = gid[11] = 0xff;
    memcpy(gid + 12, &((const struct sockaddr_in *)any)->sin_addr, 4);
}

/* InfiniBand: the end of the interface's 20 bytes of hardware address. 0: it
   has no such address. */
static int gid_of_interface(const char *name, uint8_t gid[16])
{
    char path[64 + IF_NAMESIZE], text[128] = "";
    unsigned byte[20];
    int used = 0;
    snprintf(path, sizeof path, "/sys/class/net/%.15s/address", name);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    char *got = fgets(text, sizeof text, file);
    fclose(file);
    for (size_t i = 0; got && i < 20; i++, got += used)
        if (sscanf(got, i ? ":%2x%n" : "%2x%n", &byte[i], &used) != 1)
            return 0;
    for (size_t i = 0; i < 16; i++)
        gid[i] = (uint8_t)byte[i + 4];
    return got != NULL;
}

/*
 * Non-zero if an RDMA device has that address. librdmacm would know, but is not
 * asked: it would keep the device open until this process ends, which may have
 * no other use for it, and the device could not be removed.
 */
static int is_of_device(const struct gw_rdma_library *lib,
                        const struct ifaddrs *one)
{
    uint8_t own[16], hardware[16];
    int n = 0, found = 0;
    struct ibv_device **devices = lib->get_device_list(&n);
    gid_of_address(one->ifa_addr, own);
    int infiniband = gid_of_interface(one->ifa_name, hardware);
    for (int i = 0; devices && i < n && !found; i++) {
        struct ibv_context *verbs = lib->open_device(devices[i]);
        if (!verbs)
            continue;
        found = has_gid(lib, verbs, own) ||
                (infiniband && has_gid(lib, verbs, hardware));
        lib->close_device(verbs);
    }
    if (devices)
        lib->free_device_list(devices);
    return found;
}

/* Non-zero for an address of one link alone, which other hosts do not reach. */
static int is_link_local(const struct sockaddr *address)
{
    const void *any = address;
    return address->sa_family == AF_INET6 &&
           IN6_IS_ADDR_LINKLOCAL(
               &((const struct sockaddr_in6 *)any)->sin6_addr);
}

/* The address of a device that is up; IPv4 comes first. */
static int find_address(const struct gw_rdma_library *lib,
                        const struct ifaddrs *all,
                        int family,
                        char text[GW_ADDRESS_MAX])
{
    for (const struct ifaddrs *one = all; one; one = one->ifa_next) {
        if (!one->ifa_addr || one->ifa_addr->sa_family != family ||
            !(one->ifa_flags & IFF_UP) || one->ifa_flags & IFF_LOOPBACK ||
            is_link_local(one->ifa_addr) || !is_of_device(lib, one))
            continue;
        gw_address_name(one->ifa_addr, gw_address_bytes(one->ifa_addr), text);
        *strrchr(text, ':') = '\0';
        return 1;
    }
    return 0;
}

enum gw_status gw_rdma_meet(char host[GW_ADDRESS_MAX], struct gw_error *error)
{
    struct gw_rdma_library lib;
    struct ifaddrs *all = NULL;
    char why[256];
    int found = 0;
    if (gw_rdma_library_load(&lib, why, sizeof why) != GW_OK)
        return gw_fail(error, GW_EUNSUPPORTED, "%s", why);
    if (getifaddrs(&all) == 0)
        found = find_address(&lib, all, AF_INET, host) ||
                find_address(&lib, all, AF_INET6, host);
    if (all)
        freeifaddrs(all);
    if (found)
        return GW_OK;
    return gw_fail(error, GW_EUNSUPPORTED,
                   "no RDMA device here has an address of its own: ip addr "
                   "add ADDRESS/PREFIX dev INTERFACE (rdma link shows their "
                   "interfaces)");
}

/* ---- memory of GPUs ---- */

static int is_at(struct gw_rdma *rdma,
                 const struct gw_place *own,
                 struct ibv_device *device)
{
    const struct gw_rdma_library *lib = &rdma->lib;
    struct rdma_cm_id *id;
    struct sockaddr_storage at = own->at;
    if (lib->create_id(rdma->channel, &id, NULL, RDMA_PS_TCP) != 0)
        return 0;
    int same = lib->bind_addr(id, (struct sockaddr *)&at) == 0 && id->verbs &&
               strcmp(id->verbs->device->name, device->name) == 0;
    lib->destroy_id(id);
    return same;
}

/* Non-zero if the transport may use a device: any, unless interfaces were
   named. */
static int may_come_to(struct gw_rdma *rdma, struct ibv_device *device)
{
    char why[256];
    int may = rdma->own.n == 0 &&
              has_active_port(&rdma->lib, device, why, sizeof why);
    for (size_t i = 0; i < rdma->own.n && !may; i++)
        may = is_at(rdma, &rdma->own.own[i].place, device);
    return may;
}

static void
ask_devices(struct gw_rdma *rdma, int has_fd, struct gw_rdma_reach *reach)
{
    const struct gw_rdma_library *lib = &rdma->lib;
    char reason[2 * GW_RDMA_PROBE_WHY_MAX];
    int n = 0, asked = 0;
    struct ibv_device **devices = lib->get_device_list(&n);
    *reach =
        (struct gw_rdma_reach){.asked = 1, .has_fd = has_fd, .status = GW_OK};
    for (int i = 0; devices && i < n && reach->status == GW_OK; i++) {
        const char *name = devices[i]->name;
        if (!may_come_to(rdma, devices[i]))
            continue;
        asked++;
        reach->status = gw_rdma_gpu_memory(name, has_fd, reason, sizeof reason);
        if (reach->status != GW_OK)
            snprintf(reach->why, sizeof reach->why, "device %s: %s", name,
                     reason);
    }
    if (devices)
        lib->free_device_list(devices);
    if (asked > 0)
        return;
    reach->status = GW_EUNSUPPORTED;
    snprintf(reach->why, sizeof reach->why, "no RDMA device here can be asked");
}

enum gw_status gw_rdma_takes(struct gw_transport *transport,
                             const struct gw_memory *memory,
                             char *why,
                             size_t why_bytes)
{
    struct gw_rdma *rdma = gw_rdma_of(transport);
    struct gw_rdma_reach *reach = &rdma->reach;
    if (gw_memory_is_host_accessible(memory->kind))
        return GW_OK;
    int has_fd = memory->fd >= 0;
    if (!reach->asked || (!reach->refused && reach->has_fd != has_fd))
        ask_devices(rdma, has_fd, reach);
    if (reach->status == GW_OK)
        return GW_OK;
    snprintf(why, why_bytes, "%s", reach->why);
    return GW_EUNSUPPORTED;
}

/* ---- ports ---- */

static unsigned mtu_bytes(enum ibv_mtu mtu)
{
    return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? 128u << mtu : 0;
}

static unsigned ask_mtu(const struct gw_rdma_library *lib,
                        struct ibv_device *device,
                        unsigned number,
                        unsigned *most_p)
{
    struct ibv_context *verbs = lib->open_device(device);
    struct ibv_port_attr state;
    unsigned mtu = 0;
    if (!verbs)
        return 0;
    if (gw_rdma_query_port(lib, verbs, (uint8_t)number, &state) == 0) {
        mtu = mtu_bytes(state.active_mtu);
        *most_p = mtu_bytes(state.max_mtu);
    }
    lib->close_device(verbs);
    return mtu;
}

unsigned gw_rdma_port_mtu(const char *device, unsigned number, unsigned *most_p)
{
    struct gw_rdma_library lib;
    char why[256];
    int n = 0;
    unsigned mtu = 0;
    if (gw_rdma_library_load(&lib, why, sizeof why) != GW_OK)
        return 0;
    struct ibv_device **devices = lib.get_device_list(&n);
    for (int i = 0; devices && i < n && mtu == 0; i++)
        if (strcmp(devices[i]->name, device) == 0)
            mtu = ask_mtu(&lib, devices[i], number, most_p);
    if (devices)
        lib.free_device_list(devices);
    return mtu;
}
