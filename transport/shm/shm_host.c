/*
 * Identity of a host: the boot of a kernel, under any name of its own or of its
 * containers. Two processes in it meet at a socket's name, which belongs to a
 * network namespace and is gone with its listener. They must be of one user,
 * which may have different numbers in their user namespaces.
 *
 *   1b4e28ba2fa1493e-f0000098-3e8 :5c1a9e07d2b34f68
 *   of the boot's id -name-   user:of the socket
 *                    space
 */
#include "config.h"

#include "transport/shm/shm.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "transport/link/limits.h"
#include "transport/link/memory.h"

#define BOOT_ID        "/proc/sys/kernel/random/boot_id"
#define NAMESPACE      "/proc/self/ns/net"
#define USERS          "/proc/self/uid_map"
#define BOOT_DIGITS    16
#define NAME_MAX_BYTES 64

static const char socket_prefix[] = "gradweir.";
static const char name_letters[] = "0123456789abcdefghijklmnopqrstuvwxyz"
                                   "ABCDEFGHIJKLMNOPQRSTUVWXYZ-_";

/* Reads the boot id's first digits, without dashes. 0, or -1 with errno. */
static int read_boot(char boot[BOOT_DIGITS + 1])
{
    char text[64] = "";
    FILE *file = fopen(BOOT_ID, "re");
    if (!file)
        return -1;
    size_t got = fread(text, 1, sizeof text - 1, file), n = 0;
    fclose(file);
    for (size_t i = 0; i < got && n < BOOT_DIGITS; i++)
        if (strchr("0123456789abcdef", text[i]))
            boot[n++] = text[i];
    boot[n] = '\0';
    errno = EINVAL;
    return n == BOOT_DIGITS ? 0 : -1;
}

/* The user's number in the namespace around ours, which is the host's unless
   that is inside another one. If the numbers still differ the dial fails. */
static uintmax_t user_outside(uintmax_t user)
{
    uintmax_t inside, outside, n, found = user;
    FILE *file = fopen(USERS, "re");
    if (!file)
        return user;
    while (fscanf(file, "%ju %ju %ju", &inside, &outside, &n) == 3)
        if (user >= inside && user - inside < n)
            found = outside + (user - inside);
    fclose(file);
    return found;
}

enum gw_status gw_shm_meet(char host[GW_ADDRESS_MAX], struct gw_error *error)
{
    char boot[BOOT_DIGITS + 1];
    struct stat space = {.st_ino = 0};
    if (read_boot(boot) != 0)
        return gw_fail(error, GW_EUNSUPPORTED,
                       "cannot tell this host from others: %s: %s", BOOT_ID,
                       strerror(errno));
    if (stat(NAMESPACE, &space) != 0)
        space.st_ino = 0;
    snprintf(host, GW_ADDRESS_MAX, "%s-%" PRIxMAX "-%" PRIxMAX, boot,
             (uintmax_t)space.st_ino, user_outside(geteuid()));
    return GW_OK;
}

enum gw_status gw_shm_probe(char *why, size_t why_bytes)
{
    char host[GW_ADDRESS_MAX];
    struct gw_error error;
    if (gw_shm_meet(host, &error) != GW_OK) {
        snprintf(why, why_bytes, "%s", error.text);
        return GW_EUNSUPPORTED;
    }
    int fd = gw_memory_file("gradweir-probe", 1);
    if (fd < 0) {
        char words[GW_LIMITS_WHY_BYTES];
        snprintf(why, why_bytes, "no shared memory is to be had: %s",
                 gw_limits_why_no_file(errno, words));
        return GW_EUNSUPPORTED;
    }
    close(fd);
    snprintf(why, why_bytes, "for processes of one host");
    return GW_OK;
}

int gw_shm_reaches(const char *address)
{
    char boot[BOOT_DIGITS + 1];
    return read_boot(boot) == 0 && strncmp(address, boot, BOOT_DIGITS) == 0 &&
           address[BOOT_DIGITS] == '-';
}

static int is_name(const char *name)
{
    size_t n = strlen(name);
    return n > 0 && n <= NAME_MAX_BYTES && strspn(name, name_letters) == n;
}

/* Non-zero if both begin alike, up to the `parts`th dash. */
static int is_alike(const char *own, const char *address, unsigned parts)
{
    while (*own && *own == *address) {
        parts -= *own == '-';
        if (parts == 0)
            return 1;
        own++, address++;
    }
    return 0;
}

enum gw_status gw_shm_place(const char *address,
                            struct sockaddr_un *at,
                            socklen_t *bytes_p,
                            struct gw_error *error)
{
    char own[GW_ADDRESS_MAX];
    const char *name = strrchr(address, ':');
    if (!name || !is_name(name + 1))
        return gw_fail(error, GW_EINVAL,
                       "\"%s\" is no address of this host: expected HOST:NAME",
                       address);
    enum gw_status status = gw_shm_meet(own, error);
    if (status != GW_OK)
        return status;
    if (!gw_shm_reaches(address))
        return gw_fail(error, GW_EUNREACHABLE, "it is on another host");
    size_t n = (size_t)(name - address);
    if (!is_alike(own, address, 2))
        return gw_fail(error, GW_EUNREACHABLE,
                       "it is in another network namespace of this host");
    if (strlen(own) != n || strncmp(own, address, n) != 0)
        return gw_fail(error, GW_EUNREACHABLE,
                       "it is another user's of this host");
    *at = (struct sockaddr_un){.sun_family = AF_UNIX};
    /* the first byte is zero: a name, and no file */
    int used = snprintf(at->sun_path + 1, sizeof at->sun_path - 1, "%s%s",
                        socket_prefix, name + 1);
    *bytes_p =
        (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)used);
    return GW_OK;
}

int gw_shm_may(int fd)
{
    struct ucred who;
    socklen_t bytes = sizeof who;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &bytes) == 0 &&
           who.uid == geteuid();
}

void gw_shm_name_peer(int fd, char text[GW_ADDRESS_MAX])
{
    struct ucred who = {.pid = 0};
    socklen_t bytes = sizeof who;
    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &bytes);
    snprintf(text, GW_ADDRESS_MAX, "this host, pid %d", (int)who.pid);
}
