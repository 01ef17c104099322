/* Data that simulated jobs train on: each class a pattern with noise over it.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "proto/random.h"
#include "tests/sim/cluster.h"

#define SAMPLES 300
#define SIDE    28
#define PIXELS  (SIDE * SIDE)

static char data_dir[64];

static void write_file(const char *name, const uint8_t *bytes, size_t n)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", data_dir, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    fclose(file);
}

static void draw_image(uint8_t *pixels, uint8_t class, uint32_t id)
{
    for (uint32_t p = 0; p < PIXELS; p++) {
        uint32_t pattern[4], noise[4];
        gw_random4(1, GW_RANDOM_TEST, class, p / 16, pattern);
        gw_random4(2, GW_RANDOM_TEST, id, p, noise);
        pixels[p] = (uint8_t)(pattern[0] % 128 + noise[0] % 128);
    }
}

static void
write_part(const char *images_name, const char *labels_name, uint32_t first_id)
{
    static uint8_t images[16 + SAMPLES * PIXELS], labels[8 + SAMPLES];
    const uint8_t image_head[16] = {
        0, 0, 8,    3, 0, 0, SAMPLES >> 8, SAMPLES & 255, 0,
        0, 0, SIDE, 0, 0, 0, SIDE};
    const uint8_t label_head[8] = {
        0, 0, 8, 1, 0, 0, SAMPLES >> 8, SAMPLES & 255};
    memcpy(images, image_head, sizeof image_head);
    memcpy(labels, label_head, sizeof label_head);
    for (uint32_t i = 0; i < SAMPLES; i++) {
        uint32_t draw[4];
        gw_random4(3, GW_RANDOM_TEST, first_id, i, draw);
        labels[8 + i] = (uint8_t)(draw[0] % 10);
        draw_image(images + 16 + (size_t)i * PIXELS, labels[8 + i],
                   first_id + i);
    }
    write_file(images_name, images, sizeof images);
    write_file(labels_name, labels, sizeof labels);
}

static const char *const names[] = {
    "train-images-idx3-ubyte", "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};

static void remove_data(void)
{
    char path[512];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", data_dir, names[i]);
        unlink(path);
    }
    rmdir(data_dir);
}

const char *cluster_data_dir(void)
{
    if (data_dir[0])
        return data_dir;
    strcpy(data_dir, "/tmp/gradweir-test-XXXXXX");
    assert_non_null(mkdtemp(data_dir));
    atexit(remove_data);
    write_part(names[0], names[1], 0);
    write_part(names[2], names[3], SAMPLES);
    return data_dir;
}
