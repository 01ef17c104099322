/*
 * SHA-256 of byte ranges, piece by piece. A thin door to libcrypto, so that
 * nothing else includes it. Pure, any thread.
 */
#ifndef GW_PROTO_DIGEST_H
#define GW_PROTO_DIGEST_H

#include <stddef.h>
#include <stdint.h>

#include "proto/control.h"

struct gw_digest;

/* Asserts that libcrypto has memory for a hundred bytes. */
struct gw_digest *gw_digest_begin(void);
void gw_digest_add(struct gw_digest *digest, const void *bytes, size_t n);
/* Frees the digest. */
void gw_digest_end(struct gw_digest *digest, uint8_t out[GW_DIGEST_BYTES]);

/* 64 hexadecimal digits and the end. */
void gw_digest_hex(const uint8_t digest[GW_DIGEST_BYTES],
                   char hex[2 * GW_DIGEST_BYTES + 1]);

/* The other way; 0: these are no 64 hexadecimal digits. */
int gw_digest_from_hex(const char *hex, uint8_t digest[GW_DIGEST_BYTES]);

/* Over fp32 weights in key order: the identity of a model. */
void gw_digest_weights(float *const *weights,
                       const struct gw_key *keys,
                       size_t n,
                       uint8_t out[GW_DIGEST_BYTES]);

#endif
