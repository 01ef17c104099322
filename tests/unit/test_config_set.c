/* proto/config: what --set takes, and every way to be refused. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "proto/config.h"

const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libconfig.so\n";
}

static struct gw_config config; /* large: not on the stack */

static void sets(const char *assignment)
{
    struct gw_error error;
    if (gw_config_set(&config, assignment, &error))
        fail_msg("%s: %s", assignment, error.text);
}

static void set_refused(const char *assignment, const char *line)
{
    struct gw_error error = {0};
    assert_int_equal(gw_config_set(&config, assignment, &error), GW_EUSAGE);
    assert_string_equal(error.text, line);
}

/* One wrong value in line 2 of a job file: the line must say where and what. */
static void settings_by_hand(void **state)
{
    (void)state;
    gw_config_default(&config);
    sets("train.batch=64");
    assert_int_equal(config.train.batch, 64);
    sets("train.batch= 65 ");
    assert_int_equal(config.train.batch, 65);
    sets("model.layers=[\"conv 32 5\",\"pool 2\"]");
    assert_int_equal(config.model.layers.n, 2);
    assert_string_equal(config.model.layers.item[0], "conv 32 5");
    sets("model.layers=conv 16 3, pool 2 ,10");
    assert_int_equal(config.model.layers.n, 3);
    assert_string_equal(config.model.layers.item[1], "pool 2");
    sets("model.layers=784,512,10");
    assert_string_equal(config.model.layers.item[2], "10");
    sets("model.layers=\"784\",512");
    assert_int_equal(config.model.layers.n, 2);
    sets("model.layers=");
    assert_int_equal(config.model.layers.n, 0);
    sets("data.train=/data/a=b.gz");
    assert_string_equal(gw_path_at(&config.data.train, 0), "/data/a=b.gz");
    sets("data.normalize=0.1307,0.3081");
    assert_true(config.data.normalize.item[1] == 0.3081);
    sets("cluster.policy=sync");
    sets("cluster.policy=\"sync\"");
    sets("cluster.policy=sync until 2000, local:16");
    assert_string_equal(config.cluster.policy, "sync until 2000, local:16");
    sets("cluster.policy=\"sync until 5, ssp:4\"");
    assert_string_equal(config.cluster.policy, "sync until 5, ssp:4");
    sets("log.dir=17");
    assert_string_equal(config.log.dir, "17");
    sets("log.dir=");
    assert_string_equal(config.log.dir, "");
    sets("train.loss_scale=512");
    assert_string_equal(config.train.loss_scale, "512");
    sets("train.eval_every=3 epochs");
    assert_int_equal(config.train.eval_every.n, 3);
    sets("train.eval_every=\"never\"");
    assert_int_equal(config.train.eval_every.unit, GW_NEVER);
    sets("cluster.insecure=Yes");
    assert_int_equal(config.cluster.insecure, 1);
    sets("cluster.insecure=off");
    assert_int_equal(config.cluster.insecure, 0);
    sets("optimizer.lr=1");
    assert_true(config.optimizer.lr == 1);
}

/* `name`: the key that is 0 from then on, NULL for none. */
static void displaces(const char *assignment, const char *name)
{
    uint64_t before = 0, after = 0;
    gw_config_rival(&config, assignment, &before);
    sets(assignment);
    const struct gw_config_key *rival =
        gw_config_rival(&config, assignment, &after);
    assert_int_equal(before > 0 && after == 0, name != NULL);
    if (name)
        assert_string_equal(rival->name, name);
}

static void the_later_word_wins(void **state)
{
    (void)state;
    gw_config_default(&config);
    displaces("train.epochs=5", NULL);
    displaces("train.batch=64", NULL);
    displaces("train.steps=200", "train.epochs");
    assert_int_equal(config.train.epochs, 0);
    assert_int_equal(config.train.steps, 200);
    displaces("Train.Epochs=3", "train.steps");
    assert_int_equal(config.train.epochs, 3);
    assert_int_equal(config.train.steps, 0);
    displaces("train.steps=0", NULL);
    assert_int_equal(config.train.epochs, 3);
    displaces("train.global_batch=128", "train.batch");
    displaces("train.batch= 32 ", "train.global_batch");
    assert_int_equal(config.train.global_batch, 0);
    displaces("optimizer.lr=1", NULL);
    set_refused("train.steps=many",
                "train.steps: takes a whole number, 0..1000000000000, not "
                "\"many\"");
    assert_int_equal(config.train.epochs, 3);
}

static void settings_by_hand_refused(void **state)
{
    (void)state;
    gw_config_default(&config);
    set_refused("train.batch", "train.batch: write section.key=value");
    set_refused("train.bach=1", "train.bach: no such key, the nearest is "
                                "train.batch (gradweir config lists all)");
    set_refused("train=1", "train: no such key, the nearest is data.train "
                           "(gradweir config lists all)");
    set_refused("train.batch=", "train.batch: takes a whole number, "
                                "0..1000000, not \"\"");
    set_refused("train.batch=1 2", "train.batch: takes a whole number, "
                                   "0..1000000, not \"1 2\"");
    set_refused("train.batch=0x10", "train.batch: takes a whole number, "
                                    "0..1000000, not \"0x10\"");
    set_refused("optimizer.lr=nan", "optimizer.lr: takes a number, 0..1000000, "
                                    "not \"nan\"");
    set_refused("cluster.policy=ssp",
                "cluster.policy: \"ssp\": write ssp:S with a whole number S, "
                "0..1000000");
    set_refused("policy=ssp:4", "policy: no such key, the nearest is "
                                "cluster.policy (gradweir config lists all)");
    set_refused("model.layers=784,,10", "model.layers: entry 2 is empty");
    set_refused("model.layers=(1, 2", "model.layers: cannot read (1, 2: one "
                                      "value, texts in double quotes, commas "
                                      "between the entries of a list");
    /* no way to smuggle in a second setting or a file */
    set_refused("log.dir=\"a\"; b = \"c\"",
                "log.dir: cannot read \"a\"; b = \"c\": one value, texts in "
                "double quotes, commas between the entries of a list");
    set_refused("data.train=\"a\"\n@include \"/etc/passwd\"",
                "data.train: cannot read \"a\"?@include \"/etc/passwd\": one "
                "value, texts in double quotes, commas between the entries of "
                "a list");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings_by_hand),
        cmocka_unit_test(the_later_word_wins),
        cmocka_unit_test(settings_by_hand_refused),
    };
    return cmocka_run_group_tests_name("config set", tests, NULL, NULL);
}
