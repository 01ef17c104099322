/*
 * Resolving a path of a real disk to its last directory, without following
 * links that other users may have put there, and words for failures. Private to
 * the disk.
 */
#ifndef GW_TRANSPORT_DISK_PLACE_H
#define GW_TRANSPORT_DISK_PLACE_H

#include "transport/link/disk.h"

/* A directory that was entered. */
struct gw_disk_dir {
    int fd;
    char name[]; /* as it was entered, for messages */
};

struct gw_disk_place {
    int fd;           /* a directory, or AT_FDCWD */
    int is_own;       /* to be closed */
    const char *last; /* the rest of the path, in that directory */
};

/* Links on the way to the last directory. */
enum gw_disk_links {
    GW_LINKS_FOLLOWED,
    GW_LINKS_REFUSED
};

/*
 * For the whole file system the path is left to the system. GW_EREFUSED if a
 * part of a path in an entered directory is a link, GW_ENOENT if a part does
 * not exist. Free with gw_disk_place_close.
 */
enum gw_status gw_disk_place_find(const struct gw_disk *disk,
                                  const char *path,
                                  enum gw_disk_links links,
                                  struct gw_disk_place *place,
                                  struct gw_error *error);
void gw_disk_place_close(struct gw_disk_place *place);

/* "name/path", as a person would type it; the caller's. NULL: no memory. */
char *gw_disk_whole_name(const struct gw_disk *disk, const char *path);

/* The status for errno, and "cannot VERB NAME: words". */
enum gw_status
gw_disk_failed(struct gw_error *error, const char *verb, const char *name);

/* The same for a path; says so if the entered directory is gone. */
enum gw_status gw_disk_failed_at(const struct gw_disk *disk,
                                 struct gw_error *error,
                                 const char *verb,
                                 const char *path);

/* The path is taken by something that is no file or directory of this user. */
enum gw_status gw_disk_refused_at(const struct gw_disk *disk,
                                  struct gw_error *error,
                                  const char *path,
                                  const char *why);

#endif
