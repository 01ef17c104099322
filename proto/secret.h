/*
 * Secrets: 32 random bytes that processes share, and proofs that one has them,
 * which do not show them. A thin door to libcrypto, like digest.h.
 *
 *   of a member   drawn when it starts, told to the coordinator by Join
 *   of a pair     made of the dialling member's for one acceptor, which gets it
 *                 with the view; a login under that member's name proves it
 *   of a job      made by a launcher for its children; a Join proves it
 *
 * docs/PROTOCOL.md lists the proofs. Pure, any thread.
 */
#ifndef GW_PROTO_SECRET_H
#define GW_PROTO_SECRET_H

#include <stddef.h>
#include <stdint.h>

#include "proto/status.h"

#define GW_SECRET_BYTES 32
#define GW_PROOF_BYTES  32

struct gw_secret {
    uint8_t byte[GW_SECRET_BYTES];
};

/*
 * HMAC-SHA256 with the secret as key over `purpose`, a text without its end,
 * and then `bytes`: proofs for one purpose are none for another. At most
 * GW_PROVED_BYTES_MAX of both together (asserted). GW_ENOMEM, as in all
 * functions that prove: libcrypto has no memory, and *proof is zeros.
 */
#define GW_PROVED_BYTES_MAX 256
enum gw_status gw_secret_prove(const struct gw_secret *secret,
                               const char *purpose,
                               const void *bytes,
                               size_t n,
                               uint8_t proof[GW_PROOF_BYTES]);

/* Compares in a time that says nothing of where two proofs differ. */
int gw_proof_is(const uint8_t *proof, const uint8_t *expected, size_t n);

/* The secret between a member, of which `own` is, and an acceptor. */
enum gw_status gw_secret_of_pair(const struct gw_secret *own,
                                 uint64_t acceptor_incarnation,
                                 struct gw_secret *pair);

/* A member's proof of a job's secret when it joins: bound to the job, to both
   incarnations and to the member's own secret. */
struct gw_join_claim {
    uint64_t job, coordinator, member;
    struct gw_secret own;
};
enum gw_status gw_join_prove(const struct gw_secret *of_job,
                             const struct gw_join_claim *claim,
                             uint8_t proof[GW_PROOF_BYTES]);

/* Overwrites it; the compiler does not optimize that away. */
void gw_secret_forget(struct gw_secret *secret);

#endif
