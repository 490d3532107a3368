/*
 * protocol_pack.h: a member's protocols as the bytes that SQL keeps:
 *
 *     int16 n, n * (int16 length, name, int32 length, metadata)          big-endian
 */
#ifndef BROKERD_GROUP_PROTOCOL_PACK_H
#define BROKERD_GROUP_PROTOCOL_PACK_H

#include <stdbool.h>
#include <stddef.h>

#include "brokerd/group/group.h"

size_t protocol_pack_size(const GroupProtocol *protocols, int32_t count);
void protocol_pack(const GroupProtocol *protocols, int32_t count, uint8_t *out); /* that many bytes */

/* Into `out`, which point into `packed`; the number of them, or -1 when they are malformed or more than `max`. */
int32_t protocol_unpack(WBytes packed, GroupProtocol *out, int32_t max);

#endif
