/*
 * api.h: from a frame to a handler and back.
 *
 *     net/  ── Request ──▶  api_request()  ── header, version, decode ──▶  handler(call)
 *                                                                            │ now or later
 *     net/  ◀── bytes with holes ──────  api_reply(call, &response)  ◀───────┘
 *
 * One file an API; handlers.def lists them, and ApiVersions answers from it: an API without a
 * handler is not advertised.  A handler answers exactly once, with api_reply(), api_no_reply() or api_abort().
 * Everything it allocates comes from the call's arena, which lives until the answer is sent.
 */
#ifndef BROKERD_API_API_H
#define BROKERD_API_API_H

#include "brokerd/api/broker.h"
#include "wire/codec.h"
#include "wire/errors.h"
#include "wire/messages.h"

typedef struct ApiCall
{
	Broker *broker;
	Request *req;
	const WireApi *api;
	int16_t version;
	int32_t correlation_id;
	WStr client_id;
	void *body; /* the decoded request: ProduceRequest *, ... */
	Arena *arena;
	void (*cancelled)(struct ApiCall *call); /* the client went while the call was pending; may be NULL */
	void *op;                                /* the handler's own state */
	uint64_t parked;                         /* groups_park()'s number; 0: not parked */
} ApiCall;

typedef void (*ApiHandler)(ApiCall *call);

/* NetOptions.on_request; ctx is the Broker. */
void api_request(void *ctx, Request *req);

/* Encodes `response` (of the call's API and version) and sends it.  WRecords.hole is a NetPiece *. */
void api_reply(ApiCall *call, const void *response);
/* The same, and `ready` has it from then on; without holes.  What does not fit is not kept. */
void api_reply_and_keep(ApiCall *call, const void *response, ReadyAnswer *ready);
/* Sends what is kept, without encoding it; false: there is nothing. */
bool api_reply_ready(ApiCall *call, const ReadyAnswer *ready);
void api_no_reply(ApiCall *call); /* acks=0 */
void api_abort(ApiCall *call);    /* close the connection */

bool api_is_served(int16_t key);

/* arena_alloc that cannot fail: a call's arena has no limit beyond the frame's budget, and a process out of
 * memory stops with a sentence. */
void *api_alloc(ApiCall *call, size_t size);
/* API_NEW(call, ProduceResponseResponses, n): n structs with their defaults */
void *api_new(ApiCall *call, const WireMsg *desc, int32_t n);
#define API_NEW(call, T, n) ((T *) api_new((call), &T##_desc, (n)))
/* One more partition of a response; good until the next one. */
void *api_by_topic(ApiCall *call, const WireMsg *desc, void *response, WStr topic, int32_t index);
WStr api_printf(ApiCall *call, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
WStr api_copy(ApiCall *call, const char *s); /* NULL: null */

/* When the client gave `timeout_ms`, until when a call to PostgreSQL may take (boot clock). */
int64_t api_deadline(const ApiCall *call, int32_t timeout_ms);
void api_requester(const ApiCall *call, MetaRequester *who);

#endif
