#include <config.h>

#include "proto/device.h"

#include <string.h>
#include <strings.h>

#define DIGITS_MAX 3 /* digits of a device's number */

static const char *const names[] = {
    [GW_DEVICE_AUTO] = "auto",
    [GW_DEVICE_CPU] = "cpu",
    [GW_DEVICE_CUDA] = "cuda",
};

const char *gw_device_kind_name(enum gw_device_kind kind)
{
    return names[kind];
}

/* Returns 0 where it is none. */
static int parse_number(const char *text, unsigned *number_p)
{
    size_t digits = strspn(text, "0123456789");
    unsigned number = 0;
    if (digits == 0 || digits > DIGITS_MAX || text[digits])
        return 0;
    for (size_t i = 0; i < digits; i++)
        number = 10 * number + (unsigned)(text[i] - '0');
    *number_p = number;
    return 1;
}

enum gw_status gw_device_parse(const char *text,
                               struct gw_device_name *name_p,
                               struct gw_error *error)
{
    struct gw_device_name name = {.kind = GW_DEVICE_AUTO};
    size_t cuda = strlen(names[GW_DEVICE_CUDA]);
    for (name.kind = GW_DEVICE_AUTO; name.kind <= GW_DEVICE_CUDA; name.kind++) {
        if (strcasecmp(text, names[name.kind]) != 0)
            continue;
        *name_p = name;
        return GW_OK;
    }
    name.kind = GW_DEVICE_CUDA;
    name.numbered = 1;
    if (strncasecmp(text, names[GW_DEVICE_CUDA], cuda) != 0 ||
        text[cuda] != ':' || !parse_number(text + cuda + 1, &name.number))
        return gw_fail(
            error, GW_EUSAGE,
            "\"%.40s\" is no device: it is auto, cpu, cuda or cuda:I "
            "(the I-th GPU of this machine, from 0)",
            text);
    *name_p = name;
    return GW_OK;
}
