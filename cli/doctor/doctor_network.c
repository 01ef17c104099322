/* Checks of the network: transports, interfaces, ports, firewall, routes. */
#include "config.h"

#include "cli/doctor/doctor.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "transport/member/place.h"
#include "proto/interfaces.h"

/* ---- transports ---- */

/* Two processes choose among them when they meet. */
static void say_routes(struct gw_doctor *doctor,
                       const struct gw_routes *routes,
                       const char *why)
{
    char list[128] = "";
    size_t used = 0;
    for (size_t i = 0; routes->data[i] && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s%s",
                                 i ? ", else " : "", routes->data[i]->name,
                                 routes->data[i]->within_host ? " within a host"
                                                              : "");
    gw_doctor_say(doctor, GW_VERDICT_NOTE,
                  "with cluster.transport = \"%s\" tensors go over %s%s%s",
                  doctor->config->cluster.transport, list, why[0] ? ": " : "",
                  why);
}

void gw_doctor_check_transports(struct gw_doctor *doctor)
{
    const char *asked = doctor->config->cluster.transport;
    struct gw_routes routes;
    struct gw_error error;
    char why[512];
    for (size_t i = 0; gw_transports[i]; i++) {
        const struct gw_transport_ops *ops = gw_transports[i];
        why[0] = '\0';
        if (strcmp(ops->name, "sim") == 0)
            continue;
        if (ops->probe(why, sizeof why) == GW_OK)
            gw_doctor_say(doctor, GW_VERDICT_OK, "%s works here%s%s", ops->name,
                          why[0] ? ": " : "", why);
        else if (strcmp(asked, ops->name) == 0)
            gw_doctor_say(doctor, GW_VERDICT_FIX,
                          "%s does not work here: %s; set cluster.transport = "
                          "\"auto\" or \"tcp\", or go by what is said below",
                          ops->name, why);
        else
            gw_doctor_say(doctor, GW_VERDICT_NOTE, "%s does not work here: %s",
                          ops->name, why);
    }
    if (gw_routes_find(asked, &routes, why, sizeof why, &error) != GW_OK)
        return; /* as was said above */
    if (strcmp(routes.control->name, "sim") == 0)
        gw_doctor_say(
            doctor, GW_VERDICT_FIX,
            "cluster.transport = \"sim\" is for simulated jobs, these "
            "are processes: set it to auto, shm, rdma or tcp");
    else
        say_routes(doctor, &routes, why);
}

/* ---- interfaces ---- */

/* An interface's address for other hosts, or NULL. */
static const struct gw_doctor_address *find(const struct gw_doctor *doctor,
                                            const char *name)
{
    const struct gw_doctor_address *best = NULL;
    char bracketed[GW_HOST_ADDRESS_MAX + 2];
    snprintf(bracketed, sizeof bracketed, "[%s]", name);
    for (size_t i = 0; i < doctor->addresses; i++) {
        const struct gw_doctor_address *one = &doctor->address[i];
        if (!one->host[0])
            continue;
        if (strcmp(one->host, name) == 0 || strcmp(one->host, bracketed) == 0)
            return one;
        if (strcmp(one->interface, name) == 0 &&
            (!best || (best->host[0] == '[' && one->host[0] != '[')))
            best = one;
    }
    return best;
}

static int has_interface(const struct gw_doctor *doctor, const char *name)
{
    for (size_t i = 0; i < doctor->addresses; i++)
        if (strcmp(doctor->address[i].interface, name) == 0)
            return 1;
    return 0;
}

/* Lists interfaces usable by a job of several hosts, as "eth0 192.0.2.2, ...";
   returns their number. */
static size_t
list_usable(const struct gw_doctor *doctor, char *text, size_t room)
{
    size_t n = 0, used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < doctor->addresses; i++) {
        const struct gw_doctor_address *one = &doctor->address[i];
        if (!one->up || one->loopback || one->local ||
            find(doctor, one->interface) != one)
            continue;
        n++;
        used += (size_t)snprintf(text + used, room - used, "%s%s %s",
                                 n > 1 ? ", " : "", one->interface, one->host);
        if (used >= room)
            used = room - 1;
    }
    return n;
}

/* `key` names it. */
static void
say_chosen(struct gw_doctor *doctor, const char *key, const char *name)
{
    char text[384];
    const struct gw_doctor_address *one = find(doctor, name);
    const char *interface = one ? one->interface : name;
    list_usable(doctor, text, sizeof text);
    if (!one && has_interface(doctor, name))
        gw_doctor_say(doctor, GW_VERDICT_FIX,
                      "%s %s has no address: ip addr add "
                      "ADDRESS/PREFIX dev %s, and ip link set %s up",
                      key, name, name, name);
    else if (!one)
        gw_doctor_say(doctor, GW_VERDICT_FIX,
                      "%s \"%s\" is no interface or address of "
                      "this host: set it to one of: %s",
                      key, name, text[0] ? text : "(none that is up)");
    else if (!one->up)
        gw_doctor_say(doctor, GW_VERDICT_FIX,
                      "%s %s is down: ip link set %s up", key, name, interface);
    else if (!one->running)
        gw_doctor_say(doctor, GW_VERDICT_FIX,
                      "%s %s has no link: look at its cable and "
                      "the switch's port (ip link show %s)",
                      key, name, interface);
    else
        gw_doctor_say(doctor, GW_VERDICT_OK,
                      "%s, address %s, MTU %u, as %s says", interface,
                      one->host, one->mtu, key);
}

static void say_default(struct gw_doctor *doctor)
{
    char text[384];
    size_t n = list_usable(doctor, text, sizeof text);
    if (n == 0)
        gw_doctor_say(doctor, GW_VERDICT_NOTE,
                      "cluster.interface is empty: a coordinator listens on "
                      "127.0.0.1, for jobs of this host alone, and no other "
                      "interface is up");
    else
        gw_doctor_say(doctor, GW_VERDICT_NOTE,
                      "cluster.interface is empty: a coordinator listens on "
                      "127.0.0.1, for jobs of this host alone; for several "
                      "hosts set cluster.interface to %s: %s",
                      n > 1 ? "one of these" : "this", text);
}

/* Reports interfaces that are down but have an address: somebody meant to use
   them. */
static void say_down(struct gw_doctor *doctor)
{
    for (size_t i = 0; i < doctor->addresses; i++) {
        const struct gw_doctor_address *one = &doctor->address[i];
        if (!one->up && !one->loopback && find(doctor, one->interface) == one)
            gw_doctor_say(doctor, GW_VERDICT_NOTE,
                          "%s (%s) is down: ip link set %s up", one->interface,
                          one->host, one->interface);
    }
}

static int has_loopback(const struct gw_doctor *doctor)
{
    for (size_t i = 0; i < doctor->addresses; i++)
        if (doctor->address[i].loopback && doctor->address[i].up)
            return 1;
    return 0;
}

void gw_doctor_check_interface(struct gw_doctor *doctor)
{
    const char *name = doctor->config->cluster.interface;
    const char *control = doctor->config->cluster.control_interface;
    if (!has_loopback(doctor))
        gw_doctor_say(doctor, GW_VERDICT_FIX,
                      "the loopback interface is down, over which processes of "
                      "one host meet: ip link set lo up");
    struct gw_interfaces list;
    struct gw_error error;
    if (gw_interfaces_parse(name, &list, &error) != GW_OK) {
        gw_doctor_say(doctor, GW_VERDICT_FIX, "cluster.interface: %s",
                      error.text);
        return;
    }
    for (size_t i = 0; i < list.n; i++)
        say_chosen(doctor, "cluster.interface", list.name[i]);
    if (control[0])
        say_chosen(doctor, "cluster.control_interface", control);
    if (list.n > 1)
        gw_doctor_say(doctor, GW_VERDICT_NOTE,
                      "links of a worker are spread over these %zu; a "
                      "coordinator listens on the first",
                      list.n);
    if (list.n > 0 || control[0])
        return;
    say_default(doctor);
    say_down(doctor);
}

/* ---- trust ---- */

/* Servers of a job over rdma alone use a device's address, independently of the
   coordinator. 0: they do not, or it is unknown. */
static int has_far_servers(const struct gw_config *config,
                           char addresses[GW_ADDRESSES_MAX])
{
    struct gw_routes routes;
    struct gw_error error;
    char hosts[GW_ADDRESSES_MAX], why[512];
    if (gw_routes_find(config->cluster.transport, &routes, why, sizeof why,
                       &error) != GW_OK ||
        gw_place_hosts(config, &routes, "127.0.0.1:1", hosts, &error) !=
            GW_OK ||
        gw_place_ports(hosts, 0, addresses, &error) != GW_OK)
        return 0;
    return !gw_place_is_loopback(addresses);
}

void gw_doctor_check_trust(struct gw_doctor *doctor)
{
    const struct gw_config *config = doctor->config;
    char address[GW_ADDRESSES_MAX];
    struct gw_error error;
    if (config->cluster.insecure)
        gw_doctor_say(doctor, GW_VERDICT_NOTE,
                      "cluster.insecure = true: links are neither encrypted "
                      "nor authenticated, over tcp as over rdma: only where "
                      "everybody on the network is trusted");
    else if (gw_doctor_needs_rdma(doctor) && has_far_servers(config, address))
        gw_doctor_say(doctor, GW_VERDICT_FIX,
                      "over rdma servers listen at a device's address (%s), "
                      "which is not loopback: set cluster.insecure = true "
                      "where everybody on the network is trusted",
                      address);
    else if (gw_place_address(config, 0, address, &error) == GW_OK)
        gw_doctor_say(doctor, GW_VERDICT_OK,
                      "a coordinator stays on this host's loopback");
    else if (strstr(error.text, "loopback"))
        gw_doctor_say(doctor, GW_VERDICT_FIX, "%s", error.text);
    else
        gw_doctor_say(doctor, GW_VERDICT_UNKNOWN,
                      "where a coordinator would listen is not known: set "
                      "cluster.interface right first");
}

/* ---- the port ---- */

/* 0, or the errno of listening there. */
static int try_port(const char *host, uint64_t port)
{
    char name[GW_HOST_ADDRESS_MAX], service[24];
    size_t bracket = host[0] == '[';
    struct addrinfo *found = NULL;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_NUMERICHOST};
    int number = 0, on = 1;
    snprintf(name, sizeof name, "%.*s", (int)(strlen(host) - 2 * bracket),
             host + bracket);
    snprintf(service, sizeof service, "%" PRIu64, port);
    if (getaddrinfo(name, service, &hints, &found) != 0)
        return EINVAL;
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        bind(fd, found->ai_addr, found->ai_addrlen) != 0 || listen(fd, 1) != 0)
        number = errno;
    if (fd >= 0)
        close(fd);
    freeaddrinfo(found);
    return number;
}

static void say_taken(struct gw_doctor *doctor, const char *host, uint64_t port)
{
    char owner[128];
    if (gw_doctor_port_owner((uint16_t)port, owner, sizeof owner))
        gw_doctor_say(doctor, GW_VERDICT_FIX,
                      "%s:%" PRIu64 " is in use by %s: end it, or set "
                      "cluster.port to another one (0: any that is free)",
                      host, port, owner);
    else
        gw_doctor_say(doctor, GW_VERDICT_FIX,
                      "%s:%" PRIu64 " is in use (sudo ss -ltnp 'sport = "
                      ":%" PRIu64 "' shows by whom): end it, or set "
                      "cluster.port to another one (0: any that is free)",
                      host, port, port);
}

/* The coordinator's interface; "": loopback. */
static const char *first_interface(const struct gw_doctor *doctor,
                                   struct gw_interfaces *list)
{
    struct gw_error error;
    list->n = 0;
    gw_interfaces_parse(doctor->config->cluster.interface, list, &error);
    if (doctor->config->cluster.control_interface[0])
        return doctor->config->cluster.control_interface;
    return list->n > 0 ? list->name[0] : "";
}

void gw_doctor_check_port(struct gw_doctor *doctor)
{
    struct gw_interfaces list;
    const char *interface = first_interface(doctor, &list);
    uint64_t port = doctor->config->cluster.port;
    const struct gw_doctor_address *at =
        interface[0] ? find(doctor, interface) : NULL;
    const char *host = at ? at->host : "127.0.0.1";
    if (port == 0) {
        gw_doctor_say(doctor, GW_VERDICT_NOTE,
                      "cluster.port is 0: the coordinator takes any that is "
                      "free, and prints it; behind a firewall set one");
        return;
    }
    if (interface[0] && !at) {
        gw_doctor_say(doctor, GW_VERDICT_UNKNOWN,
                      "port %" PRIu64 " is not tried: set the interface right "
                      "first",
                      port);
        return;
    }
    int number = try_port(host, port);
    if (number == 0)
        gw_doctor_say(doctor, GW_VERDICT_OK,
                      "%s:%" PRIu64 " is free (cluster.port)", host, port);
    else if (number == EADDRINUSE)
        say_taken(doctor, host, port);
    else if (number == EACCES)
        gw_doctor_say(doctor, GW_VERDICT_FIX,
                      "port %" PRIu64 " is for root alone: set cluster.port to "
                      "one above 1023",
                      port);
    else
        gw_doctor_say(doctor, GW_VERDICT_FIX,
                      "nobody can listen on %s:%" PRIu64 ": %s; set "
                      "cluster.interface to one that is up (ip addr)",
                      host, port, strerror(number));
}

/* ---- the firewall ---- */

/* Reports only that there are rules: their effect is not judged. */
static void look_at_rules(struct gw_doctor *doctor)
{
    char table[2][64];
    const char *way = "a measurement from the other host shows whether a port "
                      "can be reached (gradweir doctor --peer)";
    if (geteuid() != 0) {
        gw_doctor_say(doctor, GW_VERDICT_UNKNOWN,
                      "only root can read its rules (sudo nft list ruleset, "
                      "sudo iptables -S); %s",
                      way);
        return;
    }
    gw_doctor_read(doctor, table[0], sizeof table[0],
                   "/proc/net/ip_tables_names");
    gw_doctor_read(doctor, table[1], sizeof table[1],
                   "/proc/net/ip6_tables_names");
    if (table[0][0] || table[1][0])
        gw_doctor_say(doctor, GW_VERDICT_UNKNOWN,
                      "there are rules (iptables -S INPUT, ip6tables -S INPUT, "
                      "nft list ruleset), what they let through is not judged; "
                      "%s",
                      way);
    else
        gw_doctor_say(doctor, GW_VERDICT_UNKNOWN,
                      "no table of iptables is in use, rules of nftables are "
                      "not read (nft list ruleset); %s",
                      way);
}

/* Reports measured reachability only: one port, from one host. */
void gw_doctor_check_firewall(struct gw_doctor *doctor)
{
    if (doctor->peers == 0)
        look_at_rules(doctor);
    for (size_t i = 0; i < doctor->peers; i++) {
        const struct gw_doctor_seen *seen = &doctor->seen[i];
        if (!seen->reached)
            gw_doctor_say(
                doctor, GW_VERDICT_UNKNOWN,
                "%s was not reached: nobody serves there, or a firewall "
                "keeps this host from it",
                doctor->peer[i]);
        else
            gw_doctor_say(doctor, seen->dialed_back, "%s", seen->dial_back);
    }
}

/* ---- routes ---- */

/* Non-zero if packets leave by a chosen interface, or none was chosen. */
static int is_chosen(const struct gw_doctor *doctor,
                     const struct gw_doctor_address *from)
{
    struct gw_interfaces list;
    int known = 0;
    first_interface(doctor, &list);
    for (size_t i = 0; i < list.n; i++) {
        const struct gw_doctor_address *of = find(doctor, list.name[i]);
        known += of != NULL;
        if (of && strcmp(from->interface, of->interface) == 0)
            return 1;
    }
    return known == 0;
}

void gw_doctor_check_route(struct gw_doctor *doctor)
{
    for (size_t i = 0; i < doctor->peers; i++) {
        char own[GW_HOST_ADDRESS_MAX];
        struct gw_error error;
        const char *peer = doctor->peer[i];
        if (gw_host_towards(peer, own, &error) != GW_OK) {
            gw_doctor_say(doctor, GW_VERDICT_FIX,
                          "no way to %s: see whether its name is known (getent "
                          "hosts), an interface of its network is up (ip "
                          "addr), and ip route get ADDRESS",
                          peer);
            continue;
        }
        const struct gw_doctor_address *from = find(doctor, own);
        const char *chosen = doctor->config->cluster.interface;
        if (from && !is_chosen(doctor, from))
            gw_doctor_say(doctor, GW_VERDICT_NOTE,
                          "packets to %s leave by %s (%s), and "
                          "cluster.interface is %s: is it the one meant?",
                          peer, from->interface, own, chosen);
        else
            gw_doctor_say(doctor, GW_VERDICT_OK,
                          "packets to %s leave by %s (%s, MTU %u)", peer,
                          from ? from->interface : "an interface", own,
                          from ? from->mtu : 0);
    }
}
