/*
 * The engine's rules one by one, on bytes written by hand: bounds, null, tags, defaults, holes, headers.
 * (That the fields are right is test_vectors' business.)
 */
#include "regress/unit/tap.h"
#include "wire/bytes.h"
#include "wire/errors.h"
#include "wire/messages.h"

#include <stdlib.h>

#define BYTES(...) ((const uint8_t[]){__VA_ARGS__}), sizeof((const uint8_t[]){__VA_ARGS__})

/* Decode from an allocation of just this size, so that a sanitizer sees one byte too many. */
static int
decode(const WireMsg *m, int16_t version, const uint8_t *data, size_t len, void *out, const char **why)
{
	uint8_t *copy = malloc(len + 1);
	WireReader r;
	Arena a;
	int rc;

	if (copy == NULL)
		abort();
	memcpy(copy + 1, data, len);
	arena_init(&a, 0);
	wire_reader_init(&r, copy + 1, len);
	rc = wire_decode(m, version, &r, &a, out);
	if (why != NULL)
		*why = r.why == NULL ? "" : r.why;
	arena_free(&a);
	free(copy);
	return rc;
}

static void
refused(const WireMsg *m, int16_t version, const uint8_t *data, size_t len, const char *expected,
		const char *name)
{
	uint64_t out[512];
	const char *why;

	ok(decode(m, version, data, len, out, &why) == -1, "%s: refused", name);
	is_str(why, expected, "%s: says why", name);
}

static void
test_bounds(void)
{
	refused(&MetadataRequest_desc, 1, BYTES(0, 0, 0), "it ends in the middle of a field",
			"three bytes of a count");
	refused(&MetadataRequest_desc, 1, BYTES(0x7f, 0xff, 0xff, 0xff), "a count is larger than what is left",
			"a count of two thousand million");
	refused(&MetadataRequest_desc, 1, BYTES(0, 0, 0, 2, 0, 0, 0), "a count is larger than what is left",
			"two strings in three bytes");
	refused(&MetadataRequest_desc, 1, BYTES(0, 0, 0, 1, 0x7f, 0xff), "it ends in the middle of a field",
			"a string longer than the frame");
	refused(&MetadataRequest_desc, 1, BYTES(0xff, 0xff, 0xff, 0xfe), "a length is negative", "a count of -2");
	refused(&MetadataRequest_desc, 9, BYTES(0xff, 0xff, 0xff, 0xff, 0x1f), "a varint does not end",
			"a varint of more than 32 bits");
	refused(&MetadataRequest_desc, 9, BYTES(0xff, 0xff, 0xff, 0xff, 0x0f), "a length is out of range",
			"a compact length of 2^32 - 2");
	refused(&MetadataRequest_desc, 9, BYTES(0x80, 0x80, 0x80, 0x80, 0x80, 0x01), "a varint does not end",
			"a varint of six bytes");
	refused(&MetadataRequest_desc, 99, BYTES(0), "a version that the schema does not have", "version 99");
	refused(&MetadataRequest_desc, -1, BYTES(0), "a version that the schema does not have", "version -1");
}

/* Tiny elements: a frame may take 64 KiB and 16 times its size, no more. */
static void
test_budget(void)
{
	size_t n = 100000, at = 0;
	uint8_t *frame = malloc(2 * n + 16);
	uint64_t out[64];

	/* FindCoordinator 4: key_type, then an array of strings, each empty: 1 byte against 16. */
	if (frame == NULL)
		abort();
	frame[at++] = 0;
	at += (size_t) uvarint_put(frame + at, n + 1);
	memset(frame + at, 1, n);
	frame[at + n] = 0;
	ok(decode(&FindCoordinatorRequest_desc, 4, frame, at + n + 1, out, NULL) == 0,
	   "100,000 empty strings are taken");

	/* The budget itself, set low. */
	{
		WireReader r;
		Arena a;

		arena_init(&a, 0);
		wire_reader_init(&r, frame, at + n + 1);
		r.budget = 1000;
		ok(wire_decode(&FindCoordinatorRequest_desc, 4, &r, &a, out) == -1, "over the budget: refused");
		is_str(r.why, "it would take too much memory", "over the budget: says why");
		is_int(a.used, 0, "over the budget: nothing was allocated");
		arena_free(&a);

		arena_init(&a, 0);
		a.limit = 1000;
		wire_reader_init(&r, frame, at + n + 1);
		ok(wire_decode(&FindCoordinatorRequest_desc, 4, &r, &a, out) == -1,
		   "over the arena's limit: refused");
		is_str(r.why, "no memory", "over the arena's limit: says why");
		arena_free(&a);
	}
	free(frame);
}

static void
test_strings(void)
{
	HeartbeatRequest h;

	refused(&HeartbeatRequest_desc, 0, BYTES(0xff, 0xff, 0, 0, 0, 0, 0, 0), "null where none is allowed",
			"a null group id");
	refused(&HeartbeatRequest_desc, 0, BYTES(0, 2, 0xc3, 0x28, 0, 0, 0, 0, 0, 0), "a string is not UTF-8",
			"a broken sequence");
	refused(&HeartbeatRequest_desc, 0, BYTES(0, 2, 'g', 0xc3, 0, 0, 0, 0, 0, 0), "a string is not UTF-8",
			"a sequence that is cut off");
	ok(decode(&HeartbeatRequest_desc, 0, BYTES(0, 3, 'a', 0, 'b', 0, 0, 0, 0, 0, 0), &h, NULL) == 0 &&
		   h.group_id.len == 3,
	   "a NUL inside is the caller's business");
	ok(decode(&HeartbeatRequest_desc, 0, BYTES(0, 0, 0, 0, 0, 9, 0, 0), &h, NULL) == 0 &&
		   h.group_id.len == 0 && h.generation_id == 9,
	   "an empty string is not null");
	is_int(h.group_instance_id.len, -1, "a field of a later version has its default, null");
}

static void
test_tags(void)
{
	ProduceResponse p;
	FetchRequest f;
	/* Fetch 15 with nothing in it, up to the tagged fields. */
#define FETCH_15 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 1, 1, 1

	ok(decode(&ProduceResponse_desc, 9, BYTES(1, 0, 0, 0, 5, 2, 0x37, 3, 'a', 'b', 'c', 0xff, 1, 0), &p,
			  NULL) == 0 &&
		   p.throttle_time_ms == 5,
	   "unknown tagged fields are skipped");
	ok(decode(&FetchRequest_desc, 15, BYTES(FETCH_15, 1, 1, 13, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 9, 0), &f,
			  NULL) == 0 &&
		   f.replica_state.replica_id == 7 && f.replica_state.replica_epoch == 9,
	   "a known one is read");
	ok(decode(&FetchRequest_desc, 15, BYTES(FETCH_15, 0), &f, NULL) == 0 &&
		   f.replica_state.replica_id == -1 && f.replica_id == -1 && f.cluster_id.len == -1,
	   "one that is left out has its default, in the nested struct, too");
	refused(&FetchRequest_desc, 15, BYTES(FETCH_15, 1, 1, 12, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 9, 0),
			"a varint does not end", "one that says too few bytes");
	refused(&FetchRequest_desc, 15, BYTES(FETCH_15, 1, 1, 14, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0),
			"a tagged field is not as long as it says", "one that says too many");
	refused(&FetchRequest_desc, 15, BYTES(FETCH_15, 1, 1, 100, 0, 0), "it ends in the middle of a field",
			"one that is longer than the frame");
	refused(&FetchRequest_desc, 15, BYTES(FETCH_15, 0xff, 0xff, 0xff, 0xff, 0x0f), "a varint does not end",
			"more of them than there are bytes");
}

static void
test_encode_rules(void)
{
	WireWriter w;
	MetadataRequest m;
	OffsetFetchResponse o;
	HeartbeatRequest h;
	char *name = malloc(40000);

	wire_writer_init(&w);
	WIRE_INIT(MetadataRequest, &m);
	ok(m.allow_auto_topic_creation, "a default that is true");
	m.n_topics = -1;
	ok(wire_encode(&MetadataRequest_desc, 1, &w, &m) == 0 && w.len == 4 && get_be32(w.buf) == UINT32_MAX,
	   "null topics are null in version 1");
	wire_writer_reset(&w);
	ok(wire_encode(&MetadataRequest_desc, 0, &w, &m) == 0 && w.len == 4 && get_be32(w.buf) == 0,
	   "and empty in version 0, which has no null");

	wire_writer_reset(&w);
	WIRE_INIT(OffsetFetchResponse, &o);
	o.throttle_time_ms = 77;
	o.error_code = 16;
	ok(wire_encode(&OffsetFetchResponse_desc, 1, &w, &o) == 0 && w.len == 4,
	   "what the version does not have is left out");

	wire_writer_reset(&w);
	ok(wire_encode(&MetadataRequest_desc, 99, &w, &m) == -1 && w.failed,
	   "an unknown version fails the writer");
	ok(wire_encode(&MetadataRequest_desc, 1, &w, &m) == -1 && w.len == 0, "a failed writer stays failed");

	wire_writer_reset(&w);
	WIRE_INIT(HeartbeatRequest, &h);
	if (name == NULL)
		abort();
	memset(name, 'x', 40000);
	h.group_id = (WStr){name, 40000};
	ok(wire_encode(&HeartbeatRequest_desc, 3, &w, &h) == -1,
	   "a string over 32767 bytes does not fit an int16");
	wire_writer_reset(&w);
	ok(wire_encode(&HeartbeatRequest_desc, 4, &w, &h) == 0, "but does in compact form");
	free(name);
	wire_writer_free(&w);
}

/* A tagged field of more than 127 bytes has a length of two. */
static void
test_long_tag(void)
{
	ProduceResponse p, q;
	WireWriter w;
	WireReader r;
	Arena a;

	wire_writer_init(&w);
	arena_init(&a, 0);
	WIRE_INIT(ProduceResponse, &p);
	p.n_node_endpoints = 1000;
	p.node_endpoints = WIRE_NEW(ProduceResponseNodeEndpoints, &a, p.n_node_endpoints);
	if (p.node_endpoints == NULL)
		abort();
	for (int32_t i = 0; i < p.n_node_endpoints; i++)
	{
		p.node_endpoints[i].node_id = i;
		p.node_endpoints[i].host = WSTR_LIT("broker.example.org");
	}
	ok(wire_encode(&ProduceResponse_desc, 10, &w, &p) == 0, "a thousand endpoints");
	wire_reader_init(&r, w.buf, w.len);
	ok(wire_decode(&ProduceResponse_desc, 10, &r, &a, &q) == 0 && q.n_node_endpoints == 1000 &&
		   q.node_endpoints[999].node_id == 999 &&
		   wstr_eq(q.node_endpoints[999].host, WSTR_LIT("broker.example.org")),
	   "come back");
	arena_free(&a);
	wire_writer_free(&w);
}

static void
test_holes(void)
{
	FetchResponse f;
	FetchResponseResponses t;
	FetchResponseResponsesPartitions parts[3];
	WireWriter w;
	size_t first, second;
	int here;

	wire_writer_init(&w);
	WIRE_INIT(FetchResponse, &f);
	WIRE_INIT(FetchResponseResponses, &t);
	for (int i = 0; i < 3; i++)
		WIRE_INIT(FetchResponseResponsesPartitions, &parts[i]);
	f.responses = &t;
	f.n_responses = 1;
	t.partitions = parts;
	t.n_partitions = 3;
	parts[0].records = (WRecords){NULL, 100, &here};
	parts[1].records = (WRecords){(const uint8_t *) "abc", 3, NULL};
	parts[2].records = (WRecords){NULL, 200000, &parts};

	first = wire_response_begin(&w, wire_api(API_FETCH), 12, 5);
	ok(wire_encode(&FetchResponse_desc, 12, &w, &f) == 0, "a response with holes");
	wire_frame_end(&w, first);
	is_int(w.n_holes, 2, "two holes; records given as bytes are none");
	ok(w.holes[0].len == 100 && w.holes[0].user == &here && w.holes[1].len == 200000 &&
		   w.holes[1].user == &parts,
	   "with their lengths and owners");
	ok(w.buf[w.holes[0].pos - 1] == 101 && w.holes[1].pos > w.holes[0].pos, "each behind its length");
	is_int(get_be32(w.buf), w.len - 4 + 200100, "the frame's size counts them");

	second = wire_response_begin(&w, wire_api(API_FETCH), 12, 6);
	parts[2].records.len = 0;
	ok(wire_encode(&FetchResponse_desc, 12, &w, &f) == 0, "a second frame in the same writer");
	wire_frame_end(&w, second);
	is_int(get_be32(w.buf + second), w.len - second - 4 + 100, "counts only its own");
	is_int(w.n_holes, 3, "no hole for no bytes");
	is_int(w.hole_bytes, 200200, "all holes together");

	wire_writer_reset(&w);
	parts[0].records = (WRecords){NULL, 7, NULL};
	ok(wire_encode(&FetchResponse_desc, 12, &w, &f) == -1, "a length without bytes and without a hole fails");
	wire_writer_free(&w);
}

/* What is to be sent, from each of its bytes on, is the same as all of it at once. */
static void
test_iov(void)
{
	uint8_t hole[2][3] = {"abc", "de"};
	WireHole holes[] = {{0, 3, hole[0]}, {5, 2, hole[1]}, {5, 1, hole[1]}};
	WireWriter w;
	struct iovec iov[8];
	int wrong = 0;

	wire_writer_init(&w);
	wire_put_bytes(&w, "12345", 5);
	for (int n = 0; n <= 3; n++)
	{
		const char *all = n == 0 ? "12345" : n == 1 ? "abc12345" : n == 2 ? "abc12345de" : "abc12345ded";

		w.holes = holes;
		w.n_holes = n;
		for (size_t skip = 0; skip <= strlen(all); skip++)
		{
			size_t at = skip;

			for (int i = 0, got = wire_writer_iov(&w, skip, iov, 8); i < got; at += iov[i++].iov_len)
				wrong += iov[i].iov_len == 0 || at + iov[i].iov_len > strlen(all) ||
						 memcmp(iov[i].iov_base, all + at, iov[i].iov_len) != 0;
			wrong += at != strlen(all);
		}
	}
	is_int(wrong, 0, "bytes and holes as they are sent, from anywhere on");
	is_int(wire_writer_iov(&w, 0, iov, 2), 1, "as many stretches as there is room for");
	w.holes = NULL;
	w.n_holes = 0;
	wire_writer_free(&w);
}

static void
test_request_header(void)
{
	WireRequestHeader h;
	WireReader body;
	uint8_t empty = 0;

	ok(wire_request_header_decode(BYTES(0, 3, 0, 1, 0, 0, 0, 42, 0, 2, 'm', 'e', 9), &h, &body) ==
			   WIRE_HEADER_OK &&
		   h.key == API_METADATA && h.version == 1 && h.correlation_id == 42 &&
		   wstr_eq(h.client_id, WSTR_LIT("me")) && wire_reader_left(&body) == 1,
	   "header 1");
	ok(wire_request_header_decode(BYTES(0, 3, 0, 9, 0, 0, 0, 42, 0, 2, 'm', 'e', 1, 5, 1, 'x', 9), &h,
								  &body) == WIRE_HEADER_OK &&
		   wstr_eq(h.client_id, WSTR_LIT("me")) && wire_reader_left(&body) == 1,
	   "header 2: the client id keeps its int16 length, an unknown tagged field is skipped");
	ok(wire_request_header_decode(BYTES(0, 18, 0, 3, 0, 0, 0, 1, 0xff, 0xff, 0), &h, &body) ==
			   WIRE_HEADER_OK &&
		   h.client_id.len == -1,
	   "no client id");
	ok(wire_request_header_decode(BYTES(0, 18, 0, 99, 0, 0, 0, 8, 1, 2), &h, &body) ==
			   WIRE_HEADER_UNSUPPORTED &&
		   h.api == wire_api(API_API_VERSIONS) && h.correlation_id == 8,
	   "ApiVersions 99: enough is known to answer");
	ok(wire_request_header_decode(BYTES(0, 0, 0, 0, 0, 0, 0, 8, 0, 0), &h, &body) == WIRE_HEADER_UNSUPPORTED,
	   "Produce 0 is advertised but not served");
	ok(wire_request_header_decode(BYTES(0x7f, 0, 0, 0, 0, 0, 0, 8, 0, 0), &h, &body) ==
			   WIRE_HEADER_UNSUPPORTED &&
		   h.api == NULL,
	   "a key that is none");
	is_int(wire_request_header_decode(BYTES(0, 3, 0, 1, 0, 0, 0), &h, &body), WIRE_HEADER_MALFORMED,
		   "seven bytes");
	is_int(wire_request_header_decode(&empty, 0, &h, &body), WIRE_HEADER_MALFORMED, "none");
	is_int(wire_request_header_decode(BYTES(0, 3, 0, 1, 0, 0, 0, 42, 0, 9, 'm'), &h, &body),
		   WIRE_HEADER_MALFORMED, "a client id beyond the frame");
}

static void
test_response_header(void)
{
	WireWriter w;
	WireReader body;
	int32_t id;
	size_t at;

	wire_writer_init(&w);
	at = wire_response_begin(&w, wire_api(API_API_VERSIONS), 3, 7);
	wire_frame_end(&w, at);
	ok(w.len == 8 && get_be32(w.buf) == 4 && get_be32(w.buf + 4) == 7, "ApiVersions 3 answers with header 0");
	wire_writer_reset(&w);
	at = wire_response_begin(&w, wire_api(API_METADATA), 9, 7);
	wire_frame_end(&w, at);
	ok(w.len == 9 && w.buf[8] == 0, "Metadata 9 with header 1");
	ok(wire_response_header_decode(w.buf + 4, 5, wire_api(API_METADATA), 9, &id, &body) == 0 && id == 7 &&
		   wire_reader_left(&body) == 0,
	   "which is read back");
	is_int(wire_response_header_decode(w.buf + 4, 4, wire_api(API_METADATA), 9, &id, &body), -1,
		   "not without its tags");
	wire_writer_reset(&w);
	at = wire_response_begin(&w, wire_api(API_METADATA), 8, 7);
	wire_frame_end(&w, at);
	is_int(w.len, 8, "Metadata 8 with header 0");
	wire_writer_reset(&w);
	at = wire_request_begin(&w, wire_api(API_METADATA), 9, 7, WSTR_NULL);
	wire_frame_end(&w, at);
	ok(w.len == 15 && get_be16(w.buf + 12) == 0xffff && w.buf[14] == 0,
	   "a request with header 2 and no client id");
	wire_writer_free(&w);
}

/* What asks and what reads the answer: a request in one piece, a response by its correlation id. */
static void
test_asking(void)
{
	static const uint8_t oldest[] = {0, 0, 0, 7, 0, 35, 0, 0, 0, 1, 0, 18, 0, 0, 0, 2};
	const WireApi *versions = wire_api(API_API_VERSIONS), *beat = wire_api(API_HEARTBEAT);
	ApiVersionsResponse resp;
	HeartbeatRequest req;
	HeartbeatResponse answer;
	WireRequestHeader h;
	WireReader body;
	WireWriter w;
	Arena a;

	arena_init(&a, 1024);
	wire_writer_init(&w);
	WIRE_INIT(HeartbeatRequest, &req);
	req.group_id = WSTR_LIT("g");
	wire_request_put(&w, beat, 4, 9, WSTR_LIT("me"), &req);
	ok(!w.failed && get_be32(w.buf) == w.len - 4 &&
		   wire_request_header_decode(w.buf + 4, w.len - 4, &h, &body) == WIRE_HEADER_OK &&
		   h.correlation_id == 9 && wire_decode(beat->request, 4, &body, &a, &req) == 0 &&
		   wstr_eq(req.group_id, WSTR_LIT("g")),
	   "a whole request is what brokers read");
	wire_request_put(&w, beat, 99, 9, WSTR_NULL, &req);
	ok(w.failed, "one of a version that is not known fails the writer");
	ok(wire_response_decode(oldest, sizeof(oldest), versions, 3, 7, &a, &resp) == NULL &&
		   resp.error_code == KERR_UNSUPPORTED_VERSION && resp.n_api_keys == 1 &&
		   resp.api_keys[0].max_version == 2,
	   "ApiVersions of a broker that does not know ours is read in the oldest form");
	ok(wire_response_decode(oldest, sizeof(oldest), versions, 3, 8, &a, &resp) != NULL,
	   "an answer to another request is none");
	ok(wire_response_decode(oldest, 4, beat, 3, 7, &a, &answer) != NULL, "neither is half a one");
	wire_writer_free(&w);
	arena_free(&a);
}

static void
test_api_table(void)
{
	bool ordered = true, within = true, defined = true;

	for (int i = 0; i < wire_api_count(); i++)
	{
		const WireApi *api = wire_api_at(i);

		ordered = ordered && (i == 0 || wire_api_at(i - 1)->key < api->key) && wire_api(api->key) == api;
		within = within && api->known_min <= api->min && api->min <= api->max && api->max <= api->known_max &&
				 api->adv_max <= api->max;
		defined = defined && api->request != NULL && api->response != NULL;
	}
	ok(ordered, "APIs are found by their key");
	ok(within, "what is advertised is served, what is served is known");
	ok(defined, "each has a request and a response");
	ok(wire_api(4) == NULL && wire_api(-1) == NULL && wire_api(INT16_MAX) == NULL, "others are not there");
	ok(wire_api(API_PRODUCE)->adv_min == 0 && wire_api(API_PRODUCE)->min == 3,
	   "Produce advertises 0, for librdkafka, and serves from 3");
	ok(wire_api(API_WRITE_TXN_MARKERS)->adv_min > wire_api(API_WRITE_TXN_MARKERS)->adv_max,
	   "WriteTxnMarkers is for brokers and not advertised");
}

/* Is a field of a fresh struct what the table says of it? */
static bool begins_right(const WireMsg *m, const uint8_t *base);

static bool
field_begins_right(const WireField *f, const uint8_t *base)
{
	const void *p = base + f->offset;
	int64_t v = 0;

	if ((f->flags & WF_ARRAY) != 0)
		return *(void *const *) p == NULL &&
			   *(const int32_t *) (base + f->n_offset) == (f->init == 0 ? 0 : -1);
	if ((f->flags & WF_PTR) != 0)
		return *(void *const *) p == NULL;
	switch ((WireType) f->type)
	{
		case WT_STRUCT:
			return begins_right(f->sub, p);
		case WT_UUID:
			return wuuid_is_zero(p);
		case WT_FLOAT64:
			return *(const double *) p == (double) f->init;
		case WT_STRING:
			return ((const WStr *) p)->s == NULL && ((const WStr *) p)->len == (f->init == 0 ? 0 : -1);
		case WT_BYTES:
			return ((const WBytes *) p)->p == NULL && ((const WBytes *) p)->len == (f->init == 0 ? 0 : -1);
		case WT_RECORDS:
			return ((const WRecords *) p)->p == NULL && ((const WRecords *) p)->hole == NULL &&
				   ((const WRecords *) p)->len == (f->init == 0 ? 0 : -1);
		case WT_BOOL:
			v = *(const bool *) p;
			break;
		case WT_INT8:
			v = *(const int8_t *) p;
			break;
		case WT_INT16:
			v = *(const int16_t *) p;
			break;
		case WT_UINT16:
			v = *(const uint16_t *) p;
			break;
		case WT_INT32:
			v = *(const int32_t *) p;
			break;
		case WT_INT64:
			v = *(const int64_t *) p;
			break;
	}
	return v == f->init;
}

static bool
begins_right(const WireMsg *m, const uint8_t *base)
{
	bool right = true;

	for (int i = 0; i < m->n_fields; i++)
	{
		const WireField *f = &m->fields[i];
		uint64_t element[512];

		if (!field_begins_right(f, base))
		{
			printf("# %s.%s\n", wire_msg_name(m), f->name);
			right = false;
		}
		if (f->type == WT_STRUCT && (f->flags & (WF_ARRAY | WF_PTR)) != 0)
		{
			memset(element, 0xa5, sizeof(element));
			wire_init(f->sub, element);
			right = begins_right(f->sub, (const uint8_t *) element) && right;
		}
	}
	return right;
}

static void
test_defaults(void)
{
	int wrong = 0;

	for (int i = 0; i < wire_api_count(); i++)
	{
		const WireMsg *both[] = {wire_api_at(i)->request, wire_api_at(i)->response};

		for (int k = 0; k < 2; k++)
		{
			uint64_t out[512];

			memset(out, 0xa5, sizeof(out));
			wire_init(both[k], out);
			wrong += !begins_right(both[k], (const uint8_t *) out);
		}
	}
	is_int(wrong, 0, "every struct begins with the defaults of its fields");
}

int
main(void)
{
	test_bounds();
	test_budget();
	test_strings();
	test_tags();
	test_encode_rules();
	test_long_tag();
	test_holes();
	test_iov();
	test_request_header();
	test_response_header();
	test_asking();
	test_api_table();
	test_defaults();
	return tap_done();
}
