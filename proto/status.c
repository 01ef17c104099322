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

/* A text too long for `room` keeps its two ends. */
static void put_ends(const char *whole, char *text, size_t room)
{
    static const char gap[] = "...";
    size_t bytes = strlen(whole), left = room - sizeof gap;
    size_t head = left / 2, tail = left - head;
    if (bytes < room) {
        memcpy(text, whole, bytes + 1);
        return;
    }
    while (head > 0 && is_inside_character(whole[head]))
        head--;
    while (tail > 0 && is_inside_character(whole[bytes - tail]))
        tail--;
    memcpy(text, whole, head);
    memcpy(text + head, gap, sizeof gap - 1);
    memcpy(text + head + sizeof gap - 1, whole + bytes - tail, tail + 1);
}

void gw_text_print(char *text, size_t room, const char *format, va_list args)
{
    char whole[GW_ERROR_WHOLE_BYTES];
    vsnprintf(whole, sizeof whole, format, args);
    put_ends(whole, text, room);
}

enum gw_status
gw_fail(struct gw_error *error, enum gw_status status, const char *format, ...)
{
    if (!error)
        return status;
    va_list args;
    va_start(args, format);
    gw_text_print(error->text, sizeof error->text, format, args);
    va_end(args);
    error->status = status;
    gw_text_clean(error->text);
    return status;
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
    put_ends(whole, error->text, sizeof error->text);
    gw_text_clean(error->text);
    return error->status;
}

const char *gw_reason(const char *text)
{
    return text[0] ? text : "no reason is given";
}

const char *gw_plural(uint64_t n)
{
    return n == 1 ? "" : "s";
}
