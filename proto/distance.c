#include <config.h>

#include "proto/distance.h"

#include <stdio.h>
#include <string.h>

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* The same in every locale. */
static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static int differ(char a, char b)
{
    return lower(a) != lower(b);
}

/* Optimal string alignment: three rows of the table are alive at a time. */
unsigned gw_edit_distance(const char *a, const char *b)
{
    size_t a_bytes = strnlen(a, GW_DISTANCE_BYTES);
    size_t b_bytes = strnlen(b, GW_DISTANCE_BYTES);
    unsigned rows[3][GW_DISTANCE_BYTES + 1];
    unsigned *before = rows[0], *last = rows[1], *row = rows[2];

    for (size_t j = 0; j <= b_bytes; j++)
        last[j] = (unsigned)j;
    for (size_t i = 1; i <= a_bytes; i++) {
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= b_bytes; j++) {
            unsigned replaced =
                last[j - 1] + (unsigned)differ(a[i - 1], b[j - 1]);
            row[j] = least(replaced, 1 + least(row[j - 1], last[j]));
            if (i > 1 && j > 1 && !differ(a[i - 1], b[j - 2]) &&
                !differ(a[i - 2], b[j - 1]))
                row[j] = least(row[j], 1 + before[j - 2]);
        }
        unsigned *spare = before;
        before = last;
        last = row;
        row = spare;
    }
    return last[b_bytes];
}

void gw_nearest_try(struct gw_nearest *nearest,
                    const char *word,
                    const char *name)
{
    unsigned distance = gw_edit_distance(word, name);
    /* a word of which more than half is wrong is another word */
    if (distance > strnlen(word, GW_DISTANCE_BYTES) / 2 ||
        (nearest->name[0] && distance >= nearest->distance))
        return;
    snprintf(nearest->name, sizeof nearest->name, "%.*s", GW_DISTANCE_BYTES,
             name);
    nearest->distance = distance;
}

const char *gw_nearest_say(const struct gw_nearest *nearest,
                           char text[GW_NEAREST_BYTES])
{
    text[0] = '\0';
    if (nearest->name[0])
        snprintf(text, GW_NEAREST_BYTES, ", the nearest is %s", nearest->name);
    return text;
}
