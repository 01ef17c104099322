/*
 * Options of our stream sockets, and of the plain sockets that benches compare
 * them with.
 */
#ifndef GW_TRANSPORT_SOCKET_H
#define GW_TRANSPORT_SOCKET_H

#include <sys/socket.h>

/*
 * Sets a TCP socket before it is connected to `to`, an address of `bytes`
 * bytes: between two processes of one host its segments are whole pages, in
 * both directions, and nothing paces it. Sends nothing, does not wait. A socket
 * that refuses works all the same, so there is no status. Thread: any.
 */
void gw_socket_tune_for(int fd, const struct sockaddr *to, socklen_t bytes);

/*
 * Sets a connected TCP socket: written bytes leave at once, and between two
 * processes of one host under no congestion control that paces. A socket that
 * refuses works all the same, so there is no status. Thread: any.
 */
void gw_socket_tune(int fd);

/* Non-zero if both ends of a connected TCP socket have the same address.
   Thread: any. */
int gw_socket_is_within_host(int fd);

/* Gives a TCP socket the congestion control that is in every kernel, allowed to
   every user, and does not pace by itself; a socket that refuses keeps its own.
   Thread: any. */
void gw_socket_take_reno(int fd);

#endif
