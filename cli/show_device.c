/* The workers' device in the first lines of a job. */
#include "config.h"

#include "cli/show.h"

#include <stdio.h>
#include <string.h>

#include "cli/child_run.h"
#include "kernels/kernels.h"

#define PATIENCE_S 10 /* for the driver; members cannot join meanwhile */

/* Shortens "no cuda: no driver is here (no libcuda.so.1)". */
static void shorten(char *why)
{
    char *colon = strchr(why, ':'), *rest = strrchr(why, '(');
    size_t n = strlen(why);
    if (colon)
        *colon = ',';
    if (rest && rest > why && why[n - 1] == ')')
        rest[-1] = '\0';
}

static enum gw_status choose(const void *owner, struct gw_error *said)
{
    const struct gw_config *config = owner;
    struct gw_backend_choice choice;
    enum gw_status status =
        gw_backend_choose(config->worker.device, &choice, said);
    if (status != GW_OK)
        return status;
    shorten(choice.why);
    if (choice.why[0])
        snprintf(said->text, sizeof said->text, "%s (auto: %.400s)",
                 choice.ops->name, choice.why);
    else
        snprintf(said->text, sizeof said->text,
                 "%s (auto: the first that works here)", choice.ops->name);
    return GW_OK;
}

void gw_show_device(const struct gw_config *config,
                    char text[GW_SHOW_DEVICE_MAX])
{
    const char *name = config->worker.device;
    struct gw_error said = {.text = ""};
    text[0] = '\0';
    if (config->train.arithmetic == GW_ARITHMETIC_NONE)
        return;
    if (strcmp(name, gw_device_kind_name(GW_DEVICE_AUTO)) != 0)
        snprintf(text, GW_SHOW_DEVICE_MAX, "%s (worker.device says so)", name);
    else if (gw_child_run(choose, config, PATIENCE_S, &said) == GW_OK)
        snprintf(text, GW_SHOW_DEVICE_MAX, "%s", said.text);
    else if (said.status == GW_ETIMEOUT)
        snprintf(text, GW_SHOW_DEVICE_MAX,
                 "not known: the GPU's driver gives %.64s", said.text);
}
