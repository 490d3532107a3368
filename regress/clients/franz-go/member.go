package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"pg_broker/regress/driver"
)

var balancers = map[string]kgo.GroupBalancer{
	"range":              kgo.RangeBalancer(),
	"roundrobin":         kgo.RoundRobinBalancer(),
	"sticky":             kgo.StickyBalancer(),
	"cooperative-sticky": kgo.CooperativeStickyBalancer(),
}

// member is the group command.
func member(ctx context.Context, c driver.Command, emit driver.Emit) error {
	tell := func(kind string) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			emit(kind, append([]int32{}, partitions[c.Topic]...), -1, nil)
		}
	}
	// Who has a callback of its own commits in it: the library does not then, and what goes would be read again.
	commit := func(ctx context.Context, client *kgo.Client, partitions map[string][]int32) {
		if err := client.CommitUncommittedOffsets(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "commit before partitions go:", err)
		}
		tell("revoked")(ctx, client, partitions)
	}
	client, err := newClient(
		kgo.ConsumerGroup(c.Group),
		kgo.ConsumeTopics(c.Topic),
		kgo.Balancers(balancers[c.Assignor]),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.SessionTimeout(time.Duration(c.Session)*time.Millisecond),
		kgo.RebalanceTimeout(10*time.Second),
		kgo.HeartbeatInterval(500*time.Millisecond),
		kgo.AutoCommitInterval(200*time.Millisecond),
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(tell("assigned")),
		kgo.OnPartitionsRevoked(commit),
		kgo.OnPartitionsLost(tell("revoked")),
	)
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		fetches := client.PollFetches(ctx)
		_, generation := client.GroupMetadata()
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			var offsets []int64
			p.EachRecord(func(r *kgo.Record) { offsets = append(offsets, r.Offset) })
			if len(offsets) > 0 {
				emit("records", p.Partition, generation, offsets)
			}
		})
		client.AllowRebalance()
	}
	last, cancel := background()
	defer cancel()
	err = client.CommitUncommittedOffsets(last)
	client.CloseAllowingRebalance()
	return err
}
