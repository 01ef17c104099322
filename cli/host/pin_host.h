/*
 * This host's cores as hwloc shows them, and threads bound to them: what pin.h
 * decides is looked up and done here. In a program that was built without hwloc
 * (pin_absent.c) nothing is, and open says so.
 */
#ifndef GW_CLI_PIN_HOST_H
#define GW_CLI_PIN_HOST_H

#include <pthread.h>

#include "cli/host/pin.h"
#include "proto/status.h"

/* "hwloc 2.9.0", or why there is none; for people. Constant. */
extern const char gw_pin_library[];

struct gw_pin_view;

/*
 * Looks at the host; until gw_pin_view_close. What this thread may run on by
 * then is what is counted. GW_EUNSUPPORTED: this program has no hwloc; GW_EIO:
 * hwloc does not find out, GW_ERANGE: the host is larger than pin.h has room
 * for, GW_ENOMEM; each with a line, and *view_p as it was.
 */
enum gw_status gw_pin_view_open(struct gw_pin_view **view_p,
                                struct gw_error *error);
void gw_pin_view_close(struct gw_pin_view *view);

/* The view's. */
const struct gw_pin_host *gw_pin_view_host(const struct gw_pin_view *view);

/* 0: it is of another machine, by HWLOC_XMLFILE or HWLOC_SYNTHETIC, and nothing
   can be bound. */
int gw_pin_view_is_here(const struct gw_pin_view *view);

/* Masks of the nodes (as of gw_need) near a device, by its PCI address, and
   near a network interface, by its name; 0: it is as near to all, or nobody
   knows. */
uint64_t gw_pin_view_device(const struct gw_pin_view *view,
                            const char *address);
uint64_t gw_pin_view_interface(const struct gw_pin_view *view,
                               const char *name);

/* Each: GW_OK, or GW_EIO with the system's words. Any thread. */
enum gw_status gw_pin_bind_thread(const struct gw_pin_view *view,
                                  pthread_t thread,
                                  const struct gw_cpus *cpus,
                                  struct gw_error *error);
/* All threads that this process has now. */
enum gw_status gw_pin_bind_process(const struct gw_pin_view *view,
                                   const struct gw_cpus *cpus,
                                   struct gw_error *error);
/* Memory that this thread touches first is of that node while it has some. */
enum gw_status gw_pin_bind_memory(const struct gw_pin_view *view,
                                  uint32_t node,
                                  struct gw_error *error);

#endif
