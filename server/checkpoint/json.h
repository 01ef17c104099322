/*
 * JSON files of checkpoints. A lack of memory must neither make a file that
 * looks whole and is not, nor make a whole one look damaged, so every call that
 * needs memory says that it had none. Any thread.
 */
#ifndef GW_SERVER_JSON_H
#define GW_SERVER_JSON_H

#include <jansson.h>
#include <stddef.h>

#include "proto/status.h"

/* The text, to be freed; NULL: no memory. */
char *gw_json_dump(const json_t *json, size_t flags);

/* GW_ECORRUPT, with the line; GW_ENOMEM. Both name `file`. */
enum gw_status gw_json_load(const char *file,
                            const char *text,
                            size_t bytes,
                            json_t **json_p,
                            struct gw_error *error);

/* As json_unpack: GW_ENOMEM, or GW_ECORRUPT where `from` is not like that. */
enum gw_status gw_json_unpack(json_t *from, const char *format, ...);

#endif
