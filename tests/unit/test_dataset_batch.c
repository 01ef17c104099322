/* worker/data/dataset: order, augmentation and normalisation of batches. */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "proto/random.h"
#include "tests/unit/data_bytes.h"

#define SAMPLES 1000
#define SIDE    5
#define PIXELS  (SIDE * SIDE)
#define PAD     2
#define WINDOWS ((2 * PAD + 1) * (2 * PAD + 1) * 2)

static struct bytes first, second;
static float whole[SAMPLES * PIXELS], split[SAMPLES * PIXELS];
static int32_t whole_labels[SAMPLES], split_labels[SAMPLES];

static void add_augment(struct gw_config *config, const char *item)
{
    struct gw_string_list *list = &config->data.augment;
    snprintf(list->item[list->n++], GW_STRING_MAX, "%s", item);
}

static struct gw_dataset *open_idx(const struct gw_config *config)
{
    struct gw_dataset *set = NULL;
    struct gw_error error = {.text = ""};
    bytes_idx_images(&first, SAMPLES, SIDE, SIDE);
    bytes_idx_labels(&second, SAMPLES);
    if (bytes_open(config, &gw_data_idx, &first, &second, &set, &error))
        fail_msg("%s", error.text);
    return set;
}

/* Which sample this is, by its first pixels; made to be unambiguous. */
static void epochs_are_permutations(void **state)
{
    (void)state;
    struct gw_config config = {0};
    struct gw_dataset *set = open_idx(&config);
    int moved = 0;
    for (uint32_t epoch = 0; epoch < 3; epoch++) {
        int counts[256][10] = {{0}}, wanted[256][10] = {{0}};
        struct gw_batch_site site = {.seed = 5, .epoch = epoch, .train = 1};
        for (; site.first < SAMPLES; site.first += site.n) {
            size_t rest = SAMPLES - site.first;
            site.n = rest < 64 ? rest : 64;
            gw_dataset_batch(set, &site, whole, whole_labels);
            for (size_t i = 0; i < site.n; i++) {
                int pixel = (int)lrintf(whole[i * PIXELS] * 255.0f);
                counts[pixel][whole_labels[i]]++;
                wanted[bytes_pixel(site.first + i, 0)]
                      [bytes_label(site.first + i)]++;
                moved += pixel != bytes_pixel(site.first + i, 0);
            }
        }
        assert_memory_equal(counts, wanted, sizeof counts);
    }
    assert_true(moved > 2900);
    gw_dataset_close(set);
}

static void split_batches_equal_whole_ones(void **state)
{
    (void)state;
    static const size_t cuts[] = {0, 1, 2, 65, 300, 300, 511, 999, 1000};
    struct gw_config config = {0};
    add_augment(&config, "crop 2");
    add_augment(&config, "flip");
    struct gw_dataset *set = open_idx(&config);
    struct gw_batch_site site = {
        .seed = 9, .epoch = 4, .n = SAMPLES, .train = 1};
    gw_dataset_batch(set, &site, whole, whole_labels);
    for (size_t c = 0; c + 1 < sizeof cuts / sizeof *cuts; c++) {
        site.first = cuts[c];
        site.n = cuts[c + 1] - cuts[c];
        gw_dataset_batch(set, &site, split + cuts[c] * PIXELS,
                         split_labels + cuts[c]);
    }
    assert_memory_equal(whole, split, sizeof whole);
    assert_memory_equal(whole_labels, split_labels, sizeof whole_labels);

    site = (struct gw_batch_site){.seed = 9, .n = SAMPLES, .train = 1};
    gw_dataset_batch(set, &site, split, split_labels);
    assert_memory_not_equal(whole, split, sizeof whole);
    gw_dataset_close(set);
}

static void evaluation_is_plain(void **state)
{
    (void)state;
    struct gw_config config = {0};
    add_augment(&config, "crop 4");
    add_augment(&config, "flip");
    struct gw_dataset *set = open_idx(&config);
    struct gw_batch_site site = {.seed = 1, .first = 10, .n = 20};
    gw_dataset_batch(set, &site, whole, whole_labels);
    for (size_t i = 0; i < site.n; i++) {
        assert_int_equal(whole_labels[i], bytes_label(10 + i));
        for (size_t k = 0; k < PIXELS; k++) {
            float wanted = (float)bytes_pixel(10 + i, k) / 255.0f;
            assert_memory_equal(&whole[i * PIXELS + k], &wanted, sizeof wanted);
        }
    }
    gw_dataset_close(set);
}

/* The padded image, cut at (top, left), mirrored: written out plainly. */
static void naive_window(size_t sample, int window, float out[PIXELS])
{
    float padded[SIDE + 2 * PAD][SIDE + 2 * PAD] = {{0}};
    int flip = window % 2, left = window / 2 % 5, top = window / 10;
    for (size_t k = 0; k < PIXELS; k++)
        padded[k / SIDE + PAD][k % SIDE + PAD] = (float)bytes_pixel(sample, k);
    for (int y = 0; y < SIDE; y++)
        for (int x = 0; x < SIDE; x++)
            out[y * SIDE + x] =
                padded[top + y][left + (flip ? SIDE - 1 - x : x)];
}

/* The only window of the naive reference that gives these values, or -1. */
static int window_of(size_t sample, const float *x, float mean, float deviation)
{
    int found = -1;
    for (int window = 0; window < WINDOWS; window++) {
        float wanted[PIXELS];
        int same = 1;
        naive_window(sample, window, wanted);
        for (int k = 0; k < PIXELS; k++)
            same &=
                fabsf((wanted[k] / 255.0f - mean) / deviation - x[k]) < 1e-5f;
        if (same && found >= 0)
            fail_msg("windows %d and %d look alike", found, window);
        if (same)
            found = window;
    }
    return found;
}

/* Every window of every sample is a naive one, and all are as frequent. */
static void crop_and_flip_against_a_naive_reference(void **state)
{
    (void)state;
    struct gw_config config = {.data.normalize = {2, {0.25, 0.5}}};
    add_augment(&config, "crop 2");
    add_augment(&config, "flip");
    struct gw_dataset *set = open_idx(&config);
    int seen[WINDOWS] = {0};
    for (uint32_t epoch = 0; epoch < 5; epoch++) {
        /* a batch of one place each, so that the sample is known */
        struct gw_batch_site site = {.epoch = epoch, .n = SAMPLES, .train = 1};
        gw_dataset_batch(set, &site, whole, whole_labels);
        for (size_t i = 0; i < SAMPLES; i++) {
            size_t sample = gw_random_permute(0, epoch, SAMPLES, i);
            int window = window_of(sample, whole + i * PIXELS, 0.25f, 0.5f);
            assert_true(window >= 0);
            seen[window]++;
        }
    }
    for (int window = 0; window < WINDOWS; window++)
        assert_in_range(seen[window], 60, 150); /* Poisson of mean 100 */
    gw_dataset_close(set);
}

/* The same pixels as floats give the same windows. */
static void floats_are_cropped_like_bytes(void **state)
{
    (void)state;
    struct gw_config config = {.data.normalize = {2, {0.25, 0.5}}};
    struct gw_dataset *floats, *bytes;
    struct gw_error error = {.text = ""};
    add_augment(&config, "crop 2");
    add_augment(&config, "flip");
    bytes_npy(&first, 1,
              "{'descr': '<f4', 'fortran_order': False, 'shape': (90, 5, 5)}");
    for (size_t i = 0; i < (size_t)90 * PIXELS; i++) {
        float value = (float)bytes_pixel(i / PIXELS, i % PIXELS) / 255.0f;
        bytes_add(&first, &value, sizeof value);
    }
    bytes_npy_y(&second, 90);
    if (bytes_open(&config, &gw_data_npy, &first, &second, &floats, &error))
        fail_msg("%s", error.text);
    bytes_npy_x(&first, 90, SIDE, SIDE);
    if (bytes_open(&config, &gw_data_npy, &first, &second, &bytes, &error))
        fail_msg("%s", error.text);
    struct gw_batch_site site = {.seed = 2, .n = 90, .train = 1};
    gw_dataset_batch(floats, &site, whole, whole_labels);
    gw_dataset_batch(bytes, &site, split, split_labels);
    assert_memory_equal(whole, split, 90 * PIXELS * sizeof *whole);
    gw_dataset_close(floats);
    gw_dataset_close(bytes);
}

static void flip_alone_moves_nothing_else(void **state)
{
    (void)state;
    struct gw_config config = {0};
    int flipped = 0;
    add_augment(&config, "flip");
    struct gw_dataset *set = open_idx(&config);
    struct gw_batch_site site = {.seed = 0, .n = SAMPLES, .train = 1};
    gw_dataset_batch(set, &site, whole, whole_labels);
    for (size_t i = 0; i < SAMPLES; i++) {
        size_t sample = gw_random_permute(0, 0, SAMPLES, i);
        int window = window_of(sample, whole + i * PIXELS, 0, 1);
        assert_int_equal(window / 2, 12); /* top = left = PAD */
        flipped += window % 2;
    }
    assert_in_range(flipped, 430, 570);
    gw_dataset_close(set);
}

/* MNIST's usual (0.1307, 0.3081) gives its usual black and white. */
static void normalisation_values(void **state)
{
    (void)state;
    struct gw_config config = {.data.normalize = {2, {0.1307, 0.3081}}};
    struct gw_dataset *set = open_idx(&config);
    assert_true(fabsf(set->table[0][0] - -0.4242f) < 5e-5f);
    assert_true(fabsf(set->table[0][255] - 2.8215f) < 5e-5f);
    gw_dataset_close(set);

    config.data.normalize = (struct gw_number_list){6, {0, 1, 0.5, 1, 0, 2}};
    struct gw_error error = {.text = ""};
    static float x[3072];
    int32_t label;
    bytes_cifar(&first, 1, 0);
    if (bytes_open(&config, &gw_data_cifar10, &first, NULL, &set, &error))
        fail_msg("%s", error.text);
    struct gw_batch_site site = {.n = 1};
    gw_dataset_batch(set, &site, x, &label);
    for (size_t k = 0; k < 3072; k++) {
        float value = (float)bytes_pixel(0, k) / 255.0f;
        float wanted = k < 1024   ? value
                       : k < 2048 ? value - 0.5f
                                  : value / 2.0f;
        assert_true(fabsf(x[k] - wanted) < 1e-6f);
    }
    gw_dataset_close(set);
}

static void refuse(const struct gw_config *config, const char *inside)
{
    struct gw_dataset *set = NULL;
    struct gw_error error = {.text = ""};
    bytes_idx_images(&first, 3, SIDE, SIDE);
    bytes_idx_labels(&second, 3);
    assert_int_equal(
        bytes_open(config, &gw_data_idx, &first, &second, &set, &error),
        GW_EUSAGE);
    assert_null(set);
    if (!strstr(error.text, inside))
        fail_msg("\"%s\" lacks \"%s\"", error.text, inside);
}

static void wrong_settings_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *augment, *inside;
    } augments[] = {
        {"turn", "\"turn\" is not known"},
        {"crop", "\"crop\" is not known"},
        {"crop ", "takes the number of pixels"},
        {"crop 0", "takes the number of pixels"},
        {"crop -1", "takes the number of pixels"},
        {"crop 2x", "takes the number of pixels"},
        {"crop 5", "less than a side of the 5 x 5 images"},
        {"crop 99999999999999999999", "less than a side"},
    };
    static const struct {
        struct gw_number_list list;
        const char *inside;
    } normals[] = {
        {{1, {0.5}}, "has 1 numbers"},
        {{3, {0.5, 1, 1}}, "has 3 numbers"},
        {{4, {0.5, 1, 1, 1}}, "has 4 numbers"},
        {{2, {0.5, 0}}, "deviation above 0"},
        {{2, {0.5, -1}}, "deviation above 0"},
        {{2, {NAN, 1}}, "must be finite"},
        {{2, {0, INFINITY}}, "must be finite"},
    };
    for (size_t i = 0; i < sizeof augments / sizeof *augments; i++) {
        struct gw_config config = {0};
        add_augment(&config, augments[i].augment);
        refuse(&config, augments[i].inside);
    }
    for (size_t i = 0; i < sizeof normals / sizeof *normals; i++) {
        struct gw_config config = {.data.normalize = normals[i].list};
        refuse(&config, normals[i].inside);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(epochs_are_permutations),
        cmocka_unit_test(split_batches_equal_whole_ones),
        cmocka_unit_test(evaluation_is_plain),
        cmocka_unit_test(crop_and_flip_against_a_naive_reference),
        cmocka_unit_test(floats_are_cropped_like_bytes),
        cmocka_unit_test(flip_alone_moves_nothing_else),
        cmocka_unit_test(normalisation_values),
        cmocka_unit_test(wrong_settings_are_refused),
    };
    return cmocka_run_group_tests_name("dataset_batch", tests, NULL, NULL);
}
