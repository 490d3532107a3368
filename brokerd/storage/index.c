#include "brokerd/storage/index.h"

#include <stdlib.h>
#include <string.h>

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

/* The oldest in memory. */
static void *
encode(const LogSegment *s, int n, int ntimes)
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

void *
index_encode_all(LogSegment *s, int *n, int *ntimes)
{
	add_time(s);
	*n = s->tail == NULL ? 0 : s->tail->n;
	*ntimes = s->tail == NULL ? 0 : s->tail->ntimes;
	return encode(s, *n, *ntimes);
}

WriteOp *
index_make_op(LogSegment *s, bool final)
{
	IndexTail *t = s->tail;
	int n, ntimes;
	WriteOp *op;

	if (final)
	{
		add_time(s); /* the greatest of the segment ends its time index */
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
	op->payload = encode(s, n, ntimes);
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
