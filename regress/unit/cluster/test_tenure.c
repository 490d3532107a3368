/* May a leader acknowledge on its word alone (hazards A11)? */
#include "brokerd/cluster/tenure.h"
#include "regress/unit/tap.h"

typedef struct Case
{
	const char *what;
	TenureInput in;
	bool sure;
} Case;

int
main(void)
{
	/* now, session timeout, own heartbeat, end of the last pause, newest heartbeat of a peer */
	static const Case cases[] = {
		{"its heartbeats are fresh", {100000, 6000, 99900, -1, 99900}, true},
		{"half a session timeout old is the limit", {100000, 6000, 97000, -1, 99900}, true},
		{"older, and another broker has PostgreSQL", {100000, 6000, 96999, -1, 99900}, false},
		{"older, and nobody has PostgreSQL any more", {100000, 6000, 90000, -1, 90100}, true},
		{"older, and there is no other broker", {100000, 6000, 1000, -1, -1}, true},
		{"it just went on after a pause", {100000, 6000, 93000, 100000, 93000}, false},
		{"a heartbeat from before the pause says nothing", {100200, 6000, 99999, 100000, 100100}, false},
		{"one that was sent after it does", {100200, 6000, 100100, 100000, 100100}, true},
		{"after the pause PostgreSQL is away, for others as well",
		 {106001, 6000, 93000, 100000, 93000},
		 true},
		{"but it waited long enough to hear of others", {106000, 6000, 93000, 100000, 93000}, false},
		{"after the pause only others have PostgreSQL", {110000, 6000, 93000, 100000, 109900}, false},
		{"never registered, and alone", {100000, 6000, -1, -1, -1}, true},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		ok(tenure_is_sure(&cases[i].in) == cases[i].sure, "%s: %s", cases[i].what,
		   cases[i].sure ? "yes" : "no");
	return tap_done();
}
