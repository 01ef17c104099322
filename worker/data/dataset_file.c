#include "config.h"

#include "worker/data/dataset_format.h"
#include "transport/link/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

/*
 * Deflate's longest match is 258 bytes for two bits, so no gzip file grows by
 * more than this; a header that declares more lies.
 */
#define LOOK_WHOLE        ((uint64_t)4 << 20) /* labels, mostly */
#define INFLATE_RATIO_MAX 1032
#define INFLATE_PIECE     ((size_t)1 << 30) /* zlib counts in 32 bits */

/* A gzip file in memory: one or more members, nothing but zeros behind them. */
struct gunzip {
    const char *name;
    z_stream stream;
    size_t left; /* input that the stream has not been given yet */
    int ended;
};

static enum gw_status
gunzip_failed(const struct gunzip *z, int code, struct gw_error *error)
{
    if (code == Z_MEM_ERROR)
        return gw_fail(error, GW_ENOMEM, "%s: no memory to inflate it",
                       z->name);
    if (code == Z_BUF_ERROR)
        return gw_fail(
            error, GW_ECORRUPT,
            "%s: the gzip stream is truncated; " GW_DATA_ADVICE_AGAIN, z->name);
    return gw_fail(error, GW_ECORRUPT,
                   "%s: the gzip stream is damaged (%s); " GW_DATA_ADVICE_AGAIN,
                   z->name, z->stream.msg ? z->stream.msg : "no reason given");
}

static enum gw_status gunzip_open(struct gunzip *z,
                                  const char *name,
                                  const uint8_t *bytes,
                                  size_t n,
                                  struct gw_error *error)
{
    *z = (struct gunzip){.name = name, .left = n};
    z->stream.next_in = (Bytef *)(uintptr_t)bytes; /* zlib takes no const */
    int code = inflateInit2(&z->stream, 15 + 16);  /* gzip, any window */
    return code == Z_OK ? GW_OK : gunzip_failed(z, code, error);
}

/* Behind the last member a tape or a block device may have padded it, which
   gzip passes over. */
static int only_zeros_follow(const struct gunzip *z)
{
    const uint8_t *in = z->stream.next_in;
    size_t n = z->stream.avail_in + z->left;
    while (n > 0 && *in == 0) {
        in++;
        n--;
    }
    return n == 0;
}

/* Fills out[n], or less only where the last member ended. */
static enum gw_status gunzip_read(struct gunzip *z,
                                  uint8_t *out,
                                  size_t n,
                                  size_t *got_p,
                                  struct gw_error *error)
{
    size_t got = 0;
    while (got < n && !z->ended) {
        if (z->stream.avail_in == 0) {
            size_t piece = z->left < INFLATE_PIECE ? z->left : INFLATE_PIECE;
            z->stream.avail_in = (uInt)piece;
            z->left -= piece;
        }
        size_t room = n - got < INFLATE_PIECE ? n - got : INFLATE_PIECE;
        z->stream.next_out = out + got;
        z->stream.avail_out = (uInt)room;
        int code = inflate(&z->stream, Z_NO_FLUSH);
        got += room - z->stream.avail_out;
        if (code == Z_STREAM_END) {
            z->ended = only_zeros_follow(z);
            code = z->ended ? Z_OK : inflateReset(&z->stream);
        }
        if (code != Z_OK)
            return gunzip_failed(z, code, error);
    }
    *got_p = got;
    return GW_OK;
}

/* Nothing may follow the bytes that the header declared. */
static enum gw_status
gunzip_end(struct gunzip *z, uint64_t declared, struct gw_error *error)
{
    uint8_t extra;
    size_t got;
    enum gw_status status = gunzip_read(z, &extra, 1, &got, error);
    if (status != GW_OK)
        return status;
    if (got > 0)
        return gw_fail(error, GW_ECORRUPT,
                       "%s: holds more than the %" PRIu64
                       " bytes that its header declares; " GW_DATA_ADVICE_AGAIN,
                       z->name, declared);
    return GW_OK;
}

/*
 * The head first, then, once the size that it declares is known to be possible
 * for a file of `packed` bytes, the rest.
 */
static enum gw_status gunzip_whole(struct gunzip *z,
                                   size_t packed,
                                   gw_data_size_cb *size,
                                   struct gw_data_file *file,
                                   struct gw_error *error)
{
    size_t head, rest;
    uint64_t declared;
    uint8_t *grown, *out = malloc(GW_DATA_HEAD_BYTES);
    if (!out)
        return gunzip_failed(z, Z_MEM_ERROR, error);

    enum gw_status status =
        gunzip_read(z, out, GW_DATA_HEAD_BYTES, &head, error);
    if (status == GW_OK)
        status = gw_data_check_kind(z->name, out, head, error);
    if (status == GW_OK)
        status = size(z->name, out, head, &declared, error);
    if (status != GW_OK)
        goto fail;
    if (declared / INFLATE_RATIO_MAX > packed || declared < head) {
        status = gw_fail(error, GW_ECORRUPT,
                         "%s: its header declares %" PRIu64
                         " bytes, %s; " GW_DATA_ADVICE_AGAIN,
                         z->name, declared,
                         declared < head ? "it holds more"
                                         : "more than it can hold");
        goto fail;
    }
    grown = realloc(out, (size_t)declared);
    if (!grown) {
        status =
            gw_fail(error, GW_ENOMEM, "%s: no memory for its %" PRIu64 " bytes",
                    z->name, declared);
        goto fail;
    }
    out = grown;
    status = gunzip_read(z, out + head, (size_t)declared - head, &rest, error);
    if (status == GW_OK)
        status = gunzip_end(z, declared, error);
    if (status != GW_OK)
        goto fail;

    *file = (struct gw_data_file){.name = z->name,
                                  .bytes = out,
                                  .n = head + rest,
                                  .memory = GW_DATA_ALLOCATED,
                                  .packed = packed};
    return GW_OK;

fail:
    free(out);
    return status;
}

enum gw_status gw_data_file_from_bytes(const char *name,
                                       const uint8_t *bytes,
                                       size_t n,
                                       gw_data_size_cb *size,
                                       struct gw_data_file *file,
                                       struct gw_error *error)
{
    if (n < 2 || bytes[0] != 0x1f || bytes[1] != 0x8b) {
        *file = (struct gw_data_file){.name = name, .bytes = bytes, .n = n};
        return GW_OK;
    }
    if (!size)
        return gw_fail(error, GW_EUNSUPPORTED,
                       "%s: is gzipped, which this format cannot be; "
                       "unpack it with gunzip",
                       name);
    struct gunzip z;
    enum gw_status status = gunzip_open(&z, name, bytes, n, error);
    if (status != GW_OK)
        return status;
    status = gunzip_whole(&z, n, size, file, error);
    inflateEnd(&z.stream);
    return status;
}

/* Maps a whole file; *n_p is its size. */
static enum gw_status
map(const char *path, void **bytes_p, size_t *n_p, struct gw_error *error)
{
    struct stat about;
    void *bytes;
    enum gw_status status = GW_OK;
    /* without O_NONBLOCK a FIFO would wait here for a writer */
    char why[GW_LIMITS_WHY_BYTES];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return gw_fail(error, errno == ENOENT ? GW_ENOENT : GW_EIO,
                       "%s: cannot be opened: %s", path,
                       gw_limits_why_no_file(errno, why));
    if (fstat(fd, &about) != 0) {
        status = gw_fail(error, GW_EIO, "%s: %s", path, strerror(errno));
        goto done;
    }
    if (!S_ISREG(about.st_mode)) {
        status = gw_fail(error, GW_EIO, "%s: is not a regular file", path);
        goto done;
    }
    if (about.st_size == 0) {
        status = gw_fail(error, GW_ECORRUPT,
                         "%s: is empty; " GW_DATA_ADVICE_AGAIN, path);
        goto done;
    }
    bytes = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes == MAP_FAILED) {
        status = gw_fail(error, errno == ENOMEM ? GW_ENOMEM : GW_EIO,
                         "%s: cannot be mapped: %s", path, strerror(errno));
        goto done;
    }
    *bytes_p = bytes;
    *n_p = (size_t)about.st_size;

done:
    close(fd);
    return status;
}

enum gw_status gw_data_file_open(const char *path,
                                 gw_data_size_cb *size,
                                 struct gw_data_file *file,
                                 struct gw_error *error)
{
    void *bytes = NULL;
    size_t n = 0;
    enum gw_status status = map(path, &bytes, &n, error);
    if (status != GW_OK)
        return status;
    status = gw_data_file_from_bytes(path, bytes, n, size, file, error);
    if (status != GW_OK || file->memory == GW_DATA_ALLOCATED) {
        munmap(bytes, n);
        return status;
    }
    file->memory = GW_DATA_MAPPED;
    /* reading ahead only helps: a refusal changes nothing */
    (void)posix_madvise(bytes, n, POSIX_MADV_WILLNEED);
    return GW_OK;
}

/* The head of a gzipped file, and zeros for the rest that it declares; a small
   one is unpacked. GW_EAGAIN: it is to be opened. */
static enum gw_status look_gzipped(const char *path,
                                   const uint8_t *packed,
                                   size_t n,
                                   gw_data_size_cb *size,
                                   struct gw_data_file *file,
                                   struct gw_error *error)
{
    uint8_t *head = malloc(GW_DATA_HEAD_BYTES), *out = NULL;
    uint64_t declared = 0;
    size_t got = 0;
    struct gunzip z;
    enum gw_status status = gunzip_open(&z, path, packed, n, error);
    if (status != GW_OK || !head) {
        free(head);
        return GW_EAGAIN;
    }
    status = gunzip_read(&z, head, GW_DATA_HEAD_BYTES, &got, error);
    inflateEnd(&z.stream);
    if (status == GW_OK)
        status = size(path, head, got, &declared, error);
    if (status == GW_OK && declared > LOOK_WHOLE && declared >= got &&
        declared / INFLATE_RATIO_MAX <= n)
        out = calloc(1, (size_t)declared); /* untouched it takes no memory */
    if (out) {
        memcpy(out, head, got);
        *file = (struct gw_data_file){.name = path,
                                      .bytes = out,
                                      .n = (size_t)declared,
                                      .memory = GW_DATA_ALLOCATED,
                                      .packed = n,
                                      .looked = 1};
    }
    free(head);
    return out ? GW_OK : GW_EAGAIN;
}

enum gw_status gw_data_file_look(const char *path,
                                 gw_data_size_cb *size,
                                 struct gw_data_file *file,
                                 struct gw_error *error)
{
    void *bytes = NULL;
    size_t n = 0;
    const uint8_t *magic;
    enum gw_status status = map(path, &bytes, &n, error);
    if (status != GW_OK)
        return status;
    magic = bytes;
    status = GW_EAGAIN;
    if (size && n >= 2 && magic[0] == 0x1f && magic[1] == 0x8b)
        status = look_gzipped(path, bytes, n, size, file, error);
    munmap(bytes, n);
    if (status != GW_OK)
        status = gw_data_file_open(path, size, file, error);
    if (status == GW_OK && file->n > LOOK_WHOLE)
        file->looked = 1;
    return status;
}

void gw_data_file_close(struct gw_data_file *file)
{
    void *bytes = (void *)(uintptr_t)file->bytes;
    switch (file->memory) {
    case GW_DATA_BORROWED:
        break;
    case GW_DATA_MAPPED:
        munmap(bytes, file->n);
        break;
    case GW_DATA_ALLOCATED:
        free(bytes);
        break;
    }
    *file = (struct gw_data_file){0};
}
