/* Users that may read the files of a job, in the order of the words of
   checkpoint.access and log.access. */
#ifndef GW_PROTO_ACCESS_H
#define GW_PROTO_ACCESS_H

enum gw_access {
    GW_ACCESS_PRIVATE, /* the user of the job */
    GW_ACCESS_UMASK    /* everybody that the umask permits */
};

#endif
