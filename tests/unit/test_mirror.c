/*
 * worker/trainer/mirror.h on a device that computes elsewhere and later: what
 * is queued on it is only done when somebody waits, up to the point that is
 * waited for.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kernels/update/bf16.h"
#include "worker/trainer/mirror.h"

#define KEYS   3
#define QUEUE  64
#define BLOCKS 2

/* ---- the device: its memory is the host's, but copies are late ---- */

struct copy {
    void *to;
    const void *from; /* NULL: zeros */
    size_t bytes;     /* at `from` */
    int widens;       /* from bf16 */
};

struct gw_device {
    struct copy queue[QUEUE];
    uint64_t queued, done;
    size_t fits; /* bytes of its memory, */
    struct {
        void *memory;
        size_t bytes;
    } block[BLOCKS]; /* and what is taken of it */
    size_t taken;    /* bytes that others had */
    int broken;
};

static void run_until(struct gw_device *device, uint64_t point)
{
    for (; device->done < point; device->done++) {
        const struct copy *copy = &device->queue[device->done % QUEUE];
        if (!copy->from)
            memset(copy->to, 0, copy->bytes);
        else if (copy->widens)
            gw_bf16_widen(copy->bytes / sizeof(uint16_t), copy->from, copy->to);
        else
            memcpy(copy->to, copy->from, copy->bytes);
    }
}

static uint64_t
late_fetch(struct gw_device *device, void *host, const void *from, size_t bytes)
{
    device->queue[device->queued % QUEUE] = (struct copy){host, from, bytes, 0};
    return ++device->queued;
}

static void
late_take(struct gw_device *device, void *to, const void *seen, size_t bytes)
{
    device->taken += bytes;
    late_fetch(device, to, seen, bytes);
}

static void late_widen(struct gw_device *device,
                       size_t elems,
                       const uint16_t *x,
                       float *out)
{
    device->queue[device->queued++ % QUEUE] =
        (struct copy){out, x, elems * sizeof *x, 1};
}

static void
late_upload(struct gw_device *device, void *to, const void *host, size_t bytes)
{
    late_fetch(device, to, host, bytes);
}

static enum gw_status late_reach(struct gw_device *device,
                                 uint64_t point,
                                 int wait,
                                 struct gw_error *error)
{
    if (device->broken)
        return gw_fail(error, GW_EIO, "the device is gone");
    if (wait)
        run_until(device, point);
    return device->done >= point ? GW_OK : GW_EAGAIN;
}

static enum gw_status late_sync(struct gw_device *device,
                                struct gw_error *error)
{
    return late_reach(device, device->queued, 1, error);
}

static void *late_alloc(struct gw_device *device, size_t bytes)
{
    size_t i = device->block[0].memory != NULL;
    if (bytes > device->fits)
        return NULL;
    assert_null(device->block[i].memory);
    device->block[i].memory = malloc(bytes);
    device->block[i].bytes = bytes;
    device->fits -= bytes;
    late_fetch(device, device->block[i].memory, NULL, bytes);
    return device->block[i].memory;
}

static void late_free(struct gw_device *device, void *memory)
{
    size_t i = device->block[0].memory != memory;
    run_until(device, device->queued);
    assert_ptr_equal(device->block[i].memory, memory);
    device->fits += device->block[i].bytes;
    device->block[i].memory = NULL;
    free(memory);
}

static void
late_memory(struct gw_device *device, uint64_t *total_p, uint64_t *free_p)
{
    *total_p = (uint64_t)80 << 20;
    *free_p = device->fits;
}

static const struct gw_backend_ops late = {
    .name = "late",
    .memory = late_memory,
    .alloc = late_alloc,
    .free = late_free,
    .upload = late_upload,
    .copy_import = late_take,
    .fetch = late_fetch,
    .reach = late_reach,
    .sync = late_sync,
    .widen = late_widen,
};

/* ---- a model of three keys ---- */

static const struct gw_key key[KEYS] = {
    {.name = "a", .dims = 1, .shape = {5}},
    {.name = "b", .dims = 2, .shape = {4, 16}},
    {.name = "c", .dims = 1, .shape = {1}},
};

struct subject {
    struct gw_device device;
    float host[2][KEYS][64];
    float *weight[KEYS], *gradient[KEYS];
    struct gw_mirror *mirror;
    struct gw_error error;
};

static struct gw_mirror_of of(struct subject *s)
{
    for (size_t k = 0; k < KEYS; k++) {
        s->weight[k] = s->host[0][k];
        s->gradient[k] = s->host[1][k];
    }
    return (struct gw_mirror_of){.ops = &late,
                                 .device = &s->device,
                                 .key = key,
                                 .keys = KEYS,
                                 .arena = s->host[0][0],
                                 .bytes = sizeof s->host[0],
                                 .weight = s->weight,
                                 .gradient = s->gradient};
}

static struct subject *open_subject(void)
{
    struct subject *s = calloc(1, sizeof *s);
    assert_non_null(s);
    s->device.fits = 4 << 20;
    const struct gw_mirror_of what = of(s);
    assert_int_equal(gw_mirror_open(&what, &s->mirror, &s->error), GW_OK);
    assert_int_equal(s->device.done, s->device.queued);
    s->device.done = s->device.queued = 0; /* cases count from here */
    return s;
}

static void close_subject(struct subject *s)
{
    gw_mirror_close(s->mirror);
    free(s);
}

static float *made(struct subject *s, size_t k)
{
    return gw_mirror_gradients(s->mirror)[k];
}

static enum gw_status
next(struct subject *s, int wait, size_t *first_p, size_t *n_p)
{
    return gw_mirror_next(s->mirror, wait, first_p, n_p, &s->error);
}

/* ---- cases ---- */

static void weights_go_once_in_a_step(void **state)
{
    struct subject *s = open_subject();
    const float *const *device = gw_mirror_weights(s->mirror);
    (void)state;
    for (float round = 1; round < 3; round++) {
        assert_int_equal(gw_mirror_begin(s->mirror, &s->error), GW_OK);
        uint64_t before = s->device.queued;
        for (size_t k = 0; k < KEYS; k++)
            s->host[0][k][0] = round * 10 + (float)k;
        gw_mirror_upload(s->mirror, 1, 2, GW_ENCODING_RAW);
        gw_mirror_upload(s->mirror, 0, KEYS, GW_ENCODING_RAW);
        assert_int_equal(s->device.queued - before, KEYS);
        run_until(&s->device, s->device.queued);
        for (size_t k = 0; k < KEYS; k++)
            assert_true(device[k][0] == round * 10 + (float)k &&
                        made(s, k)[0] == 0);
    }
    close_subject(s);
}

/* As bf16 in one step, whole in the next one, and as bf16 again: each number
   where it belongs, and gradients left alone. */
static void weights_may_come_as_bf16(void **state)
{
    static const enum gw_encoding as[] = {GW_ENCODING_BF16, GW_ENCODING_RAW,
                                          GW_ENCODING_BF16};
    uint16_t arena[KEYS * 64];
    struct subject *s = calloc(1, sizeof *s);
    (void)state;
    assert_non_null(s);
    struct gw_mirror_of what = of(s);
    what.bf16 = arena;
    s->device.fits = 2 * (2 << 20); /* whole pages of each */
    assert_int_equal(gw_mirror_open(&what, &s->mirror, &s->error), GW_OK);
    const float *const *device = gw_mirror_weights(s->mirror);
    for (size_t i = 0; i < KEYS * 64; i++)
        gw_mirror_gradient_arena(s->mirror)[i] = 9;
    for (size_t round = 0; round < 3; round++) {
        assert_int_equal(gw_mirror_begin(s->mirror, &s->error), GW_OK);
        for (size_t i = 0; i < KEYS * 64; i++) {
            float whole = (float)(i + 1000 * round), rounded = -whole;
            s->host[0][i / 64][i % 64] = whole;
            gw_bf16_round(1, &rounded, &arena[i]);
        }
        gw_mirror_upload(s->mirror, 1, 2, as[round]);
        gw_mirror_upload(s->mirror, 0, KEYS, as[round]);
        run_until(&s->device, s->device.queued);
        for (size_t k = 0; k < KEYS; k++)
            for (size_t i = 0; i < gw_key_elems(&key[k]); i++) {
                float rounded;
                gw_bf16_widen(1, &arena[64 * k + i], &rounded);
                assert_true(device[k][i] == (as[round] == GW_ENCODING_BF16
                                                 ? rounded
                                                 : s->host[0][k][i]));
                assert_true(made(s, k)[i] == 9);
            }
    }
    close_subject(s);
}

/* The arena of another mirror, with `value` + i in each place of it. */
static const void *
other_arena(struct subject *other, enum gw_encoding encoding, float value)
{
    float *raw = gw_mirror_weight_arena(other->mirror, GW_ENCODING_RAW);
    uint16_t *half = gw_mirror_weight_arena(other->mirror, GW_ENCODING_BF16);
    for (size_t i = 0; i < KEYS * 64; i++) {
        float is = value + (float)i;
        if (encoding == GW_ENCODING_BF16)
            gw_bf16_round(1, &is, half + i);
        else
            raw[i] = is;
    }
    return raw;
}

/* The second key comes in four parts: two of them from another device's arena,
   one from the host, and one is there already. */
static void weights_may_lie_on_devices(void **state)
{
    static const size_t end[] = {16, 24, 40, 64};
    uint16_t arena[KEYS * 64];
    struct subject *s[2];
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        s[i] = calloc(1, sizeof *s[i]);
        assert_non_null(s[i]);
        s[i]->device.fits = 4 << 20;
        struct gw_mirror_of what = of(s[i]);
        what.bf16 = arena;
        assert_int_equal(gw_mirror_open(&what, &s[i]->mirror, &s[i]->error),
                         GW_OK);
    }
    const float *const *device = gw_mirror_weights(s[0]->mirror);
    for (enum gw_encoding as = GW_ENCODING_RAW; as < GW_ENCODINGS; as++) {
        const void *other = other_arena(s[1], as, 1024);
        const void *own = other_arena(s[0], as, 2048);
        const void *from[] = {other, NULL, own, other};
        for (size_t i = 0; i < 64; i++) {
            s[0]->host[0][1][i] = 4096 + 64 + (float)i;
            gw_bf16_round(1, &s[0]->host[0][1][i], &arena[64 + i]);
        }
        assert_int_equal(gw_mirror_begin(s[0]->mirror, &s[0]->error), GW_OK);
        s[0]->device.taken = 0;
        for (size_t p = 0, at = 0; p < 4; at = end[p++])
            gw_mirror_upload_part(s[0]->mirror, 1, at * sizeof(float),
                                  (end[p] - at) * sizeof(float), as, from[p]);
        gw_mirror_uploaded(s[0]->mirror, 1, as);
        uint64_t queued = s[0]->device.queued;
        gw_mirror_upload(s[0]->mirror, 1, 1, as); /* it is */
        assert_int_equal(s[0]->device.queued, queued);
        assert_int_equal(s[0]->device.taken,
                         (16 + 24) * (as == GW_ENCODING_RAW ? 4 : 2));
        run_until(&s[0]->device, queued);
        for (size_t p = 0, i = 0; p < 4; p++)
            for (; i < end[p]; i++) {
                uint16_t half;
                float is = (from[p] == other ? 1024.0f
                            : from[p]        ? 2048.0f
                                             : 4096.0f) +
                           64 + (float)i;
                gw_bf16_round(1, &is, &half);
                if (as == GW_ENCODING_BF16)
                    gw_bf16_widen(1, &half, &is);
                assert_true(device[1][i] == is);
            }
    }
    close_subject(s[0]), close_subject(s[1]);
}

/* Another device may write there as soon as it is open, and nothing of before
   comes over that. */
static void memory_is_there_at_once(void **state)
{
    struct subject *s = open_subject();
    (void)state;
    float *arena = gw_mirror_weight_arena(s->mirror, GW_ENCODING_RAW);
    assert_true(arena[0] == 0);
    arena[0] = 7;
    assert_int_equal(gw_mirror_begin(s->mirror, &s->error), GW_OK);
    assert_true(arena[0] == 7);
    close_subject(s);
}

static void gradients_come_in_their_order_and_when_they_are_there(void **state)
{
    struct subject *s = open_subject();
    size_t first, n;
    (void)state;
    assert_int_equal(gw_mirror_begin(s->mirror, &s->error), GW_OK);
    assert_int_equal(next(s, 1, &first, &n), GW_EAGAIN);
    made(s, 2)[0] = 7;
    gw_mirror_fetch(s->mirror, 2, 1);
    made(s, 0)[4] = 5, made(s, 1)[63] = 6;
    made(s, 0)[0] = 8, made(s, 1)[0] = 9; /* each has a place of its own */
    gw_mirror_fetch(s->mirror, 0, 2);
    assert_int_equal(next(s, 0, &first, &n), GW_EAGAIN);
    run_until(&s->device, 2); /* half of the second run */
    assert_int_equal(next(s, 0, &first, &n), GW_OK);
    assert_true(first == 2 && n == 1 && s->host[1][2][0] == 7);
    assert_int_equal(next(s, 0, &first, &n), GW_EAGAIN);
    assert_int_equal(next(s, 1, &first, &n), GW_OK);
    assert_true(first == 0 && n == 2);
    assert_true(s->host[1][0][4] == 5 && s->host[1][1][63] == 6);
    assert_true(s->host[1][0][0] == 8 && s->host[1][1][0] == 9);
    assert_int_equal(next(s, 1, &first, &n), GW_EAGAIN);
    close_subject(s);
}

/* For sums that devices make: handed over when they are made, and not copied.
 */
static void gradients_may_stay_where_they_are(void **state)
{
    struct subject *s = open_subject();
    float *arena = gw_mirror_gradient_arena(s->mirror);
    size_t first, n;
    (void)state;
    for (size_t k = 0; k < KEYS; k++)
        assert_ptr_equal(made(s, k), arena + 64 * k);
    arena[64] = 3;
    gw_mirror_hand_over(s->mirror, 1, 2);
    assert_int_equal(next(s, 0, &first, &n), GW_EAGAIN);
    assert_int_equal(next(s, 1, &first, &n), GW_OK);
    assert_true(first == 1 && n == 2);
    assert_true(s->host[1][1][0] == 0 && made(s, 1)[0] == 3);
    close_subject(s);
}

/* What the host sends follows, the rest stays; told of when all of it is there.
 */
static void a_part_may_follow_and_the_rest_stay(void **state)
{
    struct subject *s = open_subject();
    size_t first, n;
    (void)state;
    for (size_t i = 0; i < 64; i++)
        made(s, 1)[i] = (float)i;
    gw_mirror_fetch_part(s->mirror, 1, 8 * sizeof(float), 2 * sizeof(float));
    gw_mirror_fetch_part(s->mirror, 1, 60 * sizeof(float), 4 * sizeof(float));
    assert_int_equal(next(s, 1, &first, &n), GW_EAGAIN);
    gw_mirror_hand_over(s->mirror, 0, 2);
    gw_mirror_hand_over(s->mirror, 2, 1);
    run_until(&s->device, 1);
    assert_int_equal(next(s, 0, &first, &n), GW_EAGAIN);
    run_until(&s->device, 2);
    assert_int_equal(next(s, 0, &first, &n), GW_OK);
    assert_true(first == 0 && n == 2);
    assert_int_equal(next(s, 0, &first, &n), GW_EAGAIN);
    assert_int_equal(next(s, 1, &first, &n), GW_OK);
    assert_true(first == 2 && n == 1);
    for (size_t i = 0; i < 64; i++)
        assert_true(s->host[1][1][i] ==
                    ((i >= 8 && i < 10) || i >= 60 ? (float)i : 0));
    close_subject(s);
}

/* A step that is given up: its device may still write what the next one does.
 */
static void a_new_step_waits_and_forgets(void **state)
{
    struct subject *s = open_subject();
    size_t first, n;
    (void)state;
    gw_mirror_fetch(s->mirror, 0, KEYS);
    assert_int_equal(gw_mirror_begin(s->mirror, &s->error), GW_OK);
    assert_int_equal(s->device.done, KEYS);
    assert_int_equal(next(s, 1, &first, &n), GW_EAGAIN);
    close_subject(s);
}

static void views_may_move_between_steps(void **state)
{
    struct subject *s = open_subject();
    float other[64] = {0};
    size_t first, n;
    (void)state;
    s->gradient[1] = other;
    made(s, 1)[3] = 9;
    gw_mirror_fetch(s->mirror, 1, 1);
    assert_int_equal(next(s, 1, &first, &n), GW_OK);
    assert_true(other[3] == 9 && s->host[1][1][3] == 0);
    close_subject(s);
}

static void a_device_that_fails_is_told(void **state)
{
    struct subject *s = open_subject();
    size_t first, n;
    (void)state;
    gw_mirror_fetch(s->mirror, 0, 1);
    s->device.broken = 1;
    assert_int_equal(next(s, 1, &first, &n), GW_EIO);
    assert_string_equal(s->error.text, "the device is gone");
    assert_int_equal(gw_mirror_begin(s->mirror, &s->error), GW_EIO);
    close_subject(s);
}

static void too_little_memory_is_told_with_what_there_is(void **state)
{
    struct subject *s = calloc(1, sizeof *s);
    (void)state;
    assert_non_null(s);
    s->device.fits = 7 << 20; /* one of the two arenas */
    struct gw_key large[KEYS] = {key[0], key[1], key[2]};
    large[0].shape[0] = 1 << 20;
    struct gw_mirror_of what = of(s);
    what.key = large;
    what.bytes = (4 << 20) + 8192;
    assert_int_equal(gw_mirror_open(&what, &s->mirror, &s->error), GW_ENOMEM);
    assert_string_equal(s->error.text,
                        "no memory on the device for weights and gradients: 12 "
                        "MiB are needed, 7 of 80 MiB are free");
    what.gradient = NULL; /* half of it */
    assert_int_equal(gw_mirror_open(&what, &s->mirror, &s->error), GW_OK);
    close_subject(s);
}

/* The cpu: what is given is what is used, and nothing is copied. */
static void where_the_host_computes_nothing_moves(void **state)
{
    struct gw_error error;
    const struct gw_device_options options = {.threads = 1};
    const struct gw_backend_ops *cpu = gw_backend_find("cpu", &error);
    struct gw_device *device;
    (void)state;
    assert_int_equal(cpu->open(&options, &device, &error), GW_OK);
    float *memory = cpu->alloc_host(device, KEYS * 64 * sizeof *memory);
    float *view[KEYS] = {memory, memory + 64, memory + 128};
    const struct gw_mirror_of what = {.ops = cpu,
                                      .device = device,
                                      .key = key,
                                      .keys = KEYS,
                                      .weight = view,
                                      .gradient = view};
    struct gw_mirror *mirror;
    size_t first, n;
    assert_int_equal(gw_mirror_open(&what, &mirror, &error), GW_OK);
    assert_int_equal(gw_mirror_begin(mirror, &error), GW_OK);
    for (size_t k = 0; k < KEYS; k++) {
        assert_ptr_equal(gw_mirror_weights(mirror)[k], view[k]);
        assert_ptr_equal(gw_mirror_gradients(mirror)[k], view[k]);
    }
    gw_mirror_upload(mirror, 0, KEYS, GW_ENCODING_RAW);
    gw_mirror_fetch(mirror, 1, 2);
    assert_int_equal(gw_mirror_next(mirror, 0, &first, &n, &error), GW_OK);
    assert_true(first == 1 && n == 2);
    gw_mirror_close(mirror);
    cpu->free_host(device, memory);
    cpu->close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_go_once_in_a_step),
        cmocka_unit_test(weights_may_come_as_bf16),
        cmocka_unit_test(weights_may_lie_on_devices),
        cmocka_unit_test(memory_is_there_at_once),
        cmocka_unit_test(gradients_come_in_their_order_and_when_they_are_there),
        cmocka_unit_test(gradients_may_stay_where_they_are),
        cmocka_unit_test(a_part_may_follow_and_the_rest_stay),
        cmocka_unit_test(a_new_step_waits_and_forgets),
        cmocka_unit_test(views_may_move_between_steps),
        cmocka_unit_test(a_device_that_fails_is_told),
        cmocka_unit_test(too_little_memory_is_told_with_what_there_is),
        cmocka_unit_test(where_the_host_computes_nothing_moves),
    };
    return cmocka_run_group_tests_name("mirror", tests, NULL, NULL);
}
