#include <config.h>

#include "proto/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum gw_status gw_text_number(const char *name,
                              const char *text,
                              uint64_t low,
                              uint64_t high,
                              uint64_t *number_p,
                              struct gw_error *error)
{
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end || errno || number < low ||
        number > high)
        return gw_fail(error, GW_EUSAGE,
                       "%s: takes a whole number, %llu..%llu, not \"%s\"", name,
                       (unsigned long long)low, (unsigned long long)high, text);
    *number_p = number;
    return GW_OK;
}

enum gw_status gw_text_address(const char *name,
                               const char *text,
                               int to_listen,
                               struct gw_error *error)
{
    const char *colon = strrchr(text, ':');
    size_t host = colon ? (size_t)(colon - text) : 0;
    uint64_t number;
    int bracketed = host > 2 && text[0] == '[' && text[host - 1] == ']';
    if (!colon || (host == 0 && !to_listen) ||
        (!bracketed && memchr(text, ':', host)) ||
        gw_text_number("", colon + 1, !to_listen, 65535, &number, NULL) !=
            GW_OK)
        return gw_fail(error, GW_EUSAGE,
                       "%s: \"%s\" is no address: expected HOST:PORT or "
                       "[IPV6]:PORT, with a port of %d..65535",
                       name, text, !to_listen);
    return GW_OK;
}
