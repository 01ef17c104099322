/* worker/data/dataset: data sets from files, and what their names stand for. */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <cmocka.h>

#include "tests/unit/data_bytes.h"

#define SAMPLES 7
#define SIDE    5
#define FASHION "/usr/share/datasets/fashion-mnist"

static char dir[64] = "/tmp/gradweir-dataset-XXXXXX";
static struct bytes plain, packed;

static int make_dir(void **state)
{
    (void)state;
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -r '%s'", dir);
    return system(command);
}

static const char *path_of(const char *name)
{
    static char path[2][128];
    static int turn;
    turn ^= 1;
    snprintf(path[turn], sizeof path[turn], "%s/%s", dir, name);
    return path[turn];
}

static void save(const char *name, const struct bytes *bytes)
{
    FILE *file = fopen(path_of(name), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes->at, 1, bytes->n, file), bytes->n);
    assert_int_equal(fclose(file), 0);
}

static void add_name(struct gw_path_list *list, const char *path)
{
    assert_true(gw_path_add(list, path));
}

static struct gw_dataset *open_set(const struct gw_config *config,
                                   enum gw_dataset_part part)
{
    struct gw_dataset *set = NULL;
    struct gw_error error = {.text = ""};
    if (gw_dataset_open(config, part, &set, &error) != GW_OK)
        fail_msg("%s", error.text);
    return set;
}

static void assert_digest(const struct gw_config *config, char hex[65])
{
    struct gw_dataset *set = open_set(config, GW_DATASET_TRAIN);
    uint8_t digest[GW_DIGEST_BYTES];
    gw_dataset_digest(set, digest);
    gw_digest_hex(digest, hex);
    gw_dataset_close(set);
}

static void refuse(const struct gw_config *config,
                   enum gw_dataset_part part,
                   enum gw_status status,
                   const char *begin,
                   const char *inside)
{
    struct gw_dataset *set = NULL;
    struct gw_error error = {.text = ""};
    assert_int_equal(gw_dataset_open(config, part, &set, &error), status);
    assert_null(set);
    if (strncmp(error.text, begin, strlen(begin)) != 0 ||
        !strstr(error.text, inside))
        fail_msg("\"%s\" does not begin with \"%s\" or lacks \"%s\"",
                 error.text, begin, inside);
    assert_null(strchr(error.text, '\n'));
}

static void save_idx(const char *prefix, int gzipped)
{
    char name[128];
    const char *end = gzipped ? ".gz" : "";
    bytes_idx_images(&plain, SAMPLES, SIDE, SIDE);
    bytes_gzip(&packed, &plain);
    snprintf(name, sizeof name, "%s-images-idx3-ubyte%s", prefix, end);
    save(name, gzipped ? &packed : &plain);
    bytes_idx_labels(&plain, SAMPLES);
    bytes_gzip(&packed, &plain);
    snprintf(name, sizeof name, "%s-labels-idx1-ubyte%s", prefix, end);
    save(name, gzipped ? &packed : &plain);
}

/* Values of the samples as they lie in the files, labels too. */
static void assert_values(const struct gw_dataset *set, size_t n, size_t values)
{
    static float x[SAMPLES * 3072];
    int32_t labels[SAMPLES];
    struct gw_batch_site site = {.n = n};
    gw_dataset_batch(set, &site, x, labels);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(labels[i], bytes_label(i));
        for (size_t k = 0; k < values; k++) {
            float wanted = (float)bytes_pixel(i, k) / 255.0f;
            assert_memory_equal(&x[i * values + k], &wanted, sizeof wanted);
        }
    }
}

static void idx_by_files_and_by_prefix(void **state)
{
    (void)state;
    struct gw_config two = {.data.format = GW_DATA_IDX};
    struct gw_config prefix = two, gzipped = two;
    char hex[3][65];
    save_idx("plain", 0);
    save_idx("packed", 1);
    add_name(&two.data.train, path_of("plain-images-idx3-ubyte"));
    add_name(&two.data.train, path_of("plain-labels-idx1-ubyte"));
    add_name(&prefix.data.train, path_of("plain"));
    add_name(&gzipped.data.train, path_of("packed"));
    assert_digest(&two, hex[0]);
    assert_digest(&prefix, hex[1]);
    assert_digest(&gzipped, hex[2]);
    assert_string_equal(hex[0], hex[1]);
    assert_string_equal(hex[0], hex[2]);

    struct gw_dataset *set = open_set(&gzipped, GW_DATASET_TRAIN);
    const struct gw_dataset_shape *shape = gw_dataset_shape(set);
    assert_int_equal(shape->samples, SAMPLES);
    assert_int_equal(shape->channels, 1);
    assert_int_equal(shape->height, SIDE);
    assert_int_equal(shape->width, SIDE);
    assert_int_equal(shape->classes, 10);
    assert_values(set, SAMPLES, SIDE * SIDE);
    gw_dataset_close(set);
}

static void npy_is_the_same_set_as_idx(void **state)
{
    (void)state;
    struct gw_config npy = {.data.format = GW_DATA_NPY};
    struct gw_config idx = {.data.format = GW_DATA_IDX};
    char hex[2][65];
    bytes_npy_x(&plain, SAMPLES, SIDE, SIDE);
    save("x.npy", &plain);
    bytes_npy_y(&plain, SAMPLES);
    save("y.npy", &plain);
    save_idx("same", 0);
    add_name(&npy.data.train, path_of("x.npy"));
    add_name(&npy.data.train, path_of("y.npy"));
    add_name(&idx.data.train, path_of("same"));
    assert_digest(&npy, hex[0]);
    assert_digest(&idx, hex[1]);
    assert_string_equal(hex[0], hex[1]);
}

static void cifar_by_files_and_by_directory(void **state)
{
    (void)state;
    struct gw_config files = {.data.format = GW_DATA_CIFAR10};
    struct gw_config folder = files;
    char name[32], hex[2][65];
    for (size_t f = 0, first = 0; f < 5; f++) {
        size_t n = f == 0 || f == 4 ? 2 : 1; /* 0 1, 2, 3, 4, 5 6 */
        snprintf(name, sizeof name, "data_batch_%zu.bin", f + 1);
        bytes_cifar(&plain, n, first);
        save(name, &plain);
        add_name(&files.data.train, path_of(name));
        first += n;
    }
    bytes_cifar(&plain, 2, 0);
    save("test_batch.bin", &plain);
    add_name(&folder.data.train, dir);
    add_name(&folder.data.test, dir);
    assert_digest(&files, hex[0]);
    assert_digest(&folder, hex[1]);
    assert_string_equal(hex[0], hex[1]);

    struct gw_dataset *set = open_set(&folder, GW_DATASET_TRAIN);
    assert_int_equal(gw_dataset_shape(set)->samples, 7);
    assert_int_equal(gw_dataset_shape(set)->channels, 3);
    assert_int_equal(gw_dataset_shape(set)->height, 32);
    assert_values(set, 7, 3072);
    gw_dataset_close(set);
    set = open_set(&folder, GW_DATASET_TEST);
    assert_int_equal(gw_dataset_shape(set)->samples, 2);
    assert_values(set, 2, 3072);
    gw_dataset_close(set);
}

static void wrong_names_are_refused(void **state)
{
    (void)state;
    struct gw_config config = {.data.format = GW_DATA_IDX};
    struct gw_path_list *train = &config.data.train;
    refuse(&config, GW_DATASET_TRAIN, GW_EUSAGE, "data.train: ", "0 files");
    refuse(&config, GW_DATASET_TEST, GW_EUSAGE, "data.test: ", "0 files");
    add_name(train, path_of("none"));
    refuse(&config, GW_DATASET_TRAIN, GW_ENOENT, "data.train: ",
           "none-images-idx3-ubyte: is not there, nor with .gz");
    add_name(train, path_of("none"));
    refuse(&config, GW_DATASET_TRAIN, GW_ENOENT,
           "data.train: ", "none: cannot be opened: No such file");
    add_name(train, "third");
    refuse(&config, GW_DATASET_TRAIN, GW_EUSAGE, "data.train: ", "3 files");

    train->n = 0;
    add_name(train, dir);
    add_name(train, dir);
    refuse(&config, GW_DATASET_TRAIN, GW_EIO,
           "data.train: ", "is not a regular file");
    plain.n = 0;
    save("empty", &plain);
    train->n = 0;
    add_name(train, path_of("empty"));
    add_name(train, path_of("empty"));
    refuse(&config, GW_DATASET_TRAIN, GW_ECORRUPT, "data.train: ", "is empty");

    save_idx("half", 1); /* inflated: a leak would be seen */
    train->n = 0;
    add_name(train, path_of("half-images-idx3-ubyte.gz"));
    add_name(train, path_of("none"));
    refuse(&config, GW_DATASET_TRAIN, GW_ENOENT,
           "data.train: ", "none: cannot be opened: No such file");

    config.data.format = GW_DATA_NPY;
    train->n = 1;
    refuse(&config, GW_DATASET_TRAIN, GW_EUSAGE, "data.train: ", "takes two");
    config.data.format = GW_DATA_CIFAR10;
    refuse(&config, GW_DATASET_TEST, GW_EUSAGE, "data.test: ", "no file");
    add_name(&config.data.test, path_of("no-such-folder"));
    refuse(&config, GW_DATASET_TEST, GW_ENOENT,
           "data.test: ", "no-such-folder: cannot be opened");
}

static void a_pipe_is_refused_at_once(void **state)
{
    (void)state;
    struct gw_config config = {.data.format = GW_DATA_CIFAR10};
    assert_int_equal(mkfifo(path_of("pipe"), 0600), 0);
    add_name(&config.data.train, path_of("pipe"));
    refuse(&config, GW_DATASET_TRAIN, GW_EIO,
           "data.train: ", "is not a regular file");
}

/* Files that numpy wrote (tests/reference/data.py): x = 0, 1, 2, ... */
static void numpy_files(void **state)
{
    (void)state;
    static const struct {
        const char *x, *y;
        size_t channels, height, width;
        float scale;
    } sets[] = {
        {"x_u8_4d.npy", "y_i64.npy", 2, 3, 4, 1.0f / 255.0f},
        {"x_f32_2d.npy", "y_i32.npy", 1, 1, 24, 1.0f},
        {"x_f32_v2.npy", "y_u8.npy", 1, 6, 4, 1.0f},
    };
    for (size_t s = 0; s < sizeof sets / sizeof *sets; s++) {
        struct gw_config config = {.data.format = GW_DATA_NPY};
        char path[2][GW_STRING_MAX];
        float x[5 * 24];
        int32_t labels[5];
        snprintf(path[0], sizeof path[0], "%s/tests/reference/%s",
                 getenv("GW_SRCDIR"), sets[s].x);
        snprintf(path[1], sizeof path[1], "%s/tests/reference/%s",
                 getenv("GW_SRCDIR"), sets[s].y);
        add_name(&config.data.train, path[0]);
        add_name(&config.data.train, path[1]);
        struct gw_dataset *set = open_set(&config, GW_DATASET_TRAIN);
        assert_int_equal(gw_dataset_shape(set)->samples, 5);
        assert_int_equal(gw_dataset_shape(set)->channels, sets[s].channels);
        assert_int_equal(gw_dataset_shape(set)->height, sets[s].height);
        assert_int_equal(gw_dataset_shape(set)->width, sets[s].width);
        assert_int_equal(gw_dataset_shape(set)->classes, 6);
        struct gw_batch_site site = {.n = 5};
        gw_dataset_batch(set, &site, x, labels);
        for (int i = 0; i < 5 * 24; i++)
            assert_true(fabsf(x[i] - (float)i * sets[s].scale) < 1e-6f);
        for (int i = 0; i < 5; i++)
            assert_int_equal(labels[i], 5 - i);
        gw_dataset_close(set);
    }
}

/* Counts, mean and deviation as they are published for Fashion-MNIST. */
static void fashion_mnist(void **state)
{
    (void)state;
    static const struct {
        enum gw_dataset_part part;
        size_t samples;
    } parts[] = {{GW_DATASET_TRAIN, 60000}, {GW_DATASET_TEST, 10000}};
    static float x[100 * 784];
    struct gw_config config = {.data.format = GW_DATA_IDX};
    if (access(FASHION "/train-images-idx3-ubyte.gz", R_OK) != 0) {
        print_message("# " FASHION " is not installed "
                      "(apt-get install dataset-fashion-mnist)\n");
        skip();
    }
    add_name(&config.data.train, FASHION "/train");
    add_name(&config.data.test, FASHION "/t10k");
    for (size_t p = 0; p < 2; p++) {
        struct gw_dataset *set = open_set(&config, parts[p].part);
        size_t histogram[10] = {0};
        double sum = 0, square = 0;
        assert_int_equal(gw_dataset_shape(set)->samples, parts[p].samples);
        assert_int_equal(gw_dataset_shape(set)->height, 28);
        assert_int_equal(gw_dataset_shape(set)->width, 28);
        assert_int_equal(gw_dataset_shape(set)->classes, 10);
        struct gw_batch_site site = {.n = 100};
        for (; site.first < parts[p].samples; site.first += site.n) {
            int32_t labels[100];
            gw_dataset_batch(set, &site, x, labels);
            for (size_t i = 0; i < site.n; i++)
                histogram[labels[i]]++;
            for (size_t k = 0; k < site.n * 784; k++) {
                sum += (double)x[k];
                square += (double)x[k] * (double)x[k];
            }
        }
        double values = 784.0 * (double)parts[p].samples;
        double mean = sum / values;
        for (int c = 0; c < 10; c++)
            assert_int_equal(histogram[c], parts[p].samples / 10);
        if (parts[p].part == GW_DATASET_TRAIN) {
            assert_true(fabs(mean - 0.2860) < 5e-5);
            assert_true(fabs(sqrt(square / values - mean * mean) - 0.3530) <
                        5e-5);
        }
        gw_dataset_close(set);
    }
}

/* 6000 images of 28 x 28 and their labels, gzipped: too large to be unpacked
   for a look. */
static void save_large(const char *prefix, uint32_t cut)
{
    static uint8_t images[16 + 6000 * 784], labels[8 + 6000];
    const uint8_t heads[2][16] = {
        {0, 0, 8, 3, 0, 0, 6000 >> 8, 6000 & 255, 0, 0, 0, 28, 0, 0, 0, 28},
        {0, 0, 8, 1, 0, 0, 6000 >> 8, 6000 & 255}};
    char path[GW_STRING_MAX + 64];
    for (size_t i = 0; i < sizeof images; i++)
        images[i] = (uint8_t)(i * i >> 7);
    for (size_t i = 0; i < sizeof labels; i++)
        labels[i] = (uint8_t)(i % 10);
    memcpy(images, heads[0], 16);
    memcpy(labels, heads[1], 8);
    snprintf(path, sizeof path, "%s-images-idx3-ubyte.gz", path_of(prefix));
    gzFile file = gzopen(path, "wb");
    assert_int_equal(gzwrite(file, images, sizeof images - cut),
                     sizeof images - cut);
    gzclose(file);
    snprintf(path, sizeof path, "%s-labels-idx1-ubyte.gz", path_of(prefix));
    file = gzopen(path, "wb");
    assert_int_equal(gzwrite(file, labels, sizeof labels), sizeof labels);
    gzclose(file);
}

static void a_look_sees_what_opening_does(void **state)
{
    struct gw_config config = {.data.format = GW_DATA_IDX};
    struct gw_dataset *seen = NULL, *set;
    struct gw_error error;
    (void)state;
    save_large("large", 0);
    add_name(&config.data.train, path_of("large"));
    set = open_set(&config, GW_DATASET_TRAIN);
    assert_int_equal(gw_dataset_look(&config, GW_DATASET_TRAIN, &seen, &error),
                     GW_OK);
    assert_memory_equal(gw_dataset_shape(seen), gw_dataset_shape(set),
                        sizeof *gw_dataset_shape(set));
    struct gw_dataset_bytes a = gw_dataset_bytes(seen);
    struct gw_dataset_bytes b = gw_dataset_bytes(set);
    assert_int_equal(a.held, b.held);
    assert_int_equal(b.held, 16 + 6000 * 784 + 8 + 6000 + 4 * 6000);
    assert_int_equal(b.mapped, 0);
    assert_int_equal(a.opening, b.opening);
    assert_true(b.opening > 16 + 6000 * 784);
    gw_dataset_close(seen);
    gw_dataset_close(set);
    /* what is behind the head is not looked at, and told by who opens it */
    save_large("cut", 100);
    config.data.train.n = 0;
    add_name(&config.data.train, path_of("cut"));
    assert_int_equal(gw_dataset_look(&config, GW_DATASET_TRAIN, &seen, &error),
                     GW_OK);
    gw_dataset_close(seen);
    assert_int_equal(gw_dataset_open(&config, GW_DATASET_TRAIN, &set, &error),
                     GW_ECORRUPT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(idx_by_files_and_by_prefix),
        cmocka_unit_test(npy_is_the_same_set_as_idx),
        cmocka_unit_test(cifar_by_files_and_by_directory),
        cmocka_unit_test(wrong_names_are_refused),
        cmocka_unit_test(a_pipe_is_refused_at_once),
        cmocka_unit_test(a_look_sees_what_opening_does),
        cmocka_unit_test(numpy_files),
        cmocka_unit_test(fashion_mnist),
    };
    return cmocka_run_group_tests_name("dataset", tests, make_dir, remove_dir);
}
