#include "config.h"

#include "kernels/cpu/cpu.h"

#include <math.h>

static size_t first_maximum(const float *x, size_t classes)
{
    size_t at = 0;
    for (size_t c = 1; c < classes; c++)
        if (x[c] > x[at])
            at = c;
    return at;
}

/*
 * -log softmax(x)[label]; dx, which may be x or NULL, gets scale times its
 * gradient. Subtracting the largest logit keeps exp from overflowing; any NaN
 * propagates into the sum, so it reaches the loss and all of dx.
 */
static double row_loss(const float *x,
                       size_t classes,
                       size_t label,
                       float largest,
                       float scale,
                       float *dx)
{
    double at_label = (double)x[label], sum = 0;
    for (size_t c = 0; c < classes; c++) {
        double e = exp((double)x[c] - (double)largest);
        sum += e;
        if (dx)
            dx[c] = (float)e;
    }
    if (dx) {
        double factor = (double)scale / sum;
        for (size_t c = 0; c < classes; c++)
            dx[c] = (float)(factor * (double)dx[c]);
        dx[label] -= scale;
    }
    return log(sum) + (double)largest - at_label;
}

void gw_cpu_softmax_loss(struct gw_device *device,
                         size_t n,
                         size_t classes,
                         const float *logits,
                         const int32_t *labels,
                         float scale,
                         float *dlogits,
                         struct gw_loss *loss)
{
    (void)device;
    struct gw_loss made = {0};
    for (size_t r = 0; r < n; r++) {
        const float *x = logits + r * classes;
        float *dx = dlogits ? dlogits + r * classes : NULL;
        size_t label = (size_t)labels[r], best = first_maximum(x, classes);
        made.correct += best == label;
        made.sum += row_loss(x, classes, label, x[best], scale, dx);
    }
    *loss = made;
}
