/* worker/data/feed: batches that are filled while a device computes. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "tests/unit/data_bytes.h"
#include "worker/data/feed.h"

#define SAMPLES 120
#define SIDE    30
#define PIXELS  (SIDE * SIDE)
#define BATCH   110 /* more than a piece, in bytes */

static struct bytes first, second;
static float wanted[BATCH * PIXELS];
static int32_t wanted_labels[BATCH];

struct subject {
    struct gw_backend_ops ops; /* the cpu's, as a device of its own memory */
    struct gw_device *device;
    struct gw_dataset *data;
    struct gw_feed feed;
};

static int set_up(void **state)
{
    static struct subject subject;
    struct gw_config config = {0};
    struct gw_error error = {.text = ""};
    const struct gw_device_options options = {.threads = 1};
    subject.ops = *gw_backend_find("cpu", &error);
    subject.ops.on_host = 0;
    bytes_idx_images(&first, SAMPLES, SIDE, SIDE);
    bytes_idx_labels(&second, SAMPLES);
    if (bytes_open(&config, &gw_data_idx, &first, &second, &subject.data,
                   &error) ||
        subject.ops.open(&options, &subject.device, &error) ||
        gw_feed_open(&subject.feed, &subject.ops, subject.device,
                     gw_dataset_shape(subject.data), BATCH, &error))
        fail_msg("%s", error.text);
    *state = &subject;
    return 0;
}

static int tear_down(void **state)
{
    struct subject *subject = *state;
    gw_feed_close(&subject->feed);
    subject->ops.close(subject->device);
    gw_dataset_close(subject->data);
    return 0;
}

static struct gw_batch_site site_at(uint64_t at, size_t n)
{
    return (struct gw_batch_site){.seed = 3, .first = at, .n = n, .train = 1};
}

static void wants(const struct subject *subject,
                  const struct gw_batch_site *site)
{
    const struct gw_feed *feed = &subject->feed;
    gw_dataset_batch(subject->data, site, wanted, wanted_labels);
    assert_memory_equal(feed->x, wanted, site->n * PIXELS * sizeof(float));
    assert_memory_equal(feed->labels, wanted_labels,
                        site->n * sizeof *wanted_labels);
}

static void what_was_filled_ahead_is_loaded(void **state)
{
    struct subject *s = *state;
    const struct gw_batch_site now = site_at(0, BATCH), next = site_at(7, 105);
    int pieces = 1;
    gw_feed_load(&s->feed, s->data, &now);
    while (gw_feed_ahead(&s->feed, s->data, &next))
        pieces++;
    assert_in_range(pieces, 2, BATCH);
    assert_false(gw_feed_ahead(&s->feed, s->data, &next));
    wants(s, &now);
    /* it is not filled again */
    float *ahead = s->feed.side[!s->feed.front].x;
    gw_dataset_batch(s->data, &next, wanted, wanted_labels);
    assert_memory_equal(ahead, wanted, next.n * PIXELS * sizeof(float));
    ahead[104 * PIXELS] = -1;
    gw_feed_load(&s->feed, s->data, &next);
    assert_true(s->feed.x[104 * PIXELS] == -1);
}

static void what_is_half_filled_is_filled_up(void **state)
{
    struct subject *s = *state;
    const struct gw_batch_site now = site_at(0, 3), next = site_at(3, BATCH);
    gw_feed_load(&s->feed, s->data, &now);
    assert_true(gw_feed_ahead(&s->feed, s->data, &next));
    gw_feed_load(&s->feed, s->data, &next);
    wants(s, &next);
}

static void what_comes_may_be_another(void **state)
{
    struct subject *s = *state;
    const struct gw_batch_site now = site_at(0, 3), guess = site_at(3, BATCH),
                               other = site_at(4, BATCH);
    gw_feed_load(&s->feed, s->data, &now);
    gw_feed_ahead(&s->feed, s->data, &guess);
    gw_feed_load(&s->feed, s->data, &other);
    wants(s, &other);
    gw_feed_load(&s->feed, s->data, &guess);
    wants(s, &guess);
}

static void on_the_cpu_nothing_is_filled_ahead(void **state)
{
    struct subject *s = *state;
    const struct gw_batch_site next = site_at(0, BATCH);
    s->ops.on_host = 1;
    assert_false(gw_feed_ahead(&s->feed, s->data, &next));
    s->ops.on_host = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_was_filled_ahead_is_loaded, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_is_half_filled_is_filled_up,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_comes_may_be_another, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(on_the_cpu_nothing_is_filled_ahead,
                                        set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
