/*
 * The driver of a fuzz target where libFuzzer is not: feeds it every file of
 * the directories given, or of its own corpus, and prints TAP. A broken promise
 * or a crash ends the process, which the test harness reports.
 */
#include "config.h"

#include "tests/fuzz/fuzz.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INPUT_BYTES_MAX ((size_t)1 << 20)
#define PATH_BYTES      4096

/* 1: replayed, 0: not a file to read, -1: failed */
static int replay_file(const char *path)
{
    int result = -1;
    uint8_t *bytes = NULL, *input = NULL;
    FILE *file = fopen(path, "rb");
    if (!file) {
        printf("# %s cannot be opened\n", path);
        return -1;
    }
    bytes = malloc(INPUT_BYTES_MAX);
    if (!bytes)
        goto done;
    size_t n = fread(bytes, 1, INPUT_BYTES_MAX, file);
    if (ferror(file) || n == INPUT_BYTES_MAX) {
        printf("# %s cannot be read or is too long\n", path);
        goto done;
    }
    input = malloc(n + (n == 0)); /* of its size, for the sanitizers */
    if (!input)
        goto done;
    memcpy(input, bytes, n);
    LLVMFuzzerTestOneInput(input, n);
    result = 1;

done:
    free(input);
    free(bytes);
    fclose(file);
    return result;
}

/* How many files were replayed, -1 where one could not be. */
static int replay_folder(const char *folder)
{
    struct dirent **entry;
    int replayed = 0;
    int n = scandir(folder, &entry, NULL, alphasort);
    if (n < 0) {
        printf("# %s cannot be listed\n", folder);
        return -1;
    }
    for (int i = 0; i < n; i++) {
        char path[PATH_BYTES + NAME_MAX + 2];
        snprintf(path, sizeof path, "%s/%s", folder, entry[i]->d_name);
        if (entry[i]->d_name[0] != '.' && replayed >= 0)
            replayed = replay_file(path) < 0 ? -1 : replayed + 1;
        free(entry[i]);
    }
    free(entry);
    return replayed;
}

int main(int argc, char **argv)
{
    const char *name = strrchr(argv[0], '/');
    const char *source = getenv("GW_SRCDIR");
    char corpus[PATH_BYTES];
    char *folders[] = {corpus};
    name = name ? name + 1 : argv[0];
    snprintf(corpus, sizeof corpus, "%s/tests/fuzz/corpus/%s",
             source ? source : ".", name + strcspn(name, "_") + 1);

    int n = argc > 1 ? argc - 1 : 1, total = 0, failed = 0;
    for (int i = 0; i < n; i++) {
        int replayed = replay_folder(argc > 1 ? argv[1 + i] : folders[i]);
        failed |= replayed <= 0;
        total += replayed > 0 ? replayed : 0;
    }
    printf("1..1\n%s 1 - %s replays %d inputs\n", failed ? "not ok" : "ok",
           name, total);
    return failed;
}
