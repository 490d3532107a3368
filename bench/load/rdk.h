/*
 * rdk.h: librdkafka as the load generator uses it.  What goes wrong before a measurement begins ends the
 * program with one sentence.
 */
#ifndef BENCH_LOAD_RDK_H
#define BENCH_LOAD_RDK_H

#include <librdkafka/rdkafka.h>
#include <stdbool.h>

#include "bench/load/load.h"

/* With the bootstrap addresses and the -X settings, which rdk_new puts over everything else. */
rd_kafka_conf_t *rdk_conf(const Settings *s);
void rdk_set(rd_kafka_conf_t *conf, const char *key, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
rd_kafka_t *rdk_new(rd_kafka_type_t type, rd_kafka_conf_t *conf, const Settings *s);

/* Ends the program when no address of the list takes a connection. */
void rdk_check_bootstrap(const char *bootstrap);

/*
 * The number of partitions of the topic, which is made first when --partitions says how many it shall have
 * and it is not there.  Returns when each has a leader.
 */
int32_t rdk_topic(rd_kafka_t *rk, const Settings *s);

/* -1: it is not there. */
int32_t rdk_partition_count(rd_kafka_t *rk, const char *topic, bool *all_led);
void rdk_delete_topic(rd_kafka_t *rk, const char *topic);

/* Every partition of the topic, from its beginning or from its end of this moment. */
rd_kafka_topic_partition_list_t *rdk_positions(rd_kafka_t *rk, const char *topic, int32_t partitions,
											   bool from_end);

#endif
