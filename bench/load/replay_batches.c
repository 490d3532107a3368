/* replay_batches.c: see replay_batches.h, and the mode that makes such a file. */
#include "bench/load/replay_batches.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/load/payload.h"
#include "bench/load/replay.h"
#include "wire/record.h"

static void
read_file(Batches *b, const char *path, size_t most)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || fstat(fd, &st) != 0)
		die("%s: %s", path, strerror(errno));
	b->len = (size_t) st.st_size < most ? (size_t) st.st_size : most;
	b->fd = memfd_create("batches", MFD_CLOEXEC);
	if (b->len == 0)
		die("%s: there is no batch in it", path);
	if (b->fd < 0 || ftruncate(b->fd, (off_t) b->len) != 0)
		die("no memory for %zu bytes of batches: %s", b->len, strerror(errno));
	b->bytes = mmap(NULL, b->len, PROT_READ | PROT_WRITE, MAP_SHARED, b->fd, 0);
	if (b->bytes == MAP_FAILED)
		die("no memory for %zu bytes of batches: %s", b->len, strerror(errno));
	for (size_t got = 0; got < b->len;)
	{
		ssize_t n = pread(fd, b->bytes + got, b->len - got, (off_t) got);

		if (n <= 0)
			die("%s: %s", path, n == 0 ? "it became shorter" : strerror(errno));
		got += (size_t) n;
	}
	close(fd);
}

static void
note_batch(Batches *b, size_t at)
{
	uint8_t *batch = b->bytes + at;

	if ((b->n & (b->n - 1)) == 0)
	{
		b->list = realloc(b->list, sizeof(*b->list) * (b->n == 0 ? 1 : 2 * (size_t) b->n));
		if (b->list == NULL)
			die("no memory for %d batches", b->n);
	}
	b->list[b->n++] =
		(Batch){.at = (int64_t) at, .size = (int32_t) batch_size(batch), .records = batch_count(batch)};
	batch_set_base_offset(batch, 0);
	batch_set_leader_epoch(batch, -1);
	if (batch_has_producer(batch))
		batch_set_producer(batch, BATCH_NO_PRODUCER_ID, BATCH_NO_EPOCH, BATCH_NO_SEQUENCE);
}

void
batches_load(Batches *b, const char *path, size_t most)
{
	size_t at = 0;

	memset(b, 0, sizeof(*b));
	read_file(b, path, most);
	while (at < b->len)
	{
		uint8_t *batch = b->bytes + at;
		BatchCheck check = batch_check(batch, b->len - at, true);

		/* The end of a log that is written to, or of what is wanted of it. */
		if (check == BATCH_TRUNCATED ||
			(b->n > 0 && b->len - at >= 12 && batch_size(batch) == BATCH_FRAME_SIZE))
			break;
		if (check == BATCH_OK && !batch_crc_matches(batch))
			check = BATCH_BAD_CRC;
		if (check != BATCH_OK)
			die("%s: no batch to replay at byte %zu: %s", path, at, batch_check_text(check));
		if (!batch_is_control(batch) && !batch_is_transactional(batch))
			note_batch(b, at);
		at += (size_t) batch_size(batch);
	}
	if (b->n == 0)
		die("%s: there is no batch in it that can be replayed", path);
}

void
batches_free(Batches *b)
{
	munmap(b->bytes, b->len);
	close(b->fd);
	free(b->list);
}

/* ---- make-batches ---- */

static void
make_batch(WireWriter *out, const Settings *s, const Payload *values, int64_t *next, int codec)
{
	BatchBuilder bb;
	int64_t time = INT64_C(1764489600000);

	batch_begin(&bb, out, codec);
	for (int64_t i = 0; i < s->records; i++, (*next)++)
		batch_add(&bb, time + i / 100, WBYTES_NULL,
				  (WBytes){payload_at(values, *next), (int32_t) values->size}, NULL, 0);
	if (batch_end(&bb) != 0)
		die("a batch of %d records of %d bytes cannot be made", (int) s->records, (int) s->size);
}

int
replay_make_batches(const Replay *replay)
{
	const Settings *s = &replay->settings;
	int codec = compress_by_name(s->compression, strlen(s->compression));
	int64_t next = 0, bytes = 0;
	WireWriter out;
	Payload values;
	Result r;
	FILE *file;

	if (codec < 0)
		die_usage("--compression is none, gzip, snappy, lz4 or zstd, not \"%s\"", s->compression);
	payload_init(&values, s->payload, (size_t) s->size);
	file = fopen(s->file, "wbe");
	if (file == NULL)
		die("%s: %s", s->file, strerror(errno));
	wire_writer_init(&out);
	for (int64_t i = 0; i < s->count; i++)
	{
		wire_writer_reset(&out);
		make_batch(&out, s, &values, &next, codec);
		if (fwrite(out.buf, 1, out.len, file) != out.len)
			die("%s: %s", s->file, strerror(errno));
		bytes += (int64_t) out.len;
	}
	if (fclose(file) != 0)
		die("%s: %s", s->file, strerror(errno));
	wire_writer_free(&out);
	payload_free(&values);
	replay_begin_result(&r, replay);
	result_int(&r, "batches", s->count);
	result_int(&r, "records", next);
	result_int(&r, "bytes", bytes);
	result_int(&r, "batch_bytes", bytes / s->count);
	result_end(&r);
	return 0;
}
