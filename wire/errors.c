#include "wire/errors.h"

typedef struct ErrorRow
{
	const char *name;
	const char *sentence;
	bool retriable;
} ErrorRow;

/* Codes start at -1. */
static const ErrorRow rows[] = {
#define KERR_ROW(code, name, retriable, sentence) [(code) + 1] = {#name, sentence, retriable},
	KERR_TABLE(KERR_ROW)
#undef KERR_ROW
};

static const ErrorRow *
find(int16_t code)
{
	static const ErrorRow unknown = {"UNKNOWN_ERROR_CODE", "the error code is not one of Kafka's", false};

	return code >= -1 && code <= KERR_LAST ? &rows[code + 1] : &unknown;
}

const char *
kerr_name(int16_t code)
{
	return find(code)->name;
}

const char *
kerr_message(int16_t code)
{
	return find(code)->sentence;
}

bool
kerr_retriable(int16_t code)
{
	return find(code)->retriable;
}
