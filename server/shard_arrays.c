/* The arrays of a shard: which there are depends on the policy. */
#include "config.h"

#include "server/shard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "kernels/update/bf16.h"

#define PAGE ((size_t)4096)

/* Whole pages, and one for the array's place in its first. */
static size_t in_pages(size_t bytes)
{
    return (bytes + PAGE - 1) / PAGE * PAGE + PAGE;
}

static size_t array_bytes(const struct gw_map *map, uint32_t number)
{
    return in_pages(map->shard_bytes[number]);
}

static size_t bf16_bytes(const struct gw_map *map, uint32_t number)
{
    return in_pages(map->shard_bytes[number] / 2);
}

struct gw_shard_counts gw_shard_count(const struct gw_map *map,
                                      uint32_t number,
                                      uint32_t ranks,
                                      unsigned arrays,
                                      const struct gw_optimizer *optimizer)
{
    return (struct gw_shard_counts){
        .array_bytes = array_bytes(map, number),
        .weights = 2,
        .states = optimizer->states,
        .landing = ranks,
        .sum = arrays & GW_SHARD_SUM ? 1 : 0,
        .given = arrays & GW_SHARD_GIVEN ? ranks : 0,
        .squares = arrays & GW_SHARD_SQUARES ? ranks : 0,
        .own = arrays & GW_SHARD_OWN ? ranks : 0,
        .bf16_bytes = arrays & GW_SHARD_BF16 ? bf16_bytes(map, number) : 0,
    };
}

size_t gw_shard_bytes(const struct gw_map *map,
                      uint32_t number,
                      uint32_t ranks,
                      unsigned arrays,
                      const struct gw_optimizer *optimizer)
{
    const struct gw_shard_counts n =
        gw_shard_count(map, number, ranks, arrays, optimizer);
    return (n.weights + n.states + n.landing + n.sum + n.given + n.squares +
            n.own) *
               n.array_bytes +
           n.bf16_bytes;
}

/* ---- arrays: as large as the shard, zeros at first ---- */

/* The place of the next array in its pages; it counts from now on. */
static size_t stagger_next(struct gw_shard *shard, size_t bytes)
{
    shard->memory_bytes += bytes;
    return shard->taken++ * GW_STAGGER_BYTES % PAGE;
}

/* NULL where there is no memory. */
static void *take_pages(struct gw_shard *shard, size_t bytes)
{
    uint8_t *memory = mmap(
        NULL, bytes, shard->payload_free ? PROT_NONE : PROT_READ | PROT_WRITE,
        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    if (!shard->payload_free)
        madvise(memory, bytes, MADV_HUGEPAGE);
    return memory + stagger_next(shard, bytes);
}

static void drop_pages(struct gw_shard *shard, void *array, size_t bytes)
{
    if (!array)
        return;
    munmap((void *)((uintptr_t)array & ~(uintptr_t)(PAGE - 1)), bytes);
    shard->memory_bytes -= bytes;
}

static void drop_array(struct gw_shard *shard, float **array)
{
    drop_pages(shard, *array, array_bytes(shard->map, shard->number));
    *array = NULL;
}

static int keep_array(struct gw_shard *shard, int keeps, float **array)
{
    if (!keeps)
        drop_array(shard, array);
    else if (!*array)
        *array = take_pages(shard, array_bytes(shard->map, shard->number));
    return !keeps || *array;
}

/* All words of a job's policy keep it, or none. */
static int keep_bf16(struct gw_shard *shard, int keeps)
{
    if (keeps && !shard->bf16)
        shard->bf16 = take_pages(shard, bf16_bytes(shard->map, shard->number));
    return !keeps || shard->bf16;
}

/* One for each rank. Returns 0 where there is no memory. */
static int keep_per_rank(struct gw_shard *shard, int keeps, float ***arrays)
{
    if (keeps == (*arrays != NULL))
        return 1;
    if (keeps)
        *arrays = calloc(shard->ranks, sizeof **arrays);
    for (uint32_t rank = 0; *arrays && rank < shard->ranks; rank++)
        if (!keep_array(shard, keeps, &(*arrays)[rank]))
            return 0;
    if (keeps)
        return *arrays != NULL;
    free(*arrays);
    *arrays = NULL;
    return 1;
}

/* Landing slots in memory of which each rank may have his own. */
static int take_shared(struct gw_shard *shard)
{
    size_t bytes = array_bytes(shard->map, shard->number);
    if (shard->landing)
        return 1;
    shard->landing = calloc(shard->ranks, sizeof *shard->landing);
    shard->landed = calloc(shard->ranks, sizeof *shard->landed);
    for (uint32_t rank = 0; rank < shard->ranks; rank++) {
        if (!shard->landing || !shard->landed ||
            gw_memory_open(GW_MEMORY_SHARED, bytes, &shard->landed[rank]) !=
                GW_OK)
            return 0;
        shard->landing[rank] =
            (float *)(void *)((uint8_t *)shard->landed[rank].base +
                              stagger_next(shard, bytes));
    }
    return 1;
}

static void drop_shared(struct gw_shard *shard)
{
    for (uint32_t rank = 0; shard->landed && rank < shard->ranks; rank++) {
        if (shard->landed[rank].base)
            shard->memory_bytes -= array_bytes(shard->map, shard->number);
        gw_memory_close(&shard->landed[rank]);
    }
    free(shard->landed);
    free(shard->landing);
    shard->landed = NULL;
    shard->landing = NULL;
}

static int keep_landing(struct gw_shard *shard)
{
    return shard->shared ? take_shared(shard)
                         : keep_per_rank(shard, 1, &shard->landing);
}

static int keep_states(struct gw_shard *shard,
                       const struct gw_optimizer *optimizer)
{
    int anew = shard->optimizer != optimizer, kept = 1;
    for (unsigned s = 0; s < GW_STATE_MAX; s++) {
        if (anew)
            drop_array(shard, &shard->state[s]);
        kept &= keep_array(shard, s < optimizer->states, &shard->state[s]);
    }
    for (uint32_t i = 0; i < shard->chunks && anew; i++) {
        shard->chunk[i].updates = shard->chunk[i].skipped = 0;
        for (uint32_t rank = 0; rank < shard->ranks; rank++)
            gw_shard_slot(shard, rank, i)->given = 0;
    }
    shard->optimizer = optimizer;
    return kept;
}

/* Fills new arrays with the weights of chunks that have some, or with their
   bf16 widened; the others' are copied when they come. */
static void begin_copies(struct gw_shard *shard, float **arrays, int rounded)
{
    for (uint32_t i = 0; i < shard->chunks; i++) {
        const struct gw_shard_chunk *chunk = &shard->chunk[i];
        if (!chunk->ready)
            continue;
        const float *weights = shard->weights[chunk->current] + chunk->first;
        const uint16_t *bf16 =
            rounded ? gw_shard_encoded(shard, i, GW_ENCODING_BF16) : NULL;
        for (uint32_t rank = 0; rank < shard->ranks; rank++) {
            float *copy = arrays[rank] + chunk->first;
            if (rounded)
                gw_bf16_widen(chunk->stored, bf16, copy);
            else
                memcpy(copy, weights, chunk->stored * sizeof *copy);
            shard->breathe(shard->breather);
        }
    }
}

enum gw_status gw_shard_keep(struct gw_shard *shard,
                             unsigned arrays,
                             const struct gw_optimizer *optimizer,
                             struct gw_error *error)
{
    int given = !!(arrays & GW_SHARD_GIVEN), had_given = shard->given != NULL;
    int squares = !!(arrays & GW_SHARD_SQUARES);
    int own = !!(arrays & GW_SHARD_OWN), had_own = shard->own != NULL;
    /* unneeded arrays go first, so that memory never exceeds the need */
    keep_per_rank(shard, shard->given && given, &shard->given);
    keep_per_rank(shard, shard->squares && squares, &shard->squares);
    keep_per_rank(shard, shard->own && own, &shard->own);
    int kept = keep_array(shard, 1, &shard->weights[0]) &&
               keep_array(shard, 1, &shard->weights[1]) &&
               keep_bf16(shard, !!(arrays & GW_SHARD_BF16)) &&
               keep_states(shard, optimizer) && keep_landing(shard) &&
               keep_array(shard, !!(arrays & GW_SHARD_SUM), &shard->reduced) &&
               keep_per_rank(shard, given, &shard->given) &&
               keep_per_rank(shard, squares, &shard->squares) &&
               keep_per_rank(shard, own, &shard->own);
    if (kept && given && !had_given)
        begin_copies(shard, shard->given, shard->bf16 != NULL);
    if (kept && own && !had_own)
        begin_copies(shard, shard->own, 0);
    if (kept)
        return GW_OK;
    return gw_fail(error, GW_ENOMEM, "no memory for shard %u: it needs %zu MiB",
                   shard->number,
                   gw_shard_bytes(shard->map, shard->number, shard->ranks,
                                  arrays, optimizer) >>
                       20);
}

void gw_shard_drop(struct gw_shard *shard)
{
    for (int i = 0; i < 2; i++)
        drop_array(shard, &shard->weights[i]);
    for (unsigned s = 0; s < GW_STATE_MAX; s++)
        drop_array(shard, &shard->state[s]);
    drop_pages(shard, shard->bf16, bf16_bytes(shard->map, shard->number));
    shard->bf16 = NULL;
    drop_array(shard, &shard->reduced);
    if (shard->shared)
        drop_shared(shard);
    else
        keep_per_rank(shard, 0, &shard->landing);
    keep_per_rank(shard, 0, &shard->given);
    keep_per_rank(shard, 0, &shard->squares);
    keep_per_rank(shard, 0, &shard->own);
}

/* ---- their memory ---- */

struct memories {
    struct gw_memory *memory; /* NULL: they are counted */
    uint32_t n;
};

static void note_pages(struct memories *all, const void *array, size_t bytes)
{
    uintptr_t base = (uintptr_t)array & ~(uintptr_t)(PAGE - 1);
    if (!array)
        return;
    if (all->memory)
        all->memory[all->n] = gw_memory_host((void *)base, bytes);
    all->n++;
}

static void note_shared(struct memories *all, const struct gw_memory *memory)
{
    if (all->memory)
        all->memory[all->n] = *memory;
    all->n++;
}

uint32_t gw_shard_memory(const struct gw_shard *shard,
                         uint32_t ranks,
                         struct gw_memory *memory)
{
    float *const *const per_rank[] = {shard->shared ? NULL : shard->landing,
                                      shard->given, shard->squares, shard->own};
    size_t bytes = array_bytes(shard->map, shard->number);
    struct memories all = {.memory = memory};
    if (shard->payload_free)
        return 0;
    note_pages(&all, shard->weights[0], bytes);
    note_pages(&all, shard->weights[1], bytes);
    for (unsigned s = 0; s < GW_STATE_MAX; s++)
        note_pages(&all, shard->state[s], bytes);
    note_pages(&all, shard->reduced, bytes);
    note_pages(&all, shard->bf16, bf16_bytes(shard->map, shard->number));
    for (uint32_t rank = 0; rank < ranks; rank++) {
        for (size_t i = 0; i < sizeof per_rank / sizeof *per_rank; i++)
            note_pages(&all, per_rank[i] ? per_rank[i][rank] : NULL, bytes);
        if (shard->landed)
            note_shared(&all, &shard->landed[rank]);
    }
    return all.n;
}

/* ---- those that checkpoints keep ---- */

uint32_t gw_shard_saved(const struct gw_shard *shard)
{
    return shard->optimizer->states +
           (shard->squares || shard->own ? shard->ranks : 0);
}

float *gw_shard_saved_array(const struct gw_shard *shard, uint32_t i)
{
    uint32_t states = shard->optimizer->states;
    float *const *per_rank = shard->squares ? shard->squares : shard->own;
    return i < states ? shard->state[i] : per_rank[i - states];
}

void gw_shard_saved_name(const struct gw_shard *shard,
                         uint32_t i,
                         char name[GW_SAVED_NAME_MAX])
{
    uint32_t states = shard->optimizer->states;
    if (i < states)
        snprintf(name, GW_SAVED_NAME_MAX, "%s",
                 shard->optimizer->state_names[i]);
    else
        snprintf(name, GW_SAVED_NAME_MAX, "%s.rank%u",
                 shard->squares ? "mean_square" : "own", i - states);
}

void gw_shard_begin_saved(struct gw_shard *shard, uint32_t i)
{
    float *array = gw_shard_saved_array(shard, i);
    if (shard->own)
        memcpy(array, shard->weights[0], shard->elems * sizeof *array);
    else
        memset(array, 0, shard->elems * sizeof *array);
}
