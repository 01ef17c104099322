/*
 * Binding a member of a job to the cores that pin.h gives it, for worker.pin
 * and server.pin. A failure is a line in the log, and the job goes on unbound.
 */
#ifndef GW_CLI_PIN_MEMBER_H
#define GW_CLI_PIN_MEMBER_H

#include <stdint.h>

#include "cli/host/pin_print.h"
#include "kernels/kernels.h"
#include "proto/config.h"
#include "proto/colocated.h"
#include "proto/status.h"
#include "transport/link/loop.h"

struct gw_log;
struct gw_pin_view;

struct gw_pin_member {
    struct gw_pin_view *view; /* NULL: nothing is bound */
    uint64_t network;         /* nodes near the interfaces (gw_need) */
    char names[256];          /* interfaces that are near to some nodes */
};

/*
 * Reads the host, before any thread is bound; until gw_pin_member_close.
 * `hosts`: names or addresses of the used interfaces, separated by commas.
 * Errors of gw_pin_view_open; the member is zeroed then.
 */
enum gw_status gw_pin_member_open(struct gw_pin_member *member,
                                  const char *hosts,
                                  struct gw_error *error);
void gw_pin_member_close(struct gw_pin_member *member);

/*
 * The same for a process to be bound because of `key`. Logs an unreadable host
 * and returns GW_OK. GW_EUNSUPPORTED: built without hwloc.
 */
enum gw_status gw_pin_member_start(struct gw_pin_member *member,
                                   const char *hosts,
                                   const char *key,
                                   struct gw_log *log,
                                   struct gw_error *error);

/* GW_EUNSUPPORTED: the job asks for pinning, which this build lacks, so its
   processes would not start. */
enum gw_status gw_pin_check(const struct gw_config *config,
                            struct gw_error *error);

/*
 * A worker's needs, told to other members of its host when it joins, bound or
 * not, and its device's PCI address. `place`: as for gw_device_locate. A shard
 * tells its network only.
 */
void gw_pin_member_need(const struct gw_pin_member *member,
                        const struct gw_config *config,
                        uint32_t place,
                        struct gw_need *need_p,
                        char device[GW_PCI_ADDRESS_BYTES]);

/* Describes the binding in words. `device` as below. */
void gw_pin_member_say_worker(const struct gw_pin_member *member,
                              const struct gw_colocated *colocated,
                              const char *device,
                              char text[GW_PIN_TEXT_MAX]);
void gw_pin_member_say_shard(const struct gw_pin_member *member,
                             const struct gw_colocated *colocated,
                             char text[GW_PIN_TEXT_MAX]);

/*
 * Binds the process' threads: the caller's, which computes, the loop's, which
 * communicates, and the others. `device`: its PCI address, or "" if none or
 * unknown. Threads started later inherit the caller's cores.
 */
void gw_pin_member_worker(const struct gw_pin_member *member,
                          const struct gw_colocated *colocated,
                          const char *device,
                          struct gw_loop *loop,
                          struct gw_log *log);

/* Binds all threads of the process, the file readers among them, and so those
   started later, to the cores near the network. */
void gw_pin_member_near(const struct gw_pin_member *member, struct gw_log *log);

/* Binds the calling thread, a shard's. */
void gw_pin_member_shard(const struct gw_pin_member *member,
                         const struct gw_colocated *colocated,
                         struct gw_log *log);

#endif
