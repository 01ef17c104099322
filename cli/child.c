#include "config.h"

#include "cli/child.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/signals.h"
#include "transport/link/limits.h"

/* ---- forks ---- */

/* Ignored signals stay ignored, as nohup(1) asks. */
static void forget_handlers(void)
{
    const struct sigaction none = {.sa_handler = SIG_DFL};
    struct sigaction had;
    for (int number = 1; number < NSIG; number++)
        if (sigaction(number, NULL, &had) == 0 && had.sa_handler != SIG_DFL &&
            had.sa_handler != SIG_IGN)
            sigaction(number, &none, NULL);
}

/* Never returns. All signals are blocked. */
static void be_child(const struct gw_child *child,
                     pid_t parent,
                     const sigset_t *blocked,
                     void (*run)(void *owner),
                     void *owner)
{
    forget_handlers();
    if (child->dies_by)
        prctl(PR_SET_PDEATHSIG, child->dies_by);
    if (child->dies_by && getppid() != parent)
        _exit(1); /* the parent died before prctl could take effect */
    pthread_sigmask(SIG_SETMASK, blocked, NULL);
    run(owner);
    _exit(0);
}

/* `blocked`: signals that the child begins with blocked; NULL: as here. */
static enum gw_status make(const struct gw_child *child,
                           const sigset_t *blocked,
                           void (*run)(void *owner),
                           void *owner,
                           pid_t *pid_p,
                           struct gw_error *error)
{
    sigset_t all, before;
    pid_t self = getpid();
    char why[GW_LIMITS_WHY_BYTES];
    fflush(NULL); /* or the child would write buffered output a second time */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t pid = fork();
    if (pid == 0)
        be_child(child, self, blocked ? blocked : &before, run, owner);
    int number = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (pid < 0)
        return gw_fail(error, GW_ENOMEM, "cannot start %s: %s", child->name,
                       gw_limits_why_no_process(number, why));
    *pid_p = pid;
    return GW_OK;
}

enum gw_status gw_child_fork(const struct gw_child *child,
                             void (*run)(void *owner),
                             void *owner,
                             pid_t *pid_p,
                             struct gw_error *error)
{
    return make(child, NULL, run, owner, pid_p, error);
}

int gw_child_wait(pid_t pid)
{
    int status = -1;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    return status;
}

uint64_t gw_child_kills(void)
{
    char line[128];
    uint64_t kills = 0;
    FILE *file = fopen("/proc/vmstat", "re");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "oom_kill %" SCNu64, &kills) == 1)
            break;
    if (file)
        fclose(file);
    return kills;
}

/* The usual reason of a signal here; "" for signals that somebody sends. */
static const char *reason_for(int number, uint64_t kills)
{
    switch (number) {
    case SIGKILL:
        return gw_child_kills() > kills
                   ? ": the kernel did that for want of memory"
                   : "";
    case SIGBUS:
        return ": memory that it shares could not be had, or a file that it "
               "reads became shorter";
    case SIGABRT:
        return ": it found something that cannot be, or could have no thread; "
               "its last lines say more";
    case SIGSEGV:
    case SIGILL:
    case SIGFPE:
        return ": a fault in the program or in a library";
    default:
        return "";
    }
}

const char *
gw_child_how(int status, uint64_t kills, char how[GW_CHILD_HOW_BYTES])
{
    if (WIFSIGNALED(status))
        snprintf(how, GW_CHILD_HOW_BYTES, "killed by signal %d (%s)%s",
                 WTERMSIG(status), strsignal(WTERMSIG(status)),
                 reason_for(WTERMSIG(status), kills));
    else
        snprintf(how, GW_CHILD_HOW_BYTES, "exit code %d", WEXITSTATUS(status));
    return how;
}

/* ---- programs ---- */

struct start {
    const struct gw_child_program *program;
    int said; /* end of a pipe that closes when the program begins */
};

/* Duplicates fd above all target descriptors, so that setting one closes no
   other. */
static int lift(int fd)
{
    if (fd < 0)
        fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    return fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, GW_CHILD_FDS);
}

static int set_descriptors(const int fd[GW_CHILD_FDS])
{
    int lifted[GW_CHILD_FDS];
    for (int i = 0; i < GW_CHILD_FDS; i++) {
        lifted[i] = lift(fd[i]);
        if (lifted[i] < 0)
            return 0;
    }
    for (int i = 0; i < GW_CHILD_FDS; i++)
        if ((i < 3 || fd[i] >= 0) && dup2(lifted[i], i) < 0)
            return 0;
    return 1;
}

static int set_environment(const char *const *variable)
{
    for (; variable && *variable; variable++)
        /* putenv does not write to it */
        if (putenv((char *)(uintptr_t)(const void *)*variable) != 0)
            return 0;
    return 1;
}

/* Returns only if the program could not be started, after the errno is sent. */
static void begin(void *owner)
{
    struct start *start = owner;
    const struct gw_child_program *program = start->program;
    start->said = fcntl(start->said, F_DUPFD_CLOEXEC, GW_CHILD_FDS);
    if (program->own_group)
        setpgid(0, 0);
    if (set_descriptors(program->fd) && set_environment(program->environment) &&
        (!program->directory || chdir(program->directory) == 0))
        /* execvp does not write to the arguments */
        execvp(program->file,
               (char **)(uintptr_t)(const void *)program->arguments);
    int number = errno;
    if (write(start->said, &number, sizeof number) < 0)
        _exit(127);
}

/* The errno of a failed start; 0: the program runs. */
static int hear(int from)
{
    int number = 0;
    ssize_t got;
    do
        got = read(from, &number, sizeof number);
    while (got < 0 && errno == EINTR);
    return got == (ssize_t)sizeof number ? number : 0;
}

enum gw_status gw_child_start(const struct gw_child *child,
                              const struct gw_child_program *program,
                              pid_t *pid_p,
                              struct gw_error *error)
{
    int ends[2];
    pid_t pid;
    sigset_t blocked;
    char why[GW_LIMITS_WHY_BYTES];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return gw_fail(error, GW_ENOMEM, "cannot start %s: %s", child->name,
                       gw_limits_why_no_file(errno, why));
    struct start start = {.program = program, .said = ends[1]};
    sigemptyset(&blocked);
    if (program->of_job)
        gw_signals_add(&blocked);
    enum gw_status status = make(child, &blocked, begin, &start, &pid, error);
    close(ends[1]);
    int number = status == GW_OK ? hear(ends[0]) : 0;
    close(ends[0]);
    if (number) {
        gw_child_wait(pid);
        return gw_fail(error, number == ENOENT ? GW_ENOENT : GW_EIO,
                       "cannot start %s: %s", child->name,
                       gw_limits_why_no_process(number, why));
    }
    if (status == GW_OK)
        *pid_p = pid;
    return status;
}
