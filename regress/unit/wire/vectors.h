/*
 * vectors.h: the golden vectors of regress/wire/vectors for the tests that use them.
 *
 * A line is NAME VERSION VARIANT HEX [JSON]; regress/wire/README.md says what made them.  Paths are relative
 * to the top of the source, where `make` runs the tests.
 */
#ifndef REGRESS_UNIT_WIRE_VECTORS_H
#define REGRESS_UNIT_WIRE_VECTORS_H

#include "wire/messages.h"

#include <stdio.h>
#include <stdlib.h>
#include <zlib.h>

#define VECTOR_LINE_MAX 65536

typedef struct Vector
{
	char name[64];
	char variant[16];
	int16_t version;
	const WireMsg *msg; /* NULL: the schema does not have it */
	uint8_t *data;
	size_t len;
	const char *json; /* NULL: the file has none */
	char line[VECTOR_LINE_MAX];
	uint8_t bytes[VECTOR_LINE_MAX / 2];
} Vector;

static const WireMsg *
vector_msg(const char *name)
{
	static const WireMsg *const others[] = {&RequestHeader_desc, &ResponseHeader_desc,
											&ConsumerProtocolSubscription_desc,
											&ConsumerProtocolAssignment_desc};

	for (int i = 0; i < wire_api_count(); i++)
	{
		const WireApi *api = wire_api_at(i);

		if (strcmp(api->request->name, name) == 0)
			return api->request;
		if (strcmp(api->response->name, name) == 0)
			return api->response;
	}
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (strcmp(others[i]->name, name) == 0)
			return others[i];
	return NULL;
}

static int
vector_digit(char c)
{
	return c <= '9' ? c - '0' : c - 'a' + 10;
}

/* Copy the word at `p`; what is behind it and its space. */
static char *
vector_word(char *p, char *word, size_t size)
{
	size_t len = strcspn(p, " \n");

	snprintf(word, size, "%.*s", (int) len, p);
	return p + len + (p[len] == ' ');
}

/* The next line of the file; false at its end. */
static bool
vector_next(gzFile file, Vector *v)
{
	char *p;

	if (gzgets(file, v->line, sizeof(v->line)) == NULL)
		return false;
	p = vector_word(v->line, v->name, sizeof(v->name));
	v->version = (int16_t) strtol(p, &p, 10);
	p = vector_word(p + 1, v->variant, sizeof(v->variant));
	if (*p++ != 'x')
		return false;
	v->msg = vector_msg(v->name);
	v->data = v->bytes;
	v->len = 0;
	for (; p[0] > ' ' && p[1] > ' '; p += 2)
		v->bytes[v->len++] = (uint8_t) (vector_digit(p[0]) << 4 | vector_digit(p[1]));
	v->json = *p == ' ' ? p + 1 : NULL;
	p[strcspn(p, "\n")] = '\0';
	return true;
}

__attribute__((unused)) static gzFile
vector_open(const char *file)
{
	char path[256];

	snprintf(path, sizeof(path), "regress/wire/vectors/%s", file);
	return gzopen(path, "rb");
}

/* ---- a decoded struct as the JSON of the vectors ---- */

static void vector_json_struct(FILE *out, const WireMsg *m, int16_t version, const uint8_t *base);

static void
vector_json_hex(FILE *out, const uint8_t *p, int32_t len)
{
	if (len < 0)
	{
		fputs("null", out);
		return;
	}
	fputc('"', out);
	for (int32_t i = 0; i < len; i++)
		fprintf(out, "%02x", p[i]);
	fputc('"', out);
}

static void
vector_json_value(FILE *out, const WireField *f, int16_t version, const void *p)
{
	switch ((WireType) f->type)
	{
		case WT_BOOL:
			fputs(*(const bool *) p ? "true" : "false", out);
			break;
		case WT_INT8:
			fprintf(out, "%d", *(const int8_t *) p);
			break;
		case WT_INT16:
			fprintf(out, "%d", *(const int16_t *) p);
			break;
		case WT_UINT16:
			fprintf(out, "%d", *(const uint16_t *) p);
			break;
		case WT_INT32:
			fprintf(out, "%d", *(const int32_t *) p);
			break;
		case WT_INT64:
			fprintf(out, "%lld", (long long) *(const int64_t *) p);
			break;
		case WT_FLOAT64:
			fprintf(out, *(const double *) p == (double) (long long) *(const double *) p ? "%.1f" : "%.17g",
					*(const double *) p);
			break;
		case WT_UUID:
			vector_json_hex(out, p, 16);
			break;
		case WT_STRING:
			if (((const WStr *) p)->len < 0)
				fputs("null", out);
			else
				fprintf(out, "\"%.*s\"", ((const WStr *) p)->len,
						((const WStr *) p)->len == 0 ? "" : ((const WStr *) p)->s);
			break;
		case WT_BYTES:
			vector_json_hex(out, ((const WBytes *) p)->p, ((const WBytes *) p)->len);
			break;
		case WT_RECORDS:
			vector_json_hex(out, ((const WRecords *) p)->p, ((const WRecords *) p)->len);
			break;
		case WT_STRUCT:
			vector_json_struct(out, f->sub, version, p);
			break;
	}
}

static size_t
vector_value_size(const WireField *f)
{
	static const uint8_t size[] = {sizeof(bool),    1, 2, 2, 4, 8, 8, 16, sizeof(WStr), sizeof(WBytes),
								   sizeof(WRecords)};

	return f->type == WT_STRUCT ? f->sub->size : size[f->type];
}

static void
vector_json_field(FILE *out, const WireField *f, int16_t version, const uint8_t *base)
{
	const void *p = base + f->offset;

	if ((f->flags & WF_ARRAY) != 0)
	{
		const uint8_t *items = *(const uint8_t *const *) p;
		int32_t n = *(const int32_t *) (base + f->n_offset);

		if (n < 0)
		{
			fputs("null", out);
			return;
		}
		fputc('[', out);
		for (int32_t i = 0; i < n; i++)
		{
			if (i > 0)
				fputc(',', out);
			vector_json_value(out, f, version, items + (size_t) i * vector_value_size(f));
		}
		fputc(']', out);
	}
	else if ((f->flags & WF_PTR) == 0)
		vector_json_value(out, f, version, p);
	else if (*(const void *const *) p == NULL)
		fputs("null", out);
	else
		vector_json_struct(out, f->sub, version, *(const void *const *) p);
}

static void
vector_json_struct(FILE *out, const WireMsg *m, int16_t version, const uint8_t *base)
{
	const char *comma = "";

	fputc('{', out);
	for (int i = 0; i < m->n_fields; i++)
	{
		const WireField *f = &m->fields[i];

		/* Tags from 10000 on are between our brokers only: nobody else's vectors have them. */
		if (version < f->min || version > f->max || f->tag >= 10000)
			continue;
		fprintf(out, "%s\"%s\":", comma, f->name);
		vector_json_field(out, f, version, base);
		comma = ",";
	}
	fputc('}', out);
}

/* malloc'ed text. */
__attribute__((unused)) static char *
vector_json(const WireMsg *m, int16_t version, const void *msg)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (out == NULL)
		return NULL;
	vector_json_struct(out, m, version, msg);
	fclose(out);
	return text;
}

#endif
