/* Measurements of this machine for a plan that do not depend on the model. */
#include "config.h"

#include "cli/plan/calibrate.h"

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kernels/measure.h"
#include "proto/wire.h"
#include "transport/link/memory.h"

/* ---- reduce and update ---- */

#define SLOTS_MAX 16 /* measurable at once */
#define MEMORY    ((uint64_t)192 << 20)
#define ROUNDS    3

enum gw_status gw_calibrate_update(const struct gw_config *config,
                                   uint64_t shard_bytes,
                                   double *elems_per_s_p,
                                   struct gw_error *error)
{
    struct gw_policy_plan plan;
    struct gw_update_rate rate;
    enum gw_status status =
        gw_policy_plan_parse(config->cluster.policy, &plan, error);
    if (status != GW_OK)
        return status;
    const struct gw_policy_word word = gw_policy_at(&plan, 0);
    const struct gw_optimizer *optimizer =
        gw_optimizer_find(gw_config_policy_terms(config, &word).server);
    uint64_t slots =
        gw_policy_is_together(word.kind) ? config->cluster.workers : 1;
    struct gw_update_case what = {
        .optimizer = optimizer,
        .slots = (uint32_t)(slots < SLOTS_MAX ? slots : SLOTS_MAX),
        .fused =
            !optimizer->two_phase && !gw_config_whole_step_under(config, &word),
        .rounds = ROUNDS,
    };
    uint64_t most = MEMORY / (what.slots + 4);
    what.array_bytes = (shard_bytes < most ? shard_bytes : most) / 4 * 4;
    status = gw_measure_update(&what, &rate, error);
    if (status != GW_OK)
        return status;
    /* more slots cost in proportion to their bytes */
    double states = 2 * optimizer->states + 2;
    *elems_per_s_p = rate.update_elems_per_s * (what.slots + states) /
                     ((double)slots + states);
    return GW_OK;
}

/* ---- bytes from one process to another ---- */

#define PIECE_BYTES ((size_t)64 << 10)
#define MOVED_BYTES ((size_t)192 << 20)

struct end {
    int fd;
    size_t bytes; /* received, or sent */
    uint32_t crc;
};

static void *send_pieces(void *argument)
{
    struct end *end = argument;
    uint8_t *piece = calloc(1, PIECE_BYTES);
    while (piece && end->bytes < MOVED_BYTES) {
        end->crc = gw_crc32c(0, piece, PIECE_BYTES);
        for (size_t at = 0; at < PIECE_BYTES;) {
            ssize_t n =
                send(end->fd, piece + at, PIECE_BYTES - at, MSG_NOSIGNAL);
            if (n < 0 && errno != EINTR) {
                free(piece);
                return NULL;
            }
            at += n > 0 ? (size_t)n : 0;
        }
        end->bytes += PIECE_BYTES;
    }
    free(piece);
    shutdown(end->fd, SHUT_WR);
    return NULL;
}

static void receive_pieces(struct end *end)
{
    uint8_t *piece = malloc(PIECE_BYTES);
    while (piece) {
        ssize_t n = recv(end->fd, piece, PIECE_BYTES, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        end->crc = gw_crc32c(end->crc, piece, (size_t)n);
        end->bytes += (size_t)n;
    }
    free(piece);
}

/* Opens both ends of a connection within this machine. */
static int connect_ends(int fd[2])
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr *any = (struct sockaddr *)&address;
    socklen_t n = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    fd[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    fd[1] = -1;
    if (listener >= 0 && fd[0] >= 0 && bind(listener, any, n) == 0 &&
        listen(listener, 1) == 0 && getsockname(listener, any, &n) == 0 &&
        connect(fd[0], any, n) == 0)
        fd[1] = accept(listener, NULL, NULL);
    if (listener >= 0)
        close(listener);
    return fd[1] >= 0;
}

static double core_s(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

enum gw_status gw_calibrate_move(double *core_s_per_byte_p,
                                 struct gw_error *error)
{
    int fd[2] = {-1, -1};
    pthread_t sender;
    enum gw_status status = GW_OK;
    double before = core_s();
    if (!connect_ends(fd)) {
        status = gw_fail(error, GW_EIO, "no connection within this machine: %s",
                         strerror(errno));
        goto out;
    }
    struct end out = {.fd = fd[0]}, in = {.fd = fd[1]};
    if (pthread_create(&sender, NULL, send_pieces, &out) != 0) {
        status = gw_fail(error, GW_ENOMEM, "cannot start a thread");
        goto out;
    }
    receive_pieces(&in);
    pthread_join(sender, NULL);
    if (in.bytes < MOVED_BYTES)
        status =
            gw_fail(error, GW_EIO, "a connection within this machine broke");
    else
        *core_s_per_byte_p = (core_s() - before) / (double)in.bytes;
out:
    for (int i = 0; i < 2; i++)
        if (fd[i] >= 0)
            close(fd[i]);
    return status;
}

/* ---- bytes through shared memory ---- */

#define COPY_MOST  ((uint64_t)64 << 20)
#define COPY_BLOCK ((size_t)16 << 10) /* as the shm transport does */

static uint32_t copy_once(uint8_t *to, const uint8_t *from, size_t bytes)
{
    uint32_t sent = 0;
    for (size_t at = 0; at < bytes; at += COPY_BLOCK) {
        size_t n = bytes - at < COPY_BLOCK ? bytes - at : COPY_BLOCK;
        sent = gw_crc32c(sent, from + at, n);
        memcpy(to + at, from + at, n);
    }
    return sent ^ gw_crc32c(0, to, bytes);
}

enum gw_status gw_calibrate_copy(uint64_t bytes,
                                 double *core_s_per_byte_p,
                                 struct gw_error *error)
{
    size_t n = (size_t)(bytes < COPY_MOST ? bytes : COPY_MOST), moved = 0;
    struct gw_memory from, to;
    if (gw_memory_open(GW_MEMORY_HOST, n, &from) != GW_OK)
        return gw_fail(error, GW_ENOMEM, "no memory to copy");
    if (gw_memory_open(GW_MEMORY_SHARED, n, &to) != GW_OK) {
        gw_memory_close(&from);
        return gw_fail(error, GW_ENOMEM, "no memory to copy to");
    }
    gw_memory_prefault(&to);
    memset(from.base, 1, n);
    uint32_t differs = copy_once(to.base, from.base, n); /* pages come */
    double before = core_s();
    while (moved < MOVED_BYTES) {
        differs |= copy_once(to.base, from.base, n);
        moved += n;
    }
    double took_s = core_s() - before;
    gw_memory_close(&to);
    gw_memory_close(&from);
    if (differs)
        return gw_fail(error, GW_EIO, "what is copied within memory differs");
    *core_s_per_byte_p = took_s / (double)moved;
    return GW_OK;
}
