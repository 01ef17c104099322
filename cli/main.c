/* gradweir: a table of subcommands and the loop over it. */
#include "config.h"

#include "cli/cli.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "cli/options.h"
#include "cli/start.h"
#include "proto/distance.h"

/* In the order of `gradweir --help`. */
static const struct gw_command *const commands[] = {
    &gw_command_train,   &gw_command_run,    &gw_command_coordinator,
    &gw_command_server,  &gw_command_worker, &gw_command_status,
    &gw_command_ctl,     &gw_command_eval,   &gw_command_export,
    &gw_command_import,  &gw_command_bench,  &gw_command_study,
    &gw_command_plan,    &gw_command_doctor, &gw_command_config,
    &gw_command_program,
};

#define COMMANDS (sizeof commands / sizeof *commands)

static void print_help(FILE *to)
{
    fprintf(to, "Usage: gradweir COMMAND [ARGUMENTS]\n"
                "       gradweir help [COMMAND | --options]\n"
                "       gradweir --help | --version\n\n"
                "Commands:\n");
    for (size_t i = 0; i < COMMANDS; i++)
        if (commands[i]->help)
            fprintf(to, "  %-12s %s\n", commands[i]->name, commands[i]->help);
    fprintf(to, "\nArguments: gradweir help COMMAND, or man gradweir.\n");
}

static const struct gw_command *find(const char *name)
{
    for (size_t i = 0; i < COMMANDS; i++)
        if (strcasecmp(name, commands[i]->name) == 0)
            return commands[i];
    return NULL;
}

static enum gw_exit unknown(const char *name)
{
    struct gw_nearest nearest = {0};
    char said[GW_NEAREST_BYTES];
    for (size_t i = 0; i < COMMANDS; i++)
        if (commands[i]->help)
            gw_nearest_try(&nearest, name, commands[i]->name);
    gw_nearest_try(&nearest, name, "help");
    return gw_cli_usage("no such command \"%s\"%s (gradweir --help lists all)",
                        name, gw_nearest_say(&nearest, said));
}

static enum gw_exit run(int argc, char **argv)
{
    const struct gw_command *command = find(argv[0]);
    return command ? command->run(argc, argv) : unknown(argv[0]);
}

static enum gw_exit list_options(void)
{
    for (size_t i = 0; i < COMMANDS; i++)
        gw_options_list(commands[i], stdout);
    return GW_EXIT_DONE;
}

/* help [COMMAND], which is [COMMAND] --help, and help --options. */
static enum gw_exit help(int argc, char **argv)
{
    char option[] = "--help";
    char *words[] = {argv[1], option, NULL};
    if (argc > 2)
        return gw_cli_usage("help: takes one command, not also %s", argv[2]);
    if (argc == 2 && strcmp(argv[1], "--options") == 0)
        return list_options();
    if (argc == 2 && strcasecmp(argv[1], "help") != 0)
        return run(2, words);
    print_help(stdout);
    return GW_EXIT_DONE;
}

static enum gw_exit begin(int argc, char **argv)
{
    if (argc < 2) {
        print_help(stderr);
        return GW_EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_help(stdout);
        return GW_EXIT_DONE;
    }
    if (strcasecmp(argv[1], "help") == 0)
        return help(argc - 1, argv + 1);
    if (strcmp(argv[1], "--version") == 0) {
        gw_cli_print_version();
        return GW_EXIT_DONE;
    }
    return run(argc - 1, argv + 1);
}

/* ps and top show the threads of a started process as "exe". Renames this
   thread, whose name later threads inherit, and threads that libraries have
   started. */
static void name_threads(void)
{
    static const char name[] = "gradweir";
    char path[64];
    DIR *tasks = opendir("/proc/self/task");
    prctl(PR_SET_NAME, name);
    for (const struct dirent *task = tasks ? readdir(tasks) : NULL; task;
         task = readdir(tasks)) {
        snprintf(path, sizeof path, "/proc/self/task/%.20s/comm", task->d_name);
        int fd = open(path, O_WRONLY | O_CLOEXEC);
        if (fd < 0)
            continue; /* not a thread, or gone */
        if (write(fd, name, sizeof name - 1) < 0)
            errno = 0; /* it has a name already */
        close(fd);
    }
    if (tasks)
        closedir(tasks);
}

int main(int argc, char **argv)
{
    gw_start();
    name_threads();
    enum gw_exit code = begin(argc, argv);
    errno = 0;
    if ((fflush(stdout) != 0 || ferror(stdout)) && code == GW_EXIT_DONE) {
        fprintf(stderr, "gradweir: cannot write to standard output: %s\n",
                errno ? strerror(errno) : "some of it was lost");
        code = GW_EXIT_FAILED;
    }
    return (int)code;
}
