#include "brokerd/storage/meta_properties.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "brokerd/storage/file_io.h"
#include "wire/errors.h"

#define META_MAX ((size_t) 64 * 1024)

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

void
uuid_to_text(const WUuid *u, char *out)
{
	int n = 0;
	uint32_t bits = 0;
	int have = 0;

	for (int i = 0; i < 16; i++)
	{
		bits = bits << 8 | u->b[i];
		for (have += 8; have >= 6; have -= 6)
			out[n++] = alphabet[bits >> (have - 6) & 63];
	}
	out[n++] = alphabet[bits << (6 - have) & 63];
	out[n] = '\0';
}

bool
uuid_from_text(const char *text, int len, WUuid *u)
{
	uint32_t bits = 0;
	int have = 0, n = 0;

	if (len != 22)
		return false;
	for (int i = 0; i < len; i++)
	{
		/* NOLINTNEXTLINE(bugprone-not-null-terminated-result): the NUL is no digit */
		const char *c = memchr(alphabet, text[i], 64);

		if (c == NULL)
			return false;
		bits = bits << 6 | (uint32_t) (c - alphabet);
		have += 6;
		if (have >= 8 && n < 16)
		{
			have -= 8;
			u->b[n++] = (uint8_t) (bits >> have);
		}
	}
	return n == 16;
}

void
uuid_random(WUuid *u)
{
	char text[23];

	do
	{
		/* Cannot fail for 16 bytes once the pool is ready. */
		while (getrandom(u->b, sizeof(u->b), 0) != (ssize_t) sizeof(u->b))
			;
		u->b[6] = (uint8_t) ((u->b[6] & 0x0f) | 0x40);
		u->b[8] = (uint8_t) ((u->b[8] & 0x3f) | 0x80);
		uuid_to_text(u, text);
	} while (text[0] == '-'); /* command lines would take it for an option */
}

static bool
set_key(MetaProperties *mp, const char *key, const char *value)
{
	char *end;

	if (strcmp(key, "version") == 0)
		return strcmp(value, "1") == 0 || strcmp(value, "0") == 0;
	if (strcmp(key, "cluster.id") == 0)
		return (size_t) snprintf(mp->cluster_id, sizeof(mp->cluster_id), "%s", value) <
			   sizeof(mp->cluster_id);
	if (strcmp(key, "node.id") == 0 || strcmp(key, "broker.id") == 0)
	{
		mp->node_id = (int32_t) strtol(value, &end, 10);
		return *value != '\0' && *end == '\0';
	}
	if (strcmp(key, "directory.id") == 0)
		return uuid_from_text(value, (int) strlen(value), &mp->directory_id);
	mp->broker_epoch = strtoll(value, &end, 10);
	return *value != '\0' && *end == '\0';
}

static bool
is_ours(const char *key)
{
	static const char *const keys[] = {"version",   "cluster.id",   "node.id",
									   "broker.id", "directory.id", "pg_broker.broker.epoch"};

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (strcmp(key, keys[i]) == 0)
			return true;
	return false;
}

bool
meta_properties_read(const char *dir, MetaProperties *mp, Err *err)
{
	char path[4096];
	size_t len;
	char *text, *line, *save = NULL;
	TextBuf others = {0};
	bool ok = true;

	*mp = (MetaProperties){.node_id = -1, .broker_epoch = -1};
	snprintf(path, sizeof(path), "%s/meta.properties", dir);
	if ((text = file_read(path, META_MAX, &len)) == NULL)
		return errno == ENOENT ? true
							   : err_set(err, KERR_KAFKA_STORAGE_ERROR, errno, "%s cannot be read: %s", path,
										 strerror(errno));
	mp->exists = true;
	for (line = strtok_r(text, "\r\n", &save); ok && line != NULL; line = strtok_r(NULL, "\r\n", &save))
	{
		char *eq = strchr(line, '=');

		if (line[0] == '#' || line[0] == '!' || eq == NULL)
			continue;
		*eq = '\0';
		if (!is_ours(line))
			text_add(&others, "%s=%s\n", line, eq + 1);
		else if (!set_key(mp, line, eq + 1))
			ok = err_set(err, KERR_KAFKA_STORAGE_ERROR, 0, "%s: %s=%.80s is not what this broker can read",
						 path, line, eq + 1);
	}
	free(text);
	mp->others = others.s;
	return ok;
}

bool
meta_properties_write(const char *dir, const MetaProperties *mp, Err *err)
{
	char path[4096], id[23];
	TextBuf t = {0};
	bool ok;

	snprintf(path, sizeof(path), "%s/meta.properties", dir);
	uuid_to_text(&mp->directory_id, id);
	text_add(&t, "version=1\n");
	if (mp->cluster_id[0] != '\0')
		text_add(&t, "cluster.id=%s\n", mp->cluster_id);
	text_add(&t, "node.id=%" PRId32 "\ndirectory.id=%s\n", mp->node_id, id);
	if (mp->broker_epoch >= 0)
		text_add(&t, "pg_broker.broker.epoch=%" PRId64 "\n", mp->broker_epoch);
	if (mp->others != NULL)
		text_add(&t, "%s", mp->others);
	ok = !t.failed && file_replace(path, t.s, t.len, true);
	if (!ok)
		err_set(err, KERR_KAFKA_STORAGE_ERROR, errno, "%s cannot be written: %s", path, strerror(errno));
	text_free(&t);
	return ok;
}
