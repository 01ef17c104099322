/*
 * Numbers and addresses in options and variables, with a line for each wrong
 * one. Pure, any thread.
 */
#ifndef GW_PROTO_TEXT_H
#define GW_PROTO_TEXT_H

#include <stdint.h>

#include "proto/status.h"

/*
 * Parses a whole number in low..high for option or variable `name`. GW_EUSAGE
 * with a line.
 */
enum gw_status gw_text_number(const char *name,
                              const char *text,
                              uint64_t low,
                              uint64_t high,
                              uint64_t *number_p,
                              struct gw_error *error);

/*
 * Checks an address, HOST:PORT or [IPV6]:PORT, for option or variable `name`;
 * an address to listen on may lack the host or have port 0. GW_EUSAGE with a
 * line.
 */
enum gw_status gw_text_address(const char *name,
                               const char *text,
                               int to_listen,
                               struct gw_error *error);

#endif
