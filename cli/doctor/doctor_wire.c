#include "config.h"

#include "cli/doctor/doctor_wire.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WINDOW_BYTES ((size_t)GW_DOCTOR_SLOTS * GW_DOCTOR_PUT_BYTES)
#define PAGE_BYTES   4096

enum gw_status gw_doctor_end_open(struct gw_doctor_end *end, uint8_t kind)
{
    if (!end->memory)
        end->memory = aligned_alloc(PAGE_BYTES, WINDOW_BYTES);
    if (!end->memory)
        return GW_ENOMEM;
    end->peers = GW_WINDOW_NONE;
    return gw_window_open(&end->windows, kind, end->memory, WINDOW_BYTES,
                          &end->mine);
}

void gw_doctor_end_close(struct gw_doctor_end *end)
{
    gw_window_close(&end->windows, end->mine);
    end->link = NULL;
}

void gw_doctor_end_free(struct gw_doctor_end *end)
{
    free(end->memory);
    end->memory = NULL;
}

/* `down` tells of a broken link. */
static void on_done(struct gw_send *send, enum gw_status status)
{
    struct gw_doctor_end *end = send->owner;
    (void)status;
    end->busy[send - end->send] = 0;
}

static int post(struct gw_doctor_end *end,
                const struct gw_frame *frame,
                const void *payload)
{
    size_t i = 0;
    while (i < GW_DOCTOR_SENDS && end->busy[i])
        i++;
    if (i == GW_DOCTOR_SENDS || !end->link)
        return 0;
    end->busy[i] = 1;
    end->send[i] = (struct gw_send){.frame = *frame,
                                    .payload = payload,
                                    .priority = 1,
                                    .done = on_done,
                                    .owner = end};
    gw_link_send(end->link, &end->send[i]);
    return 1;
}

int gw_doctor_tell(struct gw_doctor_end *end,
                   enum gw_doctor_word word,
                   uint64_t value)
{
    const struct gw_frame frame = {.kind = GW_FRAME_ACK,
                                   .count = word,
                                   .clock = value,
                                   .chunk = GW_CHUNK_NONE};
    return post(end, &frame, NULL);
}

int gw_doctor_put(struct gw_doctor_end *end, uint8_t kind, uint64_t offset)
{
    const struct gw_frame frame = {.kind = kind,
                                   .flags = GW_FLAG_NO_CRC,
                                   .window = end->peers,
                                   .offset = offset,
                                   .length = GW_DOCTOR_PUT_BYTES,
                                   .dtype = GW_DTYPE_F32};
    return post(end, &frame, end->source);
}

int gw_doctor_tell_text(struct gw_doctor_end *end, const char *text)
{
    const struct gw_frame frame = {.kind = GW_FRAME_CONTROL,
                                   .chunk = GW_CHUNK_NONE,
                                   .length = (uint32_t)strlen(text)};
    return post(end, &frame, text);
}

uint64_t gw_doctor_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

void gw_doctor_hello(struct gw_loop *loop, struct gw_hello *hello)
{
    *hello = (struct gw_hello){.role = GW_ROLE_OBSERVER,
                               .generation = 1,
                               .links = 1,
                               .rank = GW_RANK_NONE,
                               .job = GW_DOCTOR_JOB,
                               .version = PACKAGE_VERSION};
    while (hello->incarnation == 0)
        gw_loop_random(loop, &hello->incarnation, sizeof hello->incarnation);
}

uint8_t *gw_doctor_source(void)
{
    uint8_t *source = aligned_alloc(PAGE_BYTES, GW_DOCTOR_PUT_BYTES);
    for (size_t i = 0; source && i < GW_DOCTOR_PUT_BYTES; i++)
        source[i] = (uint8_t)(i * 31 >> 3);
    return source;
}
