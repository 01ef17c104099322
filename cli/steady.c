#include "config.h"

#include "cli/steady.h"

uint64_t gw_steady_now(struct gw_steady *steady, uint64_t loop_us)
{
    uint64_t seen = steady->seen_us;
    steady->seen_us = loop_us;
    if (seen == 0) {
        steady->now_us = loop_us;
    } else if (loop_us < seen) {
        steady->jumps++;
    } else if (loop_us - seen > GW_STEADY_JUMP_US) {
        steady->jumps++;
        steady->lost_us += loop_us - seen;
    } else {
        steady->now_us += loop_us - seen;
    }
    return steady->now_us;
}
