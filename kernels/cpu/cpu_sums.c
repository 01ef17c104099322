#include "config.h"

#include "kernels/cpu/cpu_sums.h"

#include "kernels/cpu/cpu_four.h"

GW_MAY_FUSE

GW_INLINE float finished(float sum, int relu)
{
    return relu && sum < 0 ? 0 : sum; /* NaN stays NaN */
}

GW_INLINE four finished4(four sum, int relu)
{
    return relu ? choose4(sum < 0, (four){0}, sum) : sum;
}

GW_INLINE void spread(const float *c,
                      size_t width,
                      size_t places,
                      size_t channels,
                      const float *b,
                      int relu,
                      float *y,
                      size_t ld)
{
    size_t channel = 0;
    for (; channel + 4 <= channels; channel += 4) {
        four bias = b ? load4(b + channel) : (four){0};
        float *to = y + channel * ld;
        size_t p = 0;
        for (; p + 4 <= places; p += 4) {
            four row[4];
            for (size_t i = 0; i < 4; i++) {
                row[i] = load4(c + (p + i) * width + channel) + bias;
                row[i] = finished4(row[i], relu);
            }
            transpose4(row);
            for (size_t i = 0; i < 4; i++)
                store4(to + i * ld + p, row[i]);
        }
        for (; p < places; p++)
            for (size_t i = 0; i < 4; i++)
                to[i * ld + p] =
                    finished(c[p * width + channel + i] + bias[i], relu);
    }
    for (; channel < channels; channel++)
        for (size_t p = 0; p < places; p++)
            y[channel * ld + p] =
                finished(c[p * width + channel] + (b ? b[channel] : 0), relu);
}

GW_INLINE void gather(const float *dy,
                      size_t ld,
                      size_t places,
                      size_t channels,
                      size_t width,
                      float *panel,
                      float *db)
{
    size_t channel = 0;
    for (; channel + 4 <= channels; channel += 4) {
        const float *from = dy + channel * ld;
        four sum[4] = {{0}};
        size_t p = 0;
        for (; p + 4 <= places; p += 4) {
            four row[4];
            for (size_t i = 0; i < 4; i++) {
                row[i] = load4(from + i * ld + p);
                sum[i] += row[i];
            }
            transpose4(row);
            for (size_t i = 0; i < 4; i++)
                store4(panel + (p + i) * width + channel, row[i]);
        }
        transpose4(sum);
        four all = (sum[0] + sum[1]) + (sum[2] + sum[3]);
        for (; p < places; p++)
            for (size_t i = 0; i < 4; i++) {
                panel[p * width + channel + i] = from[i * ld + p];
                all[i] += from[i * ld + p];
            }
        if (db)
            store4(db + channel, load4(db + channel) + all);
    }
    for (; channel < width; channel++)
        for (size_t p = 0; p < places; p++) {
            float value = channel < channels ? dy[channel * ld + p] : 0;
            panel[p * width + channel] = value;
            if (db && channel < channels)
                db[channel] += value;
        }
}

GW_INLINE void pack(const float *w,
                    size_t ld,
                    size_t terms,
                    size_t columns,
                    size_t width,
                    float *panel)
{
    for (size_t t = 0; t < terms; t++, w += ld, panel += width) {
        for (size_t l = 0; l < columns; l++)
            panel[l] = w[l];
        for (size_t l = columns; l < width; l++)
            panel[l] = 0;
    }
}

#define ISA    GW_ISA_FIRST
#define TARGET /* the compiler's default */
#define LANES  4
#include "kernels/cpu/cpu_sums_isa.h"

#if defined(__x86_64__)
#define ISA    avx2
#define TARGET GW_TARGET_AVX2_FMA
#define LANES  8
#include "kernels/cpu/cpu_sums_isa.h"

#define ISA    avx512
#define TARGET GW_TARGET_AVX512
#define LANES  16
#include "kernels/cpu/cpu_sums_isa.h"
#endif

#define LOOPS(isa)                                                             \
    {                                                                          \
        .lanes = lanes_##isa, .product = {product1_##isa, product2_##isa},     \
        .spread = spread_##isa, .gather = gather_##isa, .pack = pack_##isa,    \
    }

const struct gw_sum_loops gw_sum_loops[GW_ISAS] = GW_ISA_ROWS(LOOPS);
