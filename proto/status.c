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

static int is_inside_character(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80; /* UTF-8 */
}

/* What is too long keeps its two ends. */
static void
keep_ends(const char *whole, size_t bytes, char text[GW_ERROR_TEXT_BYTES])
{
    static const char gap[] = "...";
    const size_t room = GW_ERROR_TEXT_BYTES - sizeof gap;
    size_t head = room / 2, tail = room - head;
    while (head > 0 && is_inside_character(whole[head]))
        head--;
    while (tail > 0 && is_inside_character(whole[bytes - tail]))
        tail--;
    memcpy(text, whole, head);
    memcpy(text + head, gap, sizeof gap - 1);
    memcpy(text + head + sizeof gap - 1, whole + bytes - tail, tail + 1);
}

static enum gw_status put_text(struct gw_error *error, const char *whole)
{
    size_t bytes = strlen(whole);
    if (bytes < sizeof error->text)
        memcpy(error->text, whole, bytes + 1);
    else
        keep_ends(whole, bytes, error->text);
    gw_text_clean(error->text);
    return error->status;
}

enum gw_status
gw_fail(struct gw_error *error, enum gw_status status, const char *format, ...)
{
    if (!error)
        return status;
    va_list args;
    char whole[GW_ERROR_WHOLE_BYTES];
    va_start(args, format);
    vsnprintf(whole, sizeof whole, format, args);
    va_end(args);
    error->status = status;
    return put_text(error, whole);
}

enum gw_status gw_fail_in(struct gw_error *error, const char *format, ...)
{
    char whole[GW_ERROR_WHOLE_BYTES];
    const size_t room = sizeof whole - GW_ERROR_TEXT_BYTES - 2;
    va_list args;
    va_start(args, format);
    vsnprintf(whole, room, format, args);
    va_end(args);
    strcat(strcat(whole, ": "), error->text);
    return put_text(error, whole);
}

const char *gw_reason(const char *text)
{
    return text[0] ? text : "no reason is given";
}

const char *gw_plural(uint64_t n)
{
    return n == 1 ? "" : "s";
}
