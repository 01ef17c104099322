/* Modes of `api`: a process that forks with an open job, and one that opens
   many jobs, one after another. */
#include "config.h"

#include "tests/run/api_fixture.h"

#include <dirent.h>
#include <stdio.h>
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

/* Resources of this process after WARM jobs, which have filled caches. */
enum {
    WARM = 100,
    JOBS = 1000
};
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
