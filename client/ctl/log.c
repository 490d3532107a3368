/*
 * log.c: log dump.  Files of a data directory, in Kafka's formats, and the first place where one is damaged:
 *
 *     N.log         record batches one after the other
 *     N.index       int32 offset - N, int32 position in the log; rising
 *     N.timeindex   int64 timestamp, int32 offset - N; rising
 *     N.snapshot    int16 version, uint32 CRC-32C of what follows, int32 count, then 46 bytes a producer
 *     others        lines of text
 *
 * Indexes may end in zeros (room that was not used), a log in an incomplete batch (a write that a crash cut off); the
 * latter is damage, since a broker that starts cuts it.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/ctl/ctl.h"
#include "wire/bytes.h"
#include "wire/crc32c.h"

typedef struct File
{
	const char *name;
	const uint8_t *data;
	size_t len;
	int64_t base; /* the number in its name */
} File;

static int
damage(const File *f, size_t at, const char *why)
{
	(void) fflush(stdout);
	return ctl_fail(CTL_DAMAGED, "%s: damaged at byte %zu of %zu: %s", f->name, at, f->len, why);
}

/* ---- segments ---- */

static void
print_records(const uint8_t *batch, WireWriter *scratch)
{
	RecordIter it;
	Record r;

	if (batch_records(batch, 1 << 30, scratch, &it) != COMPRESS_OK)
		return;
	while (record_next(&it, &r))
		(void) printf("    offset %lld, time %lld, key %d bytes, value %d bytes, %d headers\n",
					  (long long) r.offset, (long long) r.timestamp, r.key.len, r.value.len, r.n_headers);
}

static const char *
batch_kind(const uint8_t *b)
{
	TxnMarker m;

	if (batch_is_control(b))
		return batch_read_marker(b, &m) ? m.commit ? "commit" : "abort" : "control";
	return batch_is_transactional(b) ? "transaction" : "";
}

/* Can its records be read? The checksum alone does not say that its writer was right. */
static const char *
look_inside(const uint8_t *b, WireWriter *scratch)
{
	RecordIter it;
	Record r;

	if (!batch_crc_matches(b))
		return batch_check_text(BATCH_BAD_CRC);
	if (batch_records(b, 1 << 30, scratch, &it) != COMPRESS_OK)
		return "the records cannot be decompressed";
	while (record_next(&it, &r))
		;
	return it.malformed ? "a record is malformed" : NULL;
}

static int
dump_log(const Ctl *ctl, const File *f)
{
	static const char *const columns[] = {
		"#first",    "#last", "#records",  "#epoch", "codec", "#producer", "#producer-epoch",
		"#sequence", "#time", "#position", "#bytes", "kind",  NULL};
	WireWriter scratch;
	const char *why = NULL;
	int64_t next = f->base;
	size_t at = 0;
	Table t;

	wire_writer_init(&scratch);
	table_begin(&t, ctl, columns);
	while (at < f->len && why == NULL)
	{
		const uint8_t *b = f->data + at;
		BatchCheck check = batch_check(b, f->len - at, false);

		if (check == BATCH_OK && batch_base_offset(b) < next)
			why = "the offset does not rise";
		else
			why = check != BATCH_OK ? batch_check_text(check) : look_inside(b, &scratch);
		if (why != NULL)
			break;
		next = batch_next_offset(b);
		table_cell(&t, "%lld", (long long) batch_base_offset(b));
		table_cell(&t, "%lld", (long long) batch_last_offset(b));
		table_cell(&t, "%d", batch_count(b));
		table_cell(&t, "%d", batch_leader_epoch(b));
		table_cell(&t, "%s", compress_name(batch_codec(b)));
		table_cell(&t, "%lld", (long long) batch_producer_id(b));
		table_cell(&t, "%d", batch_producer_epoch(b));
		table_cell(&t, "%d", batch_base_sequence(b));
		table_cell(&t, "%lld", (long long) batch_max_timestamp(b));
		table_cell(&t, "%zu", at);
		table_cell(&t, "%lld", (long long) batch_size(b));
		table_cell(&t, "%s", batch_kind(b));
		if (ctl->opt['R'] != NULL)
		{
			table_end(&t);
			print_records(b, &scratch);
			table_begin(&t, ctl, columns);
		}
		at += (size_t) batch_size(b);
	}
	table_end(&t);
	wire_writer_free(&scratch);
	return why == NULL ? CTL_OK : damage(f, at, why);
}

/* ---- indexes ---- */

static bool
map(const char *name, File *f)
{
	struct stat st;
	int fd = open(name, O_RDONLY | O_CLOEXEC);
	const char *slash = strrchr(name, '/');

	*f = (File){.name = name, .base = strtoll(slash == NULL ? name : slash + 1, NULL, 10)};
	if (fd < 0 || fstat(fd, &st) != 0)
	{
		if (fd >= 0)
			(void) close(fd);
		return false;
	}
	f->len = (size_t) st.st_size;
	f->data = (const uint8_t *) "";
	if (f->len > 0)
		f->data = mmap(NULL, f->len, PROT_READ, MAP_PRIVATE, fd, 0);
	(void) close(fd);
	return f->data != MAP_FAILED;
}

static void
unmap(File *f)
{
	if (f->len > 0)
		(void) munmap((void *) (uintptr_t) f->data, f->len);
}

static bool
is_zero(const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (p[i] != 0)
			return false;
	return true;
}

/* The segment beside an index; without one the index is looked at alone. */
static bool
segment_of(const File *index, File *log, char *name, size_t size)
{
	const char *dot = strrchr(index->name, '.');

	(void) snprintf(name, size, "%.*s.log", (int) (dot - index->name), index->name);
	return map(name, log);
}

static int
dump_index(const Ctl *ctl, const File *f, bool by_time)
{
	static const char *const offset_columns[] = {"#offset", "#position", NULL};
	static const char *const time_columns[] = {"#time", "#offset", NULL};
	size_t entry = by_time ? 12 : 8, at = 0;
	int64_t last_key = -1, last_value = -1;
	const char *why = NULL;
	char name[4096];
	File log;
	bool have_log = segment_of(f, &log, name, sizeof(name));
	Table t;

	table_begin(&t, ctl, by_time ? time_columns : offset_columns);
	for (; at + entry <= f->len && why == NULL && !(at > 0 && is_zero(f->data + at, entry)); at += entry)
	{
		const uint8_t *p = f->data + at;
		int64_t key = by_time ? (int64_t) get_be64(p) : (int32_t) get_be32(p);
		int64_t value = (int32_t) get_be32(p + entry - 4);

		if (at == 0 && is_zero(p, entry))
			break;
		if (key <= last_key || value < last_value || (by_time && value < 0))
			why = "the entries do not rise";
		else if (!by_time && have_log &&
				 ((size_t) value >= log.len ||
				  batch_check(log.data + value, log.len - (size_t) value, false) != BATCH_OK ||
				  batch_last_offset(log.data + value) < f->base + key))
			why = "an entry points to where no such batch is";
		if (why != NULL)
			break;
		last_key = key;
		last_value = value;
		table_cell(&t, "%lld", (long long) (by_time ? key : f->base + key));
		table_cell(&t, "%lld", (long long) (by_time ? f->base + value : value));
	}
	table_end(&t);
	if (have_log)
		unmap(&log);
	if (why == NULL && !is_zero(f->data + at, f->len - at))
		why = f->len - at < entry ? "half an entry" : "entries behind the end";
	return why == NULL ? CTL_OK : damage(f, at, why);
}

/* ---- producers ---- */

static int
dump_snapshot(const Ctl *ctl, const File *f)
{
	static const char *const columns[] = {"#producer",         "#epoch", "#last-sequence",
										  "#last-offset",      "#time",  "#coordinator-epoch",
										  "#transaction-from", NULL};
	const size_t entry = 46;
	int32_t n;
	Table t;

	if (f->len < 10 || get_be16(f->data) != 1)
		return damage(f, 0, "it is no snapshot of version 1");
	if (get_be32(f->data + 2) != crc32c(0, f->data + 6, f->len - 6))
		return damage(f, 2, "the checksum does not match");
	n = (int32_t) get_be32(f->data + 6);
	if (n < 0 || (size_t) n * entry != f->len - 10)
		return damage(f, 6, "the count does not fit the size");
	table_begin(&t, ctl, columns);
	for (const uint8_t *p = f->data + 10; p < f->data + f->len; p += entry)
	{
		table_cell(&t, "%lld", (long long) get_be64(p));
		table_cell(&t, "%d", (int16_t) get_be16(p + 8));
		table_cell(&t, "%d", (int32_t) get_be32(p + 10));
		table_cell(&t, "%lld", (long long) get_be64(p + 14));
		table_cell(&t, "%lld", (long long) get_be64(p + 26));
		table_cell(&t, "%d", (int32_t) get_be32(p + 34));
		table_cell(&t, "%lld", (long long) get_be64(p + 38));
	}
	table_end(&t);
	return CTL_OK;
}

static int
dump_file(const Ctl *ctl, const char *name)
{
	const char *dot = strrchr(name, '.');
	File f;
	int code = CTL_OK;

	if (!map(name, &f))
		return ctl_fail(CTL_NOT_FOUND, "%s: %s", name, strerror(errno)); /* NOLINT(concurrency-mt-unsafe) */
	if (dot == NULL)
		dot = "";
	if (!ctl->json)
		(void) printf("%s (%zu bytes)\n", name, f.len);
	if (strcmp(dot, ".log") == 0)
		code = dump_log(ctl, &f);
	else if (strcmp(dot, ".index") == 0 || strcmp(dot, ".timeindex") == 0)
		code = dump_index(ctl, &f, strcmp(dot, ".timeindex") == 0);
	else if (strcmp(dot, ".snapshot") == 0)
		code = dump_snapshot(ctl, &f);
	else if (!ctl->json)
		(void) fwrite(f.data, 1, f.len, stdout);
	unmap(&f);
	return code;
}

static int
not_hidden(const struct dirent *d)
{
	return d->d_name[0] != '.';
}

/* A file, or all files of a folder and of those in it. */
static int
dump_path(const Ctl *ctl, const char *path)
{
	struct dirent **list = NULL;
	struct stat st;
	int n, code = CTL_OK;

	if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode))
		return dump_file(ctl, path);
	n = scandir(path, &list, not_hidden, alphasort);
	for (int i = 0; i < n; i++)
	{
		char name[4096];
		int one;

		(void) snprintf(name, sizeof(name), "%s/%s", path, list[i]->d_name);
		one = dump_path(ctl, name);
		code = one > code ? one : code;
		free(list[i]);
	}
	free(list);
	return code;
}

int
log_dump(Ctl *ctl)
{
	int code = CTL_OK;

	for (int i = 0; i < ctl->n_args; i++)
	{
		int one = dump_path(ctl, ctl->args[i]);

		code = one > code ? one : code;
	}
	return code;
}
