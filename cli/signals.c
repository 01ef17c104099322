#include "config.h"

#include "cli/signals.h"

#include <pthread.h>
#include <unistd.h>

#include "cli/cli.h"

static const int numbers[GW_SIGNALS] = {SIGINT, SIGTERM, SIGHUP};

/* nohup(1) starts processes with SIGHUP ignored. */
static int is_left_ignored(int number)
{
    struct sigaction before;
    return number == SIGHUP && sigaction(number, NULL, &before) == 0 &&
           before.sa_handler == SIG_IGN;
}

void gw_signals_add(sigset_t *set)
{
    for (int i = 0; i < GW_SIGNALS; i++)
        sigaddset(set, numbers[i]);
}

static void mask(int how)
{
    sigset_t set;
    sigemptyset(&set);
    gw_signals_add(&set);
    pthread_sigmask(how, &set, NULL);
}

void gw_signals_hold(void)
{
    mask(SIG_BLOCK);
}

static void on_signal(int number)
{
    (void)number;
    _exit(GW_EXIT_INTERRUPTED);
}

void gw_signals_end_process(void)
{
    const struct sigaction end = {.sa_handler = on_signal};
    for (int i = 0; i < GW_SIGNALS; i++)
        if (!is_left_ignored(numbers[i]))
            sigaction(numbers[i], &end, NULL);
    mask(SIG_UNBLOCK);
}

void gw_signals_watch(struct gw_signals *signals,
                      uv_loop_t *loop,
                      uv_signal_cb take,
                      void *owner)
{
    for (int i = 0; i < GW_SIGNALS; i++) {
        uv_signal_init(loop, &signals->one[i]);
        signals->one[i].data = owner;
        if (!is_left_ignored(numbers[i]))
            uv_signal_start(&signals->one[i], take, numbers[i]);
    }
    mask(SIG_UNBLOCK);
}
