#include "brokerd/storage/clean_marker.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "brokerd/storage/file_io.h"

/* The number behind "key": in flat JSON. */
static bool
json_number(const char *text, const char *key, int64_t *value)
{
	char quoted[64];
	const char *p;
	char *end;

	snprintf(quoted, sizeof(quoted), "\"%s\"", key);
	p = strstr(text, quoted);
	if (p == NULL)
		return false;
	p += strlen(quoted);
	p += strspn(p, " \t\r\n");
	if (*p++ != ':')
		return false;
	*value = strtoll(p, &end, 10);
	return end != p;
}

bool
clean_marker_read(const char *dir, CleanMarker *cm)
{
	char path[4096];
	size_t len;
	char *text;
	int64_t n;

	*cm = (CleanMarker){.broker_epoch = -1};
	snprintf(path, sizeof(path), "%s/%s", dir, CLEAN_MARKER);
	/* Old Kafkas leave an empty file: that is a clean stop too. */
	if ((text = file_read(path, 4096, &len)) == NULL)
		return false;
	if (json_number(text, "brokerEpoch", &n))
		cm->broker_epoch = n;
	if (json_number(text, "manifestCrc", &n))
	{
		cm->has_manifest = true;
		cm->manifest_crc = (uint32_t) n;
	}
	free(text);
	return true;
}

bool
clean_marker_write(const char *dir, const CleanMarker *cm)
{
	char path[4096], text[160];
	int n;

	snprintf(path, sizeof(path), "%s/%s", dir, CLEAN_MARKER);
	n = snprintf(text, sizeof(text), "{\"version\":0,\"brokerEpoch\":%" PRId64, cm->broker_epoch);
	if (cm->has_manifest)
		n += snprintf(text + n, sizeof(text) - (size_t) n, ",\"manifestCrc\":%" PRIu32, cm->manifest_crc);
	n += snprintf(text + n, sizeof(text) - (size_t) n, "}");
	return file_replace(path, text, (size_t) n, true);
}
