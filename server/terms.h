/*
 * Hyperparameters that ranks have set (proto/terms.h), as this shard has heard
 * of them: which ones a push is applied with. The structs are private to
 * terms.c.
 */
#ifndef GW_SERVER_TERMS_H
#define GW_SERVER_TERMS_H

#include "proto/terms.h"
#include "transport/member/member.h"

struct gw_server;

/* A rank's terms from a clock on. */
struct gw_terms_row {
    uint64_t clock;
    uint64_t decision;   /* the last that the rank knew */
    struct gw_terms *of; /* [groups] */
    uint8_t *has;        /* [groups] */
};

/* Those of a rank that its pushes may need, rising clocks. */
struct gw_terms_rows {
    struct gw_terms_row *row; /* NULL: the rank has set none */
    uint32_t n;
};

/* A frame of terms: rejected where no member sends it. */
void gw_terms_frame(struct gw_server *server,
                    struct gw_peer *peer,
                    unsigned link,
                    const struct gw_frame *frame,
                    const uint8_t *payload);
void gw_terms_close(struct gw_server *server);

/* The terms that a rank has set at this very clock are here. */
int gw_terms_are_here(const struct gw_server *server,
                      uint32_t rank,
                      uint64_t clock);

/* Hyperparameters of a rank's push of a chunk, which is held; of a chunk's step
   of all ranks, which agree. Those of the job where the rank has set none, and
   where workers take the steps. */
struct gw_terms
gw_terms_of_push(const struct gw_server *server, uint32_t rank, uint32_t chunk);
struct gw_terms gw_terms_of_step(const struct gw_server *server,
                                 uint32_t chunk);

/* All ranks with samples in a chunk's step have the same terms for it. 0: they
   have not, and the job ends. */
int gw_terms_agree(struct gw_server *server, uint32_t chunk);

/* Clocks are numbered anew by a decision: the next ones are from `clock` on. */
void gw_terms_renumber(struct gw_server *server,
                       uint64_t decision,
                       uint64_t clock);

#endif
