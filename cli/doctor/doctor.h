/*
 * gradweir doctor: what stops people, asked of this host before a job meets it.
 * A check is a function that looks and says one line or more; whoever runs it
 * gets the lines. What could not be looked at is never said to be ok.
 *
 *   doctor.c          the table of checks, and what they share
 *   doctor_device.c   RDMA devices: ports, MTU, GIDs, their files
 *   doctor_limits.c   locked memory, open files, shared memory, clock, GPUs
 *   doctor_network.c  transports, interfaces, ports, firewall, routes
 *   doctor_pin.c      which cores a job's threads would get
 *   doctor_owner.c    who has a port
 *   doctor_model.c    what a job will register
 *   doctor_peer.c     latency and bandwidth to another host
 *   doctor_serve.c    the other side of it
 */
#ifndef GW_CLI_DOCTOR_H
#define GW_CLI_DOCTOR_H

#include <net/if.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/host/host.h"
#include "proto/config.h"
#include "proto/status.h"

/* Contracts: scripts read the words. */
enum gw_verdict {
    GW_VERDICT_OK,      /* looked at, and nothing is wrong */
    GW_VERDICT_NOTE,    /* worth knowing; stops nothing */
    GW_VERDICT_UNKNOWN, /* could not be looked at */
    GW_VERDICT_FIX,     /* stops something; the line says what to do */
    GW_VERDICTS
};

#define GW_DOCTOR_PEERS_MAX     16
#define GW_DOCTOR_ADDRESSES_MAX 128
#define GW_DOCTOR_TEXT_MAX      1024

/* An address of an interface of this host, or an interface without one. */
struct gw_doctor_address {
    char interface[IF_NAMESIZE];
    char host[GW_HOST_ADDRESS_MAX]; /* brackets around IPv6; "": none */
    uint8_t gid[16];                /* as it stands in a table of GIDs */
    int up, running;                /* running: it has a link as well */
    int loopback, local;            /* local: IPv6 of one link alone */
    unsigned mtu;                   /* 0: not known */
};

/* What this process may have. */
struct gw_doctor_limits {
    uint64_t locked; /* bytes; UINT64_MAX: all */
    int may_lock;    /* as much as it likes, whatever `locked` says */
    uint64_t files;
};

/* What the processes of a job register for RDMA, each at most. */
struct gw_doctor_memory {
    uint64_t worker, server;
};

/* What a measurement with a peer has shown beside its figures. */
struct gw_doctor_seen {
    int reached;             /* over tcp */
    int has_clock;           /* it has told its time */
    int64_t ahead_us;        /* of this host's clock */
    uint64_t within_us;      /* that is off by this at most */
    enum gw_verdict knocked; /* whether it reached a port of this host */
    char knock[512];         /* in words */
};

struct gw_doctor {
    const char *root; /* in front of /dev and /sys; "" but for tests */
    const struct gw_config *config;
    const char *job; /* file, or NULL */
    int has_memory;
    struct gw_doctor_memory memory;
    struct gw_error no_memory; /* why it is not known */
    struct gw_doctor_limits limits;
    size_t addresses;
    struct gw_doctor_address address[GW_DOCTOR_ADDRESSES_MAX];
    size_t peers;
    const char *peer[GW_DOCTOR_PEERS_MAX]; /* HOST:PORT */
    struct gw_doctor_seen seen[GW_DOCTOR_PEERS_MAX];
    /* gw_rdma_port_mtu */
    unsigned (*port_mtu)(const char *device, unsigned port, unsigned *most_p);
    /* gw_rdma_gpu_memory */
    enum gw_status (*gpu_memory)(const char *device,
                                 int has_dma_buf,
                                 char *text,
                                 size_t room);
    /* A finding: one line. */
    void (*found)(void *owner,
                  enum gw_verdict verdict,
                  const char *check,
                  const char *text);
    void *owner;
    const char *check; /* the one that runs */
    unsigned count[GW_VERDICTS];
};

const char *gw_verdict_name(enum gw_verdict verdict);

/* Looks at everything; doctor->count says how it came out. */
void gw_doctor_run(struct gw_doctor *doctor);

/* One of the checks by its name; 0: there is none of that name. */
int gw_doctor_run_one(struct gw_doctor *doctor, const char *check);

/* ---- for checks ---- */

void gw_doctor_say(struct gw_doctor *doctor,
                   enum gw_verdict verdict,
                   const char *format,
                   ...) __attribute__((format(printf, 3, 4)));

/* The first line of a file below root, without its end. 0: it cannot be read,
   and text is empty. */
int gw_doctor_read(const struct gw_doctor *doctor,
                   char *text,
                   size_t room,
                   const char *format,
                   ...) __attribute__((format(printf, 4, 5)));

/* The names in a directory below root, with numbers in their order; free with
   gw_doctor_names_free. 0 names: there is none. */
struct gw_doctor_names {
    int n;
    struct dirent **entry;
};

void gw_doctor_names(const struct gw_doctor *doctor,
                     struct gw_doctor_names *names,
                     const char *format,
                     ...) __attribute__((format(printf, 3, 4)));
void gw_doctor_names_free(struct gw_doctor_names *names);

/* Whether the job asks for rdma by name, or would take it ("auto"). */
int gw_doctor_needs_rdma(const struct gw_doctor *doctor);
int gw_doctor_takes_rdma(const struct gw_doctor *doctor);

/* Fills in doctor->address and doctor->limits. GW_EIO. */
enum gw_status gw_doctor_look(struct gw_doctor *doctor, struct gw_error *error);

void gw_doctor_check_devices(struct gw_doctor *doctor);
void gw_doctor_check_mtu(struct gw_doctor *doctor);
void gw_doctor_check_gids(struct gw_doctor *doctor);
void gw_doctor_check_files(struct gw_doctor *doctor);
/* How each active device would get at a GPU's memory. */
void gw_doctor_say_gpu_memory(struct gw_doctor *doctor);

void gw_doctor_check_memlock(struct gw_doctor *doctor);
void gw_doctor_check_open(struct gw_doctor *doctor);
void gw_doctor_check_shared(struct gw_doctor *doctor);
void gw_doctor_check_clock(struct gw_doctor *doctor);
void gw_doctor_check_gpu(struct gw_doctor *doctor);

void gw_doctor_check_pin(struct gw_doctor *doctor);

void gw_doctor_check_transports(struct gw_doctor *doctor);
void gw_doctor_check_interface(struct gw_doctor *doctor);
void gw_doctor_check_trust(struct gw_doctor *doctor);
void gw_doctor_check_port(struct gw_doctor *doctor);
void gw_doctor_check_firewall(struct gw_doctor *doctor);
void gw_doctor_check_route(struct gw_doctor *doctor);

/* Fills in doctor->seen for the checks that come after it. */
void gw_doctor_check_peers(struct gw_doctor *doctor);

/* ---- doctor_knock.c ---- */

struct gw_loop;
struct gw_transport;
struct gw_doctor_knock;

/*
 * Listens where a coordinator of the job would, for the peer to knock at; until
 * gw_doctor_knock_close. NULL: it is not to be, and seen->knock says why.
 */
struct gw_doctor_knock *gw_doctor_knock_open(const struct gw_doctor *doctor,
                                             const char *peer,
                                             struct gw_transport *transport,
                                             struct gw_doctor_seen *seen);
uint16_t gw_doctor_knock_port(const struct gw_doctor_knock *knock);
/* What the peer said of it; NULL: nothing. */
void gw_doctor_knock_judge(const struct gw_doctor_knock *knock,
                           const char *said,
                           struct gw_doctor_seen *seen);
void gw_doctor_knock_close(struct gw_doctor_knock *knock);

/* ---- doctor_owner.c ---- */

/* "NAME, process PID", which listens on a TCP port of this host; 0: it cannot
   be told. */
int gw_doctor_port_owner(uint16_t port, char *text, size_t room);

/* ---- doctor_model.c ---- */

/* What a job's processes register. Errors of its data and model. */
enum gw_status gw_doctor_memory(const struct gw_config *config,
                                struct gw_doctor_memory *memory_p,
                                struct gw_error *error);

/* ---- doctor_serve.c ---- */

/* Where --serve listens if no port is given, and --peer looks. */
#define GW_DOCTOR_PORT 7171

/*
 * Lets other hosts measure, one after the other, until a signal ends the
 * process. `where`: an interface or address of this host, or that and a port.
 * Says where on standard output. GW_EUSAGE: leaving loopback is not allowed;
 * GW_EADDRINUSE.
 */
enum gw_status gw_doctor_serve(const struct gw_config *config,
                               const char *where,
                               struct gw_error *error);

#endif
