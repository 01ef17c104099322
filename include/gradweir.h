/*
 * libgradweir: the calls by which a program trains through gradweir's servers.
 * C99 and C++; every name begins with gradweir_ or GRADWEIR_.
 */
#ifndef GRADWEIR_H
#define GRADWEIR_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define GRADWEIR_API __attribute__((visibility("default")))
#else
#define GRADWEIR_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the library: "0.1.0". Thread: any. */
GRADWEIR_API const char *gradweir_version(void);

#ifdef __cplusplus
}
#endif

#endif
