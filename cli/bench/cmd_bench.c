/* gradweir bench: speed of transfers and updates, against the machine's
   limits. */
#include "config.h"

#include "cli/bench/bench.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "cli/options.h"

#define ROUNDS 10

static const size_t usual_sizes[] = {
    (size_t)1 << 10, (size_t)4 << 10, (size_t)64 << 10,
    (size_t)1 << 20, (size_t)4 << 20, (size_t)64 << 20,
};

/* ---- options ---- */

/* Parses "64", "4KiB", "64MiB", "1GiB", and "4K" for short. */
static enum gw_status
read_size(const char *text, size_t length, size_t *bytes_p)
{
    static const char *const units[] = {"", "K", "M", "G"};
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    size_t rest = length - (size_t)(end - text);
    if (end == text || errno || *text == '-' || *text == '+')
        return GW_EUSAGE;
    if (rest == 3 && strncmp(end + 1, "iB", 2) == 0)
        rest = 1;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strlen(units[i]) != rest || strncmp(end, units[i], rest) != 0)
            continue;
        unsigned long long bytes = number << (10 * i);
        if (bytes < sizeof(float) || bytes % sizeof(float) != 0 ||
            number > GW_BENCH_BYTES_MAX || bytes > GW_BENCH_BYTES_MAX)
            return GW_ERANGE;
        *bytes_p = (size_t)bytes;
        return GW_OK;
    }
    return GW_EUSAGE;
}

static enum gw_status take_sizes(const struct gw_option *option,
                                 const char *list,
                                 void *to,
                                 struct gw_error *error)
{
    struct gw_bench_options *options = to;
    (void)option;
    options->sizes = 0;
    for (const char *at = list; at; at = strchr(at, ',')) {
        at += *at == ',';
        size_t length = strcspn(at, ",");
        if (options->sizes == GW_BENCH_SIZES_MAX)
            return gw_fail(error, GW_EUSAGE, "bench: more than %d sizes",
                           GW_BENCH_SIZES_MAX);
        if (read_size(at, length, &options->size[options->sizes++]) != GW_OK)
            return gw_fail(error, GW_EUSAGE,
                           "bench: --sizes %.*s: takes multiples of 4 up to "
                           "1GiB, such as 4KiB,64MiB",
                           (int)length, at);
        if (!at[length])
            break;
    }
    return GW_OK;
}

static enum gw_status take_optimizer(const struct gw_option *option,
                                     const char *name,
                                     void *to,
                                     struct gw_error *error)
{
    struct gw_bench_options *options = to;
    (void)option;
    options->optimizer = gw_optimizer_find(name);
    if (!options->optimizer || options->optimizer->two_phase)
        return gw_fail(error, GW_EUSAGE,
                       "bench: --optimizer %s: takes sgd, momentum, nesterov, "
                       "adam, adamw or none",
                       name);
    return GW_OK;
}

static enum gw_status take_op(const struct gw_option *option,
                              const char *name,
                              void *to,
                              struct gw_error *error)
{
    struct gw_bench_options *options = to;
    (void)option;
    for (int op = 0; op < GW_BENCH_OPS; op++)
        if (strcasecmp(name, gw_bench_op_name((enum gw_bench_op)op)) == 0) {
            options->only_op = op;
            return GW_OK;
        }
    return gw_fail(error, GW_EUSAGE,
                   "bench: --op %s: takes push, pull or push+pull", name);
}

static enum gw_status open_json(const char *file,
                                struct gw_bench_options *options,
                                struct gw_error *error)
{
    if (strcmp(file, "-") == 0) {
        options->json = stdout;
        options->table = NULL;
        return GW_OK;
    }
    options->json = fopen(file, "ae");
    if (!options->json)
        return gw_fail(error, GW_EIO, "bench: cannot write %s: %s", file,
                       strerror(errno));
    return GW_OK;
}

static enum gw_status read_route(const char *name,
                                 struct gw_bench_route *route,
                                 struct gw_error *error)
{
    char why[256];
    struct gw_error none;
    route->transport = gw_transport_find(name, &none);
    if (!route->transport)
        return gw_fail(error, none.status, "bench: --transport: %.400s",
                       none.text);
    if (strcmp(route->transport->name, "sim") == 0)
        return gw_fail(error, GW_EUSAGE,
                       "bench: --transport sim has no real time to measure");
    return gw_routes_find(route->transport->name, &route->routes, why,
                          sizeof why, error);
}

/* The next of the list. */
static enum gw_status add_route(const char *name,
                                struct gw_bench_options *options,
                                struct gw_error *error)
{
    struct gw_bench_route *route = &options->route[options->routes];
    if (options->routes == GW_BENCH_ROUTES_MAX)
        return gw_fail(error, GW_EUSAGE, "bench: --transport: more than %d",
                       GW_BENCH_ROUTES_MAX);
    enum gw_status status = read_route(name, route, error);
    for (uint32_t i = 0; status == GW_OK && i < options->routes; i++)
        if (options->route[i].transport == route->transport)
            return gw_fail(error, GW_EUSAGE,
                           "bench: --transport: %s is there twice",
                           route->transport->name);
    options->routes++;
    return status;
}

static enum gw_status read_routes(const char *list,
                                  struct gw_bench_options *options,
                                  struct gw_error *error)
{
    char names[64], *rest = names;
    enum gw_status status = GW_OK;
    if (snprintf(names, sizeof names, "%s", list) >= (int)sizeof names)
        return gw_fail(error, GW_EUSAGE,
                       "bench: --transport %s: takes names such as shm,tcp",
                       list);
    options->routes = 0;
    while (rest && status == GW_OK)
        status = add_route(strsep(&rest, ","), options, error);
    return status;
}

static enum gw_status take_transport(const struct gw_option *option,
                                     const char *list,
                                     void *to,
                                     struct gw_error *error)
{
    (void)option;
    return read_routes(list, to, error);
}

#define AT(member) .at = offsetof(struct command, options.member)

struct command {
    struct gw_bench_options options;
    const char *json;
};

/* clang-format off */
static const struct gw_option words[] = {
    {.name = "network", .take = gw_option_flag, AT(network),
     .help = "push, pull and push+pull between processes on this machine, "
             "beside plain sockets"},
    {.name = "put", .take = gw_option_flag, AT(put),
     .help = "of those the transport's rows alone, to set beside other "
             "programs"},
    {.name = "update", .take = gw_option_flag, AT(update),
     .help = "a server's reduce and update, beside a += b"},
    {.name = "sum", .take = gw_option_flag, AT(sum),
     .help = "the sum of the workers of one host, beside the memory traffic "
             "that it is"},
    {.name = NULL},
};
/* clang-format on */

static enum gw_status read_words(int n,
                                 char **argument,
                                 struct command *command,
                                 struct gw_error *error)
{
    struct gw_bench_options *what = &command->options;
    for (int i = 0; i < n; i++) {
        const struct gw_option *word = gw_option_find(words, argument[i]);
        if (!word)
            return gw_fail(error, GW_EUSAGE,
                           "bench: measures network, put, update or sum, not "
                           "%s",
                           argument[i]);
        word->take(word, NULL, (char *)command + word->at, error);
    }
    if (n == 0)
        what->network = what->update = 1;
    return gw_bench_sum_check(what, error);
}

static enum gw_status run_network(const struct gw_bench_options *options,
                                  struct gw_error *error)
{
    uint64_t errors = 0;
    enum gw_status status = GW_OK;
    for (size_t i = 0; i < options->sizes && status == GW_OK; i++)
        status = gw_bench_size(options, options->size[i], &errors, error);
    if (status == GW_OK && errors > 0)
        return gw_fail(error, GW_ECORRUPT, "bench: %llu values arrived wrong",
                       (unsigned long long)errors);
    return status;
}

/* Runs everything but the sum, which has other sizes and workers. */
static enum gw_status run_usual(struct gw_bench_options options,
                                struct gw_error *error)
{
    enum gw_status status = GW_OK;
    if (options.workers == 0)
        options.workers = 1;
    if (options.sizes == 0) {
        options.sizes = sizeof usual_sizes / sizeof *usual_sizes;
        memcpy(options.size, usual_sizes, sizeof usual_sizes);
    }
    gw_bench_print_head(&options);
    if (options.network || options.put)
        status = run_network(&options, error);
    if (status == GW_OK && options.update)
        status = gw_bench_update(&options, error);
    return status;
}

static enum gw_status measure(struct gw_bench_options *options,
                              const char *json,
                              struct gw_error *error)
{
    enum gw_status status =
        options->routes > 0 ? GW_OK : read_routes("auto", options, error);
    if (status == GW_OK && json)
        status = open_json(json, options, error);
    if (status != GW_OK)
        return status;
    if (options->network || options->put || options->update)
        status = run_usual(*options, error);
    if (status == GW_OK && options->sum)
        status = gw_bench_sum(options, error);
    if (options->json && options->json != stdout &&
        fclose(options->json) != 0 && status == GW_OK)
        status = gw_fail(error, GW_EIO, "bench: cannot write %s: %s", json,
                         strerror(errno));
    return status;
}

/* clang-format off */
static const struct gw_option options[] = {
    {.name = "sizes", .argument = "LIST", .take = take_sizes,
     .at = offsetof(struct command, options),
     .help = "bytes per worker, such as 4KiB,64MiB"},
    {.name = "workers", .argument = "N", .take = gw_option_count,
     AT(workers), .low = 1, .high = GW_BENCH_MEMBERS_MAX,
     .help = "1; of sum 2, 4, 8 or 16, and 4"},
    {.name = "servers", .argument = "N", .take = gw_option_count,
     AT(servers), .low = 1, .high = GW_BENCH_MEMBERS_MAX, .help = "1"},
    {.name = "connections", .argument = "N", .take = gw_option_count,
     AT(connections), .low = 1, .high = 8,
     .help = "between two processes, 1"},
    {.name = "transport", .argument = "NAMES", .take = take_transport,
     .at = offsetof(struct command, options),
     .help = "auto; of several, such as shm,tcp, each row stands beside the "
             "others', and takes turns with them"},
    {.name = "op", .argument = "NAME", .take = take_op,
     .at = offsetof(struct command, options),
     .help = "push, pull or push+pull alone"},
    {.name = "busy", .take = gw_option_flag, AT(busy),
     .help = "the transport looks for what comes, and never sleeps"},
    {.name = "optimizer", .argument = "NAME", .take = take_optimizer,
     .at = offsetof(struct command, options),
     .help = "on the servers, momentum"},
    {.name = "rounds", .argument = "N", .take = gw_option_count,
     AT(rounds), .low = 1, .high = 1000,
     .help = "how often each row gets its turn, 10"},
    {.name = "json", .argument = "FILE", .take = gw_option_text,
     .at = offsetof(struct command, json),
     .help = "one object per row, appended; - for standard output instead of "
             "the table"},
    {.name = NULL},
};
/* clang-format on */

static enum gw_exit run(int argc, char **argv)
{
    struct command command = {
        .options = {.optimizer = gw_optimizer_find("momentum"),
                    .servers = 1,
                    .connections = 1,
                    .only_op = -1,
                    .rounds = ROUNDS,
                    .table = stdout},
    };
    struct gw_error error;
    enum gw_exit code;
    int operands =
        gw_options_read(&gw_command_bench, argc, argv, &command, &code);
    if (operands < 0)
        return code;
    enum gw_status status =
        read_words(operands, argv + optind, &command, &error);
    if (status == GW_OK)
        status = measure(&command.options, command.json, &error);
    return status == GW_OK ? GW_EXIT_DONE : gw_cli_fail(&error);
}

const struct gw_command gw_command_bench = {
    .name = "bench",
    .help = "measure push, pull, update and sum beside the machine's limits",
    .usage = "[network] [put] [update] [sum] [OPTIONS]",
    .about =
        "Measures what this machine does at its best, without a word network\n"
        "and update. Exits with 1 when a value arrived wrong.",
    .words = words,
    .options = options,
    .run = run,
};
