/* gradweir --version: optional parts of this build, library versions, and
   support by this machine. */
#include "config.h"

#include "cli/cli.h"

#include <isa-l.h>
#include <jansson.h>
#include <libconfig.h>
#include <openssl/crypto.h>
#include <protobuf-c/protobuf-c.h>
#include <stdio.h>
#include <uv.h>
#include <zlib.h>

#include "cli/host/pin_host.h"
#include "kernels/kernels.h"
#include "kernels/update/update.h"
#include "proto/wire.h"
#include "transport/link/transport.h"

#define COLUMN "%-14s "

static void print_libraries(void)
{
    printf(COLUMN "libuv %s, libconfig %d.%d.%d, protobuf-c %s, jansson %s, "
                  "zlib %s, isa-l %d.%d.%d, OpenSSL %s\n",
           "libraries", uv_version_string(), LIBCONFIG_VER_MAJOR,
           LIBCONFIG_VER_MINOR, LIBCONFIG_VER_REVISION, protobuf_c_version(),
           jansson_version_str(), zlibVersion(), ISAL_MAJOR_VERSION,
           ISAL_MINOR_VERSION, ISAL_PATCH_VERSION,
           OpenSSL_version(OPENSSL_VERSION_STRING));
}

static void print_transports(void)
{
    printf(COLUMN, "transports");
    for (size_t i = 0; gw_transports[i]; i++) {
        char why[256];
        printf("%s%s", i ? ", " : "", gw_transports[i]->name);
        if (gw_transports[i]->probe(why, sizeof why))
            printf(" (not here: %s)", why);
    }
    putchar('\n');
}

static void print_device(const char *name, const struct gw_backend_ops *backend)
{
    const struct gw_device_options options = {.threads = 1};
    struct gw_device *device;
    struct gw_error error;
    char text[256];
    if (backend->open(&options, &device, &error) != GW_OK) {
        printf("%s (not here: %s)", name, error.text);
        return;
    }
    backend->describe(device, text, sizeof text);
    printf("%s (%s)", name, text);
    backend->close(device);
}

static void print_devices(void)
{
    char why[GW_WHY_BYTES];
    printf(COLUMN, "devices");
    for (size_t i = 0; i < gw_backend_count(); i++) {
        const char *name = gw_backend_name(i);
        printf("%s", i ? ", " : "");
        const struct gw_backend_ops *backend =
            gw_backend_get(i, why, sizeof why);
        if (backend)
            print_device(name, backend);
        else
            printf("%s (not here: %s)", name, why);
    }
    putchar('\n');
}

static void print_cores(void)
{
    printf(COLUMN "%s\n", "cores", gw_pin_library);
}

static void print_optimizers(void)
{
    printf(COLUMN, "optimizers");
    for (size_t i = 0; gw_optimizers[i]; i++)
        printf("%s%s", i ? ", " : "", gw_optimizers[i]->name);
    printf(" (%s)\n", gw_update_isa());
}

void gw_cli_print_version(void)
{
    printf("%s\n", PACKAGE_STRING);
    printf(COLUMN "%d\n", "wire protocol", GW_WIRE_VERSION);
    print_transports();
    print_devices();
    print_cores();
    print_optimizers();
    print_libraries();
    printf(COLUMN "%s\n", "compiler", __VERSION__);
}
