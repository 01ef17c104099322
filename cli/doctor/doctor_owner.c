/*
 * Finds the listener of a port: /proc/net/tcp has the socket's inode, and the
 * process has it among its descriptors, which only its user and root can read.
 */
#include "config.h"

#include "cli/doctor/doctor.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LISTENS 0x0A

/* 0: nobody. */
static unsigned long find_inode(const char *table, uint16_t port)
{
    char line[512];
    unsigned long inode = 0;
    FILE *file = fopen(table, "re");
    while (file && inode == 0 && fgets(line, sizeof line, file)) {
        unsigned local, state;
        unsigned long found;
        if (sscanf(line,
                   " %*u: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x %*s %*s %*s "
                   "%*s %*s %lu",
                   &local, &state, &found) == 3 &&
            local == port && state == LISTENS)
            inode = found;
    }
    if (file)
        fclose(file);
    return inode;
}

static int has_socket(const char *process, unsigned long inode)
{
    char path[300], link[64], wanted[64];
    int found = 0;
    snprintf(wanted, sizeof wanted, "socket:[%lu]", inode);
    snprintf(path, sizeof path, "/proc/%s/fd", process);
    DIR *files = opendir(path);
    struct dirent *entry;
    while (files && !found && (entry = readdir(files)) != NULL) {
        ssize_t n =
            readlinkat(dirfd(files), entry->d_name, link, sizeof link - 1);
        link[n > 0 ? n : 0] = '\0';
        found = strcmp(link, wanted) == 0;
    }
    if (files)
        closedir(files);
    return found;
}

static void name_of(const char *process, char *text, size_t room)
{
    char path[300], name[32] = "";
    snprintf(path, sizeof path, "/proc/%s/comm", process);
    FILE *file = fopen(path, "re");
    if (file && fgets(name, sizeof name, file))
        name[strcspn(name, "\n")] = '\0';
    if (file)
        fclose(file);
    snprintf(text, room, "%s, process %s", name[0] ? name : "unknown", process);
}

int gw_doctor_port_owner(uint16_t port, char *text, size_t room)
{
    unsigned long inode = find_inode("/proc/net/tcp", port);
    int found = 0;
    if (inode == 0)
        inode = find_inode("/proc/net/tcp6", port);
    DIR *all = inode ? opendir("/proc") : NULL;
    struct dirent *entry;
    while (all && !found && (entry = readdir(all)) != NULL) {
        found = isdigit((unsigned char)entry->d_name[0]) &&
                has_socket(entry->d_name, inode);
        if (found)
            name_of(entry->d_name, text, room);
    }
    if (all)
        closedir(all);
    return found;
}
