/* Files that are found in the place of data where a download went wrong. */
#include "config.h"

#include "worker/data/dataset_format.h"

#include <string.h>
#include <strings.h>

#define LFS_POINTER "version https://git-lfs.github.com/spec/"

static int begins(const uint8_t *bytes, size_t n, const char *with, size_t len)
{
    return n >= len && memcmp(bytes, with, len) == 0;
}

/* A page, perhaps behind blanks: <!DOCTYPE html>, <html>, <?xml ..>. */
static int is_page(const uint8_t *bytes, size_t n)
{
    static const char *const tags[] = {"<!doctype", "<html", "<?xml", "<head"};
    while (n > 0 && strchr(" \t\r\n\xef\xbb\xbf", *bytes) && *bytes) {
        bytes++;
        n--;
    }
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++)
        if (n >= strlen(tags[i]) &&
            strncasecmp((const char *)bytes, tags[i], strlen(tags[i])) == 0)
            return 1;
    return 0;
}

enum gw_status gw_data_check_kind(const char *name,
                                  const uint8_t *bytes,
                                  size_t n,
                                  struct gw_error *error)
{
    /* no data that is read here begins like one of these */
    static const struct {
        const char *magic;
        size_t n, at;
        const char *what;
    } kinds[] = {
        {LFS_POINTER, sizeof LFS_POINTER - 1, 0,
         "is a pointer of git-lfs and not the file; fetch that with git lfs "
         "pull"},
        {"PK\3\4", 4, 0,
         "is a zip archive (as .npz is); unpack it, and name the files in it"},
        {"\xfd"
         "7zXZ",
         5, 0, "is compressed with xz; unpack it with unxz"},
        {"BZh", 3, 0, "is compressed with bzip2; unpack it with bunzip2"},
        {"\x28\xb5\x2f\xfd", 4, 0,
         "is compressed with zstd; unpack it with unzstd"},
        {"ustar", 5, 257,
         "is a tar archive; unpack it, and name the files in it"},
        {"\x89HDF\r\n", 6, 0, "is an HDF5 file; save its arrays as npy"},
        {"\x80\x02", 2, 0,
         "is a Python pickle; get the data set's binary version, or save its "
         "arrays as npy"},
        {"\x80\x03", 2, 0, "is a Python pickle; save its arrays as npy"},
        {"\x80\x04", 2, 0, "is a Python pickle; save its arrays as npy"},
    };
    if (is_page(bytes, n))
        return gw_fail(error, GW_ECORRUPT,
                       "%s: is a page of HTML or XML, as servers send in the "
                       "place of a file; " GW_DATA_ADVICE_AGAIN,
                       name);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        /* a tar begins with the name of a file, data with another byte */
        if (n > kinds[i].at && (kinds[i].at == 0 || bytes[0] > ' ') &&
            begins(bytes + kinds[i].at, n - kinds[i].at, kinds[i].magic,
                   kinds[i].n))
            return gw_fail(error, GW_ECORRUPT, "%s: %s", name, kinds[i].what);
    return GW_OK;
}
