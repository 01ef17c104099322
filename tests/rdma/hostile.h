/*
 * A peer that speaks the rdma transport's language by hand, with verbs alone,
 * and says what it likes. Everything waits for at most a few seconds; whatever
 * fails is told by a status, for that is often what is wanted.
 */
#ifndef GW_TESTS_HOSTILE_H
#define GW_TESTS_HOSTILE_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/login.h"
#include "proto/wire.h"

#define HOSTILE_BYTES ((size_t)1 << 20)

struct hostile {
    struct rdma_cm_id *id;
    struct ibv_mr *mr;
    uint8_t *memory; /* HOSTILE_BYTES: to send from, the last page to receive */
    uint8_t *received;
    uint32_t session;
    uint32_t ring_key; /* the victim's ring */
    uint64_t ring;
    uint32_t key; /* of the window that it was granted */
    uint64_t offset, bytes;
    uint16_t sent;
};

/* Connects to ADDRESS ("host:port") with these private data. 0, or an errno. */
int hostile_connect(struct hostile *peer,
                    const char *address,
                    const uint8_t *greeting,
                    size_t n);
void hostile_close(struct hostile *peer);

/* The private data of an honest opener. */
void hostile_greeting(uint64_t incarnation, uint8_t greeting[16]);

/* As an honest one: connect, hello, reply. 0 when logged in. */
int hostile_login(struct hostile *peer,
                  const char *address,
                  uint64_t incarnation);
void hostile_hello(const struct hostile *peer,
                   uint64_t incarnation,
                   uint8_t hello[112]);

/* SEND with an immediate value; of `n` bytes at memory. The completion's
   status. */
enum ibv_wc_status hostile_send(struct hostile *peer, uint32_t value, size_t n);

/* WRITE of n bytes from memory + from; with an immediate value if it is not
   0. */
enum ibv_wc_status hostile_write(struct hostile *peer,
                                 size_t from,
                                 size_t n,
                                 uint64_t to,
                                 uint32_t key,
                                 uint32_t value);

/* Waits for the next message: its immediate value's type, 0 for none. */
unsigned hostile_receive(struct hostile *peer);

/* Until the flag is set, or a few seconds. */
void hostile_linger(const atomic_int *flag);

/* Asks for a window, and takes the grant. 0 when it was granted. */
int hostile_ask(struct hostile *peer, uint32_t window, uint32_t length);

/* An immediate value of a type, that has taken nothing. */
uint32_t hostile_value(unsigned type);

#endif
