/* Objects of jansson, made member by member. Any thread. */
#ifndef GW_CLI_JSON_H
#define GW_CLI_JSON_H

#include <jansson.h>
#include <stdint.h>

/* Adds a member, and takes it; on any failure, an earlier one too (NULL), both
   are dropped and NULL is returned. */
json_t *gw_json_with(json_t *object, const char *name, json_t *value);

json_t *gw_json_count(uint64_t number);

/* JSON knows no infinity and no NaN: null for these. */
json_t *gw_json_number(double value);

#endif
