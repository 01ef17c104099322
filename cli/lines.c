#include "config.h"

#include "cli/lines.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "proto/status.h"

#define READ_BYTES 16384

enum {
    CLEAR, /* of the live line, on a terminal */
    PREFIX,
    TEXT,
    END,
    PARTS
};

/* A pipe takes longer texts in pieces, and other writers' in between: they take
   turns. */
static void take_turn(int fd, short type)
{
    struct stat info;
    struct flock turn = {.l_type = type, .l_whence = SEEK_SET};
    if (fstat(fd, &info) == 0 && S_ISFIFO(info.st_mode))
        while (fcntl(fd, F_SETLKW, &turn) != 0 && errno == EINTR)
            continue;
}

/* Leaves out the first `bytes`. */
static void skip(struct iovec *part, size_t bytes)
{
    for (int i = 0; i < PARTS; i++) {
        size_t n = bytes < part[i].iov_len ? bytes : part[i].iov_len;
        part[i].iov_base = (char *)part[i].iov_base + n;
        part[i].iov_len -= n;
        bytes -= n;
    }
}

/* Output that nobody reads any more is lost, and the program goes on. */
static void write_parts(int fd, struct iovec *part)
{
    struct pollfd taker = {.fd = fd, .events = POLLOUT};
    size_t left = 0;
    for (int i = 0; i < PARTS; i++)
        left += part[i].iov_len;
    while (left > 0) {
        ssize_t n = writev(fd, part, PARTS);
        if (n < 0 && errno == EAGAIN)
            poll(&taker, 1, -1);
        else if (n < 0 && errno != EINTR)
            return;
        if (n <= 0)
            continue;
        skip(part, (size_t)n);
        left -= (size_t)n;
    }
}

static struct iovec part_of(const char *text, size_t bytes)
{
    return (struct iovec){(void *)(uintptr_t)text, bytes};
}

static void write_to(int fd, struct iovec part[PARTS])
{
    take_turn(fd, F_WRLCK);
    write_parts(fd, part);
    take_turn(fd, F_UNLCK);
}

/* The rest of a line, of which a part may be shown. */
static void show(struct gw_lines *lines, const char *end)
{
    static const char clear[] = "\r\033[K";
    int is_first = lines->shown == 0;
    struct iovec part[PARTS] = {
        [CLEAR] = part_of(clear,
                          is_first && isatty(lines->to) ? sizeof clear - 1 : 0),
        [PREFIX] = part_of(lines->prefix, is_first ? strlen(lines->prefix) : 0),
        [TEXT] =
            part_of(lines->text + lines->shown, lines->used - lines->shown),
        [END] = part_of(end, strlen(end)),
    };
    write_to(lines->to, part);
    lines->shown = lines->used;
}

static void keep(const struct gw_lines *lines)
{
    struct iovec part[PARTS] = {
        [TEXT] = part_of(lines->text, lines->used),
        [END] = part_of("\n", 1),
    };
    write_to(lines->log, part);
}

static void keep_last(struct gw_lines *lines)
{
    size_t n = lines->used;
    size_t blank = 0;
    while (blank < n && strchr(" \t", lines->text[blank]))
        blank++;
    if (blank == n)
        return;
    if (n > sizeof lines->last - 1)
        n = sizeof lines->last - 1;
    memcpy(lines->last, lines->text, n);
    lines->last[n] = '\0';
    gw_text_clean(lines->last);
}

static void end_line(struct gw_lines *lines)
{
    show(lines, "\n");
    if (lines->log >= 0)
        keep(lines);
    keep_last(lines);
    lines->used = lines->shown = 0;
    lines->returned = 0;
}

static void take(struct gw_lines *lines, char byte)
{
    if (byte == '\n') {
        end_line(lines);
        return;
    }
    if (byte == '\r') {
        lines->returned = 1;
        return;
    }
    if (lines->returned)
        lines->used = lines->shown = 0;
    lines->returned = 0;
    if (lines->used == sizeof lines->text)
        end_line(lines);
    lines->text[lines->used++] = byte;
}

int gw_lines_has_part(const struct gw_lines *lines)
{
    return lines->used > lines->shown;
}

void gw_lines_show_part(struct gw_lines *lines)
{
    if (gw_lines_has_part(lines))
        show(lines, "");
}

static void finish(struct gw_lines *lines)
{
    if (lines->used > 0)
        end_line(lines);
    close(lines->from);
    lines->from = -1;
}

/* Returns the number of bytes. */
static size_t read_some(struct gw_lines *lines)
{
    char bytes[READ_BYTES];
    ssize_t n;
    do
        n = read(lines->from, bytes, sizeof bytes);
    while (n < 0 && errno == EINTR);
    for (ssize_t i = 0; i < n; i++)
        take(lines, bytes[i]);
    if (n <= 0)
        finish(lines);
    return n > 0 ? (size_t)n : 0;
}

void gw_lines_read(struct gw_lines *lines)
{
    (void)read_some(lines);
}

/* Others may still write: as much is read as is there now. */
void gw_lines_finish(struct gw_lines *lines)
{
    int left = 0;
    if (lines->from < 0 || ioctl(lines->from, FIONREAD, &left) != 0)
        return;
    for (size_t got = 0; lines->from >= 0 && got < (size_t)left;)
        got += read_some(lines);
    if (lines->from >= 0)
        finish(lines);
}
