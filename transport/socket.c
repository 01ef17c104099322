#include "config.h"

#include "transport/socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

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

/*
 * Inside a host there is no line to share, and a congestion control that paces
 * (bbr, a usual default) costs a timer interrupt for every few packets: a
 * quarter of the speed of a small model. Reno never paces, is in every kernel
 * and allowed to every user.
 */
static void do_not_pace(int fd)
{
    static const char name[] = "reno";
    struct sockaddr_storage here, there;
    socklen_t here_bytes = sizeof here, there_bytes = sizeof there;
    if (getsockname(fd, (struct sockaddr *)&here, &here_bytes) == 0 &&
        getpeername(fd, (struct sockaddr *)&there, &there_bytes) == 0 &&
        is_same_host(&here, &there))
        setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, sizeof name - 1);
}

void gw_socket_suit(int fd)
{
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    do_not_pace(fd);
}
