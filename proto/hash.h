/*
 * A 64-bit hash (FNV-1a) by which processes notice that they were given
 * different jobs or keys by mistake. It is no protection against an attacker:
 * collisions are easy to make. Pure, any thread.
 */
#ifndef GW_PROTO_HASH_H
#define GW_PROTO_HASH_H

#include <stddef.h>
#include <stdint.h>

#define GW_HASH_BEGIN 0xcbf29ce484222325u

/* Continues `hash` with these bytes. */
uint64_t gw_hash_bytes(uint64_t hash, const void *bytes, size_t n);

/* The same for a text with its end, so that "ab","c" differs from "a","bc". */
uint64_t gw_hash_text(uint64_t hash, const char *text);

/* The same for a number, as 8 little-endian bytes. */
uint64_t gw_hash_u64(uint64_t hash, uint64_t value);

#endif
