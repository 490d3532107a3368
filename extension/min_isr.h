/*
 * min_isr.h: min.insync.replicas as it counts for a partition.  Shared by the extension, which decides who is
 * eligible, and brokerd, which lets the high watermark stand below it: both must come to the same number.
 */
#ifndef EXTENSION_MIN_ISR_H
#define EXTENSION_MIN_ISR_H

#include <stdint.h>

/* What counts when nobody has set it: with three replicas or more, one of which may be away, two copies of what
 * is acknowledged (hazards A1).  Kafka's default is 1 for any number. */
static inline int32_t
default_min_isr(int replicas)
{
	return replicas >= 3 ? 2 : 1;
}

/*
 * `configured` < 0: nobody has set it.  While the partition is reassigned the smaller one of both sizes counts, so
 * that growing from one replica to three does not stop it.  Never more than there are replicas.
 */
static inline int32_t
min_isr_of(int32_t configured, int replicas, int adding, int removing)
{
	if (configured < 0)
		configured = default_min_isr(replicas - (adding > removing ? adding : removing));
	return configured < replicas ? configured : replicas;
}

#endif
