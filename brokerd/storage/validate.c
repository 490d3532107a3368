#include "brokerd/storage/validate.h"

#include "wire/errors.h"
#include "wire/record.h"

/* A batch of max.message.bytes may decompress to much more; beyond this it is not looked into but refused. */
#define DECOMPRESS_MAX ((size_t) 256 * 1024 * 1024)

static int16_t
refuse(int16_t error, const char *text, const char **message)
{
	*message = text;
	return error;
}

int16_t
validate_frame(const uint8_t *b, int32_t len, const LogConfig *c, bool from_client, const char **message)
{
	int64_t size;

	if (len < 17)
		return refuse(KERR_INVALID_RECORD, "there is no record batch", message);
	size = batch_size(b);
	if (size < 26 || size > INT32_MAX)
		return refuse(KERR_CORRUPT_MESSAGE, "the batch length is impossible", message);
	if (batch_magic(b) < 0 || batch_magic(b) > 2)
		return refuse(KERR_CORRUPT_MESSAGE, "the magic byte is unknown", message);
	if (batch_magic(b) != 2)
		return refuse(KERR_INVALID_RECORD, "only record batches of magic 2 are taken", message);
	if (size > len)
		return refuse(KERR_INVALID_RECORD, "there is no whole record batch", message);
	if (size < len)
		return refuse(KERR_INVALID_RECORD, "there must be exactly one record batch", message);
	if (size < BATCH_HEADER_SIZE)
		return refuse(KERR_CORRUPT_MESSAGE, "the batch is shorter than its header", message);
	if (from_client && batch_base_offset(b) != 0)
		return refuse(KERR_INVALID_RECORD, "the base offset of a produced batch must be 0", message);
	if (from_client && size > c->max_message_bytes)
		return refuse(KERR_MESSAGE_TOO_LARGE, "the batch is larger than max.message.bytes", message);
	if (!batch_crc_matches(b))
		return refuse(KERR_CORRUPT_MESSAGE, "the checksum of the batch does not match", message);
	return KERR_NONE;
}

static bool
timestamp_is_out(int64_t t, const LogConfig *c, int64_t now)
{
	if (t == -1)
		return false;
	if (t > now)
		return t - now > c->timestamp_after_max_ms;
	return now - t > c->timestamp_before_max_ms;
}

/* What is wrong with a single record: its code and sentence, or KERR_NONE. */
static int16_t
check_record(const Record *r, const LogConfig *c, int64_t now, const char **message)
{
	if (c->cleanup_compact && r->key.len < 0)
		return refuse(KERR_INVALID_RECORD, "a compacted topic takes no record without a key", message);
	if (!c->log_append_time && timestamp_is_out(r->timestamp, c, now))
		return refuse(KERR_INVALID_TIMESTAMP, "a record's timestamp is out of the topic's range", message);
	return KERR_NONE;
}

static int16_t
validate_records(const uint8_t *b, const LogConfig *c, int64_t now, LogAppend *a)
{
	WireWriter scratch;
	RecordIter it;
	Record r;
	int16_t error = KERR_NONE;

	wire_writer_init(&scratch);
	if (batch_records(b, DECOMPRESS_MAX, &scratch, &it) != COMPRESS_OK)
		error = refuse(KERR_CORRUPT_MESSAGE, "the records cannot be decompressed", &a->message);
	for (int32_t i = 0; error != KERR_CORRUPT_MESSAGE && record_next(&it, &r); i++)
	{
		const char *message = NULL;
		int16_t found = check_record(&r, c, now, &message);

		if (found == KERR_NONE)
			continue;
		if (error == KERR_NONE)
			error = refuse(found, message, &a->message);
		if (a->record_error != NULL)
			a->record_error(a->record_error_ctx, i, message);
	}
	if (error == KERR_NONE && it.malformed)
		error = refuse(KERR_INVALID_RECORD, "a record of the batch is malformed", &a->message);
	wire_writer_free(&scratch);
	return error;
}

int16_t
validate_client_batch(const uint8_t *b, const LogConfig *c, int64_t now, LogAppend *a)
{
	int16_t attributes = batch_attributes(b);

	if (batch_last_offset_delta(b) < 0)
		return refuse(KERR_INVALID_RECORD, "the offset range of the batch is invalid", &a->message);
	if (batch_count(b) <= 0)
		return refuse(KERR_INVALID_RECORD, "the batch has no records", &a->message);
	if (batch_count(b) - 1 != batch_last_offset_delta(b))
		return refuse(KERR_INVALID_RECORD, "record count and last offset delta contradict each other",
					  &a->message);
	if (batch_check(b, (size_t) batch_size(b), true) != BATCH_OK)
		return refuse(KERR_INVALID_RECORD, "the batch cannot hold that many records", &a->message);
	if (attributes & BATCH_CONTROL)
		return refuse(KERR_INVALID_RECORD, "clients may not write control batches", &a->message);
	if (batch_has_producer(b) && batch_base_sequence(b) < 0)
		return refuse(KERR_INVALID_RECORD, "a batch with a producer id needs a sequence", &a->message);
	if (compress_name(attributes & BATCH_CODEC_MASK) == NULL)
		return refuse(KERR_UNSUPPORTED_COMPRESSION_TYPE, "the compression codec is unknown", &a->message);
	if ((attributes & BATCH_LOG_APPEND_TIME) && (c->log_append_time || batch_max_timestamp(b) == -1))
		return refuse(KERR_INVALID_TIMESTAMP, "a producer may not set the timestamp type LogAppendTime",
					  &a->message);
	if (!c->log_append_time && (timestamp_is_out(batch_max_timestamp(b), c, now) ||
								timestamp_is_out(batch_base_timestamp(b), c, now)))
		return refuse(KERR_INVALID_TIMESTAMP, "a record's timestamp is out of the topic's range",
					  &a->message);
	/* Only rules about single records need a look inside: the header bounds the timestamps from above, and
	 * the lower bound is not set by default. */
	if (c->cleanup_compact || (!c->log_append_time && c->timestamp_before_max_ms != INT64_MAX))
		return validate_records(b, c, now, a);
	return KERR_NONE;
}
