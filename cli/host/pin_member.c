#include "config.h"

#include "cli/host/pin_member.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "transport/link/host.h"
#include "cli/host/pin_host.h"
#include "kernels/kernels.h"
#include "proto/log.h"
#include "transport/link/transport.h"

/* ---- near nodes ---- */

static void add_interface(struct gw_pin_member *member, const char *host)
{
    char name[GW_HOST_INTERFACE_MAX];
    size_t used = strlen(member->names);
    if (!gw_host_interface_name(host, name))
        return;
    uint64_t nodes = gw_pin_view_interface(member->view, name);
    if (nodes == 0)
        return;
    member->network |= nodes;
    snprintf(member->names + used, sizeof member->names - used, "%s%s",
             used > 0 ? ", " : "", name);
}

enum gw_status gw_pin_member_open(struct gw_pin_member *member,
                                  const char *hosts,
                                  struct gw_error *error)
{
    char list[GW_ADDRESSES_MAX], *rest = list;
    *member = (struct gw_pin_member){.view = NULL};
    enum gw_status status = gw_pin_view_open(&member->view, error);
    if (status != GW_OK)
        return status;
    snprintf(list, sizeof list, "%s", hosts);
    while (rest)
        add_interface(member, strsep(&rest, ","));
    return GW_OK;
}

void gw_pin_member_close(struct gw_pin_member *member)
{
    gw_pin_view_close(member->view);
    member->view = NULL;
}

enum gw_status gw_pin_member_start(struct gw_pin_member *member,
                                   const char *hosts,
                                   const char *key,
                                   struct gw_log *log,
                                   struct gw_error *error)
{
    enum gw_status status = gw_pin_member_open(member, hosts, error);
    if (status == GW_EUNSUPPORTED)
        return gw_fail_in(error, "%s", key);
    if (status != GW_OK)
        gw_log_warn(log, "%s: %s; threads stay where the kernel puts them", key,
                    error->text);
    return GW_OK;
}

enum gw_status gw_pin_check(const struct gw_config *config,
                            struct gw_error *error)
{
    struct gw_pin_view *view = NULL;
    if (!config->worker.pin && !config->server.pin)
        return GW_OK;
    enum gw_status status = gw_pin_view_open(&view, error);
    if (status == GW_OK)
        gw_pin_view_close(view);
    if (status != GW_EUNSUPPORTED)
        return GW_OK;
    return gw_fail_in(error, "%s",
                      config->worker.pin ? "worker.pin" : "server.pin");
}

/* ---- needs ---- */

void gw_pin_member_need(const struct gw_pin_member *member,
                        const struct gw_config *config,
                        uint32_t place,
                        struct gw_need *need_p,
                        char device[GW_PCI_ADDRESS_BYTES])
{
    struct gw_need need = {.threads = 1};
    device[0] = '\0';
    if (config->train.arithmetic != GW_ARITHMETIC_NONE)
        need.threads = gw_device_locate(config, place, device);
    if (member->view) {
        need.device = device[0] ? gw_pin_view_device(member->view, device) : 0;
        need.network = member->network;
    }
    *need_p = need;
}

/* ---- workers ---- */

static void decide_worker(const struct gw_pin_member *member,
                          const struct gw_colocated *colocated,
                          const char *device,
                          struct gw_pin_worker *pin,
                          char text[GW_PIN_TEXT_MAX])
{
    const struct gw_pin_host *host = gw_pin_view_host(member->view);
    const struct gw_pin_names names = {device, member->names};
    gw_pin_worker(host, colocated, pin);
    gw_pin_print_worker(host, colocated, &names, pin, text);
}

void gw_pin_member_say_worker(const struct gw_pin_member *member,
                              const struct gw_colocated *colocated,
                              const char *device,
                              char text[GW_PIN_TEXT_MAX])
{
    struct gw_pin_worker pin;
    decide_worker(member, colocated, device, &pin, text);
}

/* Logs one line in any case; returns 0 if nothing is bound. */
static int tell(const char *key,
                enum gw_status status,
                const struct gw_error *error,
                const char *text,
                struct gw_log *log)
{
    if (status == GW_OK)
        gw_log_info(log, "%s: %s", key, text);
    else
        gw_log_warn(log,
                    "%s: cannot bind a thread (%s), it stays where the kernel "
                    "puts it; it was to be: %s",
                    key, error->text, text);
    return status == GW_OK;
}

static enum gw_status bind_threads(const struct gw_pin_view *view,
                                   const struct gw_pin_worker *pin,
                                   struct gw_loop *loop,
                                   struct gw_error *error)
{
    pthread_t thread;
    if (pin->how == GW_PIN_LEFT)
        return GW_OK;
    enum gw_status status = gw_pin_bind_process(view, &pin->rest, error);
    if (status == GW_OK)
        status = gw_pin_bind_thread(view, pthread_self(), &pin->compute, error);
    if (status == GW_OK && gw_loop_thread(loop, &thread))
        status = gw_pin_bind_thread(view, thread, &pin->talks, error);
    return status;
}

/* Some containers forbid this; then memory comes from the node of the first
   touch, which is the same while a thread stays. */
static void
bind_memory(const struct gw_pin_view *view, int node, struct gw_log *log)
{
    const struct gw_pin_host *host = gw_pin_view_host(view);
    struct gw_error error;
    if (host->nodes > 1 && node >= 0 &&
        gw_pin_bind_memory(view, host->number[node], &error) != GW_OK)
        gw_log_info(log,
                    "cannot ask for memory of node %u: %s; it is of the node "
                    "that touches it first",
                    host->number[node], error.text);
}

void gw_pin_member_worker(const struct gw_pin_member *member,
                          const struct gw_colocated *colocated,
                          const char *device,
                          struct gw_loop *loop,
                          struct gw_log *log)
{
    struct gw_pin_worker pin;
    struct gw_error error;
    char text[GW_PIN_TEXT_MAX];
    if (!member->view)
        return;
    decide_worker(member, colocated, device, &pin, text);
    enum gw_status status = bind_threads(member->view, &pin, loop, &error);
    if (tell("worker.pin", status, &error, text, log) && pin.how != GW_PIN_LEFT)
        bind_memory(member->view, pin.node, log);
}

/* ---- servers ---- */

static void decide_shard(const struct gw_pin_member *member,
                         const struct gw_colocated *colocated,
                         struct gw_pin_shard *pin,
                         char text[GW_PIN_TEXT_MAX])
{
    const struct gw_pin_host *host = gw_pin_view_host(member->view);
    const struct gw_pin_names names = {"", member->names};
    gw_pin_shard(host, colocated, pin);
    gw_pin_print_shard(host, colocated, &names, pin, text);
}

void gw_pin_member_say_shard(const struct gw_pin_member *member,
                             const struct gw_colocated *colocated,
                             char text[GW_PIN_TEXT_MAX])
{
    struct gw_pin_shard pin;
    decide_shard(member, colocated, &pin, text);
}

void gw_pin_member_near(const struct gw_pin_member *member, struct gw_log *log)
{
    struct gw_cpus cpus;
    struct gw_error error;
    if (!member->view || member->network == 0)
        return;
    gw_pin_near(gw_pin_view_host(member->view), member->network, &cpus);
    if (gw_pin_bind_process(member->view, &cpus, &error) != GW_OK)
        gw_log_warn(log, "server.pin: threads cannot be bound near %s: %s",
                    member->names, error.text);
}

void gw_pin_member_shard(const struct gw_pin_member *member,
                         const struct gw_colocated *colocated,
                         struct gw_log *log)
{
    struct gw_pin_shard pin;
    struct gw_error error;
    enum gw_status status = GW_OK;
    char text[GW_PIN_TEXT_MAX];
    if (!member->view)
        return;
    decide_shard(member, colocated, &pin, text);
    if (pin.how != GW_PIN_LEFT)
        status =
            gw_pin_bind_thread(member->view, pthread_self(), &pin.cpus, &error);
    if (tell("server.pin", status, &error, text, log) && pin.how != GW_PIN_LEFT)
        bind_memory(member->view, pin.node, log);
}
