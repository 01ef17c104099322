/*
 * The order in which workers take a host's GPUs. GPUs that are linked (NVLink),
 * directly or through others, form an island; if workers are fewer than GPUs,
 * they should share an island. Private to kernels/.
 */
#ifndef GW_KERNELS_ISLANDS_H
#define GW_KERNELS_ISLANDS_H

/*
 * order[n] gets the devices below n: an island's devices follow each other in
 * ascending order, islands are ordered by their first device. So it is 0, 1, ..
 * if all are linked, or none. linked() is symmetric.
 */
void gw_islands_order(unsigned n,
                      int (*linked)(unsigned one, unsigned other),
                      unsigned *order);

#endif
