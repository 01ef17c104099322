#include <config.h>

#include "proto/groups.h"

#include <string.h>

static int is_power_of_two(uint32_t n)
{
    return n > 0 && (n & (n - 1)) == 0;
}

/* The largest block that may begin at a rank, of at most `n` ranks. */
static uint32_t block_at(uint32_t at, uint32_t n)
{
    uint32_t size = 1;
    while (2 * size <= n && at % (2 * size) == 0 && 2 * size <= GW_GROUP_MAX)
        size *= 2;
    return size;
}

uint32_t
gw_groups_make(const char *const *place, uint32_t ranks, uint32_t *size)
{
    uint32_t blocks = 0;
    for (uint32_t at = 0; at < ranks; at += size[blocks - 1]) {
        uint32_t same = 1;
        while (place[at][0] && at + same < ranks &&
               strcmp(place[at], place[at + same]) == 0)
            same++;
        size[blocks++] = block_at(at, same);
    }
    return blocks;
}

/* Occupants of the block of `size` ranks from `at` on, as far as it goes. */
struct room {
    uint32_t first, free; /* the first free rank, and how many there are */
    uint32_t same, others;
};

static struct room look_into(const char *const *place,
                             uint32_t ranks,
                             uint32_t at,
                             uint32_t size,
                             const char *where)
{
    struct room room = {0};
    for (uint32_t rank = at; rank < ranks && rank < at + size; rank++) {
        if (!place[rank])
            room.first = room.free++ ? room.first : rank;
        else if (strcmp(place[rank], where) == 0)
            room.same++;
        else
            room.others++;
    }
    return room;
}

/* The first free rank of the smallest block that has members of this place, and
   no others. */
static int find_beside(const char *const *place,
                       uint32_t ranks,
                       const char *where,
                       uint32_t *rank_p)
{
    for (uint32_t size = 2; size <= GW_GROUP_MAX; size *= 2)
        for (uint32_t at = 0; at < ranks; at += size) {
            struct room room = look_into(place, ranks, at, size, where);
            if (room.same > 0 && room.free > 0 && room.others == 0) {
                *rank_p = room.first;
                return 1;
            }
        }
    return 0;
}

/* The first rank of the largest block that is free as a whole; among blocks of
   as many ranks the one that the last rank cuts short, since it spoils no
   other. */
static int find_room(const char *const *place, uint32_t ranks, uint32_t *rank_p)
{
    uint32_t most = 0;
    for (uint32_t size = GW_GROUP_MAX; size > 0; size /= 2)
        for (uint32_t at = 0; at < ranks; at += size) {
            struct room room = look_into(place, ranks, at, size, "");
            if (room.same > 0 || room.others > 0 || room.free <= most)
                continue;
            most = room.free;
            *rank_p = room.first;
        }
    return most > 0;
}

uint32_t
gw_groups_rank(const char *const *place, uint32_t ranks, const char *where)
{
    uint32_t rank = 0;
    if (where[0] && (find_beside(place, ranks, where, &rank) ||
                     find_room(place, ranks, &rank)))
        return rank;
    while (place[rank])
        rank++;
    return rank;
}

uint32_t gw_groups_blocks(uint32_t first, uint32_t n)
{
    uint32_t blocks = 0;
    for (uint32_t at = 0; at < n; blocks++)
        at += block_at(first + at, n - at);
    return blocks;
}

int gw_groups_are_valid(const uint32_t *size, uint32_t blocks, uint32_t ranks)
{
    uint64_t at = 0;
    for (uint32_t i = 0; i < blocks; i++) {
        if (!is_power_of_two(size[i]) || size[i] > GW_GROUP_MAX ||
            at % size[i] != 0)
            return 0;
        at += size[i];
    }
    return blocks == 0 || at == ranks;
}

struct gw_group
gw_group_of(const uint32_t *size, uint32_t blocks, uint32_t rank)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < blocks; i++) {
        if (rank < at + size[i])
            return (struct gw_group){.first = at, .n = size[i]};
        at += size[i];
    }
    return (struct gw_group){.first = rank, .n = 1};
}

uint32_t gw_group_owner(struct gw_group group, uint32_t chunk)
{
    return group.first + chunk % group.n;
}

int gw_group_has(struct gw_group group, uint32_t rank)
{
    return rank >= group.first && rank - group.first < group.n;
}

/* A bit beside the number of enum gw_part_gradient. */
#define SETS_TERMS 0x100u

void gw_parts_encode(const struct gw_part *part, uint32_t n, uint8_t *out)
{
    for (uint32_t i = 0; i < n; i++) {
        gw_put_u32(out + (size_t)i * GW_PART_BYTES, part[i].rank);
        gw_put_u32(out + (size_t)i * GW_PART_BYTES + 4, part[i].samples);
        gw_put_u32(out + (size_t)i * GW_PART_BYTES + 8,
                   (uint32_t)part[i].gradient |
                       (part[i].terms ? SETS_TERMS : 0));
    }
}

enum gw_status gw_parts_decode(const uint8_t *in,
                               uint32_t bytes,
                               uint32_t first,
                               uint32_t n,
                               struct gw_part *part)
{
    if (bytes != n * GW_PART_BYTES)
        return GW_EPROTO;
    for (uint32_t i = 0; i < n; i++) {
        const uint8_t *from = in + (size_t)i * GW_PART_BYTES;
        uint32_t word = gw_get_u32(from + 8), gradient = word & ~SETS_TERMS;
        if (gw_get_u32(from) != first + i || gradient > GW_GRADIENT_UNCOUNTED)
            return GW_EPROTO;
        part[i] = (struct gw_part){.rank = first + i,
                                   .samples = gw_get_u32(from + 4),
                                   .gradient = (enum gw_part_gradient)gradient,
                                   .terms = (word & SETS_TERMS) != 0};
    }
    return GW_OK;
}
