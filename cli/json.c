#include "config.h"

#include "cli/json.h"

#include <math.h>

json_t *gw_json_with(json_t *object, const char *name, json_t *value)
{
    if (object && value && json_object_set_new(object, name, value) == 0)
        return object;
    if (!object)
        json_decref(value);
    json_decref(object);
    return NULL;
}

json_t *gw_json_count(uint64_t number)
{
    return json_integer((json_int_t)number);
}

json_t *gw_json_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}
