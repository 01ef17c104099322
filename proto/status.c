#include <config.h>

#include "proto/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *gw_status_text(enum gw_status status)
{
    switch (status) {
#define GW_STATUS_CASE(name, value, text)                                      \
    case name:                                                                 \
        return text;
        GW_STATUS_TABLE(GW_STATUS_CASE)
#undef GW_STATUS_CASE
    }
    return "unknown";
}

void gw_text_clean(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            *text = '?';
}

enum gw_status
gw_fail(struct gw_error *error, enum gw_status status, const char *format, ...)
{
    if (!error)
        return status;
    va_list args;
    va_start(args, format);
    error->status = status;
    vsnprintf(error->text, sizeof error->text, format, args);
    va_end(args);
    gw_text_clean(error->text);
    return status;
}

enum gw_status gw_fail_in(struct gw_error *error, const char *format, ...)
{
    char prefix[GW_ERROR_TEXT_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(prefix, sizeof prefix, format, args);
    va_end(args);
    gw_text_clean(prefix);

    size_t used = strlen(prefix), separator = 2;
    size_t room = sizeof error->text - 1;
    if (used + separator > room)
        used = room - separator;
    size_t kept = strnlen(error->text, room - used - separator);
    memmove(error->text + used + separator, error->text, kept);
    error->text[used + separator + kept] = '\0';
    memcpy(error->text, prefix, used);
    memcpy(error->text + used, ": ", separator);
    return error->status;
}

const char *gw_plural(uint64_t n)
{
    return n == 1 ? "" : "s";
}
