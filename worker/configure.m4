dnl worker: data sets may be gzipped.
GW_NEED([ZLIB], [zlib >= 1.2.11], [zlib1g-dev], [gzipped data sets])
