#include "brokerd/storage/index.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "brokerd/storage/file_io.h"
#include "brokerd/storage/manager.h"
#include "wire/bytes.h"

#define OFFSET_ENTRY 8
#define TIME_ENTRY   12
#define TAIL_FLUSH   128 /* this many are in memory: the older ones go to the file */
#define TAIL_KEEP    64

static IndexTail *
tail_of(LogSegment *s)
{
	if (s->tail == NULL)
		s->tail = calloc(1, sizeof(*s->tail));
	return s->tail;
}

static void
add_entry(IndexTail *t, int64_t offset, int32_t pos)
{
	if (t->n == t->cap)
	{
		t->cap = t->cap ? t->cap * 2 : 8;
		t->entries = realloc(t->entries, sizeof(*t->entries) * (size_t) t->cap);
	}
	t->entries[t->n++] = (IndexEntry){offset, pos};
}

static void
add_time(LogSegment *s)
{
	IndexTail *t = tail_of(s);

	if (s->max_timestamp <= s->last_time.timestamp)
		return;
	if (t->ntimes == t->times_cap)
	{
		t->times_cap = t->times_cap ? t->times_cap * 2 : 8;
		t->times = realloc(t->times, sizeof(*t->times) * (size_t) t->times_cap);
	}
	s->last_time = (TimeEntry){s->max_timestamp, s->max_timestamp_offset};
	t->times[t->ntimes++] = s->last_time;
}

void
index_note_batch(LogSegment *s, int32_t interval, int32_t pos, int32_t size, int64_t last_offset,
				 int64_t max_timestamp)
{
	if (max_timestamp > s->max_timestamp)
	{
		s->max_timestamp = max_timestamp;
		s->max_timestamp_offset = last_offset;
	}
	if (s->bytes_since_index > interval)
	{
		add_entry(tail_of(s), last_offset, pos);
		add_time(s);
		s->bytes_since_index = 0;
	}
	s->bytes_since_index += size;
}

int32_t
index_entry_count(const LogSegment *s)
{
	return s->index_entries + (s->tail == NULL ? 0 : s->tail->n);
}

int32_t
index_time_count(const LogSegment *s)
{
	return s->time_entries + (s->tail == NULL ? 0 : s->tail->ntimes);
}

/* The time index keeps a place for the entry that rolling adds. */
bool
index_full(const LogSegment *s, int32_t max_index_bytes)
{
	return index_entry_count(s) >= max_index_bytes / OFFSET_ENTRY ||
		   index_time_count(s) >= max_index_bytes / TIME_ENTRY - 1;
}

void
index_undo(LogSegment *s, int32_t entries, int32_t times)
{
	if (s->tail == NULL)
		return;
	if (entries - s->index_entries < s->tail->n)
		s->tail->n = entries > s->index_entries ? entries - s->index_entries : 0;
	if (times - s->time_entries < s->tail->ntimes)
		s->tail->ntimes = times > s->time_entries ? times - s->time_entries : 0;
}

/* The greatest timestamp of the segment ends its time index. */
void
index_add_last_time(LogSegment *s)
{
	add_time(s);
}

void *
index_encode(const LogSegment *s, int n, int ntimes)
{
	const IndexTail *t = s->tail;
	uint8_t *data = malloc((size_t) n * OFFSET_ENTRY + (size_t) ntimes * TIME_ENTRY + 1), *p = data;

	for (int i = 0; i < n; i++, p += OFFSET_ENTRY)
	{
		put_be32(p, (uint32_t) (t->entries[i].offset - s->base_offset));
		put_be32(p + 4, (uint32_t) t->entries[i].pos);
	}
	for (int i = 0; i < ntimes; i++, p += TIME_ENTRY)
	{
		put_be64(p, (uint64_t) t->times[i].timestamp);
		put_be32(p + 8, (uint32_t) (t->times[i].offset - s->base_offset));
	}
	return data;
}

WriteOp *
index_make_op(LogSegment *s, bool final)
{
	IndexTail *t = s->tail;
	int n, ntimes;
	WriteOp *op;

	if (final)
	{
		index_add_last_time(s);
		t = s->tail;
	}
	else if (t == NULL || s->index_pending || (t->n < TAIL_FLUSH && t->ntimes < TAIL_FLUSH))
		return NULL;
	n = t == NULL ? 0 : final ? t->n : t->n > TAIL_KEEP ? t->n - TAIL_KEEP : 0;
	ntimes = t == NULL ? 0 : final ? t->ntimes : t->ntimes > TAIL_KEEP ? t->ntimes - TAIL_KEEP : 0;
	op = writer_op(s->m, OP_INDEX, s->log, s);
	op->final = final;
	op->nentries = n;
	op->ntimes = ntimes;
	op->at_entry = s->index_entries;
	op->at_time = s->time_entries;
	op->payload = index_encode(s, n, ntimes);
	s->index_pending = true;
	return op;
}

/*
 * An earlier group may still be under way when the final one is made, which then begins at the same place:
 * what the first one wrote is written again, and the counts are those of the last.
 */
void
index_written(LogSegment *s, const WriteOp *op)
{
	IndexTail *t = s->tail;

	index_advance(s, op->at_entry + op->nentries, op->at_time + op->ntimes);
	if (op->final && t != NULL && t->n == 0 && t->ntimes == 0)
		index_free_tail(s);
}

void
index_free_tail(LogSegment *s)
{
	if (s->tail == NULL)
		return;
	free(s->tail->entries);
	free(s->tail->times);
	free(s->tail);
	s->tail = NULL;
}

void
index_advance(LogSegment *s, int32_t entries, int32_t times)
{
	IndexTail *t = s->tail;
	int32_t done = entries - s->index_entries;
	int32_t done_times = times - s->time_entries;

	if (t == NULL)
		return;
	if (done > 0)
	{
		s->index_entries += done;
		t->n -= done;
		memmove(t->entries, t->entries + done, sizeof(*t->entries) * (size_t) t->n);
	}
	if (done_times > 0)
	{
		s->time_entries += done_times;
		t->ntimes -= done_times;
		memmove(t->times, t->times + done_times, sizeof(*t->times) * (size_t) t->ntimes);
	}
}

/* ---- views ---- */

static void *
copy_of(const void *p, size_t len)
{
	void *copy = len == 0 ? NULL : malloc(len);

	if (copy != NULL)
		memcpy(copy, p, len);
	return copy;
}

bool
index_view_init(IndexView *v, const LogSegment *s)
{
	char path[STORAGE_PATH_MAX];

	*v = (IndexView){.base_offset = s->base_offset, .entries = s->index_entries, .times = s->time_entries};
	if (segment_path(s, ".index", path, sizeof(path)) < 0)
		return false;
	v->index_path = strdup(path);
	if (segment_path(s, ".timeindex", path, sizeof(path)) < 0)
		return false;
	v->time_path = strdup(path);
	if (s->tail != NULL)
	{
		v->ntail = s->tail->n;
		v->ntime_tail = s->tail->ntimes;
		/* Not of batches that are still on their way to the file. */
		while (v->ntail > 0 && s->tail->entries[v->ntail - 1].pos >= s->written_size)
			v->ntail--;
		while (v->ntime_tail > 0 && s->tail->times[v->ntime_tail - 1].offset >= s->written_end)
			v->ntime_tail--;
		v->tail = copy_of(s->tail->entries, sizeof(*v->tail) * (size_t) v->ntail);
		v->time_tail = copy_of(s->tail->times, sizeof(*v->time_tail) * (size_t) v->ntime_tail);
	}
	return true;
}

void
index_view_free(IndexView *v)
{
	free(v->index_path);
	free(v->time_path);
	free(v->tail);
	free(v->time_tail);
	*v = (IndexView){0};
}

/* Which column of an entry a search compares. */
typedef int64_t (*EntryKey)(const uint8_t *entry, int64_t base_offset);

static int64_t
key_offset(const uint8_t *e, int64_t base)
{
	return base + (int32_t) get_be32(e);
}

static int64_t
key_position(const uint8_t *e, int64_t base)
{
	(void) base;
	return (int32_t) get_be32(e + 4);
}

static int64_t
key_timestamp(const uint8_t *e, int64_t base)
{
	(void) base;
	return (int64_t) get_be64(e);
}

/* The last of `n` entries whose key is <= `target` into `out`: 1 found, 0 none, -1 the file cannot be read. */
static int
search_file(const char *path, int32_t n, int size, EntryKey key, int64_t base, int64_t target, uint8_t *out)
{
	int32_t lo = 0, hi = n;
	int fd, found = 0;
	uint8_t e[TIME_ENTRY];

	if (n == 0)
		return 0;
	if ((fd = open(path, O_RDONLY | O_CLOEXEC)) < 0)
		return -1;
	while (lo < hi)
	{
		int32_t mid = lo + (hi - lo) / 2;

		if (file_pread_all(fd, e, (size_t) size, (int64_t) mid * size) != size)
		{
			found = -1;
			break;
		}
		if (key(e, base) <= target)
		{
			memcpy(out, e, (size_t) size);
			found = 1;
			lo = mid + 1;
		}
		else
			hi = mid;
	}
	close(fd);
	return found;
}

int32_t
index_floor(const IndexView *v, int64_t offset)
{
	uint8_t e[TIME_ENTRY];
	int found;

	for (int i = v->ntail - 1; i >= 0; i--)
		if (v->tail[i].offset <= offset)
			return v->tail[i].pos;
	found = search_file(v->index_path, v->entries, OFFSET_ENTRY, key_offset, v->base_offset, offset, e);
	return found < 0 ? -1 : found == 0 ? 0 : (int32_t) get_be32(e + 4);
}

int32_t
index_floor_position(const IndexView *v, int32_t pos)
{
	uint8_t e[TIME_ENTRY];
	int found;

	for (int i = v->ntail - 1; i >= 0; i--)
		if (v->tail[i].pos <= pos)
			return v->tail[i].pos;
	found = search_file(v->index_path, v->entries, OFFSET_ENTRY, key_position, v->base_offset, pos, e);
	return found < 0 ? -1 : found == 0 ? 0 : (int32_t) get_be32(e + 4);
}

/*
 * An entry (T, offset) says that T is the greatest timestamp up to and including that batch.  With T below
 * the target, everything up to `offset` is too old.
 */
int64_t
index_time_floor(const IndexView *v, int64_t timestamp)
{
	uint8_t e[TIME_ENTRY];
	int found;

	for (int i = v->ntime_tail - 1; i >= 0; i--)
		if (v->time_tail[i].timestamp < timestamp)
			return v->time_tail[i].offset;
	found = search_file(v->time_path, v->times, TIME_ENTRY, key_timestamp, v->base_offset, timestamp - 1, e);
	return found <= 0 ? v->base_offset - 1 : v->base_offset + (int32_t) get_be32(e + 8);
}
