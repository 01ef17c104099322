/*
 * Job files and --set from anyone: nothing crashes, and what is taken comes
 * back the same when it is printed and read again.
 */
#include "config.h"

#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "proto/config.h"

/* libconfig drops strings that it has read when a syntax error follows. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libconfig.so\n";
}

static char *print(const struct gw_config *config)
{
    size_t bytes = gw_config_print(config, 0, NULL, 0) + 1;
    char *text = malloc(bytes);
    if (text)
        FUZZ_PROMISE(gw_config_print(config, 0, text, bytes) + 1 == bytes);
    return text;
}

static void prints_and_parses(const struct gw_config *config)
{
    struct gw_error error;
    struct gw_config *again = malloc(sizeof *again);
    char *text = print(config), *second = NULL;
    if (!again || !text || strlen(text) > GW_JOB_TEXT_MAX)
        goto done;
    gw_config_default(again);
    FUZZ_PROMISE(gw_config_parse(again, "printed", text, &error) == GW_OK);
    second = print(again);
    FUZZ_PROMISE(!second || strcmp(text, second) == 0);
    FUZZ_PROMISE(gw_config_hash(config) == gw_config_hash(again));

done:
    free(second);
    free(text);
    free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct gw_error error;
    char *text = malloc(n + 1);
    struct gw_config *config = malloc(sizeof *config);
    if (!text || !config)
        goto done;
    memcpy(text, data, n);
    text[n] = '\0';

    gw_config_default(config);
    if (!gw_config_parse(config, "job.cfg", text, &error)) {
        gw_config_check(config, &error);
        prints_and_parses(config);
    }
    gw_config_default(config);
    if (!gw_config_set(config, text, &error))
        prints_and_parses(config);

done:
    free(config);
    free(text);
    return 0;
}
