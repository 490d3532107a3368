#include "client/conf.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "wire/errors.h"

typedef struct Hint
{
	int code;
	const char *text;
} Hint;

/* What a person may do about it, where Kafka's sentence does not say. */
static const Hint hints[] = {
	{KERR_UNKNOWN_TOPIC_OR_PARTITION, "look at its spelling, or create it"},
	{KERR_MESSAGE_TOO_LARGE, "raise the topic's max.message.bytes, or lower batch.size"},
	{KERR_TOPIC_AUTHORIZATION_FAILED, "the principal needs a permission on it"},
	{KERR_GROUP_AUTHORIZATION_FAILED, "the principal needs a permission on it"},
	{KERR_FENCED_INSTANCE_ID, "give each process a group.instance.id of its own"},
	{KERR_INCONSISTENT_GROUP_PROTOCOL,
	 "give all members an assignor in common (partition.assignment.strategy)"},
	{KERR_NOT_ENOUGH_REPLICAS, "wait for brokers to come back, or lower min.insync.replicas"},
	{KERR_INVALID_SESSION_TIMEOUT, "the broker's group.min. and group.max.session.timeout.ms are the limits"},
	{KERR_NON_EMPTY_GROUP, "stop its members first"},
};

static const char *const own_names[] = {
	"TIMED_OUT", "QUEUE_FULL",   "TRANSPORT", "NO_BROKER", "PROTOCOL",    "INVALID", "NO_MEMORY",
	"STATE",     "NO_PARTITION", "TOO_LARGE", "NO_OFFSET", "UNSUPPORTED", "FENCED",  "POLL_INTERRUPTED"};

const char *
pgb_error_name(int code)
{
	if (code <= PGB_TIMED_OUT && code >= PGB_POLL_INTERRUPTED)
		return own_names[PGB_TIMED_OUT - code];
	return kerr_name(code < INT16_MIN || code > INT16_MAX ? INT16_MAX : (int16_t) code);
}

const char *
pgb_version(void)
{
	return PGB_VERSION_TEXT;
}

pgb_bytes
pgb_text(const char *s)
{
	return (pgb_bytes){s, s == NULL ? 0 : strlen(s)};
}

int
error_set(pgb_error *err, int code, bool retriable, const char *fmt, ...)
{
	va_list ap;

	if (err == NULL)
		return -1;
	err->code = code;
	err->retriable = retriable;
	va_start(ap, fmt);
	(void) vsnprintf(err->text, sizeof(err->text), fmt, ap);
	va_end(ap);
	return -1;
}

int
error_memory(pgb_error *err)
{
	return error_set(err, PGB_NO_MEMORY, true, "no memory");
}

int
error_kafka(pgb_error *err, int code, const char *what, ...)
{
	const char *hint = NULL;
	char subject[160];
	va_list ap;

	va_start(ap, what);
	(void) vsnprintf(subject, sizeof(subject), what, ap);
	va_end(ap);
	for (size_t i = 0; i < sizeof(hints) / sizeof(hints[0]); i++)
		if (hints[i].code == code)
			hint = hints[i].text;
	return error_set(err, code, kerr_retriable((int16_t) code), "%s: %s%s%s", subject,
					 kerr_message((int16_t) code), hint == NULL ? "" : "; ", hint == NULL ? "" : hint);
}
