/*
 * config_listeners.c: listeners, what clients are told, and which of them brokers use.
 */
#include "brokerd/base/config_internal.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_LISTENERS 32

static void
free_listeners(ConfigListener *listeners, int n)
{
	for (int i = 0; i < n; i++)
	{
		free(listeners[i].name);
		free(listeners[i].protocol);
		free(listeners[i].host);
	}
	free(listeners);
}

void
config_listeners_free(BrokerConfig *config)
{
	free_listeners(config->bound, config->n_bound);
	free_listeners(config->advertised, config->n_advertised);
	config->bound = config->advertised = NULL;
	config->n_bound = config->n_advertised = 0;
}

/* The text of the map's entry for `name`; NULL when there is none. */
static char *
find_protocol(const char *map, const char *name)
{
	size_t want = strlen(name);

	for (const char *p = map; p != NULL && *p != '\0';)
	{
		size_t len = strcspn(p, ",");
		const char *colon = memchr(p, ':', len);

		if (colon != NULL && (size_t) (colon - p) == want && strncasecmp(p, name, want) == 0)
			return config_strndup(colon + 1, len - (size_t) (colon + 1 - p));
		p += len + (p[len] == ',');
	}
	return NULL;
}

/* NAME://HOST:PORT, an IPv6 address in brackets. */
static bool
parse_listener(const char *option, const char *text, size_t len, ConfigListener *out, Err *err)
{
	char *s = config_strndup(text, len);
	char *rest = strstr(s, "://"), *colon, *end;
	long port;

	if (rest == NULL || rest == s)
		goto bad;
	*rest = '\0';
	rest += 3;
	colon = strrchr(rest, ':');
	if (colon == NULL || !isdigit((unsigned char) colon[1]))
		goto bad;
	port = strtol(colon + 1, &end, 10);
	if (*end != '\0' || port < 0 || port > 65535)
		goto bad;
	*colon = '\0';
	if (rest[0] == '[' && colon > rest + 1 && colon[-1] == ']')
	{
		colon[-1] = '\0';
		rest++;
	}
	else if (strchr(rest, ':') != NULL || strchr(rest, '[') != NULL)
		goto bad;
	for (char *c = s; *c != '\0'; c++)
		*c = (char) toupper((unsigned char) *c);
	out->name = config_strndup(s, strlen(s));
	out->host = config_strndup(rest, strlen(rest));
	out->port = (int) port;
	free(s);
	return true;
bad:
	free(s);
	return err_set(err, 0, 0, "%s has \"%.*s\", which is not NAME://HOST:PORT (port 0 to 65535)", option,
				   (int) len, text);
}

static bool
parse_list(const char *option, const char *text, ConfigListener **out, int *n, Err *err)
{
	*out = config_alloc(MAX_LISTENERS * sizeof(**out));
	*n = 0;
	for (const char *p = text; p != NULL && *p != '\0';)
	{
		size_t len = strcspn(p, ",");
		ConfigListener *l = &(*out)[*n];

		if (*n == MAX_LISTENERS)
			return err_set(err, 0, 0, "%s has more than %d listeners", option, MAX_LISTENERS);
		if (!parse_listener(option, p, len, l, err))
			return false;
		(*n)++;
		for (int i = 0; i < *n - 1; i++)
			if (strcmp((*out)[i].name, l->name) == 0)
				return err_set(err, 0, 0, "%s names the listener %s twice", option, l->name);
		p += len + (p[len] == ',');
	}
	if (*n == 0)
		return err_set(err, 0, 0, "%s is empty: give at least one, such as PLAINTEXT://:9092", option);
	return true;
}

static bool
resolve_protocols(BrokerConfig *config, Err *err)
{
	for (int i = 0; i < config->n_bound; i++)
	{
		ConfigListener *l = &config->bound[i];

		l->protocol = find_protocol(config->listener_security_protocol_map, l->name);
		if (l->protocol == NULL)
			return err_set(err, 0, 0,
						   "listener.security.protocol.map says nothing of the listener %s: add %s:PLAINTEXT",
						   l->name, l->name);
		if (strcasecmp(l->protocol, "PLAINTEXT") != 0)
			return err_set(
				err, 0, 0,
				"listener %s is to speak %s, and only PLAINTEXT is served so far: put a TLS proxy in "
				"front, or map it to PLAINTEXT",
				l->name, l->protocol);
	}
	return true;
}

static bool
is_any_address(const char *host)
{
	return host[0] == '\0' || strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0;
}

static ConfigListener *
find_listener(ConfigListener *listeners, int n, const char *name)
{
	for (int i = 0; i < n; i++)
		if (strcasecmp(listeners[i].name, name) == 0)
			return &listeners[i];
	return NULL;
}

/* What clients are told, without advertised.listeners: the listeners, with this host's name for "any". */
static ConfigListener *
advertise_bound(const BrokerConfig *config)
{
	ConfigListener *out = config_alloc((size_t) config->n_bound * sizeof(*out));
	char host[256] = "localhost";

	if (gethostname(host, sizeof(host) - 1) != 0)
		strcpy(host, "localhost");
	for (int i = 0; i < config->n_bound; i++)
	{
		const ConfigListener *l = &config->bound[i];
		const char *name = is_any_address(l->host) ? host : l->host;

		out[i].name = config_strndup(l->name, strlen(l->name));
		out[i].protocol = config_strndup(l->protocol, strlen(l->protocol));
		out[i].host = config_strndup(name, strlen(name));
		out[i].port = l->port;
	}
	return out;
}

/* Puts `given` into the order of the bound ones. */
static bool
order_advertised(BrokerConfig *config, ConfigListener *given, int n, Err *err)
{
	config->advertised = config_alloc((size_t) config->n_bound * sizeof(ConfigListener));
	for (int i = 0; i < n; i++)
	{
		if (find_listener(config->bound, config->n_bound, given[i].name) == NULL)
			return err_set(err, 0, 0, "advertised.listeners names %s, which is not in listeners",
						   given[i].name);
		if (is_any_address(given[i].host))
			return err_set(err, 0, 0,
						   "advertised.listeners tells clients to connect to \"%s\", which is no address: "
						   "give a host name that they can resolve",
						   given[i].host);
	}
	for (int i = 0; i < config->n_bound; i++)
	{
		ConfigListener *from = find_listener(given, n, config->bound[i].name);

		if (from == NULL)
			return err_set(err, 0, 0, "advertised.listeners lacks the listener %s", config->bound[i].name);
		config->advertised[i].name = config_strndup(from->name, strlen(from->name));
		config->advertised[i].host = config_strndup(from->host, strlen(from->host));
		config->advertised[i].port = from->port;
		config->advertised[i].protocol =
			config_strndup(config->bound[i].protocol, strlen(config->bound[i].protocol));
		config->n_advertised++;
	}
	return true;
}

static bool
resolve_inter_broker(BrokerConfig *config, Err *err)
{
	ConfigListener *l;

	config->inter_broker = 0;
	if (config->inter_broker_listener_name == NULL)
		return true;
	l = find_listener(config->bound, config->n_bound, config->inter_broker_listener_name);
	if (l == NULL)
		return err_set(err, 0, 0, "inter.broker.listener.name is %s, which is not in listeners",
					   config->inter_broker_listener_name);
	config->inter_broker = (int) (l - config->bound);
	return true;
}

bool
config_listeners_resolve(BrokerConfig *config, Err *err)
{
	ConfigListener *given = NULL;
	int n_given = 0;
	bool done;

	config_listeners_free(config);
	if (!parse_list("listeners", config->listeners, &config->bound, &config->n_bound, err) ||
		!resolve_protocols(config, err))
		return false;
	if (config->advertised_listeners == NULL)
	{
		config->advertised = advertise_bound(config);
		config->n_advertised = config->n_bound;
		return resolve_inter_broker(config, err);
	}
	done = parse_list("advertised.listeners", config->advertised_listeners, &given, &n_given, err) &&
		   order_advertised(config, given, n_given, err);
	free_listeners(given, n_given);
	return done && resolve_inter_broker(config, err);
}
