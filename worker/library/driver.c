#include "config.h"

#include "worker/library/driver.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "include/gradweir.h"

struct gw_driver {
    struct gradweir_job *job;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t begun;
    int ended; /* eventfd: readable while no call is going on */

    /* under the mutex */
    struct gw_driver_call now;
    int is_running, has_result, result, closes;
};

/* ---- the driver's thread ---- */

static void run_one(struct gw_driver *driver)
{
    const struct gw_driver_call call = driver->now;
    pthread_mutex_unlock(&driver->mutex);
    int result = call.run(driver->job, call.first, call.n);
    pthread_mutex_lock(&driver->mutex);
    driver->result = result;
    driver->has_result = 1;
    driver->is_running = 0;
    eventfd_write(driver->ended, 1);
}

static void *thread_main(void *argument)
{
    struct gw_driver *driver = argument;
    pthread_mutex_lock(&driver->mutex);
    while (!driver->closes || driver->is_running) {
        if (driver->is_running)
            run_one(driver);
        else
            pthread_cond_wait(&driver->begun, &driver->mutex);
    }
    pthread_mutex_unlock(&driver->mutex);
    return NULL;
}

static int start_thread(struct gw_driver *driver)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&driver->thread, NULL, thread_main, driver);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed ? GRADWEIR_ENOMEM : GRADWEIR_OK;
}

int gw_driver_open(struct gradweir_job *job, struct gw_driver **driver_p)
{
    struct gw_driver *driver = calloc(1, sizeof *driver);
    *driver_p = NULL;
    if (!driver)
        return GRADWEIR_ENOMEM;
    driver->job = job;
    driver->ended = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
    if (driver->ended < 0) {
        free(driver);
        return GRADWEIR_ENOMEM;
    }
    pthread_mutex_init(&driver->mutex, NULL);
    pthread_cond_init(&driver->begun, NULL);
    if (start_thread(driver) != GRADWEIR_OK) {
        close(driver->ended);
        pthread_cond_destroy(&driver->begun);
        pthread_mutex_destroy(&driver->mutex);
        free(driver);
        return GRADWEIR_ENOMEM;
    }
    *driver_p = driver;
    return GRADWEIR_OK;
}

void gw_driver_close(struct gw_driver *driver)
{
    if (!driver)
        return;
    pthread_mutex_lock(&driver->mutex);
    driver->closes = 1;
    pthread_cond_signal(&driver->begun);
    pthread_mutex_unlock(&driver->mutex);
    pthread_join(driver->thread, NULL);
    close(driver->ended);
    pthread_cond_destroy(&driver->begun);
    pthread_mutex_destroy(&driver->mutex);
    free(driver);
}

/* ---- the program's thread ---- */

static int is_same(const struct gw_driver_call *a,
                   const struct gw_driver_call *b)
{
    return a->run == b->run && a->first == b->first && a->n == b->n;
}

/* Takes the result of the call if it is there, or begins it if nothing is going
   on. Non-zero: *result_p is set. */
static int advance(struct gw_driver *driver,
                   const struct gw_driver_call *call,
                   int *is_begun,
                   int *result_p)
{
    int has_result = 0;
    pthread_mutex_lock(&driver->mutex);
    if (!driver->is_running && driver->has_result &&
        is_same(&driver->now, call)) {
        *result_p = driver->result;
        driver->has_result = 0;
        has_result = 1;
    } else if (!driver->is_running && !*is_begun) {
        eventfd_t ignored;
        eventfd_read(driver->ended, &ignored);
        driver->now = *call;
        driver->has_result = 0;
        driver->is_running = *is_begun = 1;
        pthread_cond_signal(&driver->begun);
    }
    pthread_mutex_unlock(&driver->mutex);
    return has_result;
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* A poll comes back for signals that have a handler, whatever SA_RESTART is. */
static int wait_until(struct gw_driver *driver, int timeout_ms, int64_t until)
{
    struct pollfd ended = {.fd = driver->ended, .events = POLLIN};
    int64_t left = timeout_ms < 0 ? -1 : until - now_ms();
    if (timeout_ms >= 0 && left < 0)
        left = 0;
    int ready = poll(&ended, 1, (int)left);
    if (ready > 0)
        return GRADWEIR_OK;
    return ready == 0 ? GRADWEIR_ETIMEOUT : GRADWEIR_EAGAIN;
}

int gw_driver_run(struct gw_driver *driver,
                  const struct gw_driver_call *call,
                  int timeout_ms)
{
    int64_t until = now_ms() + (timeout_ms > 0 ? timeout_ms : 0);
    int is_begun = 0, result, status = GRADWEIR_OK;
    while (status == GRADWEIR_OK) {
        if (advance(driver, call, &is_begun, &result))
            return result;
        status = wait_until(driver, timeout_ms, until);
    }
    /* it may have ended at the last moment */
    return advance(driver, call, &is_begun, &result) ? result : status;
}

int gw_driver_knows(struct gw_driver *driver, const struct gw_driver_call *call)
{
    pthread_mutex_lock(&driver->mutex);
    int knows = (driver->is_running || driver->has_result) &&
                is_same(&driver->now, call);
    pthread_mutex_unlock(&driver->mutex);
    return knows;
}

int gw_driver_is_free(struct gw_driver *driver)
{
    pthread_mutex_lock(&driver->mutex);
    int is_free = !driver->is_running;
    if (is_free)
        driver->has_result = 0;
    pthread_mutex_unlock(&driver->mutex);
    return is_free;
}

void gw_driver_settle(struct gw_driver *driver)
{
    while (!gw_driver_is_free(driver))
        wait_until(driver, -1, 0);
}
