/*
 * config_show.c: the configuration for people (--help, --check-config, docs) and for PostgreSQL (JSON).
 */
#include "brokerd/base/config_internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- --check-config ---- */

typedef struct Check
{
	const char *path;
	FILE *out;
	int problems;
} Check;

static bool
print_problem(void *ctx, int line, const char *text)
{
	Check *check = ctx;

	check->problems++;
	if (line > 0)
		fprintf(check->out, "%s:%d: error: %s\n", check->path, line, text);
	else
		fprintf(check->out, "%s: error: %s\n", check->path, text);
	return true;
}

int
config_check(const char *path, const char *const *overrides, int n_overrides, FILE *out)
{
	BrokerConfig config;
	Check check = {.path = path != NULL ? path : "configuration", .out = out};
	ConfigReader r = {.config = &config, .path = path, .on_problem = print_problem, .ctx = &check};
	bool read;

	config_init(&config);
	read = config_read_all(&r, overrides, n_overrides);
	for (int i = 0; i < config.n_warnings; i++)
		fprintf(out, "%s: warning: %s\n", check.path, config.warnings[i]);
	if (read && check.problems == 0)
	{
		fprintf(out, "%s: ok, broker %d, data in %s\n", check.path, config.node_id, config.log_dir_path);
		for (int i = 0; i < config.n_advertised; i++)
			fprintf(out, "%s: clients of listener %s are told to connect to %s:%d\n", check.path,
					config.advertised[i].name, config.advertised[i].host, config.advertised[i].port);
	}
	config_free(&config);
	return read && check.problems == 0 ? 0 : 1;
}

/* ---- --help and docs/configuration.md ---- */

static const char *
type_name(OptionType type)
{
	switch (type)
	{
		case OPTION_INT:
			return "int";
		case OPTION_LONG:
			return "long";
		case OPTION_DOUBLE:
			return "double";
		case OPTION_BOOL:
			return "boolean";
		case OPTION_STRING:
			return "string";
		case OPTION_LIST:
			return "list";
		case OPTION_SECRET:
			return "password";
	}
	return "";
}

static bool
is_number(OptionType type)
{
	return type == OPTION_INT || type == OPTION_LONG || type == OPTION_DOUBLE;
}

/* "0 to 65535 bytes", "a, b or c", "true or false", "". */
static void
print_allowed(FILE *out, const ConfigOption *o)
{
	char min[32], max[32];

	if (o->type == OPTION_BOOL)
		fputs("true or false", out);
	else if (is_number(o->type))
	{
		config_bound_text(o->min, min, sizeof(min));
		config_bound_text(o->max, max, sizeof(max));
		fprintf(out, "%s to %s%s%s", min, max, o->unit != NULL ? " " : "", o->unit != NULL ? o->unit : "");
	}
	else if (o->allowed != NULL)
		for (const char *p = o->allowed; *p != '\0'; p++)
		{
			if (*p == '|')
				fputs(", ", out);
			else
				fputc(*p, out);
		}
}

static const char *
default_text(const ConfigOption *o)
{
	if (o->offset == offsetof(BrokerConfig, node_id))
		return NULL;
	return o->default_text;
}

void
config_print_help(FILE *out)
{
	fputs("Options of the configuration file (NAME=VALUE, one a line; Kafka's names):\n", out);
	for (int i = 0; i < CONFIG_OPTION_COUNT; i++)
	{
		int n;
		const ConfigOption *o = &config_options(&n)[i];

		fprintf(out, "\n  %s\n      %s\n      ", o->name, o->doc);
		fputs(type_name(o->type), out);
		if (is_number(o->type) || o->allowed != NULL)
		{
			fputs(", ", out);
			print_allowed(out, o);
		}
		fprintf(out, "; default: %s\n", default_text(o) != NULL ? default_text(o) : "not set");
	}
	fputs("\nOptions of Apache Kafka that have no meaning here are accepted with a warning.\n", out);
}

static void
print_cell(FILE *out, const char *text)
{
	for (; *text != '\0'; text++)
	{
		if (*text == '|')
			fputc('\\', out);
		fputc(*text, out);
	}
}

void
config_print_markdown(FILE *out)
{
	int n;
	const ConfigKnownName *known = config_known_names(&n);

	fputs("| option | type | default | allowed | changes without restart | what it does |\n|-|-|-|-|-|-|\n",
		  out);
	for (int i = 0; i < CONFIG_OPTION_COUNT; i++)
	{
		int count;
		const ConfigOption *o = &config_options(&count)[i];

		fprintf(out, "| `%s` | %s | ", o->name, type_name(o->type));
		fprintf(out, default_text(o) != NULL ? "`%s`" : "%s", default_text(o) != NULL ? default_text(o) : "");
		fputs(" | ", out);
		print_allowed(out, o);
		fprintf(out, " | %s | ", o->needs_restart ? "" : "yes");
		print_cell(out, o->doc);
		fputs(" |\n", out);
	}
	fputs("\n| option of Apache Kafka | here | why |\n|-|-|-|\n", out);
	for (int i = 0; i < n; i++)
	{
		size_t len = strlen(known[i].name);

		fprintf(out, "| `%s%s` | %s | %s |\n", known[i].name, known[i].name[len - 1] == '.' ? "*" : "",
				known[i].refused ? "refused" : "ignored", known[i].why);
	}
}

/* ---- JSON ---- */

static void
print_json(FILE *out, const char *text)
{
	fputc('"', out);
	for (const unsigned char *p = (const unsigned char *) text; *p != '\0'; p++)
	{
		if (*p == '"' || *p == '\\')
			fprintf(out, "\\%c", *p);
		else if (*p < 0x20)
			fprintf(out, "\\u%04x", *p);
		else
			fputc(*p, out);
	}
	fputc('"', out);
}

char *
config_static_json(const BrokerConfig *config)
{
	char *json = NULL;
	size_t size;
	FILE *out = open_memstream(&json, &size);
	bool first = true;

	if (out == NULL)
		return config_strndup("{}", 2);
	fputc('{', out);
	for (int i = 0; i < CONFIG_OPTION_COUNT; i++)
	{
		char buf[64];
		int n;
		const char *value = config_value_text(config, i, buf, sizeof(buf));

		if (!config->set[i] || value == NULL)
			continue;
		if (!first)
			fputc(',', out);
		first = false;
		print_json(out, config_options(&n)[i].name);
		fputc(':', out);
		print_json(out, value);
	}
	fputc('}', out);
	fclose(out);
	return json;
}

char *
config_endpoints_json(const BrokerConfig *config)
{
	char *json = NULL;
	size_t size;
	FILE *out = open_memstream(&json, &size);

	if (out == NULL)
		return config_strndup("[]", 2);
	fputc('[', out);
	for (int i = 0; i < config->n_advertised; i++)
	{
		const ConfigListener *l = &config->advertised[i];

		fputs(i == 0 ? "{\"name\":" : ",{\"name\":", out);
		print_json(out, l->name);
		fputs(",\"host\":", out);
		print_json(out, l->host);
		fprintf(out, ",\"port\":%d,\"protocol\":", l->port);
		print_json(out, l->protocol);
		fputc('}', out);
	}
	fputc(']', out);
	fclose(out);
	return json;
}
