/*
 * load.h: a log from its folder.  Runs on recovery threads at start, one log at a time each, before the loop
 * knows the log; nothing else touches it meanwhile.
 *
 *     clean stop     sizes and index ends are believed; only what no file says is looked up (the last
 *                    batches behind the last index entry)
 *     unclean stop   segments from the recovery point on are read batch by batch
 *
 *       recovery point              end of file
 *            |  whole batches  | torn |        cut at the last whole batch; what is cut is kept in a .cut file
 *            |  whole | bad | whole ..|        corruption: nothing is changed, the log stays offline
 *       bad  |                                 corruption too: this had been synced
 */
#ifndef BROKERD_STORAGE_LOAD_H
#define BROKERD_STORAGE_LOAD_H

#include "brokerd/storage/internal.h"

typedef struct LoadPoints
{
	bool clean;
	int64_t recovery_point;
	int64_t high_watermark; /* -1: none recorded */
	int64_t start_offset;   /* -1: none recorded */
	int64_t cleaned_end;    /* compacted below; 0: none recorded */
} LoadPoints;

/* The log is LOG_STATE_OFFLINE with a sentence in log_error() when it cannot be served.  `*recovered`:
 * something was read that may be in the page cache only, and has to be synced. */
void log_load(Log *log, const LoadPoints *p, bool *recovered);

/* recovery.c: read a segment from the start, rebuild its indexes, epochs and producers behind `from`.  False:
 * the log is offline. */
typedef struct RecoverArgs
{
	bool check_crc; /* unclean: bad batches are judged */
	bool rebuild_index;
	int64_t recovery_point;
	int64_t producers_from; /* batches below are in the snapshot */
	bool is_last;
	bool *recovered;
} RecoverArgs;
bool log_recover_segment(Log *log, LogSegment *s, const RecoverArgs *a);
void log_load_error(Log *log, bool quarantine, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void log_note_recovered_batch(Log *log, LogSegment *s, const uint8_t *b, int64_t now_ms);

#define QUARANTINE_FILE "quarantined"

#endif
