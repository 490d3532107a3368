/*
 * fuzz_response.c: a response as the client and the replica fetcher read it.  The first four bytes say what
 * was asked: int16 API key, int16 version; the frame follows.
 */
#include "regress/fuzz/stable.h"
#include "wire/bytes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	const WireApi *api;
	WireReader body;
	int16_t version;
	int32_t correlation_id;

	if (len < 4)
		return 0;
	api = wire_api((int16_t) get_be16(data));
	version = (int16_t) get_be16(data + 2);
	if (api == NULL || version < api->known_min || version > api->known_max)
		return 0;
	if (wire_response_header_decode(data + 4, len - 4, api, version, &correlation_id, &body) == 0)
		stable_message(api->response, version, body.p, wire_reader_left(&body));
	return 0;
}
