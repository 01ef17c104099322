/* Which cores a job's threads would get, were all of its members here. */
#include "config.h"

#include "cli/doctor.h"

#include <inttypes.h>
#include <stdio.h>

#include "cli/pin_host.h"
#include "cli/pin_member.h"
#include "proto/control.h"

/* Of each role, so that a large cluster's other hosts are no lines here. */
#define LINES_MAX 16

static void say_rest(struct gw_doctor *doctor, const char *what, uint32_t n)
{
    if (n > LINES_MAX)
        gw_doctor_say(doctor, GW_VERDICT_NOTE,
                      "and so on, for %u more %s if they are here",
                      n - LINES_MAX, what);
}

static void say_workers(struct gw_doctor *doctor,
                        const struct gw_pin_member *member,
                        struct gw_mates mates)
{
    char text[GW_PIN_TEXT_MAX];
    for (uint32_t i = 0; i < mates.workers && i < LINES_MAX; i++) {
        mates.place = i;
        gw_pin_member_say_worker(member, &mates, i, text);
        gw_doctor_say(doctor, GW_VERDICT_OK, "worker %u of %u here: %s", i,
                      mates.workers, text);
    }
    say_rest(doctor, "workers", mates.workers);
}

static void say_shards(struct gw_doctor *doctor,
                       const struct gw_pin_member *member,
                       struct gw_mates mates)
{
    char text[GW_PIN_TEXT_MAX];
    for (uint32_t i = 0; i < mates.shards && i < LINES_MAX; i++) {
        mates.place = i;
        gw_pin_member_say_shard(member, &mates, text);
        gw_doctor_say(doctor, GW_VERDICT_OK, "shard %u of %u here: %s", i,
                      mates.shards, text);
    }
    say_rest(doctor, "shards", mates.shards);
}

static void say_layout(struct gw_doctor *doctor,
                       const struct gw_pin_member *member)
{
    const struct gw_config *config = doctor->config;
    const struct gw_mates mates = {
        .workers = (uint32_t)config->cluster.workers,
        .shards = (uint32_t)(config->cluster.servers * config->server.threads),
    };
    if (!gw_pin_view_is_here(member->view))
        gw_doctor_say(
            doctor, GW_VERDICT_FIX,
            "HWLOC_XMLFILE or HWLOC_SYNTHETIC is set, so this is of "
            "another machine, and a job would bind nothing: unset it");
    if (config->worker.pin)
        say_workers(doctor, member, mates);
    else
        gw_doctor_say(doctor, GW_VERDICT_NOTE,
                      "worker.pin is false: workers' threads are where the "
                      "kernel puts them");
    if (config->server.pin)
        say_shards(doctor, member, mates);
    else
        gw_doctor_say(doctor, GW_VERDICT_NOTE,
                      "server.pin is false: servers' threads are where the "
                      "kernel puts them");
}

void gw_doctor_check_pin(struct gw_doctor *doctor)
{
    const struct gw_config *config = doctor->config;
    struct gw_pin_member member;
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
        gw_pin_member_open(&member, config, config->cluster.interface, &error);
    if (status == GW_OK) {
        say_layout(doctor, &member);
        gw_pin_member_close(&member);
    } else if (status == GW_EUNSUPPORTED) {
        gw_doctor_say(doctor, GW_VERDICT_FIX, "%s: %s",
                      config->worker.pin ? "worker.pin" : "server.pin",
                      error.text);
    } else {
        gw_doctor_say(doctor, GW_VERDICT_UNKNOWN,
                      "%s; threads stay where the kernel puts them",
                      error.text);
    }
}
