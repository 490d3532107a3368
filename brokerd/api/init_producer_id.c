/*
 * InitProducerId (key 22), v0-5, for idempotent producers: an id that was never given before, epoch 0.  Blocks of ids
 * come from PostgreSQL; with one in hand new producers start while it is away.  A transactional id needs the
 * transaction coordinator, which is not served: its own error, so that a client says what it misses.
 */
#include "brokerd/api/handlers.h"
#include "brokerd/base/clock.h"

enum
{
	WAIT_MS = 10000 /* shorter than any client's request timeout */
};

static void
on_producer_id(void *ctx, int16_t error, int64_t producer_id)
{
	ApiCall *call = ctx;
	InitProducerIdResponse response;

	WIRE_INIT(InitProducerIdResponse, &response);
	response.error_code = error;
	response.producer_id = error == KERR_NONE ? producer_id : -1;
	response.producer_epoch = error == KERR_NONE ? 0 : -1;
	api_reply(call, &response);
}

void
init_producer_id_handle(ApiCall *call)
{
	const InitProducerIdRequest *request = call->body;

	/* v3: a producer that asks to go on says both its id and its epoch. */
	if (request->transactional_id.len == 0 || (request->producer_id < 0) != (request->producer_epoch < 0))
		on_producer_id(call, KERR_INVALID_REQUEST, -1);
	else if (request->transactional_id.len > 0)
		on_producer_id(call, KERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED, -1);
	else
		meta_producer_id(call->broker->meta, clock_boot_ms() + WAIT_MS, on_producer_id, call);
}
