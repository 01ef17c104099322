#include "config.h"

#include "tests/unit/control_samples.h"

#include <stdint.h>

#include "proto/config.h"
#include "proto/login.h"

#define DIGEST                                                                 \
    {                                                                          \
        1, 2, 3, [31] = 255                                                    \
    }

static const struct gw_key keys[] = {
    {.name = "fc1.weight", .dtype = 1, .dims = 2, .shape = {32, 784}},
    {.name = "fc1.bias", .dtype = 1, .dims = 1, .shape = {32}},
};
static const struct gw_view_member members[] = {
    {.role = GW_ROLE_WORKER,
     .id = 3,
     .server = 4,
     .incarnation = 5,
     .address = "w5:1",
     .host = "w5",
     .machine = 8,
     .need = {9, 10, 11},
     .has_secret = 1,
     .secret = {DIGEST}},
    {.role = GW_ROLE_SERVER,
     .id = 6,
     .server = 7,
     .incarnation = UINT64_MAX,
     .address = "[::1]:9000",
     .host = "s",
     .machine = UINT64_MAX - 1,
     .need = {12, UINT64_MAX, 13},
     .has_secret = 1,
     .secret = {DIGEST}},
};
static const double values[] = {0.5, -1, 1e300};
static const uint32_t ranks[] = {1, UINT32_MAX};
static const uint64_t counters[] = {0, 7, UINT64_MAX};
static const uint64_t clocks[] = {0, 7, GW_CLOCK_MAX - 1};

const struct gw_message control_samples[] = {
    {.kind = GW_MESSAGE_JOIN,
     .join = {3,
              "host",
              11,
              12,
              13,
              14,
              15,
              "a:1",
              16,
              {17, UINT64_MAX, 19},
              {DIGEST},
              1,
              DIGEST,
              "no port"}},
    {.kind = GW_MESSAGE_WELCOME,
     .welcome = {UINT32_MAX,
                 "train = { };",
                 "gpu: 1",
                 {{1, 2, 3, 4, UINT64_MAX}, 5},
                 GW_SILENCE_MAX_US}},
    {.kind = GW_MESSAGE_DECLARE,
     .declare = {1,
                 DIGEST,
                 {2, 3, 4, 5, 6},
                 7,
                 "cpu: x",
                 9,
                 2,
                 2,
                 keys,
                 1,
                 "gpu: 0 3",
                 "x.npy",
                 UINT64_MAX}},
    {.kind = GW_MESSAGE_VIEW, .view = {1, 9, 4, 2, members}},
    {.kind = GW_MESSAGE_START,
     .start = {1,
               {2, 3, 4, 5, 6},
               {3, 4, 65536, 5, 6, 0.25, 7, 8, 9, 10},
               "from",
               "dir",
               ".token",
               clocks,
               3,
               1,
               ranks,
               2,
               ranks,
               1,
               .silence_us = 1500000,
               .test_samples = UINT64_MAX}},
    {.kind = GW_MESSAGE_READY, .ready = {UINT64_MAX}},
    {.kind = GW_MESSAGE_WINDOW, .window = {GW_FRAME_PUSH, 17, 1 << 20}},
    {.kind = GW_MESSAGE_DECISION,
     .decision = {1, 5, GW_DECIDE_STEP, 2, 1, 3, values, 3, ranks, 2, clocks, 3,
                  "ssp:4"}},
    {.kind = GW_MESSAGE_VOTE, .vote = {1, 2, 3, 6, 5, values, 3, ranks, 2}},
    {.kind = GW_MESSAGE_SCORE, .score = {1, 2.5, 3, 4}},
    {.kind = GW_MESSAGE_REPORT,
     .report = {1, 2.5, 3, 4, 5, counters, 3, counters, 2, 9}},
    {.kind = GW_MESSAGE_STOP, .stop = {"a signal", 38}},
    {.kind = GW_MESSAGE_SAVED,
     .saved = {1, GW_ENOSPC, "file", 2, DIGEST, "why"}},
    {.kind = GW_MESSAGE_STORED, .stored = {1, 1}},
    {.kind = GW_MESSAGE_END, .end = {GW_EDEAD, 5, "worker 3 died"}},
    {.kind = GW_MESSAGE_BYE, .bye = {1, 1, DIGEST, 2, counters, 3}},
    {.kind = GW_MESSAGE_STALL, .stall = {1, 4.2, "waiting", 1}},
    {.kind = GW_MESSAGE_FILE_OPEN, .file_open = {"shard", 1, 1, 5, 6, 7, 8}},
    {.kind = GW_MESSAGE_FILE_REPLY, .file_reply = {GW_EIO, "why", 5, 6, 7, 8}},
    {.kind = GW_MESSAGE_STATUS, .status = {2, "job", GW_EREFUSED}},
    {.kind = GW_MESSAGE_QUIESCED, .quiesced = {9, clocks, 3, ranks, 2}},
    {.kind = GW_MESSAGE_ARRIVED, .arrived = {12345678901, ranks, 2}},
    {.kind = GW_MESSAGE_REQUEST, .request = {GW_REQUEST_STOP, "ssp:4"}},
    {.kind = GW_MESSAGE_SPEED, .speed = {12345678901, 2.5}},
    {.kind = GW_MESSAGE_POLL, .poll = {12345678901}},
    {.kind = GW_MESSAGE_SIGHT,
     .sight =
         {GW_SIGHT_SEES, {{1, 0, 3}, 3}, {{0, 7}, 2}, {{9}, 1}, UINT64_MAX}},
    {.kind = GW_MESSAGE_FAULT, .fault = {3, UINT32_MAX, "push of a clock"}},
};
