/* Limits of this process on this host, against the needs of a job. */
#include "config.h"

#include "cli/doctor/doctor.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timex.h>

#include "cli/room.h"
#include "kernels/kernels.h"
#include "transport/link/memory.h"
#include "transport/link/transport.h"

#define KIB(bytes) (((bytes) + 1023) >> 10)
#define MIB(bytes) (((bytes) + (1 << 20) - 1) >> 20)

/* ---- locked memory ---- */

static int has_rdma(void)
{
    char why[256];
    for (size_t i = 0; gw_transports[i]; i++)
        if (strcmp(gw_transports[i]->name, "rdma") == 0)
            return gw_transports[i]->probe(why, sizeof why) == GW_OK;
    return 0;
}

static void say_little(struct gw_doctor *doctor, const char *needs)
{
    /* with "auto" and no device nothing is registered */
    int used = gw_doctor_needs_rdma(doctor) ||
               (gw_doctor_takes_rdma(doctor) && has_rdma());
    gw_doctor_say(doctor, used ? GW_VERDICT_FIX : GW_VERDICT_NOTE,
                  "%s, and a process may lock %" PRIu64
                  " KiB%s: ulimit -l unlimited (memlock in "
                  "/etc/security/limits.conf, LimitMEMLOCK=infinity of a "
                  "service, --ulimit memlock=-1 of a container)",
                  needs, KIB(doctor->limits.locked),
                  used ? "" : ", too little should it go over rdma");
}

void gw_doctor_check_memlock(struct gw_doctor *doctor)
{
    const struct gw_doctor_limits *limits = &doctor->limits;
    const struct gw_doctor_memory *memory = &doctor->memory;
    uint64_t most =
        memory->worker > memory->server ? memory->worker : memory->server;
    char needs[GW_ERROR_TEXT_BYTES + 96] = "";
    if (doctor->has_memory)
        snprintf(needs, sizeof needs,
                 "the job registers %" PRIu64 " MiB per worker and %" PRIu64
                 " MiB per server",
                 MIB(memory->worker), MIB(memory->server));
    else if (doctor->job)
        snprintf(needs, sizeof needs, "what the job registers is not known, %s",
                 doctor->no_memory.text);
    else
        strcpy(needs, "what a job registers is told by gradweir doctor JOB");
    if (limits->locked == UINT64_MAX)
        gw_doctor_say(doctor, GW_VERDICT_OK, "no limit; %s", needs);
    else if (limits->may_lock)
        gw_doctor_say(doctor, GW_VERDICT_OK,
                      "the limit of %" PRIu64 " KiB does not hold for this "
                      "user (CAP_IPC_LOCK); %s",
                      KIB(limits->locked), needs);
    else if (!doctor->has_memory)
        gw_doctor_say(doctor, GW_VERDICT_UNKNOWN,
                      "a process may lock %" PRIu64 " KiB; %s",
                      KIB(limits->locked), needs);
    else if (most > limits->locked)
        say_little(doctor, needs);
    else
        gw_doctor_say(doctor, GW_VERDICT_OK,
                      "%s, and a process may lock %" PRIu64 " KiB", needs,
                      KIB(limits->locked));
}

/* ---- open files ---- */

/* Open files of the role that needs most. */
static uint64_t most_files(const struct gw_config *config, const char **name_p)
{
    static const enum gw_role roles[] = {GW_ROLE_COORDINATOR, GW_ROLE_SERVER,
                                         GW_ROLE_WORKER};
    uint64_t most = 0;
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
        uint64_t files = gw_room_files(config, roles[i]);
        if (files <= most)
            continue;
        most = files;
        *name_p = gw_role_name((uint8_t)roles[i]);
    }
    return most;
}

void gw_doctor_check_open(struct gw_doctor *doctor)
{
    const char *whose = "";
    uint64_t most = most_files(doctor->config, &whose);
    if (most <= doctor->limits.files)
        gw_doctor_say(doctor, GW_VERDICT_OK,
                      "a process may open %" PRIu64 " files, and %" PRIu64
                      " are enough",
                      doctor->limits.files, most);
    else
        gw_doctor_say(doctor, GW_VERDICT_FIX,
                      "a process may open %" PRIu64 " files, and a %s of this "
                      "job has up to %" PRIu64
                      " (cluster.workers, cluster.servers, server.threads, "
                      "cluster.connections): ulimit -n %" PRIu64
                      " (nofile in /etc/security/limits.conf)",
                      doctor->limits.files, whose, most, most);
}

/* ---- shared memory ---- */

/* Non-zero if the kernel gives huge pages to mappings that ask for them. */
static int gives_when_asked(void)
{
    struct gw_memory memory;
    if (gw_memory_open(GW_MEMORY_SHARED, (size_t)4 << 20, &memory) != GW_OK)
        return 0;
    int gives = memory.kind == GW_MEMORY_SHARED && gw_memory_prefault(&memory);
    gw_memory_close(&memory);
    return gives;
}

/* shm shares anonymous memory, so the limits of /dev/shm do not apply. */
void gw_doctor_check_shared(struct gw_doctor *doctor)
{
    char path[256], word[128] = "";
    snprintf(path, sizeof path,
             "%s/sys/kernel/mm/transparent_hugepage/shmem_enabled",
             doctor->root);
    FILE *file = fopen(path, "re");
    if (!file || !fgets(word, sizeof word, file))
        gw_doctor_say(doctor, GW_VERDICT_NOTE,
                      "this kernel has no huge pages for shared memory: shm "
                      "goes without");
    else if (strstr(word, "[never]") && gives_when_asked())
        gw_doctor_say(doctor, GW_VERDICT_OK,
                      "shared memory gets huge pages, each because a process "
                      "asks for it");
    else if (strstr(word, "[never]") || strstr(word, "[deny]"))
        gw_doctor_say(doctor, GW_VERDICT_NOTE,
                      "shared memory gets no huge pages: for large models echo "
                      "advise >/sys/kernel/mm/transparent_hugepage/"
                      "shmem_enabled");
    else
        gw_doctor_say(doctor, GW_VERDICT_OK,
                      "shared memory gets huge pages where it asks for them");
    if (file)
        fclose(file);
}

/* ---- the clock ---- */

/* Clocks this close allow sorting the lines of several hosts by time. */
#define APART_US 50000

static void compare_clock(struct gw_doctor *doctor,
                          const char *peer,
                          const struct gw_doctor_seen *seen)
{
    uint64_t apart = (uint64_t)llabs(seen->ahead_us);
    const char *side = seen->ahead_us < 0 ? "behind" : "ahead of";
    double ms = (double)apart / 1e3, within = (double)seen->within_us / 1e3;
    if (!seen->has_clock)
        gw_doctor_say(doctor, GW_VERDICT_UNKNOWN,
                      "that of %s was not compared: %s", peer,
                      seen->reached ? "the doctor there does not tell its time"
                                    : "it was not reached");
    else if (apart > APART_US + seen->within_us)
        gw_doctor_say(doctor, GW_VERDICT_NOTE,
                      "that of %s is %.3f ms %s this host's, to %.3f ms (half "
                      "of the round trip): times in logs of the two will not "
                      "fit together, nothing else hangs on it: timedatectl "
                      "set-ntp true on both",
                      peer, ms, side, within);
    else if (seen->within_us > APART_US)
        gw_doctor_say(doctor, GW_VERDICT_UNKNOWN,
                      "that of %s is %.3f ms %s this host's, but to %.3f ms "
                      "(half of the round trip) only",
                      peer, ms, side, within);
    else
        gw_doctor_say(doctor, GW_VERDICT_OK,
                      "that of %s is %.3f ms %s this host's, to %.3f ms (half "
                      "of the round trip)",
                      peer, ms, side, within);
}

void gw_doctor_check_clock(struct gw_doctor *doctor)
{
    struct timex clock = {.modes = 0};
    int state = adjtimex(&clock);
    if (state < 0)
        gw_doctor_say(doctor, GW_VERDICT_UNKNOWN,
                      "whether it is synchronised cannot be asked here (%s): "
                      "timedatectl, on the host of a container",
                      strerror(errno));
    else if (state == TIME_ERROR || clock.status & STA_UNSYNC)
        gw_doctor_say(doctor, GW_VERDICT_NOTE,
                      "not synchronised: times in logs of several hosts will "
                      "not fit together, nothing else hangs on it: timedatectl "
                      "set-ntp true");
    else
        gw_doctor_say(doctor, GW_VERDICT_OK, "synchronised, to %.1f ms at most",
                      (double)clock.maxerror / 1e3);
    for (size_t i = 0; i < doctor->peers; i++)
        compare_clock(doctor, doctor->peer[i], &doctor->seen[i]);
}

/* ---- GPUs ---- */

void gw_doctor_check_gpu(struct gw_doctor *doctor)
{
    char why[GW_WHY_BYTES];
    for (size_t i = 0; i < gw_backend_count(); i++) {
        const char *name = gw_backend_name(i);
        if (strcmp(name, gw_device_kind_name(GW_DEVICE_CPU)) == 0)
            continue;
        if (gw_backend_get(i, why, sizeof why))
            gw_doctor_say(doctor, GW_VERDICT_OK, "%s works here", name);
        else
            gw_doctor_say(doctor, GW_VERDICT_NOTE,
                          "%s does not work here, workers compute on the cpu: "
                          "%s",
                          name, why);
    }
    gw_doctor_say_gpu_memory(doctor);
}
