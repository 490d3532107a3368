/*
 * codec.h: Kafka messages between bytes and C structs.
 *
 * The structs (wire/messages.h) and the const tables that describe them are generated from wire/schema; one
 * engine walks the tables for every message and version.  No function here does I/O or keeps state, so any
 * thread may call them on its own reader, writer and arena.
 *
 * Decode.  Arrays and nested structs come from the arena; strings, bytes and records point into the frame,
 * which must live as long.  A field that the version does not have gets its default, unknown tagged fields
 * are skipped.  Before anything is allocated, a count or length is checked against the bytes left, and the
 * memory of all arrays against a budget in proportion to the frame.  Strings must be UTF-8 (they may hold a
 * NUL: whoever gives them to C or SQL looks).
 *
 * Encode.  A field that the version does not have is left out, whatever its value; a tagged field is left
 * out when it has its default; a null where the version knows none is written as empty.  Record data may be
 * left as a hole (WRecords.hole), which is filled when the frame is sent:
 *
 *     bytes in the writer:   [size][header][... partition 0, length 100][partition 1 ...]
 *     holes:                                                           ^ pos, len 100, user
 *     on the socket:         [size][header][... partition 0, length 100][100 bytes of records][partition 1 ...]
 *
 * Errors are sticky: a reader or writer that failed stays failed and does nothing more, so a caller checks
 * once.  int results are 0, or -1 for failure.
 */
#ifndef WIRE_CODEC_H
#define WIRE_CODEC_H

#include <sys/uio.h>

#include "wire/arena.h"
#include "wire/types.h"

typedef struct WireMsg WireMsg;
typedef struct WireField WireField;

/* ---- APIs ---- */

/* One row an API; ranges are inclusive and empty (1 to 0) for none. */
typedef struct WireApi
{
	int16_t key;
	int16_t min, max;             /* versions that we serve */
	int16_t adv_min, adv_max;     /* versions for ApiVersions */
	int16_t known_min, known_max; /* versions that the tables describe */
	int16_t flexible;             /* first flexible version; INT16_MAX = none */
	const char *name;             /* "Produce" */
	const WireMsg *request;
	const WireMsg *response;
} WireApi;

const WireApi *wire_api(int16_t key); /* NULL: not in the schema */
int wire_api_count(void);
const WireApi *wire_api_at(int i); /* by rising key */

static inline bool
wire_api_serves(const WireApi *api, int16_t version)
{
	return version >= api->min && version <= api->max;
}

/* ---- Reading ---- */

typedef struct WireReader
{
	const uint8_t *p;
	const uint8_t *end;
	size_t budget;   /* bytes of arena that this frame may still take */
	const char *why; /* what was wrong, a static text; NULL = nothing yet */
} WireReader;

/* The largest thing a frame may make of itself: an empty string is 1 byte there and 16 in a struct. */
#define WIRE_BUDGET(len) ((size_t) 65536 + (size_t) 16 * (len))

void wire_reader_init(WireReader *r, const void *data, size_t len);

static inline size_t
wire_reader_left(const WireReader *r)
{
	return (size_t) (r->end - r->p);
}

/*
 * Decode one message into `out`, a struct of the kind that `m` describes (`ProduceRequest_desc` describes a
 * ProduceRequest).  Bytes behind it are left in the reader.
 */
int wire_decode(const WireMsg *m, int16_t version, WireReader *r, Arena *a, void *out)
	__attribute__((warn_unused_result));

/*
 * A message that stands by itself in bytes, behind its int16 version ("data" of the schema).  Of a version that is not
 * known what is known of it.  -1: it cannot be read, and `out` has its defaults.
 */
int wire_unpack(const WireMsg *m, WBytes bytes, Arena *a, void *out) __attribute__((warn_unused_result));

/* ---- Writing ---- */

typedef struct WireHole
{
	size_t pos;  /* the hole's bytes go before buf[pos] */
	int32_t len; /* > 0 */
	void *user;  /* WRecords.hole */
} WireHole;

typedef struct WireWriter
{
	uint8_t *buf;
	size_t len;
	size_t cap;
	WireHole *holes; /* in rising order of pos */
	int n_holes;
	int cap_holes;
	size_t hole_bytes; /* sum of the holes' len */
	bool failed;       /* no memory, or a value that does not fit */
} WireWriter;

void wire_writer_init(WireWriter *w);  /* no memory yet */
void wire_writer_reset(WireWriter *w); /* empty again, memory kept */
void wire_writer_free(WireWriter *w);
void wire_put_bytes(WireWriter *w, const void *src, size_t len);

/* What there is to send behind the first `skip` bytes, holes filled from their `user`: up to `most` stretches; returns how many. */
int wire_writer_iov(const WireWriter *w, size_t skip, struct iovec *iov, int most);

/* Room for `n` bytes, for whoever writes them in place; NULL when the writer failed. */
uint8_t *wire_put_room(WireWriter *w, size_t n) __attribute__((warn_unused_result));
int wire_encode(const WireMsg *m, int16_t version, WireWriter *w, const void *in)
	__attribute__((warn_unused_result));

/* What wire_unpack reads, in the arena; len -1: there was no memory for it, or for what it is made of (a->failed). */
WBytes wire_pack(const WireMsg *m, int16_t version, Arena *a, const void *in);

/* ---- Structs ---- */

/* Zero the struct and set every field to its default. */
void wire_init(const WireMsg *m, void *out);

/* `n` structs with their defaults; NULL when the arena refuses. */
void *wire_new(const WireMsg *m, Arena *a, int32_t n) __attribute__((warn_unused_result));

/* WIRE_INIT(ProduceResponse, &resp);   p = WIRE_NEW(FetchResponseResponses, arena, n) */
#define WIRE_INIT(T, p)   wire_init(&T##_desc, (T *){(p)})
#define WIRE_NEW(T, a, n) ((T *) wire_new(&T##_desc, (a), (n)))

const char *wire_msg_name(const WireMsg *m); /* "ProduceRequest" */

/* ---- Frames and headers ---- */

typedef struct WireRequestHeader
{
	const WireApi *api; /* NULL: a key that is not in the schema */
	int16_t key;
	int16_t version;
	int32_t correlation_id;
	WStr client_id;
} WireRequestHeader;

typedef enum WireHeaderResult
{
	WIRE_HEADER_OK,
	WIRE_HEADER_UNSUPPORTED, /* key or version not served: h has key, version, correlation id only */
	WIRE_HEADER_MALFORMED
} WireHeaderResult;

/* `frame` is behind the 4 bytes of size; on OK `body` reads what follows the header. */
WireHeaderResult wire_request_header_decode(const uint8_t *frame, size_t len, WireRequestHeader *h,
											WireReader *body) __attribute__((warn_unused_result));

/* The same for a response (client and replica fetcher), which must know what it answers. */
int wire_response_header_decode(const uint8_t *frame, size_t len, const WireApi *api, int16_t version,
								int32_t *correlation_id, WireReader *body)
	__attribute__((warn_unused_result));

/*
 * Start a frame: 4 bytes kept for its size, then the header.  The result is where the frame starts in the
 * writer; wire_frame_end sets the size, holes included, and fails the writer over INT32_MAX.
 */
size_t wire_response_begin(WireWriter *w, const WireApi *api, int16_t version, int32_t correlation_id);
size_t wire_request_begin(WireWriter *w, const WireApi *api, int16_t version, int32_t correlation_id,
						  WStr client_id);
void wire_frame_end(WireWriter *w, size_t start);

/* For who asks: a whole request behind what is in the writer, which is left failed when there is none. */
void wire_request_put(WireWriter *w, const WireApi *api, int16_t version, int32_t correlation_id,
					  WStr client_id, const void *request);

/* And the answer to it in a frame (behind its size), as wire_decode.  NULL is success; else what is wrong, a static text. */
const char *wire_response_decode(const uint8_t *frame, size_t len, const WireApi *api, int16_t version,
								 int32_t correlation_id, Arena *a, void *out)
	__attribute__((warn_unused_result));

/* ---- The tables (generated; only the engine reads them) ---- */

typedef enum WireType
{
	WT_BOOL,
	WT_INT8,
	WT_INT16,
	WT_UINT16,
	WT_INT32,
	WT_INT64,
	WT_FLOAT64,
	WT_UUID,
	WT_STRING,
	WT_BYTES,
	WT_RECORDS,
	WT_STRUCT
} WireType;

#define WF_ARRAY 1 /* a pointer at `offset`, an int32_t count at `n_offset` */
#define WF_PTR   2 /* a nullable struct: a pointer */
#define WF_RIGID 4 /* the header's client id: never in compact form, any bytes */

struct WireField
{
	const char *name;
	const WireMsg *sub; /* WT_STRUCT */
	int64_t init;       /* the default; -1 is null for strings, bytes, records and arrays */
	uint16_t offset;
	uint16_t n_offset;
	uint8_t type;
	uint8_t flags;
	int8_t min, max;           /* versions that have it */
	int8_t null_min, null_max; /* versions in which it may be null */
	int16_t tag;               /* -1: an ordinary field */
};

struct WireMsg
{
	const char *name;
	const WireField *fields; /* ordinary ones in wire order, then tagged ones by rising tag */
	const uint8_t *min_size; /* fewest bytes on the wire, by version - min */
	const void *defaults;    /* a struct of it as wire_init() leaves it; NULL: all zero */
	uint16_t size;           /* of the struct */
	uint16_t n_fields;
	uint16_t n_tagged; /* the last so many of n_fields */
	int16_t min, max;  /* known versions */
	int16_t flexible;  /* first flexible version; INT16_MAX = none */
};

#endif
