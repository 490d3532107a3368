/*
 * record.h: the records inside of a batch, read one by one or built.
 *
 * Read.  The iterator walks an uncompressed payload and gives slices of it; batch_records() decompresses
 * first when it must.  Every length is checked against what is left.
 *
 *     RecordIter it;
 *     Record	  rec;
 *     if (batch_records(batch, limit, &scratch, &it) != COMPRESS_OK) ...
 *     while (record_next(&it, &rec))
 *         use(rec.offset, rec.timestamp, rec.key, rec.value);
 *     if (it.malformed) ...
 *
 * Build.  A BatchBuilder makes a batch of magic 2 in a writer; one batch at a time, several after another:
 *
 *     batch_begin(&bb, &writer, COMPRESS_LZ4);
 *     batch_add(&bb, timestamp, key, value, NULL, 0);
 *     if (batch_end(&bb) != 0) ...
 */
#ifndef WIRE_RECORD_H
#define WIRE_RECORD_H

#include "wire/batch.h"
#include "wire/codec.h"
#include "wire/compress.h"

typedef struct RecordHeader
{
	WStr key; /* never null; not checked for UTF-8 */
	WBytes value;
} RecordHeader;

typedef struct Record
{
	int64_t offset;
	int64_t timestamp; /* the batch's max timestamp under LogAppendTime */
	WBytes key;
	WBytes value;
	int32_t n_headers;
	const uint8_t *headers; /* n_headers of them, checked; record_header_next walks them */
	const uint8_t *end;     /* behind the record */
} Record;

typedef struct RecordIter
{
	const uint8_t *p;
	const uint8_t *end;
	int64_t base_offset;
	int64_t base_timestamp;
	int64_t append_time; /* -1: CreateTime */
	int32_t left;        /* records still to come */
	bool malformed;
} RecordIter;

/* `payload` holds the records of `batch`, decompressed. */
void record_iter_init(RecordIter *it, const uint8_t *batch, const void *payload, size_t len);

/* False at the end or at a malformed record (then it.malformed); bytes behind the last one are malformed. */
bool record_next(RecordIter *it, Record *rec);

/* `*at` starts as rec->headers; one header after another in the order they were written, false behind the last. */
bool record_header_next(const Record *rec, const uint8_t **at, RecordHeader *h);

/*
 * Iterate a batch that batch_check found well.  A compressed one is decompressed into `scratch` (reset
 * first, must live as long as the records) up to `limit` bytes.
 */
CompressResult batch_records(const uint8_t *batch, size_t limit, WireWriter *scratch, RecordIter *it)
	__attribute__((warn_unused_result));

/* ---- building ---- */

typedef struct BatchBuilder
{
	WireWriter *out;
	size_t start; /* of this batch in out */
	int codec;
	int level; /* -1: the codec's default */
	int16_t attributes;
	int32_t count;
	int64_t base_timestamp;
	int64_t max_timestamp;
	int64_t producer_id; /* to be set between begin and end, with the next two */
	int16_t producer_epoch;
	int32_t base_sequence;
} BatchBuilder;

/* Base offset and leader epoch are 0 and -1 until somebody stamps them.  Failures stay in the writer. */
void batch_begin(BatchBuilder *bb, WireWriter *out, int codec);
void batch_add(BatchBuilder *bb, int64_t timestamp, WBytes key, WBytes value, const RecordHeader *headers,
			   int32_t n_headers);

/* Bytes that the batch would have now, uncompressed. */
size_t batch_building_size(const BatchBuilder *bb);

/* Compress, fill in the header and the CRC.  -1: the writer failed or nothing was added. */
int batch_end(BatchBuilder *bb) __attribute__((warn_unused_result));

/*
 * A control batch that ends a producer's transaction in a partition: one record whose key is int16 version
 * 0 and int16 type (0 abort, 1 commit) and whose value is int16 version 0 and int32 coordinator epoch.
 */
typedef struct TxnMarker
{
	int64_t producer_id;
	int16_t producer_epoch;
	int32_t coordinator_epoch;
	int64_t timestamp;
	bool commit;
} TxnMarker;

int batch_put_marker(WireWriter *out, const TxnMarker *m) __attribute__((warn_unused_result));

/* False: the batch is no control batch, or no transaction marker. */
bool batch_read_marker(const uint8_t *batch, TxnMarker *m);

#endif
