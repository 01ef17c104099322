/*
 * Files of the real disk, opened and open: slots of its table (described in
 * transport/link/disk.h). Private to the disk.
 */
#ifndef GW_TRANSPORT_DISK_FILE_H
#define GW_TRANSPORT_DISK_FILE_H

#include <sys/stat.h>

#include "transport/link/disk.h"

/* Non-zero for a file owned by this user, or by the owner of the entered
   directory: a file server may map our user id to another one. */
int gw_disk_is_familiar(const struct gw_disk *disk, const struct stat *found);

enum gw_status gw_disk_file_open(struct gw_disk *disk,
                                 const char *path,
                                 enum gw_file_mode mode,
                                 struct gw_file **file_p,
                                 struct gw_error *error);
enum gw_status gw_disk_file_close(struct gw_file *file, struct gw_error *error);
enum gw_status gw_disk_file_read(struct gw_file *file,
                                 uint64_t offset,
                                 void *bytes,
                                 size_t n,
                                 struct gw_error *error);
enum gw_status gw_disk_file_write(struct gw_file *file,
                                  uint64_t offset,
                                  const void *bytes,
                                  size_t n,
                                  struct gw_error *error);
enum gw_status gw_disk_file_size(struct gw_file *file,
                                 uint64_t *bytes_p,
                                 struct gw_error *error);
enum gw_status gw_disk_file_reserve(struct gw_file *file,
                                    uint64_t bytes,
                                    struct gw_error *error);
enum gw_status gw_disk_file_flush(struct gw_file *file,
                                  uint64_t offset,
                                  uint64_t n,
                                  struct gw_error *error);
enum gw_status gw_disk_file_sync(struct gw_file *file, struct gw_error *error);

#endif
