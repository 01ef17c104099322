dnl proto: the job file, the typed messages, checksums.
GW_NEED([LIBCONFIG], [libconfig >= 1.5], [libconfig-dev], [reading job files])
GW_NEED([PROTOBUF_C], [libprotobuf-c >= 1.4.1], [libprotobuf-c-dev], [the control messages])
GW_NEED([ISAL], [libisal >= 2.30], [libisal-dev], [CRC32C at memory speed])
GW_NEED([CRYPTO], [libcrypto >= 3.0], [libssl-dev], [SHA-256])
AC_CHECK_PROG([PROTOC_C], [protoc-c], [protoc-c])
AS_IF([test -z "$PROTOC_C"],
  [AC_MSG_ERROR([protoc-c is missing: it makes the control messages. On Debian or Ubuntu: apt-get install protobuf-c-compiler])])
