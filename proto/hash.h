/*
 * A 64-bit hash (FNV-1a) with which processes notice that they were given
 * different things by mistake: jobs, keys. It is no protection against someone
 * who wants two things to look the same. Pure, any thread.
 */
#ifndef GW_PROTO_HASH_H
#define GW_PROTO_HASH_H

#include <stddef.h>
#include <stdint.h>

#define GW_HASH_BEGIN 0xcbf29ce484222325u

/* The hash of what was hashed into `hash`, followed by these bytes. */
uint64_t gw_hash_bytes(uint64_t hash, const void *bytes, size_t n);

/* The same for a text with its end, so that "ab","c" differs from "a","bc". */
uint64_t gw_hash_text(uint64_t hash, const char *text);

/* The same for a number, as 8 little-endian bytes. */
uint64_t gw_hash_u64(uint64_t hash, uint64_t value);

#endif
