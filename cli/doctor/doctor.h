/*
 * gradweir doctor: finds the problems of a host before a job does. A check is a
 * function that reports one line or more through doctor->found. It never
 * reports something as ok that it could not examine.
 *
 *   doctor.c          the table of checks, and their helpers
 *   doctor_device.c   RDMA devices: ports, MTU, GIDs, their files
 *   doctor_limits.c   locked memory, open files, shared memory, clock, GPUs
 *   doctor_network.c  transports, interfaces, ports, firewall, routes
 *   doctor_pin.c      cores that a job's threads would get
 *   doctor_owner.c    the owner of a port
 *   doctor_model.c    memory that a job will register
 *   doctor_peer.c     latency and bandwidth to another host
 *   doctor_serve.c    the other side of doctor_peer.c
 */
#ifndef GW_CLI_DOCTOR_H
#define GW_CLI_DOCTOR_H

#include <net/if.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/link/host.h"
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
    char host[GW_HOST_ADDRESS_MAX]; /* IPv6 in brackets; "": none */
    uint8_t gid[16];                /* as in a table of GIDs */
    int up, running;                /* running: it has a link as well */
    int loopback, local;            /* local: IPv6 of one link alone */
    unsigned mtu;                   /* 0: not known */
};

/* Limits of this process. */
struct gw_doctor_limits {
    uint64_t locked; /* bytes; UINT64_MAX: all */
    int may_lock;    /* as much as it likes, whatever `locked` says */
    uint64_t files;
};

/* Upper bounds of the memory that a job's processes register for RDMA. */
struct gw_doctor_memory {
    uint64_t worker, server;
};

/* Other findings of a measurement with a peer. */
struct gw_doctor_seen {
    int reached;                 /* over tcp */
    int has_clock;               /* the peer has sent its clock */
    int64_t ahead_us;            /* lead of this host's clock */
    uint64_t within_us;          /* error of ahead_us, at most */
    enum gw_verdict dialed_back; /* the peer reached a port of this host */
    char dial_back[512];         /* in words */
};

struct gw_doctor {
    const char *root; /* in front of /dev and /sys; "" but for tests */
    const struct gw_config *config;
    const char *job; /* file, or NULL */
    int has_memory;
    struct gw_doctor_memory memory;
    struct gw_error no_memory; /* reason if !has_memory */
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
    const char *check; /* the running check */
    unsigned count[GW_VERDICTS];
};

const char *gw_verdict_name(enum gw_verdict verdict);

/* Runs all checks and counts their verdicts. */
void gw_doctor_run(struct gw_doctor *doctor);

/* Runs the check of that name; 0: there is none. */
int gw_doctor_run_one(struct gw_doctor *doctor, const char *check);

/* ---- for checks ---- */

void gw_doctor_say(struct gw_doctor *doctor,
                   enum gw_verdict verdict,
                   const char *format,
                   ...) __attribute__((format(printf, 3, 4)));

/* Reads the first line of a file below root, without its newline. 0, and an
   empty text: it cannot be read. */
int gw_doctor_read(const struct gw_doctor *doctor,
                   char *text,
                   size_t room,
                   const char *format,
                   ...) __attribute__((format(printf, 4, 5)));

/* Lists a directory below root, numbers in numeric order; free with
   gw_doctor_names_free. n is 0 if there is no directory. */
struct gw_doctor_names {
    int n;
    struct dirent **entry;
};

void gw_doctor_names(const struct gw_doctor *doctor,
                     struct gw_doctor_names *names,
                     const char *format,
                     ...) __attribute__((format(printf, 3, 4)));
void gw_doctor_names_free(struct gw_doctor_names *names);

/* Non-zero if the job names rdma, or would accept it ("auto"). */
int gw_doctor_needs_rdma(const struct gw_doctor *doctor);
int gw_doctor_takes_rdma(const struct gw_doctor *doctor);

/* Fills in doctor->address and doctor->limits. GW_EIO. */
enum gw_status gw_doctor_look(struct gw_doctor *doctor, struct gw_error *error);

void gw_doctor_check_devices(struct gw_doctor *doctor);
void gw_doctor_check_mtu(struct gw_doctor *doctor);
void gw_doctor_check_gids(struct gw_doctor *doctor);
void gw_doctor_check_files(struct gw_doctor *doctor);
/* Reports how each active device reaches GPU memory. */
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

/* Fills in doctor->seen for later checks. */
void gw_doctor_check_peers(struct gw_doctor *doctor);

/* ---- doctor_dial_back.c ---- */

struct gw_loop;
struct gw_transport;
struct gw_doctor_dial_back;

/*
 * Listens at the port of the job's coordinator, so that the peer can dial_back;
 * until gw_doctor_dial_back_close. NULL: not possible, seen->dial_back has the
 * reason.
 */
struct gw_doctor_dial_back *
gw_doctor_dial_back_open(const struct gw_doctor *doctor,
                         const char *peer,
                         struct gw_transport *transport,
                         struct gw_doctor_seen *seen);
uint16_t gw_doctor_dial_back_port(const struct gw_doctor_dial_back *dial_back);
/* Judges the peer's answer; NULL: none. */
void gw_doctor_dial_back_judge(const struct gw_doctor_dial_back *dial_back,
                               const char *said,
                               struct gw_doctor_seen *seen);
void gw_doctor_dial_back_close(struct gw_doctor_dial_back *dial_back);

/* ---- doctor_owner.c ---- */

/* Writes "NAME, process PID" of the listener on a TCP port of this host; 0:
   unknown. */
int gw_doctor_port_owner(uint16_t port, char *text, size_t room);

/* ---- doctor_model.c ---- */

/* Computes the memory that a job's processes register. Errors of its data and
   model. */
enum gw_status gw_doctor_memory(const struct gw_config *config,
                                struct gw_doctor_memory *memory_p,
                                struct gw_error *error);

/* ---- doctor_serve.c ---- */

/* Default port of --serve and --peer. */
#define GW_DOCTOR_PORT 7171

/*
 * Serves measurements of other hosts, one at a time, until a signal ends the
 * process. `where`: an interface or address of this host, optionally with a
 * port. Prints its address. GW_EUSAGE: leaving loopback is not allowed;
 * GW_EADDRINUSE.
 */
enum gw_status gw_doctor_serve(const struct gw_config *config,
                               const char *where,
                               struct gw_error *error);

#endif
