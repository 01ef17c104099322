/*
 * A peer that speaks the shm transport's language by hand, with system calls
 * alone, and says what it likes.
 */
#ifndef GW_TESTS_SHM_PEER_H
#define GW_TESTS_SHM_PEER_H

#include "tests/table/victim.h"
#include "transport/shm/shm.h"

struct shm_peer {
    int fd;
    struct gw_shm_area *area;
    uint32_t session;
    uint32_t published;
    uint8_t *window; /* granted */
    int window_fd;
};

/* A socket that is connected, by a process that listens. */
void shm_peer_connect(struct shm_peer *peer, const char *address);
void shm_peer_close(struct shm_peer *peer);

/* One message with up to two descriptors, -1: none. */
void shm_peer_say(
    struct shm_peer *peer, const void *bytes, size_t n, int fd, int second);
void shm_peer_hello(uint8_t hello[GW_SHM_HELLO_BYTES]);

/* As an honest one, with the victim's loop turned by the caller between the
   two. */
void shm_peer_begin_login(struct shm_peer *peer, const char *address);
void shm_peer_end_login(struct shm_peer *peer);

/* An entry; the victim is woken for it. */
void shm_peer_publish(struct shm_peer *peer,
                      uint32_t type,
                      uint32_t at,
                      uint32_t bytes,
                      const uint8_t *header);
/* Takes the grant that it has asked for. 0: there is none. */
int shm_peer_granted(struct shm_peer *peer, uint32_t *window_p);

/* Descriptors of this process. */
int shm_descriptors(void);

#endif
