/* Modes of `api`: a process that forks with an open job, and one that opens
   many jobs, one after another. */
#include "config.h"

#include "tests/run/api_fixture.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- forks ---- */

/* None of a child's calls waits for a thread that it has not. */
static void fork_child(void)
{
    struct gradweir_step next = {.struct_size = sizeof next};
    float w[ELEMS] = {0};
    int ended;
    pid_t child = fork();
    if (child == 0) {
        int status = gradweir_begin(job, &next, -1);
        alarm(5);
        printf("child: %d, %s\n", status, gradweir_error(job));
        printf("child: %d %d %d %d %d\n", gradweir_push(job, 0, w),
               gradweir_take(job, 0, w), gradweir_weigh(job, 1),
               gradweir_wait(job, 0, 1, -1), gradweir_has(job, 0, 1));
        fflush(stdout);
        gradweir_close(job);
        _exit(0);
    }
    waitpid(child, &ended, 0);
}

/* Between two calls, and while one goes on. */
void api_fork(void)
{
    api_start();
    fork_child();
    api_train(20);
    if (gradweir_finish(job, 0) != GRADWEIR_ETIMEOUT)
        api_die("finish", 0);
    fork_child();
    api_finish();
}

/* ---- many jobs ---- */

static size_t count_in(const char *path)
{
    size_t n = 0;
    DIR *dir = opendir(path);
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

enum {
    JOBS = 1000,
    WARM = 100 /* of them, which fill caches */
};

/* Resources of this process when caches are full. */
static struct kept {
    struct rusage usage;
    size_t descriptors, threads;
} kept;

static struct kept count_kept(void)
{
    struct kept now = {.descriptors = count_in("/proc/self/fd"),
                       .threads = count_in("/proc/self/task")};
    getrusage(RUSAGE_SELF, &now.usage);
    return now;
}

static void say_kept(const char *jobs)
{
    const struct kept now = count_kept();
    printf("%s: %ld KiB more, %zu descriptors more, %zu threads more\n", jobs,
           now.usage.ru_maxrss - kept.usage.ru_maxrss,
           now.descriptors - kept.descriptors, now.threads - kept.threads);
}

/* Jobs that nobody answers, in all states of joining. */
void api_many(void)
{
    for (int i = 0; i < JOBS; i++) {
        const struct gradweir_options options = {.struct_size = sizeof options,
                                                 .coordinator = "127.0.0.1:1",
                                                 .rank = GRADWEIR_ANY_RANK};
        char why[512];
        if (i == WARM)
            kept = count_kept();
        if (gradweir_open(&options, &job, why, sizeof why) != GRADWEIR_OK)
            api_die(why, 0);
        if (i % 4 == 0)
            gradweir_join(job, 1);
        gradweir_close(job);
    }
    say_kept("unheard");
}

static void ignore(void *owner, int level, const char *line)
{
    (void)owner, (void)level, (void)line;
}

/* Jobs that the coordinator turns away, since it has its worker. */
void api_refused(void)
{
    api_start();
    for (int i = 0; i < JOBS; i++) {
        const struct gradweir_options options = {.struct_size = sizeof options,
                                                 .rank = GRADWEIR_ANY_RANK,
                                                 .log = ignore};
        gradweir_job *other;
        char why[512];
        if (i == WARM)
            kept = count_kept();
        if (gradweir_open(&options, &other, why, sizeof why) != GRADWEIR_OK)
            api_die(why, 0);
        if (gradweir_join(other, -1) != GRADWEIR_EREFUSED)
            api_die(gradweir_error(other), 0);
        gradweir_close(other);
    }
    say_kept("refused");
    api_train(150);
    api_finish();
}

/* Reads to a line "members join at HOST:PORT: ..". */
static void read_address(FILE *from, char address[64])
{
    char line[256];
    while (fgets(line, sizeof line, from))
        if (sscanf(line, "members join at %63[^ ]", address) == 1) {
            address[strlen(address) - 1] = '\0'; /* its colon */
            return;
        }
    api_die("a coordinator that says no address", 0);
}

/* Reads to the end, so that the command can write all it has to say. */
static void await_command(FILE *command)
{
    char line[256];
    while (fgets(line, sizeof line, command))
        ;
    int status = pclose(command);
    if (status != 0)
        api_die("coordinator or server", status);
}

/* The distance to the target after three steps. */
static double run_whole(const char *program, const char *config)
{
    char command[1024], address[64];
    snprintf(command, sizeof command, "exec '%s' coordinator '%s'", program,
             config);
    FILE *coordinator = popen(command, "r");
    read_address(coordinator, address);
    snprintf(command, sizeof command, "exec '%s' server --join %s", program,
             address);
    FILE *server = popen(command, "r");
    api_open(address);
    api_declare(&api_declaration);
    api_train(3);
    double distance = api_end();
    await_command(server);
    await_command(coordinator);
    return distance;
}

void api_whole(const char *program, const char *config, int jobs)
{
    double first = run_whole(program, config);
    for (int i = 1; i < jobs; i++) {
        if (i == jobs / 3)
            kept = count_kept();
        double distance = run_whole(program, config);
        if (distance < first || distance > first)
            api_die("a job that comes to other numbers", i);
    }
    say_kept("whole");
}
