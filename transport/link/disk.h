/*
 * Files. Blocking calls: use them in `run` of a gw_work, or before the loop
 * starts; any thread. Errors name the whole path, report the failure in the
 * system's words, and are GW_ENOENT, GW_EEXIST, GW_ENOSPC, GW_EREFUSED or
 * GW_EIO.
 *
 * A disk is the whole file system, with paths as the process has them, or one
 * directory that was entered and is held open: paths in it are relative, "." is
 * the directory. A directory that later takes its path is another one. Other
 * users may have put links into it; nothing is changed through them.
 */
#ifndef GW_TRANSPORT_DISK_H
#define GW_TRANSPORT_DISK_H

#include <stddef.h>
#include <stdint.h>

#include "proto/access.h"
#include "proto/status.h"

struct gw_disk_dir;
struct gw_disk_ops;
struct gw_file;

/* May be copied, for another access. Copies of an entered directory are not
   left by themselves. */
struct gw_disk {
    const struct gw_disk_ops *ops;
    struct gw_disk_dir
        *dir;         /* the implementation's; NULL: the whole file system */
    const char *name; /* of the directory, for messages */
    enum gw_access access; /* mode of new files and directories */
};

/* A run of bytes of a file that is written from several places. */
struct gw_file_part {
    const void *bytes;
    uint64_t n;
};

/*
 * READ follows links, and takes regular files only. CREATE makes a new file,
 * and removes an existing one of that name first. HOLD makes a file, or
 * truncates an existing one, and locks it until it is closed or the process
 * dies: GW_EEXIST if another process holds it, GW_EREFUSED if it is a link or
 * has two names. Simulated hosts are alone with their disks, and file systems
 * without locks hold nothing.
 */
enum gw_file_mode {
    GW_FILE_READ,
    GW_FILE_CREATE,
    GW_FILE_HOLD
};

struct gw_disk_ops {
    enum gw_status (*open)(struct gw_disk *disk,
                           const char *path,
                           enum gw_file_mode mode,
                           struct gw_file **file_p,
                           struct gw_error *error);
    /* Closes in any case; *error is set only if data may be lost. */
    enum gw_status (*close)(struct gw_file *file, struct gw_error *error);
    /* All of `bytes`, or an error; reading past the end is GW_ECORRUPT. */
    enum gw_status (*read)(struct gw_file *file,
                           uint64_t offset,
                           void *bytes,
                           size_t n,
                           struct gw_error *error);
    enum gw_status (*write)(struct gw_file *file,
                            uint64_t offset,
                            const void *bytes,
                            size_t n,
                            struct gw_error *error);
    enum gw_status (*size)(struct gw_file *file,
                           uint64_t *bytes_p,
                           struct gw_error *error);
    /* Reserves room so that a full disk is reported before the writing. */
    enum gw_status (*reserve)(struct gw_file *file,
                              uint64_t bytes,
                              struct gw_error *error);
    /* Starts writing these bytes, which were written last, to the disk; waits
       for the bytes of the previous call. Then a sync finds little left,
       however large the file. */
    enum gw_status (*flush)(struct gw_file *file,
                            uint64_t offset,
                            uint64_t n,
                            struct gw_error *error);
    enum gw_status (*sync)(struct gw_file *file, struct gw_error *error);
    enum gw_status (*rename)(struct gw_disk *disk,
                             const char *from,
                             const char *to,
                             struct gw_error *error);
    /* Removes a file, a link or an empty directory; GW_ENOENT: none there. */
    enum gw_status (*remove)(struct gw_disk *disk,
                             const char *path,
                             struct gw_error *error);
    /* An existing directory is GW_OK; inside an entered directory a link, or
       another user's directory, is GW_EREFUSED. */
    enum gw_status (*make_dir)(struct gw_disk *disk,
                               const char *path,
                               struct gw_error *error);
    enum gw_status (*sync_dir)(struct gw_disk *disk,
                               const char *path,
                               struct gw_error *error);
    /* Calls `each` with every name but . and .., in no order. */
    enum gw_status (*list)(struct gw_disk *disk,
                           const char *path,
                           void (*each)(void *owner, const char *name),
                           void *owner,
                           struct gw_error *error);
    /* Enters an existing directory, through links: *dir_p has the ops and the
       access of `disk`. Leave it. */
    enum gw_status (*enter)(struct gw_disk *disk,
                            const char *path,
                            struct gw_disk *dir_p,
                            struct gw_error *error);
    void (*leave)(struct gw_disk *dir);
    /* Returns non-zero, with words, if users who are not trusted can put files
       into an entered directory, or take some away. */
    int (*doubt)(struct gw_disk *dir, char *text, size_t room);
};

/* The real file system. */
extern const struct gw_disk_ops gw_disk_posix_ops;

/*
 * Only there: opens a file in an entered directory for appending, new or made
 * by this user before. *fd_p is the caller's. GW_EREFUSED if another user put
 * something there, and errors as above.
 */
enum gw_status gw_disk_append(struct gw_disk *dir,
                              const char *path,
                              int *fd_p,
                              struct gw_error *error);

#endif
