/*
 * registration.c: who this broker is (hazards A3, A16, A17), and the heartbeat that says that it lives.
 */
#include "brokerd/meta/meta_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "brokerd/base/clock.h"
#include "brokerd/base/logging.h"
#include "wire/errors.h"

#define REGISTER_RETRY_S 0.5

static void register_send(Meta *m);

/* ---- the epoch ends ---- */

/* Fenced: what this broker led, others lead.  The process keeps its incarnation and registers again. */
static void
lose_epoch(Meta *m, const char *why)
{
	bool had = m->identity.broker_epoch >= 0;

	m->registered = false;
	m->identity.broker_epoch = -1;
	m->is_controller = false;
	for (int i = META_SESSION_CONTROL; i < META_SESSION_COUNT; i++)
		session_set_open(m->sessions[i], false);
	meta_set_connected(m, false);
	if (!had)
		return;
	log_msg(LOG_WARNING, "meta", "the broker epoch is over (%s); registering again", why);
	if (m->o.callbacks.on_fenced != NULL)
		m->o.callbacks.on_fenced(m->o.callbacks.ctx);
}

static void
retry_later(Meta *m)
{
	m->registering = false;
	ev_timer_stop(m->o.loop, &m->register_retry);
	ev_timer_set(&m->register_retry, REGISTER_RETRY_S, 0.0);
	ev_timer_start(m->o.loop, &m->register_retry);
}

static void
on_register_retry(struct ev_loop *loop, ev_timer *w, int events)
{
	Meta *m = w->data;

	(void) loop;
	(void) events;
	if (m->is_behind)
		registration_leave(m); /* a session that comes up registers */
	else
		registration_begin(m);
}

void
registration_leave(Meta *m)
{
	m->is_behind = false;
	for (int i = 0; i < META_SESSION_COUNT; i++)
		session_leave(m->sessions[i]);
}

/* Somebody has a later one: what this one says counts no more, and nothing may be decided by it (hazards A1). */
static bool
refuse_older(Meta *m, int64_t incarnation)
{
	if (!newer_exists(&m->newer, incarnation, m->o.session_timeout_ms, clock_boot_ms()))
		return false;
	log_msg(LOG_WARNING, "meta",
			"this PostgreSQL was left behind: other brokers have one that was promoted or restored later "
			"(%" PRId64 ", this one is %" PRId64 "); not registering with it. Stop it, or let "
			"pg_broker.postgres lead to the other one",
			m->newer.incarnation, incarnation);
	m->is_behind = true;
	retry_later(m);
	return true;
}

/* What was known under the one before is told to who wants to keep it, before anything is read anew. */
static void
set_incarnation(Meta *m, int64_t incarnation)
{
	if (incarnation == m->pg_incarnation)
		return;
	if (m->pg_incarnation >= 0)
	{
		log_msg(LOG_WARNING, "meta", "PostgreSQL was promoted or restored: reading all metadata again");
		m->refresh.need_full = true;
		if (m->o.callbacks.on_incarnation != NULL)
			m->o.callbacks.on_incarnation(m->o.callbacks.ctx);
	}
	m->pg_incarnation = incarnation;
}

/* ---- registering ---- */

static int
hex_digit(char c)
{
	return c >= '0' && c <= '9'                     ? c - '0'
		   : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10
													: 0;
}

/* "\x0a1b" → bytes; returns how many. */
static size_t
parse_bytea(const char *text, uint8_t *out, size_t max)
{
	size_t n = 0;

	if (strncmp(text, "\\x", 2) != 0)
		return 0;
	for (text += 2; text[0] != '\0' && text[1] != '\0' && n < max; text += 2)
		out[n++] = (uint8_t) (hex_digit(text[0]) << 4 | hex_digit(text[1]));
	return n;
}

static void
open_sessions(Meta *m)
{
	for (int i = META_SESSION_CONTROL; i < META_SESSION_COUNT; i++)
	{
		session_set_open(m->sessions[i], true);
		session_kick(m->sessions[i]);
	}
}

static void
take_registration(Meta *m, const MetaResult *r)
{
	uint8_t secret[256];
	MetaRegistration reg = {.broker_epoch = meta_result_int(r, 0, 0),
							.cluster_id = meta_result_text(r, 0, 1),
							.metadata_version = meta_result_int(r, 0, 2),
							.pg_incarnation = meta_result_int(r, 0, 3),
							.secret = secret,
							.secret_len = parse_bytea(meta_result_text(r, 0, 4), secret, sizeof(secret)),
							.same_epoch = meta_result_int(r, 0, 0) == m->own_epoch};

	if (refuse_older(m, reg.pg_incarnation))
		return;
	m->registering = false;
	m->outcome_unknown = false;
	/* Another epoch without a word that the old one was over: what was led under it is lost all the same. */
	if (m->identity.broker_epoch >= 0 && !reg.same_epoch)
		lose_epoch(m, "PostgreSQL gave another one");
	/* The disk carries the epoch before anything is served under it. */
	if (!m->o.callbacks.on_registered(m->o.callbacks.ctx, &reg))
	{
		m->stopped = true;
		return;
	}
	free(m->cluster_id);
	m->cluster_id = meta_strndup(reg.cluster_id, strlen(reg.cluster_id));
	m->disk_epoch = m->own_epoch = m->identity.broker_epoch = reg.broker_epoch;
	m->registered = true;
	if (m->first_registered_ms == 0)
		m->first_registered_ms = clock_boot_ms();
	m->last_heartbeat_ms = m->heartbeat_sent_ms;
	set_incarnation(m, reg.pg_incarnation);
	log_msg(LOG_INFO, "meta", "broker %d registered with epoch %" PRId64 " in cluster %s%s", m->o.node_id,
			reg.broker_epoch, m->cluster_id, reg.same_epoch ? ", as before" : "");
	meta_set_connected(m, true);
	open_sessions(m);
	refresh_heard(m, reg.metadata_version);
	registration_heartbeat_now(m);
}

static void
on_register_done(void *ctx, const MetaResult *r)
{
	Meta *m = ctx;
	int16_t code;
	char sentence[1024];

	if (m->stopped)
		return;
	if (meta_result_status(r) == META_OK && meta_result_rows(r) == 1)
	{
		take_registration(m, r);
		return;
	}
	m->outcome_unknown = m->outcome_unknown || meta_result_status(r) == META_UNKNOWN;
	code = meta_result_status(r) == META_ERROR ? meta_result_kafka_code(r) : 0;
	snprintf(sentence, sizeof(sentence), "%s%s%s%s%s", meta_result_message(r),
			 meta_result_detail(r) ? ". " : "", meta_result_detail(r) ? meta_result_detail(r) : "",
			 meta_result_hint(r) ? " " : "", meta_result_hint(r) ? meta_result_hint(r) : "");
	/* The id is in use, or this is another cluster's PostgreSQL: no retry changes that. */
	if (code == KERR_DUPLICATE_BROKER_REGISTRATION || code == KERR_INCONSISTENT_CLUSTER_ID)
	{
		meta_fatal(m, sentence);
		return;
	}
	log_msg(LOG_WARNING, "meta", "registration failed: %s", sentence);
	retry_later(m);
}

static void
register_send(Meta *m)
{
	char id[16], disk_epoch[24];
	const char *params[] = {id,        m->incarnation,      m->directory, disk_epoch,      m->cluster_id,
							m->o.rack, m->o.endpoints_json, m->o.version, m->o.static_json};

	snprintf(id, sizeof(id), "%d", m->o.node_id);
	snprintf(disk_epoch, sizeof(disk_epoch), "%" PRId64, m->disk_epoch);
	m->heartbeat_sent_ms = clock_boot_ms();
	session_call(m->sessions[META_SESSION_HEARTBEAT], META_REGISTER_BROKER, params, 9,
				 clock_boot_ms() + m->o.call_timeout_ms, on_register_done, m);
}

/*
 * Our row carries another epoch, and it is in office: another process has our id and our directory's id, such as a
 * copy of the disk.  The one that came later stays (hazards A17).
 */
static void
on_own_broker(void *ctx, const MetaResult *r)
{
	Meta *m = ctx;
	char sentence[256];

	if (m->stopped)
		return;
	if (meta_result_status(r) != META_OK)
	{
		retry_later(m);
		return;
	}
	if (meta_result_rows(r) == 1 && meta_result_int(r, 0, 0) > m->own_epoch &&
		strcmp(meta_result_text(r, 0, 1), "dead") != 0)
	{
		snprintf(sentence, sizeof(sentence),
				 "superseded: another process has registered as broker %d with a copy of this data "
				 "directory; stop one "
				 "of them, and give a copy another node.id and an empty log.dirs",
				 m->o.node_id);
		meta_fatal(m, sentence);
		return;
	}
	register_send(m);
}

void
registration_begin(Meta *m)
{
	MetaSession *heartbeat = m->sessions[META_SESSION_HEARTBEAT],
				*control = m->sessions[META_SESSION_CONTROL];
	char id[16];
	const char *params[] = {id};

	if (m->stopped || m->registering || m->registered || !session_is_up(heartbeat))
		return;
	/* Behind a pooler it takes two sessions to see whether each is one session. */
	if (probe_is_pooled(session_probe(heartbeat)) && !session_is_up(control))
		return;
	m->registering = true;
	ev_timer_stop(m->o.loop, &m->register_retry);
	if (m->own_epoch < 0 || m->outcome_unknown)
	{
		register_send(m);
		return;
	}
	snprintf(id, sizeof(id), "%d", m->o.node_id);
	session_call(heartbeat, META_OWN_BROKER, params, 1, clock_boot_ms() + m->o.call_timeout_ms, on_own_broker,
				 m);
}

void
registration_session_lost(Meta *m)
{
	m->registered = false;
	m->registering = false;
	m->heartbeat_running = false;
	meta_set_connected(m, false);
}

/* ---- the heartbeat ---- */

/* The extension was upgraded while we run.  Our functions are still there; the next start would be refused. */
static void
warn_contract(Meta *m, int oldest, int newest)
{
	bool fits = oldest <= META_CONTRACT_VERSION && META_CONTRACT_VERSION <= newest;

	if (!fits && !m->contract_warned)
		log_msg(LOG_ERROR, "meta",
				"the extension pg_broker serves contract versions %d to %d now and this brokerd speaks %d: "
				"upgrade "
				"brokerd, which will not start again like this",
				oldest, newest, META_CONTRACT_VERSION);
	m->contract_warned = !fits;
}

static void
take_heartbeat(Meta *m, const MetaResult *r)
{
	int64_t incarnation = meta_result_int(r, 0, 1);
	MetaSession *heartbeat = m->sessions[META_SESSION_HEARTBEAT];
	Err err;

	m->last_heartbeat_ms = m->heartbeat_sent_ms;
	m->last_round_trip_us = clock_boot_us() - m->heartbeat_sent_us;
	if (session_is_up(heartbeat) && meta_result_int(r, 0, 7) != session_probe(heartbeat)->backend_pid)
	{
		probe_pooler_sentence(&err);
		meta_unfit(m, err.text);
		return;
	}
	warn_contract(m, (int) meta_result_int(r, 0, 2), (int) meta_result_int(r, 0, 3));
	if (meta_result_bool(r, 0, 4))
	{
		lose_epoch(m, "fenced");
		registration_begin(m);
		return;
	}
	m->controller_id = meta_result_is_null(r, 0, 5) ? -1 : (int32_t) meta_result_int(r, 0, 5);
	set_incarnation(m, incarnation);
	if (meta_result_bool(r, 0, 6))
		control_tick_now(m);
	refresh_heard(m, meta_result_int(r, 0, 0));
}

static void
on_heartbeat_done(void *ctx, const MetaResult *r)
{
	Meta *m = ctx;

	m->heartbeat_running = false;
	if (m->stopped)
		return;
	if (meta_result_status(r) == META_OK && meta_result_rows(r) == 1)
		take_heartbeat(m, r);
	else if (meta_result_status(r) == META_ERROR && meta_result_kafka_code(r) == KERR_STALE_BROKER_EPOCH)
	{
		lose_epoch(m, meta_result_message(r));
		registration_begin(m);
	}
	else if (meta_result_status(r) == META_ERROR)
		log_msg(LOG_WARNING, "meta", "heartbeat failed: %s", meta_result_message(r));
	if (m->heartbeat_again)
	{
		m->heartbeat_again = false;
		registration_heartbeat_now(m);
	}
}

void
registration_heartbeat_now(Meta *m)
{
	char applied[24];
	const char *params[] = {NULL, NULL, applied};

	if (m->stopped || !m->registered || !session_is_up(m->sessions[META_SESSION_HEARTBEAT]))
		return;
	if (m->heartbeat_running)
	{
		m->heartbeat_again = true;
		return;
	}
	m->heartbeat_running = true;
	m->heartbeat_sent_ms = clock_boot_ms();
	m->heartbeat_sent_us = clock_boot_us();
	snprintf(applied, sizeof(applied), "%" PRId64, meta_image_version(m->image));
	session_call(m->sessions[META_SESSION_HEARTBEAT], META_HEARTBEAT, params, 3,
				 m->heartbeat_sent_ms + m->o.call_timeout_ms, on_heartbeat_done, m);
}

static void
on_heartbeat_timer(struct ev_loop *loop, ev_timer *w, int events)
{
	Meta *m = w->data;

	(void) loop;
	(void) events;
	if (m->registered && newer_is_elsewhere(&m->newer, m->pg_incarnation, m->o.heartbeat_interval_ms,
											m->o.session_timeout_ms, clock_boot_ms()))
	{
		log_msg(LOG_WARNING, "meta",
				"other brokers have a PostgreSQL that was promoted or restored later than this one: "
				"connecting anew");
		registration_leave(m);
	}
	else if (!m->heartbeat_running)
		registration_heartbeat_now(m);
}

/* ---- life ---- */

static void
make_incarnation(char out[META_UUID_TEXT])
{
	WUuid id;

	if (getrandom(id.b, sizeof(id.b), 0) != (ssize_t) sizeof(id.b))
	{
		int64_t now[2] = {clock_wall_ms(), clock_boot_us()};

		memcpy(id.b, now, sizeof(id.b));
	}
	id.b[6] = (uint8_t) ((id.b[6] & 0x0f) | 0x40); /* version 4 */
	id.b[8] = (uint8_t) ((id.b[8] & 0x3f) | 0x80);
	meta_uuid_format(&id, out);
}

void
registration_init(Meta *m)
{
	double interval = (double) m->o.heartbeat_interval_ms / 1000;

	make_incarnation(m->incarnation);
	meta_uuid_format(&m->o.directory_id, m->directory);
	m->disk_epoch = m->o.disk_epoch;
	m->cluster_id = m->o.cluster_id == NULL ? NULL : meta_strndup(m->o.cluster_id, strlen(m->o.cluster_id));
	m->own_epoch = -1;
	m->last_heartbeat_ms = -1;
	m->pg_incarnation = m->newer.incarnation = -1;
	m->version = -1;
	ev_init(&m->register_retry, on_register_retry);
	ev_timer_init(&m->heartbeat_timer, on_heartbeat_timer, interval, interval);
	m->register_retry.data = m->heartbeat_timer.data = m;
	ev_timer_start(m->o.loop, &m->heartbeat_timer);
}

void
registration_stop(Meta *m)
{
	ev_timer_stop(m->o.loop, &m->register_retry);
	ev_timer_stop(m->o.loop, &m->heartbeat_timer);
	free(m->cluster_id);
	m->cluster_id = NULL;
}
