/*
 * sim.h: a group coordinator in a test: events by one-line calls, actions as text.
 *
 * A member id is "c-" and a UUID that counts up, written "m1", "m2" ... in what goes in and what comes out.
 * Each action adds one word to the trace:
 *
 *     J1:0:g1:range:m1:m1[m1,m2]   JoinGroup of request 1: error, generation, protocol, leader, member[members]
 *     J1:25:m3                     with an error: the member id given
 *     S1:0:a1                      SyncGroup: error, assignment          L1:0   LeaveGroup
 *     save:g1:<0:m1=a1,m2=a2       a save: generation, < expected, members with assignments
 *     hist:member joined:m1:0>1    its history, if any
 *     [Stable]                     the state changed
 *
 * Saves are answered by sim_saved(); with `auto_save` at once.
 */
#ifndef REGRESS_UNIT_GROUP_SIM_H
#define REGRESS_UNIT_GROUP_SIM_H

#include <stdlib.h>

#include "brokerd/group/group.h"
#include "regress/unit/tap.h"
#include "wire/errors.h"

#define G "grp"

typedef struct Sim
{
	GroupSet *set;
	GroupConfig config;
	int64_t now;
	int ids; /* made so far */
	bool auto_save;
	bool with_history;
	uint64_t save_serial; /* of the last save that is out */
	char save_group[64];
	char trace[65536];
	size_t len;
	int answers[4096]; /* how often a request was answered */
} Sim;

__attribute__((format(printf, 2, 3), unused)) static void
sim_add(Sim *s, const char *fmt, ...)
{
	__builtin_va_list ap;
	int n;

	if (s->len > 0 && s->len + 1 < sizeof(s->trace))
		s->trace[s->len++] = ' ';
	__builtin_va_start(ap, fmt);
	n = vsnprintf(s->trace + s->len, sizeof(s->trace) - s->len, fmt, ap);
	__builtin_va_end(ap);
	s->len += (size_t) n;
	if (s->len >= sizeof(s->trace))
		s->len = sizeof(s->trace) - 1;
}

/* "c-00000000-0000-0000-0000-00000000000a" is "m10"; anything else is itself. */
static const char *
sim_name(WStr id)
{
	static char names[8][64];
	static int turn;
	char *out = names[turn++ % 8];
	int n = 0;

	if (id.len < 0)
		return "-";
	if (id.len < 37)
		snprintf(out, 64, "%.*s", id.len, id.s);
	else
	{
		for (int i = id.len - 8; i < id.len; i++)
			n = n * 16 + (id.s[i] <= '9' ? id.s[i] - '0' : id.s[i] - 'a' + 10);
		snprintf(out, 64, "m%d", n);
	}
	return out;
}

/* What sim_name shortened; `head` is that of a static member's id, its instance id ("i:m1" is m1 with head i). */
static WStr
sim_id(const char *name, const char *head)
{
	static char ids[8][128];
	static int turn;
	char *out = ids[turn++ % 8];
	const char *colon = name == NULL ? NULL : strchr(name, ':');
	char before[64];

	if (name == NULL)
		return WSTR_NULL;
	if (colon != NULL)
	{
		snprintf(before, sizeof(before), "%.*s", (int) (colon - name), name);
		head = before;
		name = colon + 1;
	}
	if (name[0] != 'm' || name[1] < '0' || name[1] > '9')
		return wstr(name);
	snprintf(out, 128, "%s-00000000-0000-0000-0000-0000%08x", head == NULL ? "c" : head,
			 (unsigned) atoi(name + 1));
	return wstr(out);
}

static void
sim_action(Sim *s, const GroupAction *a)
{
	char list[32768] = "";
	size_t n = 0;

	if (a->kind <= GROUP_ANSWER_LEAVE && a->request < 4096)
		s->answers[a->request]++;
	switch (a->kind)
	{
		case GROUP_ANSWER_JOIN:
			if (a->error != 0)
			{
				sim_add(s, "J%d:%d:%s%s", (int) a->request, a->error, sim_name(a->u.join.member_id),
						a->delay_ms > 0 ? ":late" : "");
				break;
			}
			for (int i = 0; i < a->u.join.member_count; i++)
				n += (size_t) snprintf(list + n, sizeof(list) - n, "%s%s", i > 0 ? "," : "",
									   sim_name(a->u.join.members[i].member_id));
			sim_add(s, "J%d:0:g%d:%s:%s:%s[%s]%s", (int) a->request, a->u.join.generation,
					sim_name(a->u.join.protocol_name), sim_name(a->u.join.leader),
					sim_name(a->u.join.member_id), list, a->u.join.skip_assignment ? "skip" : "");
			break;
		case GROUP_ANSWER_SYNC:
			sim_add(s, "S%d:%d:%.*s", (int) a->request, a->error, a->u.sync.assignment.len,
					(const char *) a->u.sync.assignment.p);
			break;
		case GROUP_ANSWER_LEAVE:
			sim_add(s, "L%d:%d", (int) a->request, a->error);
			break;
		case GROUP_SAVE:
			for (int i = 0; i < a->u.save.row.member_count; i++)
			{
				const GroupMemberRow *m = &a->u.save.row.members[i];

				n += (size_t) snprintf(list + n, sizeof(list) - n, "%s%s=%.*s", i > 0 ? "," : "",
									   sim_name(m->member_id), m->assignment.len,
									   (const char *) m->assignment.p);
			}
			sim_add(s, "save:g%d<%d:%s", a->u.save.row.generation, a->u.save.expected_generation, list);
			if (s->with_history && a->u.save.history.present)
				sim_add(s, "hist:%.*s:%d>%d:%dms", a->u.save.history.reason.len, a->u.save.history.reason.s,
						a->u.save.history.members_before, a->u.save.history.members_after,
						(int) a->u.save.history.duration_ms);
			s->save_serial = a->u.save.serial;
			snprintf(s->save_group, sizeof(s->save_group), "%.*s", a->group_id.len, a->group_id.s);
			break;
		case GROUP_NOTE_STATE:
			sim_add(s, "[%s]", group_state_name(a->state));
			break;
	}
}

static void
sim_drain(Sim *s)
{
	const GroupAction *a;

	for (;;)
	{
		uint64_t before = s->save_serial;

		while ((a = group_next_action(s->set)) != NULL)
			sim_action(s, a);
		if (!s->auto_save || s->save_serial == before)
			return;
		group_saved(s->set, s->now, wstr(s->save_group), s->save_serial, GROUP_SAVE_OK, 0);
	}
}

/* The trace since the last call. */
__attribute__((unused)) static const char *
sim_trace(Sim *s)
{
	s->trace[s->len] = '\0';
	s->len = 0;
	return s->trace;
}

static void
sim_init(Sim *s)
{
	memset(s, 0, sizeof(*s));
	group_config_defaults(&s->config);
	s->config.initial_rebalance_delay_ms = 0;
	s->set = group_set_new(&s->config);
	s->now = 1000000;
	for (int32_t i = 0; i < GROUP_SLOTS; i++)
	{
		group_slot_loading(s->set, i);
		group_slot_ready(s->set, s->now, i);
	}
}

__attribute__((unused)) static void
sim_free(Sim *s)
{
	group_set_free(s->set);
}

typedef struct SimJoin
{
	int request;
	const char *group; /* NULL: G */
	const char *member;
	const char *instance;
	const char *protocols; /* NULL: "range"; "range,sticky"; "range=meta" */
	const char *type;      /* NULL: "consumer" */
	int version;           /* 0: 3, which needs no member id first */
	int session;           /* 0: 10000 */
	int rebalance;         /* 0: 30000 */
	const char *reason;
} SimJoin;

static void
sim_join_full(Sim *s, SimJoin j)
{
	GroupProtocol protocols[16];
	char text[256];
	char *save = NULL;
	GroupJoin in = {
		.request = (uint64_t) j.request,
		.version = (int16_t) (j.version == 0 ? 3 : j.version),
		.group_id = wstr(j.group == NULL ? G : j.group),
		.member_id = j.member == NULL ? WSTR_LIT("") : sim_id(j.member, j.instance),
		.instance_id = wstr(j.instance),
		.client_id = WSTR_LIT("c"),
		.client_host = WSTR_LIT("10.0.0.1"),
		.protocol_type = wstr(j.type == NULL ? "consumer" : j.type),
		.reason = wstr(j.reason),
		.session_timeout_ms = j.session == 0 ? 10000 : j.session,
		.rebalance_timeout_ms = j.rebalance == 0 ? 30000 : j.rebalance,
		.protocols = protocols,
	};
	int id = ++s->ids;

	for (int i = 12; i < 16; i++)
		in.fresh_id.b[i] = (uint8_t) (id >> (8 * (15 - i)));
	snprintf(text, sizeof(text), "%s", j.protocols == NULL ? "range" : j.protocols);
	for (char *p = strtok_r(text, ",", &save); p != NULL; p = strtok_r(NULL, ",", &save))
	{
		char *eq = strchr(p, '=');

		if (eq != NULL)
			*eq++ = '\0';
		protocols[in.protocol_count++] =
			(GroupProtocol){wstr(p), {(const uint8_t *) eq, eq == NULL ? 0 : (int32_t) strlen(eq)}};
	}
	group_join(s->set, s->now, &in);
	sim_drain(s);
}

/* sim_join(&s, .request = 1, .member = "m1") */
#define sim_join(s, ...) sim_join_full((s), (SimJoin){__VA_ARGS__})

typedef struct SimSync
{
	int request;
	const char *group;
	const char *member;
	const char *instance;
	int generation;
	const char *assign; /* "m1=a1,m2=a2" */
	const char *type;
	const char *protocol;
} SimSync;

static void
sim_sync_full(Sim *s, SimSync y)
{
	GroupAssignment assignments[64];
	static char text[4096];
	char *save = NULL;
	GroupSync in = {
		.request = (uint64_t) y.request,
		.group_id = wstr(y.group == NULL ? G : y.group),
		.member_id = sim_id(y.member, y.instance),
		.instance_id = wstr(y.instance),
		.generation = y.generation,
		.protocol_type = wstr(y.type),
		.protocol_name = wstr(y.protocol),
		.assignments = assignments,
	};
	static char ids[64][96];

	snprintf(text, sizeof(text), "%s", y.assign == NULL ? "" : y.assign);
	for (char *p = strtok_r(text, ",", &save); p != NULL; p = strtok_r(NULL, ",", &save))
	{
		char *eq = strchr(p, '=');
		WStr id;

		*eq++ = '\0';
		id = sim_id(p, NULL);
		snprintf(ids[in.assignment_count], sizeof(ids[0]), "%.*s", id.len, id.s);
		assignments[in.assignment_count] =
			(GroupAssignment){wstr(ids[in.assignment_count]), {(const uint8_t *) eq, (int32_t) strlen(eq)}};
		in.assignment_count++;
	}
	group_sync(s->set, s->now, &in);
	sim_drain(s);
}

#define sim_sync(s, ...) sim_sync_full((s), (SimSync){__VA_ARGS__})

__attribute__((unused)) static int
sim_beat(Sim *s, const char *member, const char *instance, int generation)
{
	return group_heartbeat(s->set, s->now, WSTR_LIT(G), sim_id(member, instance), wstr(instance), generation);
}

/* The leaver's own error. */
__attribute__((unused)) static int
sim_leave(Sim *s, int request, const char *member, const char *instance)
{
	GroupLeaver leaver = {sim_id(member, instance), wstr(instance), WSTR_NULL, 0};

	group_leave(s->set, s->now, (uint64_t) request, WSTR_LIT(G), &leaver, 1);
	sim_drain(s);
	return leaver.error;
}

__attribute__((unused)) static int
sim_commit(Sim *s, const char *member, int generation, int version, int32_t *saved)
{
	int32_t dummy;
	GroupCommit in = {(int16_t) version, false, WSTR_LIT(G), sim_id(member, NULL), WSTR_NULL, generation};

	return group_check_commit(s->set, s->now, &in, saved == NULL ? &dummy : saved);
}

__attribute__((unused)) static void
sim_saved(Sim *s, GroupSaveResult result, int generation)
{
	group_saved(s->set, s->now, wstr(s->save_group), s->save_serial, result, generation);
	sim_drain(s);
}

/* Let time pass, stopping at each deadline. */
__attribute__((unused)) static void
sim_wait(Sim *s, int64_t ms)
{
	int64_t end = s->now + ms;

	for (;;)
	{
		int64_t next = group_next_deadline(s->set);

		if (next > end)
			break;
		if (next > s->now)
			s->now = next;
		group_on_time(s->set, s->now);
		sim_drain(s);
	}
	s->now = end;
}

__attribute__((unused)) static GroupState
sim_state(Sim *s)
{
	GroupDescription d;

	group_describe(s->set, WSTR_LIT(G), &d);
	return d.state;
}

/* A Stable group of generation 1 with members m1 (leader) ... mN, assigned a1 ... aN.  Requests 1 ... are used. */
__attribute__((unused)) static void
sim_stable(Sim *s, int members)
{
	char assign[1024] = "";
	char name[16];
	size_t n = 0;
	bool auto_save = s->auto_save;

	s->auto_save = true;
	for (int i = 1; i <= members; i++)
	{
		sim_join(s, .request = i);
		n += (size_t) snprintf(assign + n, sizeof(assign) - n, "%sm%d=a%d", i > 1 ? "," : "", i, i);
	}
	sim_wait(s, 0);
	for (int i = members; i >= 1; i--)
	{
		snprintf(name, sizeof(name), "m%d", i);
		sim_sync(s, .request = 100 + i, .member = name, .generation = 1, .assign = i == 1 ? assign : NULL);
	}
	s->auto_save = auto_save;
	(void) sim_trace(s);
}

#endif
