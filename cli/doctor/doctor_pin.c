/* The cores of a job's threads, if all members were on this host. */
#include "config.h"

#include "cli/doctor/doctor.h"

#include <stdlib.h>
#include <string.h>

#include "cli/host/pin_host.h"
#include "cli/host/pin_member.h"
#include "proto/colocated.h"

/* Lines per role, so that other hosts of a large cluster are not listed
   here. */
#define LINES_MAX 16

static void say_rest(struct gw_doctor *doctor, const char *what, uint32_t n)
{
    if (n > LINES_MAX)
        gw_doctor_say(doctor, GW_VERDICT_NOTE,
                      "and so on, for %u more %s if they are here",
                      n - LINES_MAX, what);
}

/* All members of the job, as if on this host. */
struct guess {
    uint32_t workers, shards;
    struct gw_need *worker, *shard;
    char (*device)[GW_PCI_ADDRESS_BYTES]; /* per worker */
};

static void forget(struct guess *guess)
{
    free(guess->worker);
    free(guess->shard);
    free(guess->device);
}

/* Workers take the devices in turn; at the first repetition all have been
   seen. */
static void guess_workers(const struct gw_config *config,
                          const struct gw_pin_member *member,
                          struct guess *guess)
{
    uint32_t devices = 0;
    for (uint32_t i = 0; i < guess->workers; i++) {
        if (devices > 0) {
            guess->worker[i] = guess->worker[i % devices];
            memcpy(guess->device[i], guess->device[i % devices],
                   sizeof *guess->device);
            continue;
        }
        gw_pin_member_need(member, config, i, &guess->worker[i],
                           guess->device[i]);
        if (i > 0 && strcmp(guess->device[i], guess->device[0]) == 0)
            devices = i;
    }
}

static enum gw_status make_guess(const struct gw_config *config,
                                 const struct gw_pin_member *member,
                                 struct guess *guess)
{
    uint32_t workers = (uint32_t)config->cluster.workers;
    uint32_t shards =
        (uint32_t)(config->cluster.servers * config->server.threads);
    *guess = (struct guess){
        .workers = workers,
        .shards = shards,
        .worker = calloc(workers, sizeof *guess->worker),
        .shard = calloc(shards, sizeof *guess->shard),
        .device = calloc(workers, sizeof *guess->device),
    };
    if (!guess->worker || !guess->shard || !guess->device) {
        forget(guess);
        return GW_ENOMEM;
    }
    guess_workers(config, member, guess);
    for (uint32_t i = 0; i < shards; i++)
        guess->shard[i].network = member->network;
    return GW_OK;
}

static struct gw_colocated colocated_of(const struct guess *guess,
                                        uint32_t place)
{
    return (struct gw_colocated){.workers = guess->workers,
                                 .shards = guess->shards,
                                 .place = place,
                                 .worker = guess->worker,
                                 .shard = guess->shard};
}

static void say_workers(struct gw_doctor *doctor,
                        const struct gw_pin_member *member,
                        const struct guess *guess)
{
    char text[GW_PIN_TEXT_MAX];
    for (uint32_t i = 0; i < guess->workers && i < LINES_MAX; i++) {
        const struct gw_colocated colocated = colocated_of(guess, i);
        gw_pin_member_say_worker(member, &colocated, guess->device[i], text);
        gw_doctor_say(doctor, GW_VERDICT_OK, "worker %u of %u here: %s", i,
                      guess->workers, text);
    }
    say_rest(doctor, "workers", guess->workers);
}

static void say_shards(struct gw_doctor *doctor,
                       const struct gw_pin_member *member,
                       const struct guess *guess)
{
    char text[GW_PIN_TEXT_MAX];
    for (uint32_t i = 0; i < guess->shards && i < LINES_MAX; i++) {
        const struct gw_colocated colocated = colocated_of(guess, i);
        gw_pin_member_say_shard(member, &colocated, text);
        gw_doctor_say(doctor, GW_VERDICT_OK, "shard %u of %u here: %s", i,
                      guess->shards, text);
    }
    say_rest(doctor, "shards", guess->shards);
}

static void say_layout(struct gw_doctor *doctor,
                       const struct gw_pin_member *member,
                       const struct guess *guess)
{
    const struct gw_config *config = doctor->config;
    if (!gw_pin_view_is_here(member->view))
        gw_doctor_say(
            doctor, GW_VERDICT_FIX,
            "HWLOC_XMLFILE or HWLOC_SYNTHETIC is set, so this is of "
            "another machine, and a job would bind nothing: unset it");
    if (config->worker.pin)
        say_workers(doctor, member, guess);
    else
        gw_doctor_say(doctor, GW_VERDICT_NOTE,
                      "worker.pin is false: workers' threads are where the "
                      "kernel puts them");
    if (config->server.pin)
        say_shards(doctor, member, guess);
    else
        gw_doctor_say(doctor, GW_VERDICT_NOTE,
                      "server.pin is false: servers' threads are where the "
                      "kernel puts them");
}

void gw_doctor_check_pin(struct gw_doctor *doctor)
{
    const struct gw_config *config = doctor->config;
    struct gw_pin_member member;
    struct guess guess;
    struct gw_error error;
    int asked = config->worker.pin || config->server.pin;
    if (!asked) {
        gw_doctor_say(doctor, GW_VERDICT_NOTE,
                      "worker.pin and server.pin are false: threads are where "
                      "the kernel puts them (this program has %s)",
                      gw_pin_library);
        return;
    }
    enum gw_status status =
        gw_pin_member_open(&member, config->cluster.interface, &error);
    if (status == GW_OK) {
        status = make_guess(config, &member, &guess);
        if (status != GW_OK)
            gw_fail(&error, status, "no memory for all members");
    }
    if (status == GW_OK) {
        say_layout(doctor, &member, &guess);
        forget(&guess);
    } else if (status == GW_EUNSUPPORTED) {
        gw_doctor_say(doctor, GW_VERDICT_FIX, "%s: %s",
                      config->worker.pin ? "worker.pin" : "server.pin",
                      error.text);
    } else {
        gw_doctor_say(doctor, GW_VERDICT_UNKNOWN,
                      "%s; threads stay where the kernel puts them",
                      error.text);
    }
    gw_pin_member_close(&member);
}
