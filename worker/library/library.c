#include "config.h"

#include "include/gradweir.h"

const char *gradweir_version(void)
{
    return PACKAGE_VERSION;
}
