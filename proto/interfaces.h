/*
 * Lists of network interfaces, as cluster.interface has them: names or
 * addresses, separated by commas. The list is only parsed: the host may have
 * none of them. Pure; any thread.
 */
#ifndef GW_PROTO_INTERFACES_H
#define GW_PROTO_INTERFACES_H

#include <stddef.h>

#include "proto/status.h"

#define GW_INTERFACES_MAX     8
#define GW_INTERFACE_NAME_MAX 72 /* an IPv6 address with its scope, its end */

struct gw_interfaces {
    size_t n;
    char name[GW_INTERFACES_MAX][GW_INTERFACE_NAME_MAX];
};

/* "" is none. GW_EUSAGE names the entry that is wrong: empty, too long, there
   twice, or one too many. */
enum gw_status gw_interfaces_parse(const char *text,
                                   struct gw_interfaces *list_p,
                                   struct gw_error *error);

/* How many there are; 0 also for a list that is wrong. */
size_t gw_interfaces_count(const char *text);

#endif
