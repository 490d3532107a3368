/*
 * replay_batches.h: batches to replay, as bytes and as a file that sendfile can send from.
 *
 * A file of batches is what a log segment is: record batches of magic 2, one behind the other.  So a segment
 * of any data directory, brokerd's or Apache Kafka's, is one too: a producer's own traffic, with its batch
 * sizes and its compression.
 *
 * Loaded, the batches are made fit to be sent again: base offset 0, as producers send it; no producer id, since
 * its sequence numbers would be duplicates; control batches (transaction markers) are left out.
 */
#ifndef BENCH_LOAD_REPLAY_BATCHES_H
#define BENCH_LOAD_REPLAY_BATCHES_H

#include <stddef.h>
#include <stdint.h>

typedef struct Batch
{
	int64_t at; /* in bytes and in fd */
	int32_t size;
	int32_t records;
} Batch;

typedef struct Batches
{
	Batch *list;
	int n;
	uint8_t *bytes; /* the whole, mapped */
	size_t len;
	int fd; /* a file without a name that holds the same */
} Batches;

/* Up to `most` bytes of the file.  Ends the program when there is no batch in it, or a broken one. */
void batches_load(Batches *b, const char *path, size_t most);
void batches_free(Batches *b);

#endif
