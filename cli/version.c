/* gradweir --version: what was built, against what. */
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

#include "proto/wire.h"

void gw_cli_print_version(void)
{
    printf("%s\n", PACKAGE_STRING);
    printf("wire protocol  %d\n", GW_WIRE_VERSION);
    printf("compiler       %s\n", __VERSION__);
    printf("libraries      libuv %s, libconfig %d.%d.%d, protobuf-c %s, "
           "jansson %s, zlib %s, isa-l %d.%d.%d, OpenSSL %s\n",
           uv_version_string(), LIBCONFIG_VER_MAJOR, LIBCONFIG_VER_MINOR,
           LIBCONFIG_VER_REVISION, protobuf_c_version(), jansson_version_str(),
           zlibVersion(), ISAL_MAJOR_VERSION, ISAL_MINOR_VERSION,
           ISAL_PATCH_VERSION, OpenSSL_version(OPENSSL_VERSION_STRING));
}
