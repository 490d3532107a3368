/*
 * broker.h: the one context that the parts of a running brokerd hang from.  main.c makes it; the API
 * handlers (api.h) are given it.  Loop thread only.
 */
#ifndef BROKERD_API_BROKER_H
#define BROKERD_API_BROKER_H

#include <ev.h>
#include <stdbool.h>
#include <stdint.h>

#include "brokerd/api/refused.h"
#include "brokerd/base/config.h"
#include "brokerd/cluster/partition.h"
#include "brokerd/meta/meta.h"
#include "brokerd/net/net.h"
#include "brokerd/storage/log.h"

struct FetchSessions;
struct FetchOp;
struct AdminOp;
struct Operation;
struct Groups;
struct Replication;
struct ReplicaFetch;
struct ReplicaSession;

/* An answer that is the same for everybody but for the correlation id, as it goes out; len 0: not made yet. */
typedef struct ReadyAnswer
{
	size_t len;
	uint8_t bytes[1024];
} ReadyAnswer;

#define API_VERSIONS_READY 5 /* versions 0 to 4 */

typedef struct Broker
{
	const BrokerConfig *config;
	TopicConfigs *configs;
	struct ev_loop *loop;
	NetServer *net;
	LogManager *logs;
	const char *log_dir; /* absolute path of the data directory */
	Meta *meta;
	PartitionTable *partitions;
	struct FetchSessions *fetch_sessions;
	struct FetchOp *fetch_parked; /* wait for data */
	struct FetchOp *fetch_woken;  /* parked fetches to look at again in this turn */
	Refused refused;              /* batches of producers, in the last second */
	struct Replication *replication;
	struct ReplicaFetch *replica_parked;          /* fetches of followers that wait */
	struct ReplicaSession *replica_woken;         /* sessions to look at again in this turn */
	struct AdminOp *admin_waiting;                /* answers that wait for the image to show what they did */
	struct Operation *operations;                 /* asked for in SQL, under way */
	struct Groups *groups;                        /* NULL: groups are not served */
	ReadyAnswer api_versions[API_VERSIONS_READY]; /* by version */
	bool serving;                                 /* registered and the first image is complete */
	bool stopping;
} Broker;

#endif
