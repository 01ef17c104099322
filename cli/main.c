/* gradweir: a table of subcommands and the loop over it. */
#include "config.h"

#include "cli/cli.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "cli/start.h"
#include "proto/distance.h"

static const struct gw_command commands[] = {
    {"train", "run a whole job on this machine", gw_cmd_train},
    {"coordinator", "run the coordinator of a job", gw_cmd_coordinator},
    {"server", "join a job and keep a part of its weights", gw_cmd_server},
    {"worker", "join a job and compute gradients for it", gw_cmd_worker},
    {"status", "ask a running job how it is", gw_cmd_status},
    {"ctl", "command a running job of this host", gw_cmd_ctl},
    {"eval", "score a checkpoint on its test set", gw_cmd_eval},
    {"export", "write a checkpoint as one safetensors file", gw_cmd_export},
    {"import", "make a checkpoint out of a safetensors file", gw_cmd_import},
    {"bench", "measure push, pull, update and sum beside the machine's limits",
     gw_cmd_bench},
    {"study", "run a grid of jobs, and compare what they come to",
     gw_cmd_study},
    {"plan", "say what a job will take, before it runs", gw_cmd_plan},
    {"doctor", "check what stops jobs on this host, and between two",
     gw_cmd_doctor},
    {"config", "print every key of a job file, or what a job sets",
     gw_cmd_config},
};

#define COMMANDS (sizeof commands / sizeof *commands)

static void print_help(FILE *to)
{
    fprintf(to, "Usage: gradweir COMMAND [ARGUMENTS]\n"
                "       gradweir help [COMMAND] | --help | --version\n\n"
                "Commands:\n");
    for (size_t i = 0; i < COMMANDS; i++)
        fprintf(to, "  %-12s %s\n", commands[i].name, commands[i].help);
    fprintf(to, "\nArguments: gradweir help COMMAND, or man gradweir.\n");
}

static const struct gw_command *find(const char *name)
{
    for (size_t i = 0; i < COMMANDS; i++)
        if (strcasecmp(name, commands[i].name) == 0)
            return &commands[i];
    return NULL;
}

static enum gw_exit unknown(const char *name)
{
    struct gw_nearest nearest = {0};
    char said[GW_NEAREST_BYTES];
    for (size_t i = 0; i < COMMANDS; i++)
        gw_nearest_try(&nearest, name, commands[i].name);
    gw_nearest_try(&nearest, name, "help");
    return gw_cli_usage("no such command \"%s\"%s (gradweir --help lists all)",
                        name, gw_nearest_say(&nearest, said));
}

static enum gw_exit run(int argc, char **argv)
{
    const struct gw_command *command = find(argv[0]);
    return command ? command->run(argc, argv) : unknown(argv[0]);
}

/* help [COMMAND], which is [COMMAND] --help. */
static enum gw_exit help(int argc, char **argv)
{
    char option[] = "--help";
    char *words[] = {argv[1], option, NULL};
    if (argc > 2)
        return gw_cli_usage("help: takes one command, not also %s", argv[2]);
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

/* ps and top would call those that a launcher starts "exe": this thread, from
   which all later ones have their name, and those that libraries began. */
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
            continue; /* it is none, or is gone */
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
