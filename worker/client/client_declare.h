/* The declaration of this rank. Private to client_declare.c but for these
   calls, on the loop. */
#ifndef GW_WORKER_CLIENT_DECLARE_H
#define GW_WORKER_CLIENT_DECLARE_H

#include "proto/dispatch.h"

struct gw_client;
struct gw_client_declaration;

/* Sends it. It stays in its place until the start has come. */
void gw_client_send_declaration(struct gw_client *client,
                                const struct gw_client_declaration *from);

/* Keys of worker 0, which this rank's are not: the job ends by the first
   difference. */
gw_message_handle_fn gw_client_got_keys;

#endif
