/* Objects of jansson, made member by member. Any thread. */
#ifndef GW_CLI_JSON_H
#define GW_CLI_JSON_H

#include <jansson.h>
#include <stdint.h>

/* Adds a member and owns it. On failure, also of an earlier call (NULL), drops
   both and returns NULL. */
json_t *gw_json_with(json_t *object, const char *name, json_t *value);

json_t *gw_json_count(uint64_t number);

/* null for infinity and NaN, which JSON lacks. */
json_t *gw_json_number(double value);

#endif
