#include <config.h>

#include "proto/log.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "proto/status.h"

#define SECOND_US ((uint64_t)1000000)
#define DAY_S     ((uint64_t)86400)
#define ERA_DAYS  146097 /* in 400 years */
#define ERA_YEARS 400

static const char *const level_words[] = {"error", "warn", "info", "debug",
                                          "trace"};

int gw_log_level_find(const char *word, enum gw_log_level *level_p)
{
    for (unsigned i = 0; i < sizeof level_words / sizeof *level_words; i++) {
        if (strcmp(word, level_words[i]) == 0) {
            *level_p = (enum gw_log_level)i;
            return 1;
        }
    }
    return 0;
}

struct date {
    unsigned year, month, day;
};

/*
 * Days since 1970 as a date. Years are counted from March, so that the leap day
 * is a year's last. gmtime_r would read time zone files and take a lock.
 */
static struct date date_of(uint64_t days)
{
    uint64_t since = days + 719468; /* from 0000-03-01 */
    uint64_t era = since / ERA_DAYS, day = since % ERA_DAYS;
    uint64_t year = (day - day / 1460 + day / 36524 - day / 146096) / 365;
    day -= 365 * year + year / 4 - year / 100;
    uint64_t month = (5 * day + 2) / 153; /* 0: March */
    day -= (153 * month + 2) / 5;
    year += ERA_YEARS * era + (month >= 10);
    return (struct date){.year = (unsigned)year,
                         .month =
                             (unsigned)(month < 10 ? month + 3 : month - 9),
                         .day = (unsigned)day + 1};
}

/* Bytes that snprintf has put into the buffer: it returns the bytes that it
   would have written. */
static size_t written(int bytes, size_t room)
{
    if (bytes < 0)
        return 0;
    return (size_t)bytes < room ? (size_t)bytes : room - 1;
}

static size_t print_head(const struct gw_log *log,
                         enum gw_log_level level,
                         char *line,
                         size_t room)
{
    uint64_t now = log->now_us(log->clock);
    uint64_t seconds = now / SECOND_US;
    struct date date = date_of(seconds / DAY_S);
    unsigned of_day = (unsigned)(seconds % DAY_S);
    char who[64] = "";
    int rank = atomic_load_explicit(&log->rank, memory_order_relaxed);
    if (rank >= 0)
        snprintf(who, sizeof who, "%d ", rank);
    else if (log->name)
        snprintf(who, sizeof who, "%s ", log->name);
    int bytes = snprintf(
        line, room, "%04u-%02u-%02uT%02u:%02u:%02u.%03uZ %s %s%s ", date.year,
        date.month, date.day, of_day / 3600, of_day / 60 % 60, of_day % 60,
        (unsigned)(now % SECOND_US / 1000), log->role, who, level_words[level]);
    return written(bytes, room);
}

static int is_written(const struct gw_log *log, enum gw_log_level level)
{
    return log && (int)level <=
                      atomic_load_explicit(&log->level, memory_order_relaxed);
}

static void write_line(const struct gw_log *log,
                       enum gw_log_level level,
                       const char *format,
                       va_list args) __attribute__((format(printf, 3, 0)));

static void write_line(const struct gw_log *log,
                       enum gw_log_level level,
                       const char *format,
                       va_list args)
{
    char line[GW_LOG_LINE_BYTES];
    size_t room = sizeof line - 1; /* for the newline */
    size_t head = print_head(log, level, line, room);
    int text = vsnprintf(line + head, room - head, format, args);
    size_t bytes = head + written(text, room - head);
    if (text > 0 && (size_t)text >= room - head)
        memcpy(line + bytes - 3, "...", 3);
    for (size_t i = 0; i < bytes; i++) {
        if ((unsigned char)line[i] < ' ' || line[i] == 0x7f)
            line[i] = '?';
    }
    line[bytes] = log->tell ? '\0' : '\n';
    if (log->tell)
        log->tell(log->context, level, line + head);
    else
        log->sink(log->context, line, bytes + 1);
}

void gw_log_line(const struct gw_log *log,
                 enum gw_log_level level,
                 const char *format,
                 ...)
{
    if (!is_written(log, level))
        return;
    va_list args;
    va_start(args, format);
    write_line(log, level, format, args);
    va_end(args);
}

int gw_log_limit_take(struct gw_log_limit *limit, uint64_t now_us)
{
    assert(limit->per_second > 0);
    uint64_t cost = SECOND_US / limit->per_second;
    if (!limit->started) {
        limit->started = 1;
        limit->credit_us = SECOND_US;
    } else if (now_us > limit->last_us) { /* clocks may be set back */
        uint64_t passed = now_us - limit->last_us;
        uint64_t missing = SECOND_US - limit->credit_us;
        limit->credit_us += passed < missing ? passed : missing;
    }
    limit->last_us = now_us;
    if (limit->credit_us < cost)
        return 0;
    limit->credit_us -= cost;
    return 1;
}

static void write_suppressed(const struct gw_log *log,
                             struct gw_log_limit *limit,
                             enum gw_log_level level)
{
    if (limit->suppressed == 0)
        return;
    gw_log_line(log, level, "suppressed %llu similar line%s",
                (unsigned long long)limit->suppressed,
                gw_plural(limit->suppressed));
    limit->suppressed = 0;
}

void gw_log_limited(const struct gw_log *log,
                    struct gw_log_limit *limit,
                    enum gw_log_level level,
                    const char *format,
                    ...)
{
    if (!is_written(log, level))
        return;
    if (!gw_log_limit_take(limit, log->now_us(log->clock))) {
        limit->suppressed++;
        return;
    }
    write_suppressed(log, limit, level);
    va_list args;
    va_start(args, format);
    write_line(log, level, format, args);
    va_end(args);
}
