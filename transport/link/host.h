/*
 * This host: its name, its kernel's identity, and its addresses.
 */
#ifndef GW_TRANSPORT_HOST_H
#define GW_TRANSPORT_HOST_H

#include <stddef.h>
#include <stdint.h>

#include "proto/status.h"

#define GW_HOST_NAME_MAX      64
#define GW_HOST_ADDRESS_MAX   64
#define GW_HOST_INTERFACE_MAX 16

/* The host's name for people, or "unknown". */
void gw_host_name(char name[GW_HOST_NAME_MAX]);

/* Equal for processes of one kernel, until it is booted again. */
uint64_t gw_host_machine(void);

/*
 * The numeric address (IPv6 in brackets) of an interface, given by name or by
 * one of its addresses. GW_EUSAGE with a line that begins with `key`: this host
 * has no such interface.
 */
enum gw_status gw_host_interface(const char *key,
                                 const char *interface,
                                 char host[GW_HOST_ADDRESS_MAX],
                                 struct gw_error *error);

/* The name of such an interface; 0: this host has none. */
int gw_host_interface_name(const char *interface,
                           char name[GW_HOST_INTERFACE_MAX]);

/*
 * This host's source address for packets to `address` (HOST:PORT). Sends
 * nothing. GW_EUNREACHABLE.
 */
enum gw_status gw_host_towards(const char *address,
                               char host[GW_HOST_ADDRESS_MAX],
                               struct gw_error *error);

/*
 * Non-zero when all addresses of HOST:PORT are loopback, and for an invalid
 * address, which its user reports.
 */
int gw_host_is_loopback(const char *address);

#endif
