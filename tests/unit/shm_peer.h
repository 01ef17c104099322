/*
 * A peer that speaks the shm transport's language by hand, with system calls
 * alone, and says what it likes; and a victim for it, which listens and has a
 * window in shared memory, between bytes that nobody may touch.
 */
#ifndef GW_TESTS_SHM_PEER_H
#define GW_TESTS_SHM_PEER_H

#include "tests/table/world.h"
#include "transport/shm.h"

#define SHM_ROOM   ((size_t)64 << 10) /* the victim's memory */
#define SHM_WINDOW ((size_t)16 << 10) /* of that, from SHM_WINDOW on */
#define SHM_FILLED 0xee

struct shm_victim {
    struct world world;
    struct gw_acceptor acceptor;
    const struct gw_link_handler *handler; /* of its links */
    struct gw_listener *listener;
    struct gw_memory memory;
    struct gw_log log;
    char line[256]; /* the last one logged */
    struct gw_windows windows;
    uint32_t window;
    struct gw_link *link;
    int ups, downs, frames, bad_frames, refused;
    enum gw_status status;
    char why[160];
};

void shm_victim_open(struct shm_victim *victim);
/* Fails the test if a byte outside of the window has changed. */
void shm_victim_close(struct shm_victim *victim);
/* Turns until the counter has this value. */
void shm_victim_await(struct shm_victim *victim, const int *counter, int is);

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
/* The header of a put, as an honest peer would write it, of zeros. */
void shm_peer_header(const struct shm_peer *peer,
                     uint32_t window,
                     uint64_t offset,
                     uint32_t length,
                     uint8_t header[GW_FRAME_BYTES]);
/* Takes the grant that it has asked for. 0: there is none. */
int shm_peer_granted(struct shm_peer *peer, uint32_t *window_p);

/* Descriptors of this process. */
int shm_descriptors(void);

#endif
