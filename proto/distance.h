/*
 * The distance of two words, to name the known word nearest to a mistyped one.
 * The case of ASCII letters does not count. Pure, any thread.
 */
#ifndef GW_PROTO_DISTANCE_H
#define GW_PROTO_DISTANCE_H

#include <stddef.h>

#define GW_DISTANCE_BYTES 64 /* bytes of each word that are compared */

/* Insertions, deletions, replacements and swaps of neighbours. */
unsigned gw_edit_distance(const char *a, const char *b);

/* A search for the known word nearest to an unknown one. */
struct gw_nearest {
    char name[GW_DISTANCE_BYTES + 1]; /* "": none has enough in common so far */
    unsigned distance;
};

/* Looks at one known word. Of equally near ones the first stays. */
void gw_nearest_try(struct gw_nearest *nearest,
                    const char *word,
                    const char *name);

/* ", the nearest is NAME" for the end of a line; "" where there is none. The
   text is the caller's, and is returned. */
#define GW_NEAREST_BYTES (GW_DISTANCE_BYTES + 24)
const char *gw_nearest_say(const struct gw_nearest *nearest,
                           char text[GW_NEAREST_BYTES]);

#endif
