/* pin_host.h of a program built without hwloc. */
#include "config.h"

#include "cli/host/pin_host.h"

#define ABSENT "built without hwloc"

const char gw_pin_library[] = "no hwloc, so that no thread is bound to cores";

enum gw_status gw_pin_view_open(struct gw_pin_view **view_p,
                                struct gw_error *error)
{
    (void)view_p;
    return gw_fail(error, GW_EUNSUPPORTED,
                   "this program was " ABSENT " (configure says why) and binds "
                   "no threads to cores: install libhwloc-dev and build it "
                   "again, or set it to false");
}

void gw_pin_view_close(struct gw_pin_view *view)
{
    (void)view;
}

const struct gw_pin_host *gw_pin_view_host(const struct gw_pin_view *view)
{
    (void)view;
    return NULL;
}

int gw_pin_view_is_here(const struct gw_pin_view *view)
{
    (void)view;
    return 0;
}

uint64_t gw_pin_view_device(const struct gw_pin_view *view, const char *address)
{
    (void)view, (void)address;
    return 0;
}

uint64_t gw_pin_view_interface(const struct gw_pin_view *view, const char *name)
{
    (void)view, (void)name;
    return 0;
}

enum gw_status gw_pin_bind_thread(const struct gw_pin_view *view,
                                  pthread_t thread,
                                  const struct gw_cpus *cpus,
                                  struct gw_error *error)
{
    (void)view, (void)thread, (void)cpus;
    return gw_fail(error, GW_EUNSUPPORTED, ABSENT);
}

enum gw_status gw_pin_bind_process(const struct gw_pin_view *view,
                                   const struct gw_cpus *cpus,
                                   struct gw_error *error)
{
    (void)view, (void)cpus;
    return gw_fail(error, GW_EUNSUPPORTED, ABSENT);
}

enum gw_status gw_pin_bind_memory(const struct gw_pin_view *view,
                                  uint32_t node,
                                  struct gw_error *error)
{
    (void)view, (void)node;
    return gw_fail(error, GW_EUNSUPPORTED, ABSENT);
}
