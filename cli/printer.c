/* A pipe, and a thread that writes its contents to the file. */
#include "config.h"

#include "cli/printer.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "transport/link/limits.h"

#define WAITING_BYTES (1 << 20)

struct gw_printer {
    FILE *stream, *to;
    int in, out; /* ends of the pipe */
    int lost;    /* since the last line about losses */
    pthread_t thread;
};

/* write function of the stream: never fails, and blocks only after
   gw_printer_wait. */
static ssize_t put(void *cookie, const char *bytes, size_t n)
{
    static const char note[] =
        "... some lines are lost: what was printed before them was not read\n";
    struct gw_printer *printer = cookie;
    if (printer->lost)
        printer->lost = write(printer->in, note, sizeof note - 1) < 0;
    if (printer->lost || write(printer->in, bytes, n) != (ssize_t)n)
        printer->lost = 1;
    return (ssize_t)n;
}

static void *printer_main(void *argument)
{
    struct gw_printer *printer = argument;
    char bytes[4096];
    for (;;) {
        ssize_t n = read(printer->out, bytes, sizeof bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return NULL;
        /* on failure `to` remembers the error */
        if (fwrite(bytes, 1, (size_t)n, printer->to) == (size_t)n)
            fflush(printer->to);
    }
}

enum gw_status
gw_printer_open(FILE *to, struct gw_printer **printer_p, struct gw_error *error)
{
    char why[GW_LIMITS_WHY_BYTES];
    int ends[2], failed = ENOMEM;
    struct gw_printer *printer = calloc(1, sizeof *printer);
    if (!printer)
        goto fail;
    if (pipe2(ends, O_CLOEXEC) != 0) {
        failed = errno;
        goto free_printer;
    }
    printer->to = to;
    printer->out = ends[0];
    printer->in = ends[1];
    /* a smaller pipe works as well */
    (void)fcntl(printer->in, F_SETPIPE_SZ, WAITING_BYTES);
    fcntl(printer->in, F_SETFL, O_NONBLOCK);
    printer->stream =
        fopencookie(printer, "w", (cookie_io_functions_t){.write = put});
    if (!printer->stream)
        goto close_pipe;
    failed = pthread_create(&printer->thread, NULL, printer_main, printer);
    if (failed)
        goto close_stream;
    *printer_p = printer;
    return GW_OK;

close_stream:
    fclose(printer->stream);
close_pipe:
    close(printer->in);
    close(printer->out);
free_printer:
    free(printer);
fail:
    return gw_fail(error, failed == ENOMEM ? GW_ENOMEM : GW_EIO,
                   "cannot print: %s",
                   failed == EAGAIN ? gw_limits_why_no_process(failed, why)
                                    : gw_limits_why_no_file(failed, why));
}

FILE *gw_printer_stream(struct gw_printer *printer)
{
    return printer->stream;
}

int gw_printer_is_idle(const struct gw_printer *printer)
{
    int waiting = 0;
    return ioctl(printer->out, FIONREAD, &waiting) == 0 && waiting == 0;
}

void gw_printer_wait(struct gw_printer *printer)
{
    fcntl(printer->in, F_SETFL, 0);
}

void gw_printer_close(struct gw_printer *printer)
{
    if (!printer)
        return;
    fclose(printer->stream);
    close(printer->in);
    pthread_join(printer->thread, NULL);
    close(printer->out);
    free(printer);
}
