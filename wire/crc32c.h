/*
 * crc32c.h: CRC-32C (Castagnoli), the checksum of record batches.
 *
 *     crc32c(0, "123456789", 9) = 0xe3069283
 *     crc32c(crc32c(0, a, n), b, m) = crc32c(0, a followed by b, n + m)
 *
 * Uses the CPU's instructions where it has them (asked at run time), about 20 bytes a nanosecond; one table
 * look-up a byte otherwise.  Any thread may call it.
 */
#ifndef WIRE_CRC32C_H
#define WIRE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

uint32_t crc32c(uint32_t crc, const void *data, size_t len);

/* The form without special instructions, for CPUs without them and for the test that compares both. */
uint32_t crc32c_software(uint32_t crc, const void *data, size_t len);

#endif
