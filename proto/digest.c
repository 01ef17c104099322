#include <config.h>

#include "proto/digest.h"

#include <assert.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

/* The struct is OpenSSL's; only the name is ours. */
static EVP_MD_CTX *context_of(struct gw_digest *digest)
{
    return (EVP_MD_CTX *)(void *)digest;
}

struct gw_digest *gw_digest_begin(void)
{
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    int ok = context && EVP_DigestInit_ex(context, EVP_sha256(), NULL) == 1;
    assert(ok);
    return (struct gw_digest *)(void *)context;
}

void gw_digest_add(struct gw_digest *digest, const void *bytes, size_t n)
{
    int ok = EVP_DigestUpdate(context_of(digest), bytes, n);
    assert(ok == 1);
}

void gw_digest_end(struct gw_digest *digest, uint8_t out[GW_DIGEST_BYTES])
{
    unsigned n = 0;
    int ok = EVP_DigestFinal_ex(context_of(digest), out, &n);
    assert(ok == 1 && n == GW_DIGEST_BYTES);
    EVP_MD_CTX_free(context_of(digest));
}

void gw_digest_hex(const uint8_t digest[GW_DIGEST_BYTES],
                   char hex[2 * GW_DIGEST_BYTES + 1])
{
    for (size_t i = 0; i < GW_DIGEST_BYTES; i++)
        snprintf(hex + 2 * i, 3, "%02x", digest[i]);
}

int gw_digest_from_hex(const char *hex, uint8_t digest[GW_DIGEST_BYTES])
{
    /* sscanf would take signs and spaces as well */
    if (strlen(hex) != 2 * GW_DIGEST_BYTES ||
        strspn(hex, "0123456789abcdefABCDEF") != 2 * GW_DIGEST_BYTES)
        return 0;
    for (size_t i = 0; i < GW_DIGEST_BYTES; i++) {
        unsigned byte;
        if (sscanf(hex + 2 * i, "%2x", &byte) != 1)
            return 0;
        digest[i] = (uint8_t)byte;
    }
    return 1;
}

void gw_digest_weights(float *const *weights,
                       const struct gw_key *keys,
                       size_t n,
                       uint8_t out[GW_DIGEST_BYTES])
{
    struct gw_digest *digest = gw_digest_begin();
    for (size_t i = 0; i < n; i++)
        gw_digest_add(digest, weights[i],
                      gw_key_elems(&keys[i]) * sizeof(float));
    gw_digest_end(digest, out);
}
