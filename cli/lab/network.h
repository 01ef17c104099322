/* Textual descriptions of simulated networks. Pure, any thread. */
#ifndef GW_CLI_NETWORK_H
#define GW_CLI_NETWORK_H

#include "proto/status.h"
#include "transport/sim/sim.h"

/*
 * Parses "unlimited", or a rate in each direction, or a time from host to host,
 * or both: "1 Gbit/s, 0.2 ms". Rates are in bit/s, kbit/s, Mbit/s or Gbit/s
 * (steps of 1000, as links are sold); times in us, ms or s. Each host gets half
 * of the time, since a message passes two hosts. GW_EUSAGE with a line;
 * *network_p is unchanged then.
 */
enum gw_status gw_network_parse(const char *text,
                                struct gw_sim_host_options *network_p,
                                struct gw_error *error);

#endif
