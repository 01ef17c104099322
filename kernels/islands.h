/*
 * Which GPUs of a host are taken in which order. Those that are linked to each
 * other (NVLink), directly or by way of others, are an island; workers that are
 * fewer than GPUs had better be on one. Private to kernels/.
 */
#ifndef GW_KERNELS_ISLANDS_H
#define GW_KERNELS_ISLANDS_H

/*
 * order[n] gets the devices below n, those of an island one after the other, as
 * they are counted; islands in the order of their first ones. So it is 0, 1, ..
 * where all are linked, and where none is. linked() is symmetric.
 */
void gw_islands_order(unsigned n,
                      int (*linked)(unsigned one, unsigned other),
                      unsigned *order);

#endif
