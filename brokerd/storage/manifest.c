#include "brokerd/storage/manifest.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "brokerd/base/clock.h"
#include "brokerd/base/logging.h"
#include "brokerd/storage/clean_marker.h"
#include "brokerd/storage/file_io.h"
#include "wire/bytes.h"
#include "wire/codec.h"
#include "wire/crc32c.h"

#define MANIFEST_MAGIC   0x5047424d /* "PGBM" */
#define MANIFEST_VERSION 2
#define MANIFEST_MAX     ((size_t) 2 * 1024 * 1024 * 1024)

/* ---- writing ---- */

static void
put_i64(WireWriter *w, int64_t v)
{
	uint8_t b[8];

	put_be64(b, (uint64_t) v);
	wire_put_bytes(w, b, sizeof(b));
}

static void
put_i32(WireWriter *w, int32_t v)
{
	uint8_t b[4];

	put_be32(b, (uint32_t) v);
	wire_put_bytes(w, b, sizeof(b));
}

static void
put_segment(WireWriter *w, const LogSegment *s)
{
	put_i64(w, s->base_offset);
	put_i64(w, s->end_offset);
	put_i32(w, s->size);
	put_i32(w, s->bytes_since_index);
	put_i64(w, s->max_timestamp);
	put_i64(w, s->max_timestamp_offset);
	put_i64(w, s->first_timestamp);
	put_i64(w, s->created_ms);
	put_i32(w, s->index_entries);
	put_i32(w, s->time_entries);
	put_i64(w, s->last_time.timestamp);
	put_i64(w, s->last_time.offset);
	put_i32(w, s->naborted);
	for (int i = 0; i < s->naborted; i++)
	{
		put_i64(w, s->aborted[i].producer_id);
		put_i64(w, s->aborted[i].first_offset);
		put_i64(w, s->aborted[i].last_offset);
		put_i64(w, s->aborted[i].last_stable_offset);
	}
}

static void
put_producer(WireWriter *w, const ProducerEntry *e)
{
	put_i64(w, e->producer_id);
	put_i32(w, e->epoch);
	put_i32(w, e->coordinator_epoch);
	put_i64(w, e->last_timestamp);
	put_i64(w, e->last_seen_ms);
	put_i64(w, e->txn_start);
	put_i32(w, e->nbatches);
	for (int i = 0; i < e->nbatches; i++)
	{
		put_i32(w, e->batches[i].last_sequence);
		put_i32(w, e->batches[i].delta);
		put_i64(w, e->batches[i].last_offset);
		put_i64(w, e->batches[i].timestamp);
	}
}

static void
put_log(WireWriter *w, const Log *log)
{
	void *cursor = NULL;
	const ProducerEntry *e;

	put_i32(w, (int32_t) strlen(log->name));
	wire_put_bytes(w, log->name, strlen(log->name));
	wire_put_bytes(w, log->topic_id.b, sizeof(log->topic_id.b));
	put_i64(w, log->start_offset);
	put_i64(w, log->high_watermark);
	put_i64(w, log->stop_snapshot);
	put_i32(w, log->epochs.n);
	for (int i = 0; i < log->epochs.n; i++)
	{
		put_i32(w, log->epochs.e[i].epoch);
		put_i64(w, log->epochs.e[i].start_offset);
	}
	put_i32(w, producer_state_count(log->producers));
	while ((e = producer_state_next(log->producers, &cursor)) != NULL)
		put_producer(w, e);
	put_i32(w, log->nsegments);
	for (int i = 0; i < log->nsegments; i++)
		put_segment(w, log->segments[i]);
}

bool
manifest_write(LogManager *m, uint32_t *crc)
{
	char path[STORAGE_PATH_MAX];
	WireWriter w;
	Log *log, *tmp;
	bool ok;

	wire_writer_init(&w);
	put_i32(&w, MANIFEST_MAGIC);
	put_i32(&w, MANIFEST_VERSION);
	HASH_ITER (hh, m->logs, log, tmp)
	{
		WireWriter one;

		if (log->state != LOG_STATE_OK && log->state != LOG_STATE_NO_SPACE)
			continue;
		wire_writer_init(&one);
		put_log(&one, log);
		put_i32(&w, (int32_t) one.len);
		wire_put_bytes(&w, one.buf, one.len);
		wire_writer_free(&one);
	}
	snprintf(path, sizeof(path), "%s/%s", m->dir, MANIFEST_FILE);
	*crc = crc32c(0, w.buf, w.len);
	ok = !w.failed && file_replace(path, w.buf, w.len, false);
	wire_writer_free(&w);
	return ok;
}

/* ---- reading ---- */

typedef struct ManifestLog
{
	UT_hash_handle hh;
	const char *name;
	const uint8_t *p; /* behind the name */
	const uint8_t *end;
} ManifestLog;

struct Manifest
{
	char *data;
	ManifestLog *entries;
	int n;
	ManifestLog *by_name;
};

typedef struct Cursor
{
	const uint8_t *p;
	const uint8_t *end;
	bool failed;
} Cursor;

static const uint8_t *
take(Cursor *c, size_t n)
{
	static const uint8_t zeros[16];
	const uint8_t *p = c->p;

	if (c->failed || (size_t) (c->end - c->p) < n)
	{
		c->failed = true;
		return zeros;
	}
	c->p += n;
	return p;
}

static int64_t
get_i64(Cursor *c)
{
	return (int64_t) get_be64(take(c, 8));
}

static int32_t
get_i32(Cursor *c)
{
	return (int32_t) get_be32(take(c, 4));
}

/* A number of things of at least `size` bytes each. */
static int32_t
get_count(Cursor *c, size_t size)
{
	int32_t n = get_i32(c);

	if (n < 0 || (size_t) n > (size_t) (c->end - c->p) / size)
	{
		c->failed = true;
		return 0;
	}
	return n;
}

Manifest *
manifest_read(const char *dir, uint32_t crc)
{
	char path[STORAGE_PATH_MAX];
	size_t len;
	Manifest *mf = calloc(1, sizeof(*mf));
	Cursor c;

	snprintf(path, sizeof(path), "%s/%s", dir, MANIFEST_FILE);
	mf->data = file_read(path, MANIFEST_MAX, &len);
	c = (Cursor){.p = (const uint8_t *) mf->data,
				 .end = (const uint8_t *) mf->data + (mf->data == NULL ? 0 : len)};
	if (mf->data == NULL || crc32c(0, mf->data, len) != crc || get_i32(&c) != MANIFEST_MAGIC ||
		get_i32(&c) != MANIFEST_VERSION)
	{
		log_msg(LOG_INFO, "storage", "%s is not used: missing, damaged or of another version", path);
		manifest_free(mf);
		return NULL;
	}
	while (c.p < c.end && !c.failed)
	{
		int32_t n = get_count(&c, 1), name_len;
		Cursor one = {.p = c.p, .end = c.p + n};

		take(&c, (size_t) n);
		name_len = get_count(&one, 1);
		mf->entries = realloc(mf->entries, sizeof(*mf->entries) * (size_t) (mf->n + 1));
		mf->entries[mf->n++] =
			(ManifestLog){.name = (const char *) one.p, .p = take(&one, (size_t) name_len), .end = one.end};
		mf->entries[mf->n - 1].p = one.p;
		mf->entries[mf->n - 1].hh.keylen = (unsigned) name_len;
	}
	for (int i = 0; i < mf->n; i++)
	{
		ManifestLog *e = &mf->entries[i];
		unsigned len_of = e->hh.keylen;

		HASH_ADD_KEYPTR(hh, mf->by_name, e->name, len_of, e);
	}
	return mf;
}

void
manifest_free(Manifest *mf)
{
	if (mf == NULL)
		return;
	HASH_CLEAR(hh, mf->by_name);
	free(mf->entries);
	free(mf->data);
	free(mf);
}

static LogSegment *
take_segment(Cursor *c, Log *log)
{
	LogSegment *s = segment_new(log, get_i64(c));

	s->end_offset = s->written_end = s->flushed_end = get_i64(c);
	s->size = s->written_size = s->warm_from = get_i32(c);
	s->bytes_since_index = get_i32(c);
	s->max_timestamp = get_i64(c);
	s->max_timestamp_offset = get_i64(c);
	s->first_timestamp = get_i64(c);
	s->created_ms = get_i64(c);
	s->index_entries = get_i32(c);
	s->time_entries = get_i32(c);
	s->last_time.timestamp = get_i64(c);
	s->last_time.offset = get_i64(c);
	s->naborted = s->aborted_queued = s->aborted_cap = get_count(c, 32);
	s->aborted = s->naborted == 0 ? NULL : malloc(sizeof(*s->aborted) * (size_t) s->naborted);
	for (int i = 0; i < s->naborted; i++)
	{
		s->aborted[i].producer_id = get_i64(c);
		s->aborted[i].first_offset = get_i64(c);
		s->aborted[i].last_offset = get_i64(c);
		s->aborted[i].last_stable_offset = get_i64(c);
	}
	s->sealed = s->index_synced = true;
	return s;
}

static void
take_producer(Cursor *c, ProducerState *state)
{
	ProducerEntry e = {.producer_id = get_i64(c)};
	int32_t n;

	e.epoch = (int16_t) get_i32(c);
	e.coordinator_epoch = get_i32(c);
	e.last_timestamp = get_i64(c);
	e.last_seen_ms = get_i64(c);
	e.txn_start = get_i64(c);
	n = get_i32(c);
	for (int i = 0; i < n && i < PRODUCER_BATCHES && !c->failed; i++)
	{
		e.batches[i].last_sequence = get_i32(c);
		e.batches[i].delta = get_i32(c);
		e.batches[i].last_offset = get_i64(c);
		e.batches[i].timestamp = get_i64(c);
		e.nbatches++;
	}
	producer_state_load(state, &e);
}

static bool
sizes_match(const Log *log)
{
	const LogSegment *s = log_active(log);
	char path[STORAGE_PATH_MAX];
	struct stat st;

	return s != NULL && segment_path(s, ".log", path, sizeof(path)) >= 0 && stat(path, &st) == 0 &&
		   st.st_size == s->size;
}

static void
forget(Log *log)
{
	for (int i = 0; i < log->nsegments; i++)
		segment_free_unused(log->segments[i]);
	log->nsegments = 0;
	log->size = 0;
	epoch_cache_free(&log->epochs);
	producer_state_free(log->producers);
	log->producers = NULL;
}

bool
manifest_load(Manifest *mf, Log *log)
{
	ManifestLog *e;
	Cursor c;
	int32_t n;

	HASH_FIND(hh, mf->by_name, log->name, (unsigned) strlen(log->name), e);
	if (e == NULL)
		return false;
	c = (Cursor){.p = e->p, .end = e->end};
	memcpy(log->topic_id.b, take(&c, sizeof(log->topic_id.b)), sizeof(log->topic_id.b));
	log->start_offset = log->wanted_start = get_i64(&c);
	log->high_watermark = get_i64(&c);
	log->stop_snapshot = get_i64(&c);
	n = get_count(&c, 12);
	for (int32_t i = 0; i < n; i++)
	{
		int32_t epoch = get_i32(&c);

		epoch_cache_assign(&log->epochs, epoch, get_i64(&c));
	}
	n = get_count(&c, 44);
	if (n > 0)
		log->producers = producer_state_new();
	for (int32_t i = 0; i < n; i++)
		take_producer(&c, log->producers);
	n = get_count(&c, 84);
	for (int32_t i = 0; i < n && !c.failed; i++)
	{
		segment_push(log, take_segment(&c, log));
		log->size += log_active(log)->size;
	}
	if (c.failed || log->nsegments == 0 || !sizes_match(log))
	{
		log_msg(LOG_WARNING, "storage", "%s is not as the last stop left it and is loaded from its folder",
				log->name);
		forget(log);
		return false;
	}
	log_active(log)->sealed = log_active(log)->index_synced = false;
	log->appended_end = log->written_end = log->synced_end = log->flushed_end = log_active(log)->end_offset;
	log->sync_index = log->nsegments - 1;
	if (log->producers != NULL)
		log->producers_due_ms = clock_wall_ms() + log->m->opt.producer_expiration_ms;
	return true;
}
