/*
 * config.c: the table of options, and how a file becomes a BrokerConfig.
 */
#include "brokerd/base/config_internal.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const ConfigOption options[] = {
#define CONFIG_OPTION(field, ctype, type, name, dflt, min, max, allowed, unit, restart, doc)                 \
	{name, dflt, min, max, allowed, unit, doc, offsetof(BrokerConfig, field), type, restart},
#include "brokerd/base/config_options.def"
#undef CONFIG_OPTION
};

const ConfigOption *
config_options(int *n)
{
	*n = CONFIG_OPTION_COUNT;
	return options;
}

int
config_option_id(const char *name)
{
	/* Kafka's name of node.id before KRaft. */
	if (strcmp(name, "broker.id") == 0)
		return OPT_node_id;
	for (int i = 0; i < CONFIG_OPTION_COUNT; i++)
		if (strcmp(options[i].name, name) == 0)
			return i;
	return -1;
}

const ConfigOption *
config_find_option(const char *name)
{
	int id = config_option_id(name);

	return id < 0 ? NULL : &options[id];
}

void *
config_alloc(size_t size)
{
	void *p = calloc(1, size == 0 ? 1 : size);

	if (p == NULL)
	{
		fputs("brokerd: out of memory while reading the configuration\n", stderr);
		abort();
	}
	return p;
}

char *
config_strndup(const char *s, size_t len)
{
	char *copy = config_alloc(len + 1);

	memcpy(copy, s, len);
	return copy;
}

void
config_init(BrokerConfig *config)
{
	memset(config, 0, sizeof(*config));
	for (int i = 0; i < CONFIG_OPTION_COUNT; i++)
	{
		const ConfigOption *o = &options[i];
		char *field = (char *) config + o->offset;
		Err err;

		if (o->type == OPTION_INT)
			*(int32_t *) (void *) field = CONFIG_UNSET_INT;
		else if (o->type == OPTION_LONG)
			*(int64_t *) (void *) field = CONFIG_UNSET;
		/* node.id's default, -1, is below its bound: it says "not given". */
		if (i == OPT_node_id)
			config->node_id = -1;
		else if (o->default_text != NULL && !config_value_set(config, o, o->default_text, &err))
		{
			fprintf(stderr, "brokerd: default of %s: %s\n", o->name, err.text);
			abort();
		}
	}
}

void
config_free(BrokerConfig *config)
{
	for (int i = 0; i < CONFIG_OPTION_COUNT; i++)
		config_value_free(config, &options[i]);
	config_listeners_free(config);
	for (int i = 0; i < config->n_warnings; i++)
		free(config->warnings[i]);
	free(config->warnings);
	config->warnings = NULL;
	config->n_warnings = 0;
}

void
config_warn(BrokerConfig *config, const char *fmt, ...)
{
	char text[512];
	va_list ap;
	char **grown = realloc(config->warnings, (size_t) (config->n_warnings + 1) * sizeof(char *));

	if (grown == NULL)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	config->warnings = grown;
	config->warnings[config->n_warnings++] = config_strndup(text, strlen(text));
}

/* ---- reading ---- */

static bool problem(ConfigReader *r, int line, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

static bool
problem(ConfigReader *r, int line, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return r->on_problem(r->ctx, line, text);
}

static bool
refuse_name(ConfigReader *r, const ConfigLine *line)
{
	const char *nearest = config_nearest_name(line->name);

	if (nearest != NULL)
		return problem(r, line->line, "unknown option \"%.100s\": perhaps you meant \"%s\"", line->name,
					   nearest);
	return problem(r, line->line, "unknown option \"%.100s\": brokerd --help lists those that there are",
				   line->name);
}

static bool
take_option(ConfigReader *r, const ConfigLine *line)
{
	int id = config_option_id(line->name);
	Err err;

	if (!config_value_set(r->config, &options[id], line->value, &err))
		return problem(r, line->line, "%s", err.text);
	if (line->line > 0 && r->lines[id] > 0)
		config_warn(r->config, "line %d: %s was set in line %d already; the last one counts", line->line,
					options[id].name, r->lines[id]);
	/* An empty text stands for "not set". */
	r->config->set[id] = line->value[0] != '\0';
	r->lines[id] = line->line;
	return true;
}

static bool
take_line(void *ctx, const ConfigLine *line)
{
	ConfigReader *r = ctx;
	const char *why = "";

	switch (config_name_kind(line->name, &why))
	{
		case CONFIG_NAME_OPTION:
			return take_option(r, line);
		case CONFIG_NAME_IGNORED:
			if (line->line > 0)
				config_warn(r->config, "line %d: %.100s is ignored: %s", line->line, line->name, why);
			else
				config_warn(r->config, "%.100s is ignored: %s", line->name, why);
			return true;
		case CONFIG_NAME_REFUSED:
			return problem(r, line->line, "%.100s cannot be used: %s; remove it", line->name, why);
		case CONFIG_NAME_UNKNOWN:
			break;
	}
	return refuse_name(r, line);
}

static bool
take_override(ConfigReader *r, const char *text)
{
	const char *equals = strchr(text, '=');
	ConfigLine line = {.line = 0};
	char *name;
	bool going;

	if (equals == NULL || equals == text)
		return problem(r, 0, "\"%.100s\" is not NAME=VALUE", text);
	name = config_strndup(text, (size_t) (equals - text));
	line.name = name;
	line.value = equals + 1;
	going = take_line(r, &line);
	free(name);
	return going;
}

static bool
check_data_dir(ConfigReader *r)
{
	BrokerConfig *c = r->config;

	c->log_dir_path = c->log_dirs != NULL ? c->log_dirs : c->log_dir;
	if (c->log_dir_path == NULL)
		return problem(r, r->lines[OPT_log_dir], "log.dirs is not set: give the data directory");
	if (strchr(c->log_dir_path, ',') != NULL)
		return problem(
			r, r->lines[c->log_dirs != NULL ? OPT_log_dirs : OPT_log_dir],
			"log.dirs has several directories and brokerd keeps one: run one brokerd a disk, each with its "
			"node.id and log.dirs, and broker.rack set to the host");
	return true;
}

/* What no single row can say. */
static bool
check_together(ConfigReader *r)
{
	BrokerConfig *c = r->config;
	Err err;

	if (c->node_id < 0 &&
		!problem(r, r->lines[OPT_node_id], "node.id is not set: give this broker a number of its own"))
		return false;
	if (c->pg_broker_postgres == NULL &&
		!problem(
			r, r->lines[OPT_pg_broker_postgres],
			"pg_broker.postgres is not set: give the connection string of the PostgreSQL with the extension "
			"pg_broker, such as \"host=db1 dbname=broker user=broker_daemon\""))
		return false;
	if (!check_data_dir(r))
		return false;
	if (!config_listeners_resolve(c, &err) &&
		!problem(
			r, r->lines[strncmp(err.text, "advertised", 10) == 0 ? OPT_advertised_listeners : OPT_listeners],
			"%s", err.text))
		return false;
	if (c->broker_session_timeout_ms < 3 * c->broker_heartbeat_interval_ms &&
		!problem(
			r, r->lines[OPT_broker_session_timeout_ms],
			"broker.session.timeout.ms (%d) must be at least three times broker.heartbeat.interval.ms (%d)",
			c->broker_session_timeout_ms, c->broker_heartbeat_interval_ms))
		return false;
	if (c->group_min_session_timeout_ms > c->group_max_session_timeout_ms &&
		!problem(r, r->lines[OPT_group_min_session_timeout_ms],
				 "group.min.session.timeout.ms (%d) is above group.max.session.timeout.ms (%d)",
				 c->group_min_session_timeout_ms, c->group_max_session_timeout_ms))
		return false;
	if (c->queued_max_request_bytes == 0 &&
		!problem(r, r->lines[OPT_queued_max_request_bytes],
				 "queued.max.request.bytes must be -1 or above 0, not \"0\""))
		return false;
	if (c->queued_max_request_bytes > 0 && c->queued_max_request_bytes < c->socket_request_max_bytes)
		config_warn(
			c,
			"queued.max.request.bytes is below socket.request.max.bytes: a request larger than %lld bytes "
			"waits until it is alone",
			(long long) c->queued_max_request_bytes);
	return true;
}

bool
config_read_all(ConfigReader *r, const char *const *overrides, int n_overrides)
{
	Err err = {0};

	if (r->path != NULL && !config_file_read(r->path, take_line, r, &err))
	{
		if (err.text[0] != '\0')
			problem(r, 0, "%s", err.text);
		return false;
	}
	for (int i = 0; i < n_overrides; i++)
		if (!take_override(r, overrides[i]))
			return false;
	return check_together(r);
}

/* ---- config_load ---- */

typedef struct FirstProblem
{
	const char *path;
	Err *err;
	bool seen;
} FirstProblem;

static bool
stop_at_first(void *ctx, int line, const char *text)
{
	FirstProblem *first = ctx;

	first->seen = true;
	if (first->path != NULL && line > 0)
		return err_set(first->err, 0, 0, "%s, line %d: %s", first->path, line, text);
	return err_set(first->err, 0, 0, "%s", text);
}

bool
config_load(BrokerConfig *config, const char *path, const char *const *overrides, int n_overrides, Err *err)
{
	FirstProblem first = {.path = path, .err = err};
	ConfigReader r = {.config = config, .path = path, .on_problem = stop_at_first, .ctx = &first};

	config_init(config);
	return config_read_all(&r, overrides, n_overrides);
}
