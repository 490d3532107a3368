#include "brokerd/storage/scan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "brokerd/storage/file_io.h"
#include "wire/batch.h"

#define WINDOW_WHOLE ((size_t) 1024 * 1024)
#define CACHED_READS 8 /* more keep the loop from other work: a thread does them */

void
scan_init(BatchScan *sc, int fd, int64_t from, int64_t to, ScanMode mode)
{
	*sc = (BatchScan){.fd = fd, .mode = mode, .to = to, .next = from, .pos = from};
}

void
scan_lend(BatchScan *sc, uint8_t *buf, bool cached)
{
	sc->buf = buf;
	sc->cap = SCAN_HEADER_WINDOW;
	sc->lent = true;
	sc->cached = cached;
}

void
scan_skip(BatchScan *sc, int64_t pos)
{
	sc->next = pos;
}

void
scan_free(BatchScan *sc)
{
	if (!sc->lent)
		free(sc->buf);
	sc->buf = NULL;
}

static bool
room(BatchScan *sc, size_t want)
{
	uint8_t *p;

	if (want <= sc->cap)
		return true;
	if (sc->lent || (p = realloc(sc->buf, want)) == NULL)
		return false;
	sc->buf = p;
	sc->cap = want;
	return true;
}

/* Make [pos, pos + len) visible.  False: the file ends before, or cannot be read (errno). */
static bool
window(BatchScan *sc, int64_t pos, size_t len)
{
	size_t want = sc->mode == SCAN_WHOLE ? WINDOW_WHOLE : SCAN_HEADER_WINDOW;
	ssize_t n;

	errno = 0;
	if (pos >= sc->buf_pos && pos + (int64_t) len <= sc->buf_pos + (int64_t) sc->buf_len)
		return true;
	if (want < len)
		want = len;
	if ((int64_t) want > sc->to - pos)
		want = (size_t) (sc->to - pos);
	if (want < len)
		return false;
	if (!room(sc, want))
		return false;
	if (sc->cached && sc->nread++ == CACHED_READS)
	{
		errno = EAGAIN;
		return false;
	}
	n = sc->cached ? file_pread_cached(sc->fd, sc->buf, want, pos)
				   : file_pread_all(sc->fd, sc->buf, want, pos);
	if (n < 0)
		return false;
	sc->buf_pos = pos;
	sc->buf_len = (size_t) n;
	if ((size_t) n < len && sc->cached)
		errno = EAGAIN;
	return (size_t) n >= len;
}

static ScanResult
bad(BatchScan *sc, const char *why)
{
	sc->why = why;
	return errno != 0 ? SCAN_ERROR : SCAN_BAD;
}

bool
scan_body(BatchScan *sc)
{
	if (!window(sc, sc->pos, (size_t) sc->size))
		return false;
	sc->batch = sc->buf + (sc->pos - sc->buf_pos);
	return true;
}

ScanResult
scan_next(BatchScan *sc)
{
	BatchCheck c;

	errno = 0;
	sc->pos = sc->next;
	if (sc->pos == sc->to)
		return SCAN_END;
	if (sc->to - sc->pos < BATCH_HEADER_SIZE)
		return bad(sc, "the file ends within a batch header");
	if (!window(sc, sc->pos, BATCH_HEADER_SIZE))
		return bad(sc, "the file ends within a batch header");
	sc->batch = sc->buf + (sc->pos - sc->buf_pos);
	sc->size = batch_size(sc->batch);
	c = batch_check(sc->batch, (size_t) (sc->to - sc->pos), false);
	if (c != BATCH_OK)
		return bad(sc, c == BATCH_TRUNCATED ? "the file ends within a batch" : batch_check_text(c));
	if (sc->mode == SCAN_WHOLE)
	{
		if (!scan_body(sc))
			return bad(sc, "the file ends within a batch");
		if (!batch_crc_matches(sc->batch))
			return bad(sc, batch_check_text(BATCH_BAD_CRC));
	}
	sc->next = sc->pos + sc->size;
	return SCAN_BATCH;
}

/* The byte that tells magic 2 is looked for; the rest of the header rules nearly everything else out. */
int64_t
scan_find_valid(int fd, int64_t from, int64_t to, int64_t min_offset)
{
	size_t cap = WINDOW_WHOLE + BATCH_HEADER_SIZE;
	uint8_t *buf = malloc(cap);
	int64_t found = -1;

	for (int64_t at = from; found < 0 && buf != NULL && at < to; at += (int64_t) WINDOW_WHOLE)
	{
		ssize_t n = file_pread_all(fd, buf, cap, at);

		for (ssize_t i = 0; found < 0 && i + BATCH_HEADER_SIZE <= n && i < (ssize_t) WINDOW_WHOLE; i++)
		{
			const uint8_t *m = memchr(buf + i + 16, 2, (size_t) (n - i - 16));
			BatchScan sc;

			if (m == NULL)
				break;
			i = m - buf - 16;
			if (i + BATCH_HEADER_SIZE > n || i >= (ssize_t) WINDOW_WHOLE)
				break;
			if (batch_check(buf + i, (size_t) (to - at - i), false) != BATCH_OK ||
				batch_base_offset(buf + i) < min_offset)
				continue;
			scan_init(&sc, fd, at + i, to, SCAN_WHOLE);
			if (scan_next(&sc) == SCAN_BATCH)
				found = at + i;
			scan_free(&sc);
		}
	}
	free(buf);
	return found;
}
