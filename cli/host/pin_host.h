/*
 * This host's cores, read by hwloc, and binding of threads to them: the input
 * and the output of pin.h. A program built without hwloc (pin_absent.c) does
 * neither, and open says so.
 */
#ifndef GW_CLI_PIN_HOST_H
#define GW_CLI_PIN_HOST_H

#include <pthread.h>

#include "cli/host/pin.h"
#include "proto/status.h"

/* "hwloc 2.9.0", or the reason why it is missing; constant. */
extern const char gw_pin_library[];

struct gw_pin_view;

/*
 * Reads the host; until gw_pin_view_close. Counts the cpus that the calling
 * thread may use now. GW_EUNSUPPORTED: built without hwloc; GW_EIO: hwloc
 * fails; GW_ERANGE: the host is larger than the tables of pin.h; GW_ENOMEM;
 * each with a line, and *view_p unchanged.
 */
enum gw_status gw_pin_view_open(struct gw_pin_view **view_p,
                                struct gw_error *error);
void gw_pin_view_close(struct gw_pin_view *view);

/* The view's. */
const struct gw_pin_host *gw_pin_view_host(const struct gw_pin_view *view);

/* 0: the view shows another machine (HWLOC_XMLFILE, HWLOC_SYNTHETIC), and
   nothing can be bound. */
int gw_pin_view_is_here(const struct gw_pin_view *view);

/* Masks of the nodes (gw_need) near a device, by its PCI address, and near a
   network interface, by its name; 0: equally near to all, or unknown. */
uint64_t gw_pin_view_device(const struct gw_pin_view *view,
                            const char *address);
uint64_t gw_pin_view_interface(const struct gw_pin_view *view,
                               const char *name);

/* Each returns GW_OK, or GW_EIO with the system's error. Any thread. */
enum gw_status gw_pin_bind_thread(const struct gw_pin_view *view,
                                  pthread_t thread,
                                  const struct gw_cpus *cpus,
                                  struct gw_error *error);
/* Binds all current threads of this process. */
enum gw_status gw_pin_bind_process(const struct gw_pin_view *view,
                                   const struct gw_cpus *cpus,
                                   struct gw_error *error);
/* Memory that this thread touches first comes from that node while it has
   some. */
enum gw_status gw_pin_bind_memory(const struct gw_pin_view *view,
                                  uint32_t node,
                                  struct gw_error *error);

#endif
