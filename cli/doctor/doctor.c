/* The table of checks, and helpers for checks. */
#include "config.h"

#include "cli/doctor/doctor.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <ifaddrs.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define PATH_BYTES 512

static const struct {
    const char *name;
    void (*check)(struct gw_doctor *doctor);
} checks[] = {
    {"transport", gw_doctor_check_transports},
    {"device", gw_doctor_check_devices},
    {"mtu", gw_doctor_check_mtu},
    {"gid", gw_doctor_check_gids},
    {"files", gw_doctor_check_files},
    {"memlock", gw_doctor_check_memlock},
    {"interface", gw_doctor_check_interface},
    {"trust", gw_doctor_check_trust},
    {"port", gw_doctor_check_port},
    {"nofile", gw_doctor_check_open},
    {"shm", gw_doctor_check_shared},
    {"gpu", gw_doctor_check_gpu},
    {"pin", gw_doctor_check_pin},
    {"route", gw_doctor_check_route},
    {"peer", gw_doctor_check_peers},
    /* these use the findings of peer */
    {"clock", gw_doctor_check_clock},
    {"firewall", gw_doctor_check_firewall},
};

#define CHECKS (sizeof checks / sizeof *checks)

const char *gw_verdict_name(enum gw_verdict verdict)
{
    static const char *const names[] = {"ok", "note", "unknown", "fix"};
    return names[verdict];
}

void gw_doctor_run(struct gw_doctor *doctor)
{
    for (size_t i = 0; i < CHECKS; i++)
        gw_doctor_run_one(doctor, checks[i].name);
}

int gw_doctor_run_one(struct gw_doctor *doctor, const char *check)
{
    for (size_t i = 0; i < CHECKS; i++) {
        if (strcmp(check, checks[i].name) != 0)
            continue;
        doctor->check = checks[i].name;
        checks[i].check(doctor);
        return 1;
    }
    return 0;
}

void gw_doctor_say(struct gw_doctor *doctor,
                   enum gw_verdict verdict,
                   const char *format,
                   ...)
{
    char text[GW_DOCTOR_TEXT_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    gw_text_clean(text);
    doctor->count[verdict]++;
    doctor->found(doctor->owner, verdict, doctor->check, text);
}

/* ---- files ---- */

/* 0: too long. */
static int make_path(const struct gw_doctor *doctor,
                     char path[PATH_BYTES],
                     const char *format,
                     va_list args)
{
    int used = snprintf(path, PATH_BYTES, "%s", doctor->root);
    if (used < 0 || used >= PATH_BYTES)
        return 0;
    size_t room = PATH_BYTES - (size_t)used;
    int more = vsnprintf(path + used, room, format, args);
    return more > 0 && (size_t)more < room;
}

int gw_doctor_read(const struct gw_doctor *doctor,
                   char *text,
                   size_t room,
                   const char *format,
                   ...)
{
    char path[PATH_BYTES];
    va_list args;
    va_start(args, format);
    int made = make_path(doctor, path, format, args);
    va_end(args);
    text[0] = '\0';
    FILE *file = made ? fopen(path, "re") : NULL;
    if (!file)
        return 0;
    int got = fgets(text, (int)room, file) != NULL;
    fclose(file);
    text[got ? strcspn(text, "\n") : 0] = '\0';
    return got;
}

static int is_shown(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

void gw_doctor_names(const struct gw_doctor *doctor,
                     struct gw_doctor_names *names,
                     const char *format,
                     ...)
{
    char path[PATH_BYTES];
    va_list args;
    va_start(args, format);
    int made = make_path(doctor, path, format, args);
    va_end(args);
    names->entry = NULL;
    names->n = made ? scandir(path, &names->entry, is_shown, versionsort) : 0;
    if (names->n < 0)
        names->n = 0;
}

void gw_doctor_names_free(struct gw_doctor_names *names)
{
    for (int i = 0; i < names->n; i++)
        free(names->entry[i]);
    free(names->entry);
    *names = (struct gw_doctor_names){0};
}

/* ---- the job ---- */

int gw_doctor_needs_rdma(const struct gw_doctor *doctor)
{
    return strcmp(doctor->config->cluster.transport, "rdma") == 0;
}

int gw_doctor_takes_rdma(const struct gw_doctor *doctor)
{
    return gw_doctor_needs_rdma(doctor) ||
           strcmp(doctor->config->cluster.transport, "auto") == 0;
}

/* ---- this host ---- */

static unsigned ask_mtu(const char *interface)
{
    struct ifreq request = {.ifr_mtu = 0};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", interface);
    int asked = fd >= 0 && ioctl(fd, SIOCGIFMTU, &request) == 0;
    if (fd >= 0)
        close(fd);
    return asked ? (unsigned)request.ifr_mtu : 0;
}

/* Returns 0 unless `one` is an Internet address or the interface itself. */
static int take_address(const struct ifaddrs *one,
                        struct gw_doctor_address *address)
{
    const void *any = one->ifa_addr;
    int family = one->ifa_addr ? one->ifa_addr->sa_family : AF_UNSPEC;
    char text[INET6_ADDRSTRLEN];
    *address = (struct gw_doctor_address){
        .up = (one->ifa_flags & IFF_UP) != 0,
        .running = (one->ifa_flags & IFF_RUNNING) != 0,
        .loopback = (one->ifa_flags & IFF_LOOPBACK) != 0,
        .mtu = ask_mtu(one->ifa_name),
    };
    snprintf(address->interface, sizeof address->interface, "%s",
             one->ifa_name);
    if (family == AF_INET) {
        const struct sockaddr_in *v4 = any;
        address->gid[10] = address->gid[11] = 0xff;
        memcpy(address->gid + 12, &v4->sin_addr, 4);
        inet_ntop(AF_INET, &v4->sin_addr, text, sizeof text);
        snprintf(address->host, sizeof address->host, "%s", text);
    } else if (family == AF_INET6) {
        const struct sockaddr_in6 *v6 = any;
        memcpy(address->gid, &v6->sin6_addr, 16);
        address->local = IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr);
        inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof text);
        snprintf(address->host, sizeof address->host, "[%s]", text);
    }
    return family == AF_INET || family == AF_INET6 || family == AF_PACKET;
}

/* Bit 14 of the effective capabilities, CAP_IPC_LOCK; in a user namespace other
   than the first it does not lift the limit of locked memory. */
static int may_lock(void)
{
    char line[128];
    unsigned long long effective = 0, first = 0, outside = 1, n = 0;
    FILE *file = fopen("/proc/self/status", "re");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "CapEff: %llx", &effective) == 1)
            break;
    if (file)
        fclose(file);
    file = fopen("/proc/self/uid_map", "re");
    int mapped = file && fgets(line, sizeof line, file) &&
                 sscanf(line, "%llu %llu %llu", &first, &outside, &n) == 3;
    if (file)
        fclose(file);
    int first_namespace =
        mapped && first == 0 && outside == 0 && n == UINT32_MAX;
    return first_namespace && effective >> 14 & 1;
}

enum gw_status gw_doctor_look(struct gw_doctor *doctor, struct gw_error *error)
{
    struct ifaddrs *all;
    struct rlimit locked, files;
    if (getifaddrs(&all) != 0)
        return gw_fail(error, GW_EIO, "cannot list network interfaces: %s",
                       strerror(errno));
    doctor->addresses = 0;
    for (struct ifaddrs *one = all; one; one = one->ifa_next)
        if (doctor->addresses < GW_DOCTOR_ADDRESSES_MAX &&
            take_address(one, &doctor->address[doctor->addresses]))
            doctor->addresses++;
    freeifaddrs(all);
    if (getrlimit(RLIMIT_MEMLOCK, &locked) != 0 ||
        getrlimit(RLIMIT_NOFILE, &files) != 0)
        return gw_fail(error, GW_EIO, "cannot read this process's limits: %s",
                       strerror(errno));
    doctor->limits = (struct gw_doctor_limits){
        .locked =
            locked.rlim_cur == RLIM_INFINITY ? UINT64_MAX : locked.rlim_cur,
        .may_lock = may_lock(),
        .files = files.rlim_cur == RLIM_INFINITY ? UINT64_MAX : files.rlim_cur,
    };
    return GW_OK;
}
