/*
 * scan.h: walk the batches of a segment file.  Any thread; blocking reads.
 *
 *     BatchScan sc;
 *     scan_init(&sc, fd, from, to, SCAN_WHOLE);
 *     while ((r = scan_next(&sc)) == SCAN_BATCH)
 *         use(sc.batch, sc.pos);
 *     scan_free(&sc);
 *
 * SCAN_HEADERS reads 61 bytes a batch (a page at a time) and checks only that sizes make sense; SCAN_WHOLE
 * reads all and checks the CRC.  At SCAN_BAD `sc.pos` is where the first bad batch begins and `sc.why` says
 * what is wrong with it.
 */
#ifndef BROKERD_STORAGE_SCAN_H
#define BROKERD_STORAGE_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum ScanMode
{
	SCAN_HEADERS,
	SCAN_WHOLE
} ScanMode;

typedef enum ScanResult
{
	SCAN_BATCH,
	SCAN_END, /* exactly at `to` */
	SCAN_BAD,
	SCAN_ERROR /* the file cannot be read: errno */
} ScanResult;

typedef struct BatchScan
{
	int fd;
	ScanMode mode;
	int64_t to;
	int64_t next; /* where the next batch begins */
	/* the current batch */
	int64_t pos;
	const uint8_t *batch; /* its header; all of it after SCAN_WHOLE or scan_body() */
	int64_t size;
	const char *why;
	/* window on the file */
	uint8_t *buf;
	size_t cap;
	int64_t buf_pos;
	size_t buf_len;
	bool lent;   /* the buffer is the caller's */
	bool cached; /* what is not in the page cache, or is much, is not read: SCAN_ERROR with EAGAIN */
	int nread;   /* how often the window has moved */
} BatchScan;

void scan_init(BatchScan *sc, int fd, int64_t from, int64_t to, ScanMode mode);
ScanResult scan_next(BatchScan *sc);
bool scan_body(BatchScan *sc); /* make sc->batch point at all of the current batch */
/* SCAN_HEADERS only, without scan_body(): SCAN_HEADER_WINDOW bytes to read into, that stay until scan_free(). */
#define SCAN_HEADER_WINDOW (8 * 1024)
void scan_lend(BatchScan *sc, uint8_t *buf, bool cached);
void scan_skip(BatchScan *sc, int64_t pos); /* goes on there: a boundary of batches */
void scan_free(BatchScan *sc);

/* Is there a whole, valid batch at or after `from`, whose base offset is at least `min_offset`?  Its position
 * or -1. */
int64_t scan_find_valid(int fd, int64_t from, int64_t to, int64_t min_offset);

#endif
