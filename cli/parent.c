#include "config.h"

#include "cli/parent.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

void gw_parent_take(struct gw_parent_lines *lines,
                    const char *bytes,
                    size_t n,
                    void (*each)(void *owner, const char *line),
                    void *owner)
{
    for (size_t i = 0; i < n; i++) {
        if (bytes[i] == '\n') {
            lines->text[lines->used] = '\0';
            lines->used = 0;
            each(owner, lines->text);
        } else if (lines->used + 1 < sizeof lines->text) {
            lines->text[lines->used++] = bytes[i];
        }
    }
}

const char *gw_parent_word(const char *line, const char *word)
{
    size_t n = strlen(word);
    return strncmp(line, word, n) == 0 && line[n] == ' ' ? line + n + 1 : NULL;
}

void gw_parent_tell(int fd, const char *format, ...)
{
    char line[GW_PARENT_LINE_MAX];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line, sizeof line - 1, format, args);
    va_end(args);
    if (n < 0)
        return;
    size_t bytes = (size_t)n < sizeof line - 1 ? (size_t)n : sizeof line - 2;
    line[bytes++] = '\n';
    send(fd, line, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
}
