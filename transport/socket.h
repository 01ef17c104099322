/*
 * What every stream socket of ours is set to, and those that it is measured
 * against.
 */
#ifndef GW_TRANSPORT_SOCKET_H
#define GW_TRANSPORT_SOCKET_H

#include <sys/socket.h>

/*
 * Sets a TCP socket that is not connected yet, and will be to `to`, an address
 * of `bytes` bytes: between two processes of one host its segments are whole
 * pages, in both directions. Sends nothing, does not wait. A socket that
 * refuses works all the same, so there is no status. Thread: any.
 */
void gw_socket_suit_to(int fd, const struct sockaddr *to, socklen_t bytes);

/*
 * Sets a connected TCP socket: what is written leaves at once, and between two
 * processes of one host nothing paces it. A socket that refuses works all the
 * same, so there is no status. Thread: any.
 */
void gw_socket_suit(int fd);

/* Whether both ends of a connected TCP socket have the same address. Thread:
   any. */
int gw_socket_is_within_host(int fd);

/* Gives a TCP socket a congestion control that writes as fast as it may; one
   that refuses keeps its own. Thread: any. */
void gw_socket_do_not_pace(int fd);

#endif
