package main

import (
	"context"
	"errors"
	"time"

	"github.com/IBM/sarama"
	"pg_broker/regress/driver"
)

var strategies = map[string]sarama.BalanceStrategy{
	"range":      sarama.NewBalanceStrategyRange(),
	"roundrobin": sarama.NewBalanceStrategyRoundRobin(),
	"sticky":     sarama.NewBalanceStrategySticky(),
}

// claims says what sarama hands to a member of a group.
type claims struct {
	topic string
	emit  driver.Emit
}

func (h claims) Setup(s sarama.ConsumerGroupSession) error {
	h.emit("assigned", append([]int32{}, s.Claims()[h.topic]...), s.GenerationID(), nil)
	return nil
}

func (h claims) Cleanup(s sarama.ConsumerGroupSession) error {
	h.emit("revoked", append([]int32{}, s.Claims()[h.topic]...), s.GenerationID(), nil)
	return nil
}

func (h claims) ConsumeClaim(s sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case m, open := <-claim.Messages():
			if !open {
				return nil
			}
			h.emit("records", m.Partition, s.GenerationID(), []int64{m.Offset})
			s.MarkMessage(m, "")
		case <-s.Context().Done():
			return nil
		}
	}
}

// member is the group command.
func member(ctx context.Context, c driver.Command, emit driver.Emit) error {
	config := newConfig()
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Interval = 200 * time.Millisecond
	config.Consumer.Group.Session.Timeout = time.Duration(c.Session) * time.Millisecond
	config.Consumer.Group.Heartbeat.Interval = 500 * time.Millisecond
	config.Consumer.Group.Rebalance.Timeout = 10 * time.Second
	config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{strategies[c.Assignor]}
	group, err := sarama.NewConsumerGroup([]string{driver.Bootstrap()}, c.Group, config)
	if err != nil {
		return err
	}
	defer group.Close()
	for ctx.Err() == nil {
		err := group.Consume(ctx, []string{c.Topic}, claims{c.Topic, emit})
		if errors.Is(err, sarama.ErrClosedConsumerGroup) {
			return err
		}
		if err != nil {
			time.Sleep(100 * time.Millisecond)
		}
	}
	return nil
}
