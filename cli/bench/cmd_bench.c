/* gradweir bench: how fast bytes and updates go here, beside what the machine
   allows. */
#include "config.h"

#include "cli/bench/bench.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli/cli.h"

#define ROUNDS          10
#define ROUNDS_MAX      1000
#define CONNECTIONS_MAX 8

static const size_t usual_sizes[] = {
    (size_t)1 << 10, (size_t)4 << 10, (size_t)64 << 10,
    (size_t)1 << 20, (size_t)4 << 20, (size_t)64 << 20,
};

static void print_usage(void)
{
    puts("Usage: gradweir bench [network] [put] [update] [sum] [OPTIONS]\n\n"
         "network: push, pull and push+pull between processes on this machine, "
         "beside\n"
         "plain sockets. put: of those the transport's rows alone, to set "
         "beside "
         "other\n"
         "programs. update: a server's reduce and update, beside a += b. "
         "sum: the sum of\n"
         "the workers of one host, beside the memory traffic that it is. "
         "Without a word:\n"
         "network and update.\n\n"
         "  --sizes LIST        bytes per worker, such as 4KiB,64MiB\n"
         "  --workers N         1; of sum 2, 4, 8 or 16, and 4\n"
         "  --servers N         1\n"
         "  --connections N     between two processes, 1\n"
         "  --transport NAMES   auto; of several, such as shm,tcp, each row "
         "stands beside\n"
         "                      the others', and takes turns with them\n"
         "  --op NAME           push, pull or push+pull alone\n"
         "  --busy              the transport looks for what comes, and never "
         "sleeps\n"
         "  --optimizer NAME    on the servers, momentum\n"
         "  --rounds N          how often each row gets its turn, 10\n"
         "  --json FILE         one object per row, appended; - for standard "
         "output\n"
         "                      instead of the table\n"
         "  --help              this text\n\n"
         "Exits with 1 when a value arrived wrong.");
}

/* ---- options ---- */

/* "64", "4KiB", "64MiB", "1GiB", and "4K" for short. */
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

static enum gw_status read_sizes(const char *list,
                                 struct gw_bench_options *options,
                                 struct gw_error *error)
{
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

static enum gw_status read_count(const char *name,
                                 const char *text,
                                 uint32_t most,
                                 uint32_t *count_p,
                                 struct gw_error *error)
{
    char *end;
    errno = 0;
    unsigned long count = strtoul(text, &end, 10);
    if (end == text || *end || errno || *text == '-' || count < 1 ||
        count > most)
        return gw_fail(error, GW_EUSAGE, "bench: --%s %s: takes 1 to %u", name,
                       text, most);
    *count_p = (uint32_t)count;
    return GW_OK;
}

static enum gw_status read_optimizer(const char *name,
                                     struct gw_bench_options *options,
                                     struct gw_error *error)
{
    options->optimizer = gw_optimizer_find(name);
    if (!options->optimizer || options->optimizer->two_phase)
        return gw_fail(error, GW_EUSAGE,
                       "bench: --optimizer %s: takes sgd, momentum, nesterov, "
                       "adam, adamw or none",
                       name);
    return GW_OK;
}

static enum gw_status read_op(const char *name,
                              struct gw_bench_options *options,
                              struct gw_error *error)
{
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

static enum gw_status
read_way(const char *name, struct gw_bench_way *way, struct gw_error *error)
{
    char why[256];
    struct gw_error none;
    way->transport = gw_transport_find(name, &none);
    if (!way->transport)
        return gw_fail(error, none.status, "bench: --transport: %.400s",
                       none.text);
    if (strcmp(way->transport->name, "sim") == 0)
        return gw_fail(error, GW_EUSAGE,
                       "bench: --transport sim has no real time to measure");
    return gw_ways_find(way->transport->name, &way->ways, why, sizeof why,
                        error);
}

/* The next of the list. */
static enum gw_status add_way(const char *name,
                              struct gw_bench_options *options,
                              struct gw_error *error)
{
    struct gw_bench_way *way = &options->way[options->ways];
    if (options->ways == GW_BENCH_WAYS_MAX)
        return gw_fail(error, GW_EUSAGE, "bench: --transport: more than %d",
                       GW_BENCH_WAYS_MAX);
    enum gw_status status = read_way(name, way, error);
    for (uint32_t i = 0; status == GW_OK && i < options->ways; i++)
        if (options->way[i].transport == way->transport)
            return gw_fail(error, GW_EUSAGE,
                           "bench: --transport: %s is there twice",
                           way->transport->name);
    options->ways++;
    return status;
}

static enum gw_status read_ways(const char *list,
                                struct gw_bench_options *options,
                                struct gw_error *error)
{
    char names[64], *rest = names;
    enum gw_status status = GW_OK;
    if (snprintf(names, sizeof names, "%s", list) >= (int)sizeof names)
        return gw_fail(error, GW_EUSAGE,
                       "bench: --transport %s: takes names such as shm,tcp",
                       list);
    options->ways = 0;
    while (rest && status == GW_OK)
        status = add_way(strsep(&rest, ","), options, error);
    return status;
}

enum option_id {
    SIZES = 1,
    WORKERS,
    SERVERS,
    CONNECTIONS,
    TRANSPORT,
    OP,
    BUSY,
    OPTIMIZER,
    ROUNDS_OPTION,
    JSON,
    HELP
};

static enum gw_status set_option(int option,
                                 struct gw_bench_options *options,
                                 const char **json_p,
                                 struct gw_error *error)
{
    switch (option) {
    case SIZES:
        return read_sizes(optarg, options, error);
    case WORKERS:
        return read_count("workers", optarg, GW_BENCH_MEMBERS_MAX,
                          &options->workers, error);
    case SERVERS:
        return read_count("servers", optarg, GW_BENCH_MEMBERS_MAX,
                          &options->servers, error);
    case CONNECTIONS:
        return read_count("connections", optarg, CONNECTIONS_MAX,
                          &options->connections, error);
    case ROUNDS_OPTION:
        return read_count("rounds", optarg, ROUNDS_MAX, &options->rounds,
                          error);
    case TRANSPORT:
        return read_ways(optarg, options, error);
    case OP:
        return read_op(optarg, options, error);
    case BUSY:
        options->busy = 1;
        return GW_OK;
    case OPTIMIZER:
        return read_optimizer(optarg, options, error);
    default:
        *json_p = optarg;
        return GW_OK;
    }
}

static enum gw_status read_words(int argc,
                                 char **argv,
                                 struct gw_bench_options *options,
                                 struct gw_error *error)
{
    for (int i = optind; i < argc; i++) {
        if (strcasecmp(argv[i], "network") == 0)
            options->network = 1;
        else if (strcasecmp(argv[i], "put") == 0)
            options->put = 1;
        else if (strcasecmp(argv[i], "update") == 0)
            options->update = 1;
        else if (strcasecmp(argv[i], "sum") == 0)
            options->sum = 1;
        else
            return gw_fail(error, GW_EUSAGE,
                           "bench: measures network, put, update or sum, not "
                           "%s",
                           argv[i]);
    }
    if (!options->network && !options->put && !options->update && !options->sum)
        options->network = options->update = 1;
    return gw_bench_sum_check(options, error);
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

/* Of all but the sum, which has other sizes and workers. */
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

static enum gw_status
run(struct gw_bench_options *options, const char *json, struct gw_error *error)
{
    enum gw_status status =
        options->ways > 0 ? GW_OK : read_ways("auto", options, error);
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

enum gw_exit gw_cmd_bench(int argc, char **argv)
{
    static const struct option options[] = {
        {"sizes", required_argument, NULL, SIZES},
        {"workers", required_argument, NULL, WORKERS},
        {"servers", required_argument, NULL, SERVERS},
        {"connections", required_argument, NULL, CONNECTIONS},
        {"transport", required_argument, NULL, TRANSPORT},
        {"op", required_argument, NULL, OP},
        {"busy", no_argument, NULL, BUSY},
        {"optimizer", required_argument, NULL, OPTIMIZER},
        {"rounds", required_argument, NULL, ROUNDS_OPTION},
        {"json", required_argument, NULL, JSON},
        {"help", no_argument, NULL, HELP},
        {0},
    };
    struct gw_bench_options what = {
        .optimizer = gw_optimizer_find("momentum"),
        .servers = 1,
        .connections = 1,
        .only_op = -1,
        .rounds = ROUNDS,
        .table = stdout,
    };
    struct gw_error error;
    const char *json = NULL;
    int option;
    while ((option = gw_cli_option(argc, argv, options)) != -1) {
        if (option == HELP) {
            print_usage();
            return GW_EXIT_DONE;
        }
        if (option == '?')
            return GW_EXIT_USAGE;
        if (set_option(option, &what, &json, &error) != GW_OK)
            return gw_cli_fail(&error);
    }
    enum gw_status status = read_words(argc, argv, &what, &error);
    if (status == GW_OK)
        status = run(&what, json, &error);
    return status == GW_OK ? GW_EXIT_DONE : gw_cli_fail(&error);
}
