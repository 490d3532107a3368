/* Has PostgreSQL been left behind (hazards A1)?  Heartbeats each 250 ms, a timeout of 6 s. */
#include "brokerd/meta/newer.h"
#include "regress/unit/tap.h"

#define HEARD(n, incarnation, age, now) newer_heard(n, incarnation, age, 6000, now)
#define EXISTS(n, ours, now)            newer_exists(n, ours, 6000, now)
#define ELSEWHERE(n, ours, now)         newer_is_elsewhere(n, ours, 250, 6000, now)

int
main(void)
{
	NewerPostgres n = {.incarnation = -1};

	ok(!EXISTS(&n, 7, 1000) && !ELSEWHERE(&n, 7, 1000), "nobody has told of one");
	HEARD(&n, -1, 10, 1000);
	HEARD(&n, 8, -1, 1000);
	HEARD(&n, 8, 6001, 1000);
	ok(!EXISTS(&n, 7, 1000), "nor does a peer count that is in touch with none");
	HEARD(&n, 7, 10, 1000);
	ok(!EXISTS(&n, 7, 1000) && !ELSEWHERE(&n, 7, 9000), "the same: all is well");
	HEARD(&n, 8, 10, 10000);
	ok(EXISTS(&n, 7, 10000), "a later one");
	ok(!ELSEWHERE(&n, 7, 10999), "which our own heartbeats may bring, too");
	ok(!EXISTS(&n, 8, 10500) && !ELSEWHERE(&n, 8, 12000), "when they did, it is ours");
	ok(ELSEWHERE(&n, 7, 11000), "they did not: it is another PostgreSQL");
	HEARD(&n, 7, 10, 11000);
	ok(EXISTS(&n, 7, 11000), "a peer that is behind as well changes nothing");
	HEARD(&n, 8, 10, 14000);
	ok(ELSEWHERE(&n, 7, 20000), "told of again it is later still");
	ok(!EXISTS(&n, 7, 20001) && !ELSEWHERE(&n, 7, 20001),
	   "nobody has had it for a whole timeout: there may be none but ours");
	HEARD(&n, 6, 10, 21000);
	ok(!EXISTS(&n, 6, 21000) && EXISTS(&n, 5, 21000), "then an older one is the latest");
	HEARD(&n, 8, 10, 22000);
	ok(EXISTS(&n, 7, 22000) && !ELSEWHERE(&n, 7, 22999) && ELSEWHERE(&n, 7, 23000), "and time begins anew");
	return tap_done();
}
