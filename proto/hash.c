#include <config.h>

#include "proto/hash.h"

#include <string.h>

#include "proto/wire.h"

#define FNV_PRIME 0x100000001b3u

uint64_t gw_hash_bytes(uint64_t hash, const void *bytes, size_t n)
{
    const uint8_t *at = bytes;
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ at[i]) * FNV_PRIME;
    return hash;
}

uint64_t gw_hash_text(uint64_t hash, const char *text)
{
    return gw_hash_bytes(hash, text, strlen(text) + 1);
}

uint64_t gw_hash_u64(uint64_t hash, uint64_t value)
{
    uint8_t bytes[8];
    gw_put_u64(bytes, value);
    return gw_hash_bytes(hash, bytes, sizeof bytes);
}
