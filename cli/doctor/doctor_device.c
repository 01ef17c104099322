/*
 * RDMA devices as sysfs shows them, which takes neither rights nor rdma-core:
 *
 *   /sys/class/infiniband/DEVICE/ports/N/{state,phys_state,link_layer,rate}
 *                               .../gids/I, gid_attrs/{types,ndevs}/I
 *   /sys/class/infiniband/DEVICE/{parent,device/net}   its interface
 *   /sys/class/infiniband_verbs/uverbsN/ibdev            its file in /dev
 */
#include "config.h"

#include "cli/doctor/doctor.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/interfaces.h"

#define CLASS           "/sys/class/infiniband"
#define PORTS_MAX       32
#define DEVICE_NAME_MAX 64

struct port {
    char device[DEVICE_NAME_MAX];
    unsigned number;
    char interface[IF_NAMESIZE]; /* "": unknown */
    char state[32], physical[32], layer[32], rate[64];
    int up; /* the interface */
    int carrier;
    unsigned mtu; /* the interface's; 0: none */
};

struct ports {
    size_t n, devices, active;
    struct port port[PORTS_MAX];
};

/* "4: ACTIVE" */
static void read_state(const struct gw_doctor *doctor,
                       const struct port *port,
                       const char *name,
                       char *text,
                       size_t room)
{
    gw_doctor_read(doctor, text, room, CLASS "/%s/ports/%u/%s", port->device,
                   port->number, name);
    const char *space = strstr(text, ": ");
    if (space)
        memmove(text, space + 2, strlen(space + 2) + 1);
}

static void read_interface(const struct gw_doctor *doctor, struct port *port)
{
    struct gw_doctor_names names;
    char *to = port->interface;
    size_t room = sizeof port->interface;
    gw_doctor_names(doctor, &names, CLASS "/%s/ports/%u/gid_attrs/ndevs",
                    port->device, port->number);
    for (int i = 0; i < names.n && !to[0]; i++)
        gw_doctor_read(doctor, to, room,
                       CLASS "/%s/ports/%u/gid_attrs/ndevs/%s", port->device,
                       port->number, names.entry[i]->d_name);
    gw_doctor_names_free(&names);
    /* a table is empty while the interface is down */
    if (!to[0])
        gw_doctor_read(doctor, to, room, CLASS "/%s/parent", port->device);
    gw_doctor_names(doctor, &names, CLASS "/%s/device/net", port->device);
    if (!to[0] && names.n > 0)
        snprintf(to, room, "%.15s", names.entry[0]->d_name);
    gw_doctor_names_free(&names);
}

static void read_link(const struct gw_doctor *doctor, struct port *port)
{
    char text[32];
    if (!port->interface[0])
        return;
    gw_doctor_read(doctor, text, sizeof text, "/sys/class/net/%s/flags",
                   port->interface);
    port->up = (strtoul(text, NULL, 16) & IFF_UP) != 0;
    gw_doctor_read(doctor, text, sizeof text, "/sys/class/net/%s/carrier",
                   port->interface);
    port->carrier = strcmp(text, "0") != 0;
    gw_doctor_read(doctor, text, sizeof text, "/sys/class/net/%s/mtu",
                   port->interface);
    port->mtu = (unsigned)strtoul(text, NULL, 10);
}

static void read_port(const struct gw_doctor *doctor,
                      const char *device,
                      const char *number,
                      struct port *port)
{
    *port = (struct port){.number = (unsigned)strtoul(number, NULL, 10)};
    snprintf(port->device, sizeof port->device, "%.63s", device);
    read_state(doctor, port, "state", port->state, sizeof port->state);
    read_state(doctor, port, "phys_state", port->physical,
               sizeof port->physical);
    read_state(doctor, port, "link_layer", port->layer, sizeof port->layer);
    read_state(doctor, port, "rate", port->rate, sizeof port->rate);
    read_interface(doctor, port);
    read_link(doctor, port);
}

static int is_active(const struct port *port)
{
    return strcmp(port->state, "ACTIVE") == 0;
}

static void read_ports(const struct gw_doctor *doctor, struct ports *ports)
{
    struct gw_doctor_names devices, numbers;
    *ports = (struct ports){0};
    gw_doctor_names(doctor, &devices, CLASS);
    for (int d = 0; d < devices.n; d++) {
        const char *device = devices.entry[d]->d_name;
        gw_doctor_names(doctor, &numbers, CLASS "/%s/ports", device);
        for (int i = 0; i < numbers.n && ports->n < PORTS_MAX; i++) {
            struct port *port = &ports->port[ports->n++];
            read_port(doctor, device, numbers.entry[i]->d_name, port);
            ports->active += is_active(port) != 0;
        }
        ports->devices++;
        gw_doctor_names_free(&numbers);
    }
    gw_doctor_names_free(&devices);
}

/* ---- ports ---- */

/* A faulty device stops a job only if the job has no other device or
   transport. */
static enum gw_verdict verdict(const struct gw_doctor *doctor, int others)
{
    return gw_doctor_takes_rdma(doctor) && !others ? GW_VERDICT_FIX
                                                   : GW_VERDICT_NOTE;
}

static void
say_down(struct gw_doctor *doctor, const struct port *port, enum gw_verdict as)
{
    char text[256];
    int infiniband = strcmp(port->layer, "InfiniBand") == 0;
    snprintf(text, sizeof text, "%s port %u is %s (%s, %s)", port->device,
             port->number, port->state[0] ? port->state : "in no known state",
             port->physical[0] ? port->physical : "physical state unknown",
             port->layer[0] ? port->layer : "link layer unknown");
    if (port->interface[0] && !port->up)
        gw_doctor_say(doctor, as,
                      "%s: its interface %s is down: ip link set %s up", text,
                      port->interface, port->interface);
    else if (infiniband && strcmp(port->state, "INIT") == 0)
        gw_doctor_say(doctor, as,
                      "%s: it waits for a subnet manager: start one on this "
                      "network (systemctl start opensm)",
                      text);
    else
        gw_doctor_say(doctor, as,
                      "%s: no link: look at cable, transceiver and the "
                      "switch's port (rdma link show %s/%u)",
                      text, port->device, port->number);
}

static void say_none(struct gw_doctor *doctor)
{
    if (gw_doctor_needs_rdma(doctor))
        gw_doctor_say(doctor, GW_VERDICT_FIX,
                      "no RDMA device here, and cluster.transport is rdma: "
                      "set cluster.transport = \"auto\", or load the driver of "
                      "the device (lspci -k names it), or make one in software "
                      "(rdma link add rxe0 type rxe netdev INTERFACE)");
    else
        gw_doctor_say(doctor, GW_VERDICT_NOTE,
                      "no RDMA device here: tensors go over tcp; where there "
                      "should be one, load its driver (lspci -k names it)");
}

void gw_doctor_check_devices(struct gw_doctor *doctor)
{
    struct ports ports;
    read_ports(doctor, &ports);
    if (ports.devices == 0)
        say_none(doctor);
    else if (ports.n == 0)
        gw_doctor_say(doctor, GW_VERDICT_UNKNOWN,
                      "the RDMA devices here show no ports: rdma link show");
    for (size_t i = 0; i < ports.n; i++) {
        const struct port *port = &ports.port[i];
        if (is_active(port))
            gw_doctor_say(doctor, GW_VERDICT_OK,
                          "%s port %u is active: %s, %s, %s, interface %s",
                          port->device, port->number, port->physical,
                          port->layer, port->rate,
                          port->interface[0] ? port->interface : "unknown");
        else
            say_down(doctor, port, verdict(doctor, ports.active > 0));
    }
}

/* Reads active ports; nothing is known about others. */
static size_t read_active(struct gw_doctor *doctor, struct ports *ports)
{
    read_ports(doctor, ports);
    if (ports->active == 0)
        gw_doctor_say(doctor, GW_VERDICT_NOTE,
                      "nothing to look at: no RDMA device here is active");
    return ports->active;
}

/* ---- MTU ---- */

/* Headers of RoCE: GRH or IP, UDP, BTH and extensions. */
#define ROCE_HEADERS 96

void gw_doctor_check_mtu(struct gw_doctor *doctor)
{
    struct ports ports;
    if (read_active(doctor, &ports) == 0)
        return;
    for (size_t i = 0; i < ports.n; i++) {
        const struct port *port = &ports.port[i];
        unsigned most = 0, mtu;
        if (!is_active(port))
            continue;
        mtu = doctor->port_mtu(port->device, port->number, &most);
        if (mtu == 0)
            gw_doctor_say(doctor, GW_VERDICT_UNKNOWN,
                          "%s port %u: its path MTU cannot be asked for "
                          "(ibv_devinfo -d %s); interface %s has %u",
                          port->device, port->number, port->device,
                          port->interface, port->mtu);
        else if (mtu < most && strcmp(port->layer, "Ethernet") == 0)
            gw_doctor_say(doctor, GW_VERDICT_NOTE,
                          "%s port %u: path MTU %u of %u, as interface %s has "
                          "%u; faster where all of the network can: ip link "
                          "set %s mtu %u",
                          port->device, port->number, mtu, most,
                          port->interface, port->mtu, port->interface,
                          most + ROCE_HEADERS + 8);
        else
            gw_doctor_say(doctor, GW_VERDICT_OK,
                          "%s port %u: path MTU %u of %u, interface %s has %u",
                          port->device, port->number, mtu, most,
                          port->interface, port->mtu);
    }
}

/* ---- GIDs ---- */

struct gid {
    int index; /* -1: none */
    int v2;
};

static int is_same_gid(const char *text, const uint8_t gid[16])
{
    uint8_t bytes[16];
    return inet_pton(AF_INET6, text, bytes) == 1 && memcmp(bytes, gid, 16) == 0;
}

/* librdmacm prefers RoCE v2. */
static struct gid find_gid(const struct gw_doctor *doctor,
                           const struct port *port,
                           const uint8_t gid[16])
{
    struct gw_doctor_names names;
    struct gid found = {.index = -1};
    char text[64];
    gw_doctor_names(doctor, &names, CLASS "/%s/ports/%u/gids", port->device,
                    port->number);
    for (int i = 0; i < names.n && !found.v2; i++) {
        const char *index = names.entry[i]->d_name;
        gw_doctor_read(doctor, text, sizeof text, CLASS "/%s/ports/%u/gids/%s",
                       port->device, port->number, index);
        if (!is_same_gid(text, gid))
            continue;
        gw_doctor_read(doctor, text, sizeof text,
                       CLASS "/%s/ports/%u/gid_attrs/types/%s", port->device,
                       port->number, index);
        found = (struct gid){.index = (int)strtol(index, NULL, 10),
                             .v2 = strcmp(text, "RoCE v2") == 0};
    }
    gw_doctor_names_free(&names);
    return found;
}

static void say_gid(struct gw_doctor *doctor,
                    const struct port *port,
                    const struct gw_doctor_address *address,
                    struct gid gid)
{
    const char *of = address->interface;
    if (gid.index < 0)
        gw_doctor_say(doctor, verdict(doctor, 0),
                      "%s port %u has no GID for %s of %s: set the interface "
                      "down and up again (ip link set %s down, ip link set %s "
                      "up), and look at rdma link",
                      port->device, port->number, address->host, of, of, of);
    else if (!gid.v2)
        gw_doctor_say(doctor, GW_VERDICT_NOTE,
                      "%s port %u: index %d for %s of %s is RoCE v1, which no "
                      "router passes on; for RoCE v2 see the driver of the "
                      "device (cma_roce_mode -d %s -p %u -m 2)",
                      port->device, port->number, gid.index, address->host, of,
                      port->device, port->number);
    else
        gw_doctor_say(doctor, GW_VERDICT_OK,
                      "%s port %u: index %d for %s of %s, RoCE v2",
                      port->device, port->number, gid.index, address->host, of);
}

/* Reports every address of the port: those of its interface, and of interfaces
   on top of that, such as VLANs. */
static void say_gids(struct gw_doctor *doctor, const struct port *port)
{
    size_t n = 0;
    for (size_t i = 0; i < doctor->addresses; i++) {
        const struct gw_doctor_address *address = &doctor->address[i];
        if (address->local || !address->host[0])
            continue;
        struct gid gid = find_gid(doctor, port, address->gid);
        if (gid.index < 0 && strcmp(address->interface, port->interface) != 0)
            continue;
        n++;
        say_gid(doctor, port, address, gid);
    }
    if (n == 0 && port->interface[0])
        gw_doctor_say(doctor, verdict(doctor, 0),
                      "%s port %u: interface %s has no address, and peers are "
                      "met by address: ip addr add ADDRESS/PREFIX dev %s",
                      port->device, port->number, port->interface,
                      port->interface);
    else if (n == 0)
        gw_doctor_say(doctor, GW_VERDICT_UNKNOWN,
                      "%s port %u: which interface it has cannot be told: rdma "
                      "link show",
                      port->device, port->number);
}

/* Non-zero if an entry of cluster.interface belongs to an active port, or to a
   port with an unknown interface. */
static int is_of_port(const struct gw_doctor *doctor,
                      const struct ports *ports,
                      const char *name)
{
    for (size_t a = 0; a < doctor->addresses; a++)
        if (strcmp(doctor->address[a].host, name) == 0)
            name = doctor->address[a].interface;
    for (size_t i = 0; i < ports->n; i++) {
        const struct port *port = &ports->port[i];
        if (is_active(port) &&
            (!port->interface[0] || strcmp(port->interface, name) == 0))
            return 1;
    }
    return 0;
}

/* Reports a job with other interfaces, which would not use the device; one of
   several ports is enough. */
static void say_elsewhere(struct gw_doctor *doctor, const struct ports *ports)
{
    const char *name = doctor->config->cluster.interface;
    struct gw_interfaces list;
    struct gw_error error;
    const struct port *first = ports->port;
    size_t of_port = 0;
    if (gw_interfaces_parse(name, &list, &error) != GW_OK || list.n == 0 ||
        !gw_doctor_takes_rdma(doctor))
        return;
    for (size_t i = 0; i < list.n; i++)
        of_port += is_of_port(doctor, ports, list.name[i]) != 0;
    while (!is_active(first))
        first++;
    if (of_port == 0)
        gw_doctor_say(
            doctor,
            gw_doctor_needs_rdma(doctor) ? GW_VERDICT_FIX : GW_VERDICT_NOTE,
            "cluster.interface %s is not that of an active RDMA device: set it "
            "to %s, which is that of %s",
            name, first->interface, first->device);
    for (size_t i = 0; i < list.n && of_port > 0; i++)
        if (!is_of_port(doctor, ports, list.name[i]))
            gw_doctor_say(doctor, GW_VERDICT_NOTE,
                          "%s of cluster.interface is not that of an active "
                          "RDMA device: no link over rdma goes there",
                          list.name[i]);
}

void gw_doctor_check_gids(struct gw_doctor *doctor)
{
    struct ports ports;
    if (read_active(doctor, &ports) == 0)
        return;
    for (size_t i = 0; i < ports.n; i++) {
        const struct port *port = &ports.port[i];
        if (!is_active(port))
            continue;
        if (strcmp(port->layer, "InfiniBand") == 0)
            gw_doctor_say(doctor, GW_VERDICT_NOTE,
                          "%s port %u is InfiniBand: there is one GID, index "
                          "0; peers are met by the address of its interface",
                          port->device, port->number);
        else
            say_gids(doctor, port);
    }
    say_elsewhere(doctor, &ports);
}

/* ---- the memory of GPUs ---- */

static void say_gpu_memory(struct gw_doctor *doctor, const char *device)
{
    char text[512];
    enum gw_status status = doctor->gpu_memory(device, 1, text, sizeof text);
    if (status == GW_OK)
        gw_doctor_say(doctor, GW_VERDICT_NOTE,
                      "%s takes GPU memory by %s: so say device and kernel, no "
                      "GPU's was tried",
                      device, text);
    else if (status == GW_EUNSUPPORTED)
        gw_doctor_say(doctor, GW_VERDICT_NOTE,
                      "%s takes GPU memory through a pinned mirror in host "
                      "memory, because %s",
                      device, text);
    else
        gw_doctor_say(doctor, GW_VERDICT_UNKNOWN,
                      "whether %s takes GPU memory is not known: %s", device,
                      text);
}

void gw_doctor_say_gpu_memory(struct gw_doctor *doctor)
{
    struct ports ports;
    const char *said = "";
    read_ports(doctor, &ports);
    for (size_t i = 0; i < ports.n; i++) {
        const char *device = ports.port[i].device;
        if (!is_active(&ports.port[i]) || strcmp(device, said) == 0)
            continue;
        say_gpu_memory(doctor, device);
        said = device;
    }
}

/* ---- files ---- */

/* Opens the file, since access does not depend on its mode alone. */
static void check_file(struct gw_doctor *doctor,
                       const char *name,
                       const char *of,
                       const char *module)
{
    char path[256];
    snprintf(path, sizeof path, "%s/dev/infiniband/%s", doctor->root, name);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    int number = errno;
    if (fd >= 0) {
        close(fd);
        gw_doctor_say(doctor, GW_VERDICT_OK,
                      "/dev/infiniband/%s (%s) can be opened", name, of);
    } else if (number == ENOENT) {
        gw_doctor_say(doctor, verdict(doctor, 0),
                      "/dev/infiniband/%s (%s) is not there: modprobe %s; in a "
                      "container, pass the directory on (--device "
                      "/dev/infiniband)",
                      name, of, module);
    } else if (number == EACCES || number == EPERM) {
        gw_doctor_say(doctor, verdict(doctor, 0),
                      "/dev/infiniband/%s (%s) may not be opened by this user: "
                      "chmod 666 /dev/infiniband/%s, or a rule of udev that "
                      "does so; in a container, pass the device on",
                      name, of, name);
    } else {
        gw_doctor_say(doctor, verdict(doctor, 0),
                      "/dev/infiniband/%s (%s) cannot be opened: %s; load its "
                      "driver again, and see dmesg",
                      name, of, strerror(number));
    }
}

void gw_doctor_check_files(struct gw_doctor *doctor)
{
    struct ports ports;
    struct gw_doctor_names names;
    char device[DEVICE_NAME_MAX];
    read_ports(doctor, &ports);
    if (ports.devices == 0) {
        gw_doctor_say(doctor, GW_VERDICT_NOTE,
                      "nothing to look at: no RDMA device here");
        return;
    }
    check_file(doctor, "rdma_cm", "librdmacm", "rdma_ucm");
    gw_doctor_names(doctor, &names, "/sys/class/infiniband_verbs");
    size_t n = 0;
    for (int i = 0; i < names.n; i++) {
        const char *name = names.entry[i]->d_name;
        if (!gw_doctor_read(doctor, device, sizeof device,
                            "/sys/class/infiniband_verbs/%s/ibdev", name))
            continue;
        check_file(doctor, name, device, "ib_uverbs");
        n++;
    }
    gw_doctor_names_free(&names);
    if (n == 0)
        gw_doctor_say(doctor, verdict(doctor, 0),
                      "no device can be used by programs: modprobe ib_uverbs");
}
