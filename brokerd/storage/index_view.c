/* Lookups in the indexes: in entries that are in memory, in a piece of a file, in a file. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "brokerd/storage/file_io.h"
#include "brokerd/storage/index.h"
#include "brokerd/storage/manager.h"
#include "wire/bytes.h"

#define OFFSET_ENTRY 8
#define TIME_ENTRY   12
/* A search of the file stops at so many: they and those behind them are read at once, as a reader that goes on
 * will want them. */
#define NARROW_ENOUGH 64

static bool
reserve(void **p, int *cap, int n, size_t size)
{
	void *larger;

	if (n <= *cap)
		return true;
	if ((larger = realloc(*p, size * (size_t) n)) == NULL)
		return false;
	*p = larger;
	*cap = n;
	return true;
}

int
index_tail_written(const LogSegment *s)
{
	int n = s->tail == NULL ? 0 : s->tail->n;

	while (n > 0 && s->tail->entries[n - 1].pos >= s->written_size)
		n--;
	return n;
}

static void
copy_times(IndexView *v, const LogSegment *s)
{
	int n = s->tail == NULL ? 0 : s->tail->ntimes;

	while (n > 0 && s->tail->times[n - 1].offset >= s->written_end)
		n--;
	if (n == 0 || !reserve((void **) &v->time_tail, &v->time_tail_cap, n, sizeof(*v->time_tail)))
		return;
	memcpy(v->time_tail, s->tail->times, sizeof(*v->time_tail) * (size_t) n);
	v->ntime_tail = n;
}

void
index_view_init(IndexView *v, const LogSegment *s, bool with_times)
{
	int n = index_tail_written(s);

	v->segment = s;
	v->entries = s->index_entries;
	v->times = s->time_entries;
	v->ntail = v->ntime_tail = 0;
	if (n > 0 && reserve((void **) &v->tail, &v->tail_cap, n, sizeof(*v->tail)))
	{
		memcpy(v->tail, s->tail->entries, sizeof(*v->tail) * (size_t) n);
		v->ntail = n;
	}
	if (with_times)
		copy_times(v, s);
}

void
index_view_free(IndexView *v)
{
	free(v->tail);
	free(v->time_tail);
	*v = (IndexView){0};
}

/* ---- by offset and position ---- */

static IndexEntry
entry_at(const IndexPiece *p, int32_t i)
{
	const uint8_t *e = p->raw + (size_t) i * OFFSET_ENTRY;

	return (IndexEntry){p->base_offset + (int32_t) get_be32(e), (int32_t) get_be32(e + 4)};
}

static bool
is_within(const IndexEntry *e, const IndexBound *bound)
{
	return e->pos <= bound->max_pos && e->offset < bound->limit_offset;
}

static bool
entry_is_within(const IndexPiece *p, int32_t i, const IndexBound *bound)
{
	IndexEntry e = entry_at(p, i);

	return is_within(&e, bound);
}

void
index_piece_copy(IndexPiece *to, const IndexPiece *from)
{
	to->base_offset = from->base_offset;
	to->first = from->first;
	to->n = from->n;
	memcpy(to->raw, from->raw, (size_t) from->n * OFFSET_ENTRY);
}

bool
index_piece_knows(const IndexPiece *p, const IndexBound *bound, int32_t file_entries)
{
	return p->n > 0 && (p->first == 0 || entry_is_within(p, 0, bound)) &&
		   (p->first + p->n >= file_entries || !entry_is_within(p, p->n - 1, bound));
}

int32_t
index_piece_floor(const IndexPiece *p, const IndexBound *bound)
{
	int32_t lo = 0, hi = p->n;

	while (lo < hi)
	{
		int32_t mid = lo + (hi - lo) / 2;

		if (entry_is_within(p, mid, bound))
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo == 0 ? -1 : entry_at(p, lo - 1).pos;
}

int32_t
index_tail_floor(const IndexEntry *tail, int n, const IndexBound *bound)
{
	/* Mostly it is none of them, or one of the last. */
	if (n == 0 || !is_within(&tail[0], bound))
		return -1;
	while (!is_within(&tail[n - 1], bound))
		n--;
	return tail[n - 1].pos;
}

static int
open_index(const IndexView *v, const char *suffix)
{
	char path[STORAGE_PATH_MAX];
	int fd = -1;

	/* A compaction gives the files of a segment other names. */
	pthread_rwlock_rdlock(&v->segment->m->path_lock);
	if (segment_path(v->segment, suffix, path, sizeof(path)) >= 0)
		fd = open(path, O_RDONLY | O_CLOEXEC);
	pthread_rwlock_unlock(&v->segment->m->path_lock);
	return fd;
}

/* The part of the file that begins with the last entry within the bound, or not far before it. */
static bool
load_piece(const IndexView *v, int fd, const IndexBound *bound, IndexPiece *p)
{
	int32_t lo = 0, hi = v->entries;

	p->base_offset = v->segment->base_offset;
	while (v->entries > INDEX_PIECE_ENTRIES && hi - lo > NARROW_ENOUGH)
	{
		int32_t mid = lo + (hi - lo) / 2;

		if (file_pread_all(fd, p->raw, OFFSET_ENTRY, (int64_t) mid * OFFSET_ENTRY) != OFFSET_ENTRY)
			return false;
		if (entry_is_within(p, 0, bound))
			lo = mid + 1;
		else
			hi = mid;
	}
	p->first = lo > 0 ? lo - 1 : 0;
	p->n = v->entries - p->first < INDEX_PIECE_ENTRIES ? v->entries - p->first : INDEX_PIECE_ENTRIES;
	return file_pread_all(fd, p->raw, (size_t) p->n * OFFSET_ENTRY, (int64_t) p->first * OFFSET_ENTRY) ==
		   (ssize_t) p->n * OFFSET_ENTRY;
}

int32_t
index_lookup(const IndexView *v, const IndexBound *bound, IndexPiece *piece)
{
	int32_t pos = index_tail_floor(v->tail, v->ntail, bound);

	if (pos >= 0)
		return pos;
	if (v->entries == 0)
		return 0;
	if (!index_piece_knows(piece, bound, v->entries))
	{
		int fd = open_index(v, ".index");
		bool loaded = fd >= 0 && load_piece(v, fd, bound, piece);

		if (fd >= 0)
			close(fd);
		if (!loaded)
		{
			piece->n = 0;
			return -1;
		}
	}
	pos = index_piece_floor(piece, bound);
	return pos < 0 ? 0 : pos;
}

int32_t
index_floor(const IndexView *v, int64_t offset)
{
	IndexPiece piece;
	IndexBound bound = {INT32_MAX, offset == INT64_MAX ? offset : offset + 1};

	piece.n = 0;
	return index_lookup(v, &bound, &piece);
}

/* ---- by time ---- */

/* The last of `n` entries whose timestamp is below the target into `out`: 1 found, 0 none, -1 the file cannot be read. */
static int
search_times(int fd, int32_t n, int64_t target, uint8_t *out)
{
	int32_t lo = 0, hi = n;
	int found = 0;
	uint8_t e[TIME_ENTRY];

	while (lo < hi)
	{
		int32_t mid = lo + (hi - lo) / 2;

		if (file_pread_all(fd, e, TIME_ENTRY, (int64_t) mid * TIME_ENTRY) != TIME_ENTRY)
			return -1;
		if ((int64_t) get_be64(e) < target)
		{
			memcpy(out, e, TIME_ENTRY);
			found = 1;
			lo = mid + 1;
		}
		else
			hi = mid;
	}
	return found;
}

/*
 * An entry (T, offset) says that T is the greatest timestamp up to and including that batch.  With T below
 * the target, everything up to `offset` is too old.
 */
int64_t
index_time_floor(const IndexView *v, int64_t timestamp)
{
	int64_t base = v->segment->base_offset;
	uint8_t e[TIME_ENTRY];
	int found = 0, fd;

	for (int i = v->ntime_tail - 1; i >= 0; i--)
		if (v->time_tail[i].timestamp < timestamp)
			return v->time_tail[i].offset;
	if (v->times > 0 && (fd = open_index(v, ".timeindex")) >= 0)
	{
		found = search_times(fd, v->times, timestamp, e);
		close(fd);
	}
	return found <= 0 ? base - 1 : base + (int32_t) get_be32(e + 8);
}
