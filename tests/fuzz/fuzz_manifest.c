/*
 * Manifests from anyone, as they are and with their digest put right: what is
 * taken comes back the same when it is printed and read again.
 */
#include "config.h"

#include "tests/fuzz/fuzz.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "proto/digest.h"
#include "server/checkpoint/manifest.h"

static void read_manifest(const char *text, size_t n)
{
    struct gw_manifest manifest, again;
    struct gw_error error = {.text = ""};
    enum gw_status status =
        gw_manifest_parse("manifest.json", text, n, &manifest, &error);
    if (status != GW_OK) {
        FUZZ_PROMISE(strstr(error.text, "manifest.json") ||
                     status == GW_ENOMEM);
        FUZZ_PROMISE(!strchr(error.text, '\n'));
        return;
    }
    for (size_t i = 0; i < manifest.n_files; i++)
        FUZZ_PROMISE(!strchr(manifest.files[i].name, '/'));
    char *printed = gw_manifest_print(&manifest);
    FUZZ_PROMISE(printed != NULL);
    status =
        gw_manifest_parse("again", printed, strlen(printed), &again, &error);
    FUZZ_PROMISE(status == GW_OK);
    FUZZ_PROMISE(again.n_keys == manifest.n_keys &&
                 again.n_files == manifest.n_files &&
                 again.n_ranks == manifest.n_ranks &&
                 again.state.clock == manifest.state.clock);
    gw_manifest_free(&again);
    gw_manifest_free(&manifest);
    free(printed);
}

/* The input as the body of a manifest whose digest holds. */
static char *around(const char *body_text, size_t n)
{
    char hex[2 * GW_DIGEST_BYTES + 1];
    uint8_t out[GW_DIGEST_BYTES];
    char *text = NULL;
    json_t *body = json_loadb(body_text, n, JSON_REJECT_DUPLICATES, NULL);
    char *compact = body ? json_dumps(body, JSON_COMPACT) : NULL;
    if (compact) {
        struct gw_digest *digest = gw_digest_begin();
        gw_digest_add(digest, compact, strlen(compact));
        gw_digest_end(digest, out);
        gw_digest_hex(out, hex);
        json_t *whole = json_pack("{s:O, s:s}", "body", body, "sha256", hex);
        text = whole ? json_dumps(whole, JSON_COMPACT) : NULL;
        json_decref(whole);
    }
    free(compact);
    json_decref(body);
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const char *text = (const char *)data;
    read_manifest(text, n);
    char *whole = around(text, n);
    if (whole)
        read_manifest(whole, strlen(whole));
    free(whole);
    return 0;
}
