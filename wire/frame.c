/*
 * frame.c: frames and their headers (contract in codec.h).
 *
 *     request   int32 size | int16 key | int16 version | int32 correlation id | client id [| tagged]
 *     response  int32 size | int32 correlation id [| tagged]
 *
 * The tagged part is there in flexible versions, except that an ApiVersions response never has it: a client
 * whose version we do not speak reads our answer in the oldest form.
 */
#include "wire/bytes.h"
#include "wire/errors.h"
#include "wire/messages.h"

#include <string.h>

#define FRAME_SIZE_BYTES 4

static bool
response_is_flexible(const WireApi *api, int16_t version)
{
	return api->key != API_API_VERSIONS && version >= api->flexible;
}

WireHeaderResult
wire_request_header_decode(const uint8_t *frame, size_t len, WireRequestHeader *h, WireReader *body)
{
	RequestHeader msg;
	Arena none;

	memset(h, 0, sizeof(*h));
	h->client_id = WSTR_NULL;
	wire_reader_init(body, frame, len);
	if (len < 8)
		return WIRE_HEADER_MALFORMED;
	h->key = (int16_t) get_be16(frame);
	h->version = (int16_t) get_be16(frame + 2);
	h->correlation_id = (int32_t) get_be32(frame + 4);
	h->api = wire_api(h->key);
	if (h->api == NULL || !wire_api_serves(h->api, h->version))
		return WIRE_HEADER_UNSUPPORTED;
	/* A header holds neither arrays nor nullable structs, so the arena stays empty. */
	arena_init(&none, 0);
	if (wire_decode(&RequestHeader_desc, h->version >= h->api->flexible ? 2 : 1, body, &none, &msg) != 0)
		return WIRE_HEADER_MALFORMED;
	h->client_id = msg.client_id;
	return WIRE_HEADER_OK;
}

int
wire_response_header_decode(const uint8_t *frame, size_t len, const WireApi *api, int16_t version,
							int32_t *correlation_id, WireReader *body)
{
	ResponseHeader msg;
	Arena none;

	wire_reader_init(body, frame, len);
	arena_init(&none, 0);
	if (wire_decode(&ResponseHeader_desc, response_is_flexible(api, version) ? 1 : 0, body, &none, &msg) != 0)
		return -1;
	*correlation_id = msg.correlation_id;
	return 0;
}

static size_t
frame_begin(WireWriter *w)
{
	size_t start = w->len;

	wire_put_bytes(w, (const uint8_t[FRAME_SIZE_BYTES]){0}, FRAME_SIZE_BYTES);
	return start;
}

size_t
wire_response_begin(WireWriter *w, const WireApi *api, int16_t version, int32_t correlation_id)
{
	size_t start = frame_begin(w);
	ResponseHeader msg = {.correlation_id = correlation_id};

	/* A failure stays in the writer. */
	(void) !wire_encode(&ResponseHeader_desc, response_is_flexible(api, version) ? 1 : 0, w, &msg);
	return start;
}

size_t
wire_request_begin(WireWriter *w, const WireApi *api, int16_t version, int32_t correlation_id, WStr client_id)
{
	size_t start = frame_begin(w);
	RequestHeader msg = {api->key, version, correlation_id, client_id};

	(void) !wire_encode(&RequestHeader_desc, version >= api->flexible ? 2 : 1, w, &msg);
	return start;
}

void
wire_frame_end(WireWriter *w, size_t start)
{
	size_t size = w->len - start - FRAME_SIZE_BYTES;

	if (w->failed)
		return;
	for (int i = w->n_holes - 1; i >= 0 && w->holes[i].pos > start; i--)
		size += (size_t) w->holes[i].len;
	if (size > (size_t) INT32_MAX)
		w->failed = true;
	else
		put_be32(w->buf + start, (uint32_t) size);
}

void
wire_request_put(WireWriter *w, const WireApi *api, int16_t version, int32_t correlation_id, WStr client_id,
				 const void *request)
{
	size_t start = wire_request_begin(w, api, version, correlation_id, client_id);

	if (wire_encode(api->request, version, w, request) != 0)
		w->failed = true;
	wire_frame_end(w, start);
}

const char *
wire_response_decode(const uint8_t *frame, size_t len, const WireApi *api, int16_t version,
					 int32_t correlation_id, Arena *a, void *out)
{
	WireReader body;
	int32_t id;

	if (wire_response_header_decode(frame, len, api, version, &id, &body) != 0 || id != correlation_id)
		return "an answer to what was not asked";
	/* Who does not know our version of ApiVersions answers in the oldest form. */
	if (api->key == API_API_VERSIONS && wire_reader_left(&body) >= 2 &&
		get_be16(body.p) == KERR_UNSUPPORTED_VERSION)
		version = 0;
	if (wire_decode(api->response, version, &body, a, out) == 0)
		return NULL;
	return body.why != NULL ? body.why : "no memory";
}
