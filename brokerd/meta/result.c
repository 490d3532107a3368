/*
 * result.c: reading what a call gave, text or binary.
 */
#include "brokerd/meta/result.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "wire/errors.h"

MetaStatus
meta_result_status(const MetaResult *result)
{
	return result->status;
}

static const char *
field(const MetaResult *result, int code)
{
	return result->rows == NULL ? NULL : PQresultErrorField(result->rows, code);
}

const char *
meta_result_sqlstate(const MetaResult *result)
{
	const char *state = result->sqlstate != NULL ? result->sqlstate : field(result, PG_DIAG_SQLSTATE);

	return state == NULL ? "" : state;
}

const char *
meta_result_message(const MetaResult *result)
{
	const char *text = result->message != NULL ? result->message : field(result, PG_DIAG_MESSAGE_PRIMARY);

	return text == NULL ? "" : text;
}

const char *
meta_result_detail(const MetaResult *result)
{
	return field(result, PG_DIAG_MESSAGE_DETAIL);
}

const char *
meta_result_hint(const MetaResult *result)
{
	return field(result, PG_DIAG_MESSAGE_HINT);
}

int16_t
meta_sqlstate_kafka_code(const char *sqlstate)
{
	int code;

	if (strncmp(sqlstate, "PB", 2) != 0 || !isdigit((unsigned char) sqlstate[2]) ||
		!isdigit((unsigned char) sqlstate[3]) || !isdigit((unsigned char) sqlstate[4]))
		return 0;
	code = (sqlstate[2] - '0') * 100 + (sqlstate[3] - '0') * 10 + (sqlstate[4] - '0');
	/* PB9nn are pg_broker's own. */
	return (int16_t) (code < 900 ? code : 0);
}

bool
meta_sqlstate_is_lost(const char *sqlstate)
{
	/* 57P01 admin_shutdown, 57P02 crash, 57P03 cannot_connect_now, 57P05 idle_session_timeout; 25006
	 * read_only_sql_transaction: this server became a standby. */
	return strncmp(sqlstate, "57P", 3) == 0 || strncmp(sqlstate, "08", 2) == 0 ||
		   strcmp(sqlstate, "25006") == 0;
}

/* Passing trouble: the same call may succeed a moment later. */
static bool
is_retriable(const char *sqlstate)
{
	return strncmp(sqlstate, "40", 2) == 0 || strncmp(sqlstate, "53", 2) == 0 ||
		   strcmp(sqlstate, "55P03") == 0 || strcmp(sqlstate, "57014") == 0;
}

int16_t
meta_result_kafka_code(const MetaResult *result)
{
	const char *sqlstate = meta_result_sqlstate(result);
	int16_t code;

	switch (result->status)
	{
		case META_OK:
			return 0;
		case META_UNAVAILABLE:
		case META_UNKNOWN:
			return KERR_REQUEST_TIMED_OUT;
		case META_ERROR:
			break;
	}
	code = meta_sqlstate_kafka_code(sqlstate);
	if (code != 0)
		return code;
	if (strcmp(sqlstate, "42501") == 0)
		return KERR_CLUSTER_AUTHORIZATION_FAILED;
	return is_retriable(sqlstate) ? KERR_REQUEST_TIMED_OUT : KERR_UNKNOWN_SERVER_ERROR;
}

/* ---- rows ---- */

int
meta_result_rows(const MetaResult *result)
{
	return result->rows == NULL ? 0 : PQntuples(result->rows);
}

bool
meta_result_is_null(const MetaResult *result, int row, int column)
{
	return result->rows == NULL || PQgetisnull(result->rows, row, column) != 0;
}

static bool
is_binary(const MetaResult *result, int column)
{
	return PQfformat(result->rows, column) == 1;
}

const char *
meta_result_text(const MetaResult *result, int row, int column)
{
	const char *value;

	if (meta_result_is_null(result, row, column))
		return "";
	value = PQgetvalue(result->rows, row, column);
	/* jsonb in binary begins with a version byte, 1. */
	if (is_binary(result, column) && PQftype(result->rows, column) == 3802 && value[0] == 1)
		return value + 1;
	return value;
}

int
meta_result_length(const MetaResult *result, int row, int column)
{
	return meta_result_is_null(result, row, column) ? 0 : PQgetlength(result->rows, row, column);
}

static int64_t
big_endian(const uint8_t *p, int len)
{
	uint64_t v = len > 0 && (p[0] & 0x80) != 0 ? UINT64_MAX : 0;

	for (int i = 0; i < len; i++)
		v = v << 8 | p[i];
	return (int64_t) v;
}

int64_t
meta_result_int(const MetaResult *result, int row, int column)
{
	const char *value;

	if (meta_result_is_null(result, row, column))
		return 0;
	value = PQgetvalue(result->rows, row, column);
	if (is_binary(result, column))
		return big_endian((const uint8_t *) value, PQgetlength(result->rows, row, column));
	return strtoll(value, NULL, 10);
}

bool
meta_result_bool(const MetaResult *result, int row, int column)
{
	const char *value;

	if (meta_result_is_null(result, row, column))
		return false;
	value = PQgetvalue(result->rows, row, column);
	return is_binary(result, column) ? value[0] != 0 : value[0] == 't';
}

WUuid
meta_result_uuid(const MetaResult *result, int row, int column)
{
	WUuid id = {{0}};

	if (meta_result_is_null(result, row, column))
		return id;
	if (is_binary(result, column))
	{
		if (PQgetlength(result->rows, row, column) == (int) sizeof(id))
			memcpy(&id, PQgetvalue(result->rows, row, column), sizeof(id));
	}
	else if (!meta_uuid_parse(PQgetvalue(result->rows, row, column), &id))
		memset(&id, 0, sizeof(id));
	return id;
}

/* {1,2,3} */
static int
text_ints(const char *p, int32_t *out, int max)
{
	int n = 0;

	while (*p != '\0')
	{
		char *end;
		long v;

		if (!isdigit((unsigned char) *p) && *p != '-')
		{
			p++;
			continue;
		}
		v = strtol(p, &end, 10);
		if (n < max)
			out[n] = (int32_t) v;
		n++;
		p = end == p ? p + 1 : end;
	}
	return n;
}

/* int32 dimensions, flags, element type, then length and lower bound of each, then length-prefixed elements. */
static int
binary_ints(const uint8_t *p, int len, int32_t *out, int max)
{
	int n;

	if (len < 20 || big_endian(p, 4) != 1)
		return 0;
	n = (int) big_endian(p + 12, 4);
	for (int i = 0, at = 20; i < n; i++)
	{
		int size = at + 4 <= len ? (int) big_endian(p + at, 4) : -1;

		if (size < 0 || at + 4 + size > len)
			return i;
		if (i < max)
			out[i] = (int32_t) big_endian(p + at + 4, size);
		at += 4 + size;
	}
	return n;
}

int
meta_result_ints(const MetaResult *result, int row, int column, int32_t *out, int max)
{
	const char *value;

	if (meta_result_is_null(result, row, column))
		return 0;
	value = PQgetvalue(result->rows, row, column);
	if (is_binary(result, column))
		return binary_ints((const uint8_t *) value, PQgetlength(result->rows, row, column), out, max);
	return text_ints(value, out, max);
}
