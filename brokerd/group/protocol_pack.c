#include "brokerd/group/protocol_pack.h"

#include <string.h>

#include "wire/bytes.h"

size_t
protocol_pack_size(const GroupProtocol *protocols, int32_t count)
{
	size_t size = 2;

	for (int32_t i = 0; i < count; i++)
		size += 6 + (size_t) protocols[i].name.len +
				(size_t) (protocols[i].metadata.len > 0 ? protocols[i].metadata.len : 0);
	return size;
}

void
protocol_pack(const GroupProtocol *protocols, int32_t count, uint8_t *out)
{
	put_be16(out, (uint16_t) count);
	out += 2;
	for (int32_t i = 0; i < count; i++)
	{
		WStr name = protocols[i].name;
		WBytes metadata = protocols[i].metadata;
		size_t len = metadata.len > 0 ? (size_t) metadata.len : 0;

		put_be16(out, (uint16_t) name.len);
		if (name.len > 0)
			memcpy(out + 2, name.s, (size_t) name.len);
		out += 2 + name.len;
		put_be32(out, (uint32_t) len);
		if (len > 0)
			memcpy(out + 4, metadata.p, len);
		out += 4 + len;
	}
}

int32_t
protocol_unpack(WBytes packed, GroupProtocol *out, int32_t max)
{
	const uint8_t *p = packed.p;
	const uint8_t *end = packed.p + (packed.len > 0 ? packed.len : 0);
	int32_t n;

	if (end - p < 2)
		return -1;
	n = get_be16(p);
	p += 2;
	if (n > max)
		return -1;
	for (int32_t i = 0; i < n; i++)
	{
		size_t len;

		if (end - p < 2)
			return -1;
		len = get_be16(p);
		p += 2;
		if ((size_t) (end - p) < len + 4)
			return -1;
		out[i].name = (WStr){(const char *) p, (int32_t) len};
		p += len;
		len = get_be32(p);
		p += 4;
		if ((size_t) (end - p) < len)
			return -1;
		out[i].metadata = (WBytes){p, (int32_t) len};
		p += len;
	}
	return p == end ? n : -1;
}
