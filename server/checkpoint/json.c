#include "config.h"

#include "server/checkpoint/json.h"

#include <stdarg.h>
#include <stdlib.h>

/* json_dumps would lose keys silently where its buffer cannot grow (jansson
   2.14, dump.c), so it gets one that fits. */
char *gw_json_dump(const json_t *json, size_t flags)
{
    size_t n = json_dumpb(json, NULL, 0, flags);
    char *text = n > 0 ? malloc(n + 1) : NULL;
    if (!text)
        return NULL;
    if (json_dumpb(json, text, n, flags) != n) {
        free(text);
        return NULL;
    }
    text[n] = '\0';
    return text;
}

enum gw_status gw_json_load(const char *file,
                            const char *text,
                            size_t bytes,
                            json_t **json_p,
                            struct gw_error *error)
{
    json_error_t where;
    json_t *json = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &where);
    if (json) {
        *json_p = json;
        return GW_OK;
    }
    /* without a text, jansson could not even keep track of why */
    if (json_error_code(&where) == json_error_out_of_memory ||
        where.text[0] == '\0')
        return gw_fail(error, GW_ENOMEM, "%s: no memory to read it", file);
    return gw_fail(error, GW_ECORRUPT, "%s:%d: %s", file, where.line,
                   where.text);
}

enum gw_status gw_json_unpack(json_t *from, const char *format, ...)
{
    json_error_t why;
    va_list args;
    va_start(args, format);
    int failed = json_vunpack_ex(from, &why, 0, format, args);
    va_end(args);
    if (!failed)
        return GW_OK;
    return json_error_code(&why) == json_error_out_of_memory ? GW_ENOMEM
                                                             : GW_ECORRUPT;
}
