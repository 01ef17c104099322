/*
 * A member of a job on the cores that pin.h gives it: what worker.pin and
 * server.pin do. What cannot be done is a line in the log, and the job goes on
 * where the kernel puts it.
 */
#ifndef GW_CLI_PIN_MEMBER_H
#define GW_CLI_PIN_MEMBER_H

#include <stdint.h>

#include "cli/host/pin_print.h"
#include "kernels/kernels.h"
#include "proto/config.h"
#include "proto/mates.h"
#include "proto/status.h"
#include "transport/link/loop.h"

struct gw_log;
struct gw_pin_view;

struct gw_pin_member {
    struct gw_pin_view *view; /* NULL: nothing is bound */
    uint64_t network;         /* nodes near the interfaces, as of gw_need */
    char names[256];          /* of the interfaces that are near to some */
};

/*
 * Looks at the host, before any thread is bound; until gw_pin_member_close.
 * `hosts`: names or addresses of the interfaces that are used, separated by
 * commas. Errors of gw_pin_view_open; the member is all zeros then.
 */
enum gw_status gw_pin_member_open(struct gw_pin_member *member,
                                  const char *hosts,
                                  struct gw_error *error);
void gw_pin_member_close(struct gw_pin_member *member);

/*
 * The same for a process that is to be bound, as `key` says. Where the host
 * cannot be looked at that is logged, and it is GW_OK. GW_EUNSUPPORTED: this
 * program was built without hwloc.
 */
enum gw_status gw_pin_member_start(struct gw_pin_member *member,
                                   const char *hosts,
                                   const char *key,
                                   struct gw_log *log,
                                   struct gw_error *error);

/* GW_EUNSUPPORTED: processes of the job would not start for that. */
enum gw_status gw_pin_check(const struct gw_config *config,
                            struct gw_error *error);

/*
 * What a worker has to tell others of its host when it joins, whether it is to
 * be bound itself or not, and the PCI address of its device. `place`: as for
 * gw_device_locate. A shard tells of its network.
 */
void gw_pin_member_need(const struct gw_pin_member *member,
                        const struct gw_config *config,
                        uint32_t place,
                        struct gw_need *need_p,
                        char device[GW_PCI_ADDRESS_BYTES]);

/* What would be bound to what, in words. `device` as below. */
void gw_pin_member_say_worker(const struct gw_pin_member *member,
                              const struct gw_mates *mates,
                              const char *device,
                              char text[GW_PIN_TEXT_MAX]);
void gw_pin_member_say_shard(const struct gw_pin_member *member,
                             const struct gw_mates *mates,
                             char text[GW_PIN_TEXT_MAX]);

/*
 * Binds the process' threads: the caller's, which computes, the loop's, which
 * communicates, and the others. `device`: the PCI address, "" for none or where
 * it is not known. Threads that are started later are where the caller's is.
 */
void gw_pin_member_worker(const struct gw_pin_member *member,
                          const struct gw_mates *mates,
                          const char *device,
                          struct gw_loop *loop,
                          struct gw_log *log);

/* Binds all threads of the process, those that read files are there already, to
   all that is near the network, and so those that are started later. */
void gw_pin_member_near(const struct gw_pin_member *member, struct gw_log *log);

/* Binds the calling thread, which is a shard's. */
void gw_pin_member_shard(const struct gw_pin_member *member,
                         const struct gw_mates *mates,
                         struct gw_log *log);

#endif
