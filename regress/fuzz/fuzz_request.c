/*
 * fuzz_request.c: a request frame as it comes from the network.  Header and body are decoded; what is
 * accepted must be written and read again as the same bytes.
 */
#include "regress/fuzz/stable.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	WireRequestHeader h;
	WireReader body;

	if (wire_request_header_decode(data, len, &h, &body) == WIRE_HEADER_OK)
		stable_message(h.api->request, h.version, body.p, wire_reader_left(&body));
	return 0;
}
