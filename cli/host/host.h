/*
 * What a process knows of its host: its name, which kernel it runs on, and
 * which addresses are its own.
 */
#ifndef GW_CLI_HOST_H
#define GW_CLI_HOST_H

#include <stddef.h>
#include <stdint.h>

#include "proto/status.h"

#define GW_HOST_NAME_MAX      64
#define GW_HOST_ADDRESS_MAX   64
#define GW_HOST_INTERFACE_MAX 16

/* For people; "unknown" where it has none. */
void gw_host_name(char name[GW_HOST_NAME_MAX]);

/* Equal for processes that share a kernel, until it is booted again. */
uint64_t gw_host_machine(void);

/*
 * The numeric address of an interface, given by its name or by one of its
 * addresses, in brackets if it is IPv6. GW_EUSAGE: this host has none such; the
 * line begins with `key`, which names it.
 */
enum gw_status gw_host_interface(const char *key,
                                 const char *interface,
                                 char host[GW_HOST_ADDRESS_MAX],
                                 struct gw_error *error);

/* The name of such an interface; 0: this host has none such. */
int gw_host_interface_name(const char *interface,
                           char name[GW_HOST_INTERFACE_MAX]);

/*
 * The own address from which packets to `address` (HOST:PORT) leave. Sends
 * nothing. GW_EUNREACHABLE.
 */
enum gw_status gw_host_towards(const char *address,
                               char host[GW_HOST_ADDRESS_MAX],
                               struct gw_error *error);

/*
 * Non-zero when everything that HOST:PORT stands for is loopback; also for what
 * is no address, which is told by whoever uses it.
 */
int gw_host_is_loopback(const char *address);

#endif
