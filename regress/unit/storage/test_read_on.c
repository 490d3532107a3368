/*
 * Reads that go on where another one ended: what they remember (cursors, pieces of index files), that they get the
 * same bytes as a read that knows nothing, and that a truncated, deleted, rolled or set-aside log makes none of it
 * wrong.  Where the file system can tell what is in the page cache, they are answered on the loop.
 */
#include <sys/uio.h>

#include "brokerd/storage/manager.h"
#include "regress/unit/storage/harness.h"
#include "wire/bytes.h"

typedef struct Known
{
	int64_t base;
	int64_t next;
	int32_t pos;
	int32_t size;
} Known;

static uint32_t
next_random(uint32_t *seed)
{
	*seed = *seed * 1664525u + 1013904223u;
	return *seed >> 8;
}

static void
fill(Harness *h, Log *log, int batches, int records, int value_len)
{
	LogAppend a;

	for (int i = 0; i < batches; i++)
		if (harness_append(h, log, &(BatchSpec){.records = records, .value_len = value_len}, &a) != 0)
			ok(false, "append: %s", a.message);
	harness_wait(h, log_synced_end(log) == log_appended_end(log));
	log_set_high_watermark(log, log_synced_end(log));
}

/* Is a read of this answered on the loop? */
static bool
answered_at_once(Harness *h, Log *log, int64_t offset, int32_t max_bytes)
{
	LogRead r = {.offset = offset, .limit_offset = INT64_MAX, .max_bytes = max_bytes, .at_least_one = true};
	bool at_once;

	h->answered = false;
	at_once = log_read(log, &r, &h->slice, &h->error, harness_read_done, h) == LOG_READ_DONE;
	if (!at_once)
		harness_wait(h, h->answered);
	log_slice_release(&h->slice);
	return at_once;
}

static bool
cache_is_told(const char *dir)
{
	char path[512], byte = 'x';
	struct iovec iov = {&byte, 1};
	int fd;
	bool told;

	snprintf(path, sizeof(path), "%s/probe", dir);
	fd = open(path, O_RDWR | O_CREAT, 0600);
	told = fd >= 0 && write(fd, &byte, 1) == 1 && preadv2(fd, &iov, 1, 0, RWF_NOWAIT) == 1;
	close(fd);
	unlink(path);
	return told;
}

static void
test_cursors(void)
{
	ReadCache c = {0};
	int found = 0;

	is_int(read_cache_find(&c, 1, 0), -1, "nothing is known at first");
	read_cache_note(&c, 7, 100, 5000);
	is_int(read_cache_find(&c, 7, 100), 5000, "a place is remembered");
	is_int(read_cache_find(&c, 8, 100), -1, "of this content only");
	is_int(read_cache_find(&c, 7, 101), -1, "and of this offset");
	read_cache_note(&c, 7, 100, 6000);
	is_int(read_cache_find(&c, 7, 100), 6000, "the last word counts");
	/* A slow reader's place stays while a quick one leaves a trail that is ten times what there is room for. */
	read_cache_note(&c, 9, 1, 77);
	read_cache_note(&c, 10, 0, 0);
	for (int64_t i = 0; i < 10 * READ_CACHE_SETS * READ_CACHE_WAYS; i++)
	{
		found += read_cache_find(&c, 10, i) == i;
		read_cache_note(&c, 10, i + 1, (int32_t) i + 1);
	}
	is_int(found, 10 * READ_CACHE_SETS * READ_CACHE_WAYS, "a reader finds where it was, all along");
	is_int(read_cache_find(&c, 9, 1), 77, "and does not push out where another one is");
	read_cache_free(&c);
}

static void
make_piece(IndexPiece *p, int32_t first, int32_t n)
{
	p->base_offset = 1000;
	p->first = first;
	p->n = n;
	/* Entry i: last offset 1000 + 10 i, position 100 i. */
	for (int32_t i = 0; i < n; i++)
	{
		put_be32(p->raw + 8 * i, (uint32_t) (10 * (first + i)));
		put_be32(p->raw + 8 * i + 4, (uint32_t) (100 * (first + i)));
	}
}

static void
test_pieces(void)
{
	ReadCache c = {0};
	IndexPiece p;
	IndexBound by_pos = {5050, INT64_MAX}, by_offset = {INT32_MAX, 1000 + 321}, before = {50, INT64_MAX},
			   behind = {100000, INT64_MAX};

	make_piece(&p, 20, 40);
	ok(index_piece_knows(&p, &by_pos, 500), "a piece knows what lies within it");
	is_int(index_piece_floor(&p, &by_pos), 5000, "the last entry at or before a position");
	is_int(index_piece_floor(&p, &by_offset), 3200, "or below an offset");
	ok(!index_piece_knows(&p, &before, 500), "not what is before it");
	ok(!index_piece_knows(&p, &behind, 500), "nor behind it");
	ok(index_piece_knows(&p, &behind, 60), "but at the end of the file");
	read_cache_add_piece(&c, 5, &p);
	ok(read_cache_piece(&c, 5, &by_pos, 500) != NULL, "a piece is remembered");
	ok(read_cache_piece(&c, 6, &by_pos, 500) == NULL, "of its content only");
	for (int i = 0; i < 3 * READ_CACHE_PIECES; i++)
	{
		make_piece(&p, i * 1000, 1000);
		read_cache_add_piece(&c, 100, &p);
		read_cache_piece(&c, 5, &by_pos, 500);
	}
	is_int(c.npieces, READ_CACHE_PIECES, "there is an end to it");
	ok(read_cache_piece(&c, 5, &by_pos, 500) != NULL, "and what is used stays");
	read_cache_free(&c);
}

/* From each place with several sizes and limits: the same as by the list of batches. */
static void
check_reads(Harness *h, Log *log, const Known *k, int n, const char *what)
{
	uint32_t seed = 99;
	int wrong = 0;

	for (int turn = 0; turn < 3000; turn++)
	{
		int first = (int) (next_random(&seed) % (uint32_t) n), end = first;
		int64_t offset = k[first].base + next_random(&seed) % (k[first].next - k[first].base);
		int64_t limit = turn % 3 == 0 ? INT64_MAX : offset + 1 + next_random(&seed) % 500;
		int32_t max_bytes = (int32_t) (next_random(&seed) % (turn % 2 == 0 ? 3000 : 60000)), len = 0;
		uint8_t *bytes;

		/* Mostly it goes on where the last one ended. */
		for (int chain = 0; chain < 4 && first < n && wrong < 5; chain++)
		{
			/* Up to the file that the first batch is in. */
			while (end < n && k[end].base < limit && (end == first || k[end].pos > k[first].pos) &&
				   (end == first || len + k[end].size <= max_bytes))
				len += k[end++].size;
			if (end == first)
				break;
			if (harness_read(h, log, offset, limit, max_bytes) != 0 || h->slice.len != len ||
				h->slice.next_offset != k[end - 1].next || h->slice.first_offset != k[first].base)
			{
				printf("# offset %" PRId64 " limit %" PRId64 " max %d: %d bytes to %" PRId64
					   ", should be %d to %" PRId64 "\n",
					   offset, limit, max_bytes, h->slice.len, h->slice.next_offset, len, k[end - 1].next);
				wrong++;
			}
			if ((bytes = harness_bytes(h)) == NULL || batch_base_offset(bytes) != k[first].base)
				wrong++;
			free(bytes);
			first = end;
			offset = first < n ? k[first].base : 0;
			len = 0;
		}
	}
	is_int(wrong, 0, "%s: each read gets what it should", what);
}

static void
test_same_bytes(const char *folder)
{
	enum
	{
		BATCHES = 3000
	};
	Known *k = malloc(sizeof(*k) * BATCHES);
	uint32_t seed = 7;
	int32_t pos = 0;
	int64_t at = 0;
	int waited = 0, reads = 0;
	Harness h;
	Log *log;

	setenv("TMPDIR", folder, 1);
	harness_init(&h, "same");
	h.config.index_interval_bytes = 100;
	h.config.segment_bytes = 600000;
	harness_open(&h);
	log = harness_log(&h, "t", 0);
	for (int i = 0; i < BATCHES; i++)
	{
		LogAppend a;

		if (harness_append(&h, log,
						   &(BatchSpec){.records = 1 + (int) (next_random(&seed) % 5),
										.value_len = 1 + (int) (next_random(&seed) % 300)},
						   &a) != 0)
			ok(false, "append: %s", a.message);
		pos = pos + a.len > 600000 ? 0 : pos;
		k[i] = (Known){a.base_offset, a.end_offset, pos, a.len};
		pos += a.len;
	}
	harness_wait(&h, log_synced_end(log) == log_appended_end(log));
	check_reads(&h, log, k, BATCHES, folder);
	is_int(harness_count_batches(&h, log, 0, 5000), BATCHES, "small fetches from the start");
	is_int(harness_count_batches(&h, log, 0, 50000), BATCHES, "larger ones");
	for (; at < log_written_end(log); at = h.slice.next_offset, reads++)
	{
		LogRead r = {.offset = at, .limit_offset = INT64_MAX, .max_bytes = 20000, .at_least_one = true};

		h.answered = false;
		if (log_read(log, &r, &h.slice, &h.error, harness_read_done, &h) == LOG_READ_PENDING)
		{
			waited++;
			harness_wait(&h, h.answered);
		}
		at = h.slice.next_offset;
		log_slice_release(&h.slice);
		h.slice.next_offset = at;
	}
	/* Elsewhere a thread reads, as the loop must not wait for a disk. */
	if (cache_is_told(h.dir))
		ok(waited <= 4, "%s: from the start, %d reads: %d needed a reader thread", folder, reads, waited);
	else
		ok(waited > 4, "%s: %d of %d reads are a reader thread's", folder, waited, reads);
	harness_close(&h);
	harness_open(&h);
	log = harness_log(&h, "t", 0);
	check_reads(&h, log, k, BATCHES, "after a start");
	harness_close(&h);
	harness_remove(h.dir);
	free(k);
}

/* A cursor points into a file that is cut, and batches of other sizes come to the same place. */
static void
test_truncated(void)
{
	Harness h;
	Log *log;
	Err err;

	harness_init(&h, "cut");
	h.config.index_interval_bytes = 100;
	harness_open(&h);
	log = harness_log(&h, "t", 0);
	fill(&h, log, 600, 1, 100);
	for (int64_t i = 0; i < 200; i++)
		answered_at_once(&h, log, i, 1);
	answered_at_once(&h, log, 150, 20000);
	log_set_high_watermark(log, 50);
	ok(log_truncate(log, 103, &err), "the log is truncated");
	fill(&h, log, 400, 2, 37);
	is_int(harness_read(&h, log, 151, INT64_MAX, 1), 0, "a read where a read had ended before");
	is_int(h.slice.first_offset, 151, "gets the batch that is there now");
	log_slice_release(&h.slice);
	is_int(harness_count_batches(&h, log, 0, 3000), 503, "and everything else can be read");
	is_int(harness_count_batches(&h, log, 151, 20000), 376, "from there, too");

	/* All of it, to begin at the same offset again. */
	log_set_high_watermark(log, 0);
	ok(log_truncate_fully(log, 0, &err), "and starts anew");
	fill(&h, log, 100, 3, 11);
	is_int(harness_count_batches(&h, log, 0, 2000), 100, "nothing of before is remembered");
	is_int(harness_count_batches(&h, log, 151, 2000), 50, "nor in the middle");
	harness_close(&h);
	harness_remove(h.dir);
}

/* The log is cut while a reader thread has a read of it: what it found is of a file that is no more. */
static void
test_truncated_meanwhile(void)
{
	LogRead r = {.offset = 50, .limit_offset = INT64_MAX, .max_bytes = 3000, .at_least_one = true};
	Harness h;
	Log *log;
	Err err;
	uint8_t *bytes;

	harness_init(&h, "meanwhile");
	h.config.index_interval_bytes = 100;
	harness_open(&h);
	log = harness_log(&h, "t", 0);
	fill(&h, log, 600, 1, 100);
	h.answered = false;
	ok(log_read(log, &r, &h.slice, &h.error, harness_read_done, &h) == LOG_READ_PENDING,
	   "a read is under way");
	ok(log_truncate(log, 40, &err), "and the log is truncated");
	fill(&h, log, 300, 2, 17);
	harness_wait(&h, h.answered);
	ok(h.answered, "the read is answered, by what there was or by what there is");
	log_slice_release(&h.slice);
	is_int(harness_read(&h, log, 50, INT64_MAX, 3000), 0, "another one");
	is_int(h.slice.first_offset, 50, "gets what is there now");
	bytes = harness_bytes(&h);
	is_int(bytes == NULL ? -1 : batch_base_offset(bytes), 50, "and its bytes");
	free(bytes);
	is_int(harness_count_batches(&h, log, 0, 3000), 340, "and so do all others");
	harness_close(&h);
	harness_remove(h.dir);
}

/* Segments that retention takes, and another log of the name in place of one that is deleted or set aside. */
static void
test_gone(void)
{
	Harness h;
	Log *log;
	char path[512];
	Err err;

	harness_init(&h, "gone");
	h.config.segment_bytes = 10000;
	h.config.index_interval_bytes = 100;
	harness_open(&h);
	log = harness_log(&h, "t", 0);
	fill(&h, log, 500, 1, 100);
	is_int(harness_count_batches(&h, log, 0, 1000), 500, "a log of many segments is read");
	h.config.retention_bytes = 20000;
	log_set_config(log, &h.config);
	harness_wait(&h, log_start_offset(log) > 300);
	is_int(harness_read(&h, log, 100, INT64_MAX, 1000), KERR_OFFSET_OUT_OF_RANGE,
		   "what retention took is not read");
	is_int(harness_count_batches(&h, log, log_start_offset(log), 1000), 500 - log_start_offset(log),
		   "the rest is");
	log_manager_delete(h.m, log);
	h.config.retention_bytes = -1;
	log = harness_log(&h, "t", 0);
	fill(&h, log, 300, 2, 30);
	is_int(harness_count_batches(&h, log, 0, 1000), 300, "another log of the name is read");
	ok(log_manager_set_aside(h.m, log, path, sizeof(path), &err), "it is set aside");
	log = harness_log(&h, "t", 0);
	fill(&h, log, 200, 3, 50);
	is_int(harness_count_batches(&h, log, 0, 1000), 200, "and so is the next");
	harness_close(&h);
	harness_remove(h.dir);
}

/* A reader at the end of a file that grows and is rolled. */
static void
test_growing(void)
{
	Harness h;
	Log *log;
	int64_t next = 0;
	int n = 0;

	harness_init(&h, "grow");
	h.config.segment_bytes = 20000;
	h.config.index_interval_bytes = 100;
	harness_open(&h);
	log = harness_log(&h, "t", 0);
	for (int round = 0; round < 30; round++)
	{
		fill(&h, log, 17, 1, 100);
		/* Out of the ring, so that it is not what answers. */
		log->ring.count = 0;
		while (next < log_written_end(log) && harness_read(&h, log, next, INT64_MAX, 700) == 0)
		{
			if (h.slice.len == 0 || h.slice.first_offset != next)
				break;
			n += (int) (h.slice.next_offset - next);
			next = h.slice.next_offset;
			log_slice_release(&h.slice);
		}
	}
	is_int(n, 510, "a reader that follows gets every batch once");
	harness_close(&h);
	harness_remove(h.dir);
}

/* An index file that is not there costs time, no more. */
static void
test_no_index(void)
{
	Harness h;
	Log *log;

	harness_init(&h, "noindex");
	h.config.index_interval_bytes = 100;
	harness_open(&h);
	log = harness_log(&h, "t", 0);
	fill(&h, log, 2000, 1, 100);
	unlink(harness_path(&h, "t-0", "00000000000000000000.index"));
	is_int(harness_read(&h, log, 700, INT64_MAX, 20000), 0, "a read without the index file");
	is_int(h.slice.first_offset, 700, "finds its batch");
	log_slice_release(&h.slice);
	is_int(harness_count_batches(&h, log, 0, 20000), 2000, "and all the others");
	harness_close(&h);
	harness_remove(h.dir);
}

int
main(void)
{
	static const char *const folders[] = {"/dev/shm", "/var/tmp"};

	test_cursors();
	test_pieces();
	for (int i = 0; i < 2; i++)
	{
		if (access(folders[i], W_OK) != 0)
			continue;
		test_same_bytes(folders[i]);
		test_truncated();
		test_truncated_meanwhile();
		test_gone();
		test_growing();
		test_no_index();
	}
	return tap_done();
}
