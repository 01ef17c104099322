/*
 * How far apart two words are, to name the nearest known one when somebody
 * mistyped. Pure, any thread.
 */
#ifndef GW_PROTO_DISTANCE_H
#define GW_PROTO_DISTANCE_H

#define GW_DISTANCE_BYTES 64 /* of each word; what follows is not looked at */

/* Insertions, deletions, replacements and swaps of neighbours. */
unsigned gw_edit_distance(const char *a, const char *b);

#endif
