#include <config.h>

#include "proto/interfaces.h"

#include <string.h>

#define BLANKS " \t"

static enum gw_status add(struct gw_interfaces *list,
                          const char *name,
                          size_t bytes,
                          struct gw_error *error)
{
    if (bytes == 0)
        return gw_fail(error, GW_EUSAGE, "entry %zu of the list is empty",
                       list->n + 1);
    if (bytes >= GW_INTERFACE_NAME_MAX)
        return gw_fail(error, GW_EUSAGE,
                       "\"%.40s...\" is too long for an interface or an "
                       "address",
                       name);
    if (list->n == GW_INTERFACES_MAX)
        return gw_fail(error, GW_EUSAGE,
                       "\"%.*s\" is one too many, there can be %d", (int)bytes,
                       name, GW_INTERFACES_MAX);
    char *to = list->name[list->n];
    memcpy(to, name, bytes);
    to[bytes] = '\0';
    for (size_t i = 0; i < list->n; i++)
        if (strcmp(list->name[i], to) == 0)
            return gw_fail(error, GW_EUSAGE, "\"%s\" is there twice", to);
    list->n++;
    return GW_OK;
}

enum gw_status gw_interfaces_parse(const char *text,
                                   struct gw_interfaces *list_p,
                                   struct gw_error *error)
{
    struct gw_interfaces list = {.n = 0};
    enum gw_status status = GW_OK;
    const char *at = text + strspn(text, BLANKS);
    while (*at && status == GW_OK) {
        size_t bytes = strcspn(at, ","), used = bytes;
        while (used > 0 && strchr(BLANKS, at[used - 1]))
            used--;
        status = add(&list, at, used, error);
        int more = at[bytes] == ',';
        at += bytes + (size_t)more;
        at += strspn(at, BLANKS);
        if (status == GW_OK && more && !*at)
            status = add(&list, at, 0, error);
    }
    if (status == GW_OK)
        *list_p = list;
    return status;
}

size_t gw_interfaces_count(const char *text)
{
    struct gw_interfaces list;
    struct gw_error error;
    return gw_interfaces_parse(text, &list, &error) == GW_OK ? list.n : 0;
}
