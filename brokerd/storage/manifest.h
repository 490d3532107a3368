/*
 * manifest.h: DIR/.pg_broker-manifest, all that a clean stop knows about every log, so that 10,000 of them
 * open without reading 10,000 folders.
 *
 * It belongs to one clean-shutdown marker, which holds its CRC, and goes with it at the first change.  Of
 * each log it lists, the size of the newest segment file is compared; a log that does not match is loaded
 * from its folder.  Not a format that anybody else reads: big-endian, and another version is not used.
 */
#ifndef BROKERD_STORAGE_MANIFEST_H
#define BROKERD_STORAGE_MANIFEST_H

#include "brokerd/storage/manager.h"

typedef struct Manifest Manifest;

Manifest *manifest_read(const char *dir, uint32_t crc); /* NULL: none that can be believed */
void manifest_free(Manifest *mf);
/* False: not in it, or not as it says; the log is as it was. */
bool manifest_load(Manifest *mf, Log *log);
bool manifest_write(LogManager *m, uint32_t *crc);

#endif
