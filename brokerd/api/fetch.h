/* fetch.h: what main and the tests of Fetch need to know of it. */
#ifndef BROKERD_API_FETCH_H
#define BROKERD_API_FETCH_H

#include "brokerd/api/api.h"

/* Look again at the parked fetches whose partitions moved in this turn of the loop. */
void fetch_run_woken(Broker *broker);
/* The broker stops: answer every parked fetch with what there is. */
void fetch_answer_parked(Broker *broker);

#endif
