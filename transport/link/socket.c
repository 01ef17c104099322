#include "config.h"

#include "transport/link/socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Whole pages, and the timestamp that Linux puts into every segment. */
#define SEGMENT_BYTES (3 * 4096 + 12)

static int is_same_host(const struct sockaddr_storage *a,
                        const struct sockaddr_storage *b)
{
    const struct sockaddr_in *a4 = (const void *)a, *b4 = (const void *)b;
    const struct sockaddr_in6 *a6 = (const void *)a, *b6 = (const void *)b;
    if (a->ss_family != b->ss_family)
        return 0;
    if (a->ss_family == AF_INET)
        return a4->sin_addr.s_addr == b4->sin_addr.s_addr;
    return a->ss_family == AF_INET6 &&
           memcmp(&a6->sin6_addr, &b6->sin6_addr, sizeof a6->sin6_addr) == 0;
}

int gw_socket_is_within_host(int fd)
{
    struct sockaddr_storage here, there;
    socklen_t here_bytes = sizeof here, there_bytes = sizeof there;
    return getsockname(fd, (struct sockaddr *)&here, &here_bytes) == 0 &&
           getpeername(fd, (struct sockaddr *)&there, &there_bytes) == 0 &&
           is_same_host(&here, &there);
}

void gw_socket_take_reno(int fd)
{
    static const char name[] = "reno";
    setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, sizeof name - 1);
}

/* Non-zero for an address of this host, found by the route to it: no packet is
   sent. */
static int is_own(const struct sockaddr *to, socklen_t bytes)
{
    struct sockaddr_storage here, there = {0};
    socklen_t here_bytes = sizeof here;
    if (to->sa_family != AF_INET && to->sa_family != AF_INET6)
        return 0;
    int fd = socket(to->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return 0;
    memcpy(&there, to, bytes);
    int own = connect(fd, to, bytes) == 0 &&
              getsockname(fd, (struct sockaddr *)&here, &here_bytes) == 0 &&
              is_same_host(&here, &there);
    close(fd);
    return own;
}

/*
 * Inside a host a segment is by default as long as a packet may be, 65,483
 * bytes, and the stream's second segment begins at an address to which a
 * processor copies slowly. A chunk of whole pages alone would bring the stream
 * back to a page; the frame header in front shifts all later bytes. Segments of
 * pages, of which the loopback device carries several at a time, save a tenth
 * of the time of a large model. Sockets between hosts keep their segments.
 *
 * There is no line to share either, and a congestion control that paces (bbr, a
 * usual default) costs a timer interrupt for every few packets: a quarter of
 * the speed of a small model. A socket that has paced once goes on pacing, if
 * faster, under each control; a socket that has never been connected has not
 * paced. (The accepted end has been connected when we get it.)
 */
void gw_socket_tune_for(int fd, const struct sockaddr *to, socklen_t bytes)
{
    int segment = SEGMENT_BYTES;
    if (!is_own(to, bytes))
        return;
    setsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &segment, sizeof segment);
    gw_socket_take_reno(fd);
}

void gw_socket_tune(int fd)
{
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (gw_socket_is_within_host(fd))
        gw_socket_take_reno(fd);
}
