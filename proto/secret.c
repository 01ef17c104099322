#include <config.h>

#include "proto/secret.h"

#include <assert.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>

#include "proto/wire.h"

enum gw_status gw_secret_prove(const struct gw_secret *secret,
                               const char *purpose,
                               const void *bytes,
                               size_t n,
                               uint8_t proof[GW_PROOF_BYTES])
{
    uint8_t text[GW_PROVED_BYTES_MAX];
    size_t before = strlen(purpose);
    unsigned made = 0;
    assert(before + n <= sizeof text);
    memcpy(text, purpose, before);
    memcpy(text + before, bytes, n);
    if (HMAC(EVP_sha256(), secret->byte, sizeof secret->byte, text, before + n,
             proof, &made)) {
        assert(made == GW_PROOF_BYTES);
        return GW_OK;
    }
    memset(proof, 0, GW_PROOF_BYTES);
    return GW_ENOMEM;
}

int gw_proof_is(const uint8_t *proof, const uint8_t *expected, size_t n)
{
    return CRYPTO_memcmp(proof, expected, n) == 0;
}

enum gw_status gw_secret_of_pair(const struct gw_secret *own,
                                 uint64_t acceptor_incarnation,
                                 struct gw_secret *pair)
{
    uint8_t bytes[8];
    gw_put_u64(bytes, acceptor_incarnation);
    return gw_secret_prove(own, "gradweir pair", bytes, sizeof bytes,
                           pair->byte);
}

enum gw_status gw_join_prove(const struct gw_secret *of_job,
                             const struct gw_join_claim *claim,
                             uint8_t proof[GW_PROOF_BYTES])
{
    uint8_t bytes[24 + GW_SECRET_BYTES];
    gw_put_u64(bytes, claim->job);
    gw_put_u64(bytes + 8, claim->coordinator);
    gw_put_u64(bytes + 16, claim->member);
    memcpy(bytes + 24, claim->own.byte, GW_SECRET_BYTES);
    return gw_secret_prove(of_job, "gradweir join", bytes, sizeof bytes, proof);
}

void gw_secret_forget(struct gw_secret *secret)
{
    OPENSSL_cleanse(secret->byte, sizeof secret->byte);
}
