#include "brokerd/storage/txn_index.h"

#include <errno.h>
#include <stdlib.h>

#include "brokerd/storage/file_io.h"
#include "wire/bytes.h"

void *
txn_index_encode(const AbortedTxn *a, int n)
{
	uint8_t *data = malloc((size_t) n * TXN_INDEX_ENTRY), *p = data;

	for (int i = 0; i < n; i++, p += TXN_INDEX_ENTRY)
	{
		put_be16(p, 0);
		put_be64(p + 2, (uint64_t) a[i].producer_id);
		put_be64(p + 10, (uint64_t) a[i].first_offset);
		put_be64(p + 18, (uint64_t) a[i].last_offset);
		put_be64(p + 26, (uint64_t) a[i].last_stable_offset);
	}
	return data;
}

int
txn_index_read(const char *path, AbortedTxn **out)
{
	size_t len = 0;
	uint8_t *data = (uint8_t *) file_read(path, (size_t) 1 << 30, &len), *p = data;
	int n = (int) (len / TXN_INDEX_ENTRY);

	*out = NULL;
	if (data == NULL)
		return errno == ENOENT ? 0 : -1;
	*out = malloc(sizeof(**out) * (size_t) (n + 1));
	for (int i = 0; i < n; i++, p += TXN_INDEX_ENTRY)
	{
		if (get_be16(p) != 0)
		{
			free(*out);
			free(data);
			*out = NULL;
			errno = EINVAL;
			return -1;
		}
		(*out)[i] = (AbortedTxn){.producer_id = (int64_t) get_be64(p + 2),
								 .first_offset = (int64_t) get_be64(p + 10),
								 .last_offset = (int64_t) get_be64(p + 18),
								 .last_stable_offset = (int64_t) get_be64(p + 26)};
	}
	free(data);
	return n;
}
