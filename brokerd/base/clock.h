/*
 * clock.h: the three clocks.  Wall time stamps records and files; boot time (counts while the machine
 * sleeps or the process is stopped) measures timeouts and liveness.
 */
#ifndef BROKERD_BASE_CLOCK_H
#define BROKERD_BASE_CLOCK_H

#include <stdint.h>

int64_t clock_wall_ms(void); /* milliseconds since 1970-01-01 UTC */
int64_t clock_boot_ms(void); /* CLOCK_BOOTTIME, milliseconds */
int64_t clock_boot_us(void); /* CLOCK_BOOTTIME, microseconds */

#endif
