/*
 * begun_epochs.h: that a log was led in an epoch, on disk before the high watermark moves in it.
 *
 * Records carry the epoch that they were appended in.  A new leader whose high watermark moves over records of
 * older epochs commits them in its own, and until it appends nothing on its disk says so.  Should PostgreSQL lose
 * that election, a log with an unacknowledged record of a later epoch than theirs would look newer (hazards A1).
 * So (epoch, synced end of the log) is written first, to one file for the whole directory: ten thousand
 * partitions that get a new leader at once cost a few syncs, not two each.
 *
 *     .pg_broker-begun-epochs     rows of 40 bytes, numbers big-endian; a row that fails its checksum is skipped
 *       0  crc32c of the rest     20  partition       28  synced end
 *       4  topic id               24  leader epoch    36  zero
 *
 * After an unclean stop the last row of a log counts when the log reaches at least as far as it did then: one that
 * was cut, or begun anew, is none that the row speaks of.  The file is emptied when leader-epoch-checkpoint of
 * each log has what it says.  Loop thread.
 */
#ifndef BROKERD_STORAGE_BEGUN_EPOCHS_H
#define BROKERD_STORAGE_BEGUN_EPOCHS_H

#include <stdint.h>

#include "brokerd/storage/work_queue.h"

#define BEGUN_EPOCHS_FILE ".pg_broker-begun-epochs"

typedef struct Log Log;
typedef struct LogManager LogManager;
typedef struct BegunJob BegunJob;

typedef struct BegunEpochs
{
	WorkQueue queue; /* one thread */
	int fd;          /* -1: not opened yet; the thread's */
	int64_t size;    /* the thread's */
	BegunJob *next;  /* gathers while one is written */
	BegunJob *failed;
	int64_t retry_ms;
	uint64_t given; /* rows so far */
	bool running;
} BegunEpochs;

void begun_epochs_init(LogManager *m); /* closed can be what is initialised only */
bool begun_epochs_start(LogManager *m);
void begun_epochs_stop(LogManager *m);   /* writes what is queued */
void begun_epochs_remove(LogManager *m); /* at a clean stop: the epoch files have all */
void begun_epochs_close(LogManager *m);
/* At an unclean start, when the logs are loaded and before anybody looks at their epochs. */
void begun_epochs_apply(LogManager *m);
void begun_epochs_add(Log *log, int32_t epoch, int64_t synced_end);
/* The epoch files have what was given until `given` stood there. */
void begun_epochs_are_kept(LogManager *m, uint64_t given);
void begun_epochs_tick(LogManager *m);

#endif
