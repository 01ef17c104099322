/*
 * A part of cpu_sums.c, included once per instruction set with
 *
 *   ISA      suffix of its functions
 *   TARGET   attribute of its functions
 *   LANES    floats per vector
 *
 * Vectors have the set's own size: wider ones would be kept in memory.
 */
#define JOIN(name, isa)  name##_##isa
#define NAMED(name, isa) JOIN(name, isa)
#define MADE(name)       NAMED(name, ISA)
#define VECTOR           MADE(vector)
#define ANYWHERE         MADE(anywhere)

typedef float VECTOR __attribute__((vector_size(LANES * sizeof(float))));
typedef float ANYWHERE
    __attribute__((vector_size(LANES * sizeof(float)), aligned(sizeof(float))));

enum {
    MADE(lanes) = LANES
};

/* places and vectors are compile-time constants, so sum[] is in registers. */
GW_INLINE void
MADE(sums)(const struct gw_group *group, size_t places, size_t vectors, int add)
{
    VECTOR sum[2 * GW_GROUP];
    const VECTOR *w = (const VECTOR *)group->w;
    const int32_t *term = group->term;
    const float *x[GW_GROUP];
    ANYWHERE *c[GW_GROUP];
    for (size_t j = 0; j < places; j++) {
        x[j] = group->x + group->place[j];
        c[j] = (ANYWHERE *)(group->c + j * group->ld);
        for (size_t v = 0; v < vectors; v++)
            sum[j * vectors + v] = add ? c[j][v] : (VECTOR){0};
    }
    for (size_t t = 0; t < group->terms; t++, w += vectors)
        for (size_t j = 0; j < places; j++)
            for (size_t v = 0; v < vectors; v++)
                sum[j * vectors + v] += w[v] * x[j][term[t]];
    for (size_t j = 0; j < places; j++)
        for (size_t v = 0; v < vectors; v++)
            c[j][v] = sum[j * vectors + v];
}

GW_INLINE void MADE(sums_of)(const struct gw_group *group,
                             size_t places,
                             size_t vectors,
                             int add)
{
    switch (places) {
    case 1:
        MADE(sums)(group, 1, vectors, add);
        break;
    case 2:
        MADE(sums)(group, 2, vectors, add);
        break;
    case 3:
        MADE(sums)(group, 3, vectors, add);
        break;
    case 4:
        MADE(sums)(group, 4, vectors, add);
        break;
    case 5:
        MADE(sums)(group, 5, vectors, add);
        break;
    default:
        MADE(sums)(group, GW_GROUP, vectors, add);
    }
}

TARGET static void
MADE(product1)(const struct gw_group *group, size_t places, int add)
{
    MADE(sums_of)(group, places, 1, add);
}

TARGET static void
MADE(product2)(const struct gw_group *group, size_t places, int add)
{
    MADE(sums_of)(group, places, 2, add);
}

TARGET static void MADE(spread)(const float *c,
                                size_t width,
                                size_t places,
                                size_t channels,
                                const float *b,
                                int relu,
                                float *y,
                                size_t ld)
{
    if (relu)
        spread(c, width, places, channels, b, 1, y, ld);
    else
        spread(c, width, places, channels, b, 0, y, ld);
}

TARGET static void MADE(gather)(const float *dy,
                                size_t ld,
                                size_t places,
                                size_t channels,
                                size_t width,
                                float *panel,
                                float *db)
{
    gather(dy, ld, places, channels, width, panel, db);
}

TARGET static void MADE(pack)(const float *w,
                              size_t ld,
                              size_t terms,
                              size_t columns,
                              size_t width,
                              float *panel)
{
    if (width == 2 * LANES && columns == width)
        pack(w, ld, terms, 2 * LANES, 2 * LANES, panel);
    else
        pack(w, ld, terms, columns, width, panel);
}

#undef ANYWHERE
#undef VECTOR
#undef MADE
#undef NAMED
#undef JOIN
#undef LANES
#undef TARGET
#undef ISA
