/*
 * kernels/cpu/cpu_sums*: the loops of each instruction set that this processor
 * has, not only the widest, against their definitions.
 */
#include "config.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kernels/cpu/cpu_sums.h"

#define TERMS   70
#define WIDEST  32
#define PLACES  37
#define GUARDED (-12345.0f)

struct site {
    const struct gw_sum_loops *loops;
    float x[GW_GROUP * TERMS], b[WIDEST + 3];
    _Alignas(64) float w[TERMS * WIDEST];
    int32_t place[GW_GROUP], term[TERMS];
};

static float drawn(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (float)((double)(*seed >> 40) / (1 << 23) - 1);
}

static void draw(uint64_t seed, float *values, size_t n)
{
    for (size_t i = 0; i < n; i++)
        values[i] = drawn(&seed);
}

/* Terms are adjacent, places a row apart; the transpose would do as well. */
static void open_site(struct site *site, enum gw_isa isa)
{
    memset(site, 0, sizeof *site);
    site->loops = &gw_sum_loops[isa];
    draw(1, site->x, GW_GROUP * TERMS);
    draw(2, site->w, TERMS * WIDEST);
    draw(3, site->b, WIDEST + 3);
    for (size_t j = 0; j < GW_GROUP; j++)
        site->place[j] = (int32_t)(j * TERMS);
    for (size_t t = 0; t < TERMS; t++)
        site->term[t] = (int32_t)(TERMS - 1 - t);
}

static void for_each_set(void (*test)(struct site *site))
{
    static struct site site;
    for (int isa = 0; isa <= (int)gw_isa_here(); isa++) {
        open_site(&site, (enum gw_isa)isa);
        test(&site);
    }
}

/* ---- products ---- */

/* c before, and the expected sum, rounded once per term. */
static void check_sum(const struct site *site,
                      const struct gw_group *group,
                      size_t width,
                      size_t j,
                      size_t column,
                      float before,
                      float is)
{
    double sum = before, most = fabs(sum);
    for (size_t t = 0; t < group->terms; t++) {
        double term = (double)site->x[site->place[j] + site->term[t]] *
                      (double)site->w[t * width + column];
        sum += term;
        most += fabs(term);
    }
    assert_true(fabs(is - sum) <=
                most * (double)(group->terms + 1) * (double)FLT_EPSILON);
}

static void check_product(struct site *site, size_t places, int two, int add)
{
    size_t width = site->loops->lanes << two, ld = width + 5;
    float before[GW_GROUP * (WIDEST + 5) + 1], c[GW_GROUP * (WIDEST + 5) + 1];
    const size_t terms[] = {1, 2, TERMS};
    for (size_t i = 0; i < sizeof terms / sizeof *terms; i++) {
        const struct gw_group group = {.x = site->x,
                                       .place = site->place,
                                       .term = site->term,
                                       .terms = terms[i],
                                       .w = site->w,
                                       .c = c + 1, /* any alignment */
                                       .ld = ld};
        draw(4, before, sizeof before / sizeof *before);
        memcpy(c, before, sizeof c);
        site->loops->product[two](&group, places, add);
        for (size_t at = 0; at < sizeof c / sizeof *c; at++) {
            size_t j = at > 0 ? (at - 1) / ld : GW_GROUP;
            size_t column = at > 0 ? (at - 1) % ld : 0;
            if (j < places && column < width)
                check_sum(site, &group, width, j, column, add ? before[at] : 0,
                          c[at]);
            else
                assert_true(c[at] == before[at]);
        }
    }
}

static void check_products(struct site *site)
{
    for (size_t places = 1; places <= GW_GROUP; places++)
        for (int how = 0; how < 4; how++)
            check_product(site, places, how & 1, how >> 1);
}

static void products_are_sums_of_their_terms(void **state)
{
    (void)state;
    for_each_set(check_products);
}

/* ---- to panels and back ---- */

static void check_spread(struct site *site)
{
    size_t width = 2 * site->loops->lanes, ld = PLACES + 3;
    float c[PLACES * WIDEST], y[WIDEST * (PLACES + 3)];
    for (size_t channels = 1; channels <= width; channels++)
        for (int how = 0; how < 4; how++) {
            const float *b = how & 1 ? site->b : NULL;
            int relu = how >> 1;
            draw(5, c, PLACES * width);
            for (size_t i = 0; i < WIDEST * ld; i++)
                y[i] = GUARDED;
            site->loops->spread(c, width, PLACES, channels, b, relu, y, ld);
            for (size_t i = 0; i < WIDEST * ld; i++) {
                size_t channel = i / ld, p = i % ld;
                float is = c[p % PLACES * width + channel % width];
                is += b ? b[channel] : 0;
                is = relu && is < 0 ? 0 : is;
                if (channel >= channels || p >= PLACES)
                    is = GUARDED;
                assert_true(y[i] == is);
            }
        }
}

static void check_gather(struct site *site)
{
    size_t width = 2 * site->loops->lanes, ld = PLACES + 3;
    float dy[WIDEST * (PLACES + 3)], panel[PLACES * WIDEST], db[WIDEST + 3];
    draw(6, dy, WIDEST * ld);
    for (size_t channels = 1; channels <= width; channels++) {
        memcpy(db, site->b, sizeof db);
        site->loops->gather(dy, ld, PLACES, channels, width, panel, db);
        for (size_t i = 0; i < PLACES * width; i++) {
            size_t p = i / width, channel = i % width;
            assert_true(panel[i] ==
                        (channel < channels ? dy[channel * ld + p] : 0));
        }
        for (size_t channel = 0; channel < WIDEST + 3; channel++) {
            double sum = site->b[channel];
            for (size_t p = 0; channel < channels && p < PLACES; p++)
                sum += dy[channel * ld + p];
            assert_true(fabs(db[channel] - sum) <=
                        (channel < channels ? 1e-5 : 0));
        }
        memset(panel, 0, sizeof panel);
        site->loops->gather(dy, ld, PLACES, channels, width, panel, NULL);
        assert_true(panel[(PLACES - 1) * width] == dy[PLACES - 1]);
    }
}

static void check_pack(struct site *site)
{
    size_t width = 2 * site->loops->lanes, ld = width + 3;
    float w[PLACES * (WIDEST + 3)], panel[PLACES * WIDEST + 1];
    draw(7, w, PLACES * ld);
    for (size_t columns = 1; columns <= width; columns++) {
        panel[PLACES * width] = GUARDED;
        site->loops->pack(w, ld, PLACES, columns, width, panel);
        for (size_t i = 0; i < PLACES * width; i++)
            assert_true(
                panel[i] ==
                (i % width < columns ? w[i / width * ld + i % width] : 0));
        assert_true(panel[PLACES * width] == GUARDED);
    }
}

static void panels_are_turned_and_back(void **state)
{
    (void)state;
    for_each_set(check_spread);
    for_each_set(check_gather);
    for_each_set(check_pack);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_are_sums_of_their_terms),
        cmocka_unit_test(panels_are_turned_and_back),
    };
    return cmocka_run_group_tests_name("cpu_sums", tests, NULL, NULL);
}
