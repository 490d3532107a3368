/*
 * errors.h: Kafka's error codes.  One row each: code, name, whether a client retries on its own, and one
 * sentence, without a capital and a full stop, for error_message fields and logs.
 *
 *     KERR_NOT_COORDINATOR             the enumerator, in code
 *     kerr_name(16)                    "NOT_COORDINATOR"; "UNKNOWN_ERROR_CODE" for a code that is none
 *     kerr_message(16)                 "this broker is not the coordinator"
 *
 * All results are static.  Any thread may call these.
 */
#ifndef WIRE_ERRORS_H
#define WIRE_ERRORS_H

#include <stdbool.h>
#include <stdint.h>

/* clang-format off */
#define KERR_TABLE(X) \
	X(  -1, UNKNOWN_SERVER_ERROR, false, "an unexpected error happened on the broker; its log says more") \
	X(   0, NONE, false, "no error") \
	X(   1, OFFSET_OUT_OF_RANGE, false, "the offset is outside of what the partition holds") \
	X(   2, CORRUPT_MESSAGE, true, "a record batch fails its checksum or is malformed") \
	X(   3, UNKNOWN_TOPIC_OR_PARTITION, true, "this broker does not know the topic or partition") \
	X(   4, INVALID_FETCH_SIZE, false, "the fetch size is not valid") \
	X(   5, LEADER_NOT_AVAILABLE, true, "the partition has no leader at the moment") \
	X(   6, NOT_LEADER_OR_FOLLOWER, true, "this broker is not the leader, or no replica, of the partition") \
	X(   7, REQUEST_TIMED_OUT, true, "the request did not finish in the time it gave") \
	X(   8, BROKER_NOT_AVAILABLE, false, "the broker is not available") \
	X(   9, REPLICA_NOT_AVAILABLE, true, "the replica is not available on this broker") \
	X(  10, MESSAGE_TOO_LARGE, false, "the batch is larger than max.message.bytes") \
	X(  11, STALE_CONTROLLER_EPOCH, false, "the controller epoch is older than the current one") \
	X(  12, OFFSET_METADATA_TOO_LARGE, false, "the metadata of the committed offset is too long") \
	X(  13, NETWORK_EXCEPTION, true, "the connection broke before the response came") \
	X(  14, COORDINATOR_LOAD_IN_PROGRESS, true, "the coordinator is loading its state") \
	X(  15, COORDINATOR_NOT_AVAILABLE, true, "the coordinator is not available") \
	X(  16, NOT_COORDINATOR, true, "this broker is not the coordinator") \
	X(  17, INVALID_TOPIC_EXCEPTION, false, "the topic name is not valid or the operation is not allowed on it") \
	X(  18, RECORD_LIST_TOO_LARGE, false, "the batch is larger than a segment may be") \
	X(  19, NOT_ENOUGH_REPLICAS, true, \
	  "fewer replicas are in sync than min.insync.replicas asks for; nothing was written") \
	X(  20, NOT_ENOUGH_REPLICAS_AFTER_APPEND, true, \
	  "the batch was written, then fewer replicas were in sync than min.insync.replicas asks for") \
	X(  21, INVALID_REQUIRED_ACKS, false, "acks must be -1, 0 or 1") \
	X(  22, ILLEGAL_GENERATION, false, "the generation is not the group's current one") \
	X(  23, INCONSISTENT_GROUP_PROTOCOL, false, "the member's protocols do not fit those of the group") \
	X(  24, INVALID_GROUP_ID, false, "the group id is not valid") \
	X(  25, UNKNOWN_MEMBER_ID, false, "the group has no such member") \
	X(  26, INVALID_SESSION_TIMEOUT, false, "the session timeout is outside of the broker's range") \
	X(  27, REBALANCE_IN_PROGRESS, false, "the group is rebalancing; join again") \
	X(  28, INVALID_COMMIT_OFFSET_SIZE, false, "the committed offsets are too large to be stored") \
	X(  29, TOPIC_AUTHORIZATION_FAILED, false, "not allowed on this topic") \
	X(  30, GROUP_AUTHORIZATION_FAILED, false, "not allowed on this group") \
	X(  31, CLUSTER_AUTHORIZATION_FAILED, false, "not allowed on the cluster") \
	X(  32, INVALID_TIMESTAMP, false, "the timestamp is outside of the topic's limits") \
	X(  33, UNSUPPORTED_SASL_MECHANISM, false, "the broker does not offer this SASL mechanism") \
	X(  34, ILLEGAL_SASL_STATE, false, "the request does not fit the state of the authentication") \
	X(  35, UNSUPPORTED_VERSION, false, "the version of the request is not supported") \
	X(  36, TOPIC_ALREADY_EXISTS, false, "a topic of this name exists already") \
	X(  37, INVALID_PARTITIONS, false, "the number of partitions is not valid") \
	X(  38, INVALID_REPLICATION_FACTOR, false, "the replication factor is below 1 or above the number of brokers") \
	X(  39, INVALID_REPLICA_ASSIGNMENT, false, "the replica assignment is not valid") \
	X(  40, INVALID_CONFIG, false, "the configuration is not valid") \
	X(  41, NOT_CONTROLLER, true, "this broker is not the controller") \
	X(  42, INVALID_REQUEST, false, "the request contradicts itself or the protocol") \
	X(  43, UNSUPPORTED_FOR_MESSAGE_FORMAT, false, "the message format does not support the request") \
	X(  44, POLICY_VIOLATION, false, "a policy of the cluster forbids it") \
	X(  45, OUT_OF_ORDER_SEQUENCE_NUMBER, false, "the producer's sequence number does not follow its last one") \
	X(  46, DUPLICATE_SEQUENCE_NUMBER, false, "the producer's sequence number was seen before") \
	X(  47, INVALID_PRODUCER_EPOCH, false, "the producer epoch is older than the current one") \
	X(  48, INVALID_TXN_STATE, false, "the transaction is not in a state that allows it") \
	X(  49, INVALID_PRODUCER_ID_MAPPING, false, "the producer id does not belong to the transactional id") \
	X(  50, INVALID_TRANSACTION_TIMEOUT, false, "the transaction timeout is above transaction.max.timeout.ms") \
	X(  51, CONCURRENT_TRANSACTIONS, true, "the transaction is still ending or being changed") \
	X(  52, TRANSACTION_COORDINATOR_FENCED, false, "the coordinator epoch of the marker is older than the current one") \
	X(  53, TRANSACTIONAL_ID_AUTHORIZATION_FAILED, false, "not allowed on this transactional id") \
	X(  54, SECURITY_DISABLED, false, "the cluster has no authorizer") \
	X(  55, OPERATION_NOT_ATTEMPTED, false, "not tried, because another part of the request failed") \
	X(  56, KAFKA_STORAGE_ERROR, true, "the disk failed where the partition's log is") \
	X(  57, LOG_DIR_NOT_FOUND, false, "the broker has no such log directory") \
	X(  58, SASL_AUTHENTICATION_FAILED, false, "the authentication failed") \
	X(  59, UNKNOWN_PRODUCER_ID, false, "the broker has no state of this producer id") \
	X(  60, REASSIGNMENT_IN_PROGRESS, false, "the partition is being reassigned") \
	X(  61, DELEGATION_TOKEN_AUTH_DISABLED, false, "delegation tokens are not enabled") \
	X(  62, DELEGATION_TOKEN_NOT_FOUND, false, "there is no such delegation token") \
	X(  63, DELEGATION_TOKEN_OWNER_MISMATCH, false, "the principal neither owns nor may renew the token") \
	X(  64, DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, false, "this connection may not ask for delegation tokens") \
	X(  65, DELEGATION_TOKEN_AUTHORIZATION_FAILED, false, "not allowed on this delegation token") \
	X(  66, DELEGATION_TOKEN_EXPIRED, false, "the delegation token has expired") \
	X(  67, INVALID_PRINCIPAL_TYPE, false, "the type of the principal is not supported") \
	X(  68, NON_EMPTY_GROUP, false, "the group still has members") \
	X(  69, GROUP_ID_NOT_FOUND, false, "there is no such group") \
	X(  70, FETCH_SESSION_ID_NOT_FOUND, true, "there is no such fetch session") \
	X(  71, INVALID_FETCH_SESSION_EPOCH, true, "the fetch session epoch is not the expected one") \
	X(  72, LISTENER_NOT_FOUND, true, "the leader has no listener like the one of this connection") \
	X(  73, TOPIC_DELETION_DISABLED, false, "deleting topics is disabled") \
	X(  74, FENCED_LEADER_EPOCH, true, "the leader epoch of the request is older than the broker's") \
	X(  75, UNKNOWN_LEADER_EPOCH, true, "the leader epoch of the request is newer than the broker's") \
	X(  76, UNSUPPORTED_COMPRESSION_TYPE, false, "the client's version does not support the compression of the data") \
	X(  77, STALE_BROKER_EPOCH, false, "the broker epoch is not the current one") \
	X(  78, OFFSET_NOT_AVAILABLE, true, "the new leader's high watermark has not caught up yet") \
	X(  79, MEMBER_ID_REQUIRED, false, "join again with the member id of this response") \
	X(  80, PREFERRED_LEADER_NOT_AVAILABLE, true, "the preferred leader is not available") \
	X(  81, GROUP_MAX_SIZE_REACHED, false, "the group has as many members as it may have") \
	X(  82, FENCED_INSTANCE_ID, false, "another member took over this group.instance.id") \
	X(  83, ELIGIBLE_LEADERS_NOT_AVAILABLE, true, "no replica that may become leader is available") \
	X(  84, ELECTION_NOT_NEEDED, true, "the partition has the leader that it should have") \
	X(  85, NO_REASSIGNMENT_IN_PROGRESS, false, "the partition is not being reassigned") \
	X(  86, GROUP_SUBSCRIBED_TO_TOPIC, false, "a member of the group still subscribes to the topic") \
	X(  87, INVALID_RECORD, false, "a record breaks a rule of the broker") \
	X(  88, UNSTABLE_OFFSET_COMMIT, true, "a transaction that commits offsets of the partition has not ended yet") \
	X(  89, THROTTLING_QUOTA_EXCEEDED, true, "the quota is used up; try again after throttle_time_ms") \
	X(  90, PRODUCER_FENCED, false, "a newer producer uses this transactional id") \
	X(  91, RESOURCE_NOT_FOUND, false, "there is no such resource") \
	X(  92, DUPLICATE_RESOURCE, false, "the request names a resource twice") \
	X(  93, UNACCEPTABLE_CREDENTIAL, false, "the credential does not meet the requirements") \
	X(  94, INCONSISTENT_VOTER_SET, false, "the sender's voters are not the known ones") \
	X(  95, INVALID_UPDATE_VERSION, false, "the version of the update is not valid") \
	X(  96, FEATURE_UPDATE_FAILED, false, "the features could not be updated") \
	X(  97, PRINCIPAL_DESERIALIZATION_FAILURE, false, "the forwarded principal could not be read") \
	X(  98, SNAPSHOT_NOT_FOUND, false, "there is no such snapshot") \
	X(  99, POSITION_OUT_OF_RANGE, false, "the position is outside of the snapshot") \
	X( 100, UNKNOWN_TOPIC_ID, true, "this broker knows no topic of this id") \
	X( 101, DUPLICATE_BROKER_REGISTRATION, false, "the broker id is in use by another broker") \
	X( 102, BROKER_ID_NOT_REGISTERED, false, "no broker of this id is registered") \
	X( 103, INCONSISTENT_TOPIC_ID, true, "the topic id of the log is not that of the request") \
	X( 104, INCONSISTENT_CLUSTER_ID, false, "the cluster id of the request is another cluster's") \
	X( 105, TRANSACTIONAL_ID_NOT_FOUND, false, "there is no such transactional id") \
	X( 106, FETCH_SESSION_TOPIC_ID_ERROR, true, "the fetch session mixes topic names and topic ids") \
	X( 107, INELIGIBLE_REPLICA, false, "the new ISR holds a replica that may not be in it") \
	X( 108, NEW_LEADER_ELECTED, false, "the change was applied and gave the partition another leader") \
	X( 109, OFFSET_MOVED_TO_TIERED_STORAGE, false, "the offset has moved to tiered storage") \
	X( 110, FENCED_MEMBER_EPOCH, false, "the member epoch was fenced; leave and join again") \
	X( 111, UNRELEASED_INSTANCE_ID, false, "another member still holds this group.instance.id") \
	X( 112, UNSUPPORTED_ASSIGNOR, false, "the group does not support the assignor") \
	X( 113, STALE_MEMBER_EPOCH, false, "the member epoch is not the current one") \
	X( 114, MISMATCHED_ENDPOINT_TYPE, false, "the request came to the wrong type of endpoint") \
	X( 115, UNSUPPORTED_ENDPOINT_TYPE, false, "this type of endpoint is not supported") \
	X( 116, UNKNOWN_CONTROLLER_ID, false, "there is no controller of this id") \
	X( 117, UNKNOWN_SUBSCRIPTION_ID, false, "the telemetry subscription is not the current one") \
	X( 118, TELEMETRY_TOO_LARGE, false, "the telemetry is larger than the broker takes") \
	X( 119, INVALID_REGISTRATION, false, "the broker's registration is not valid") \
	X( 120, TRANSACTION_ABORTABLE, false, "the transaction met an error and must be aborted") \
	X( 121, INVALID_RECORD_STATE, false, "the record is not in a state that allows it") \
	X( 122, SHARE_SESSION_NOT_FOUND, true, "there is no such share session") \
	X( 123, INVALID_SHARE_SESSION_EPOCH, true, "the share session epoch is not the expected one") \
	X( 124, FENCED_STATE_EPOCH, false, "the share group's state epoch is older than the current one") \
	X( 125, INVALID_VOTER_KEY, false, "the voter key does not match that of the receiver") \
	X( 126, DUPLICATE_VOTER, false, "the voter is in the set already") \
	X( 127, VOTER_NOT_FOUND, false, "the voter is not in the set") \
	X( 128, INVALID_REGULAR_EXPRESSION, false, "the regular expression is not valid") \
	X( 129, REBOOTSTRAP_REQUIRED, false, "the client's metadata is too old; start from the bootstrap servers again") \
	X( 130, STREAMS_INVALID_TOPOLOGY, false, "the streams topology is not valid") \
	X( 131, STREAMS_INVALID_TOPOLOGY_EPOCH, false, "the streams topology epoch is not valid") \
	X( 132, STREAMS_TOPOLOGY_FENCED, false, "the streams topology epoch is older than the current one") \
	X( 133, SHARE_SESSION_LIMIT_REACHED, true, "the broker holds as many share sessions as it may")
/* clang-format on */

typedef enum KafkaError
{
#define KERR_ENUM(code, name, retriable, sentence) KERR_##name = (code),
	KERR_TABLE(KERR_ENUM)
#undef KERR_ENUM
} KafkaError;

#define KERR_LAST KERR_SHARE_SESSION_LIMIT_REACHED

const char *kerr_name(int16_t code);
const char *kerr_message(int16_t code);
bool kerr_retriable(int16_t code);

#endif
