/* Users who may read the files that a job makes. In the order of the words of
   checkpoint.access and log.access. */
#ifndef GW_PROTO_ACCESS_H
#define GW_PROTO_ACCESS_H

enum gw_access {
    GW_ACCESS_PRIVATE, /* the user whose job it is */
    GW_ACCESS_UMASK    /* whom the umask leaves it to */
};

#endif
