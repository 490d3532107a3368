// segmentio's kafka-go under the driver protocol.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/segmentio/kafka-go"
	"pg_broker/regress/driver"
)

const maxMessage = 4 << 20

var codecs = map[string]kafka.Compression{
	"gzip":   kafka.Gzip,
	"snappy": kafka.Snappy,
	"lz4":    kafka.Lz4,
	"zstd":   kafka.Zstd,
}

func background() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 30*time.Second)
}

func newClient() *kafka.Client {
	return &kafka.Client{Addr: kafka.TCP(driver.Bootstrap()), Timeout: 20 * time.Second}
}

func hello(driver.Command) (driver.Answer, error) {
	return driver.Answer{
		"version": driver.Version("github.com/segmentio/kafka-go"),
		"codecs":  []string{"none", "gzip", "snappy", "lz4", "zstd"},
		"cannot":  []string{"idempotent", "read-empty"},
	}, nil
}

func create(c driver.Command) (driver.Answer, error) {
	ctx, cancel := background()
	defer cancel()
	topic := kafka.TopicConfig{Topic: c.Topic, NumPartitions: c.Partitions, ReplicationFactor: 1}
	for k, v := range c.Config {
		topic.ConfigEntries = append(topic.ConfigEntries, kafka.ConfigEntry{ConfigName: k, ConfigValue: v})
	}
	answer, err := newClient().CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{topic}})
	if err != nil {
		return nil, err
	}
	return nil, answer.Errors[c.Topic]
}

func remove(c driver.Command) (driver.Answer, error) {
	ctx, cancel := background()
	defer cancel()
	answer, err := newClient().DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{c.Topic}})
	if err != nil {
		return nil, err
	}
	return nil, answer.Errors[c.Topic]
}

func metadata(c driver.Command) (driver.Answer, error) {
	ctx, cancel := background()
	defer cancel()
	client := newClient()
	client.Transport = &kafka.Transport{} // each has its own cache of the metadata: a fresh one asks
	found, err := client.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{c.Topic}})
	if err != nil {
		return nil, err
	}
	ids := []int{}
	for _, b := range found.Brokers {
		ids = append(ids, b.ID)
	}
	topic := found.Topics[0]
	if errors.Is(topic.Error, kafka.UnknownTopicOrPartition) {
		return driver.Answer{"missing": true}, nil
	}
	var partitions []driver.Answer
	for _, p := range topic.Partitions {
		partitions = append(partitions, driver.Answer{"id": p.ID, "leader": p.Leader.ID})
	}
	return driver.Answer{"brokers": ids, "partitions": partitions}, topic.Error
}

func produce(c driver.Command) (driver.Answer, error) {
	rows, err := driver.ReadRecords(c.Records)
	if err != nil {
		return nil, err
	}
	next := 0 // WriteMessages asks the balancer once for each message, in their order
	writer := &kafka.Writer{
		Addr:         kafka.TCP(driver.Bootstrap()),
		Topic:        c.Topic,
		RequiredAcks: kafka.RequiredAcks(c.Acks),
		Compression:  codecs[c.Codec],
		BatchBytes:   maxMessage / 4,
		BatchSize:    1000,
		BatchTimeout: 5 * time.Millisecond,
		Transport:    &kafka.Transport{},
		Balancer: kafka.BalancerFunc(func(kafka.Message, ...int) int {
			next++
			return int(rows[next-1].Partition)
		}),
	}
	var messages []kafka.Message
	for _, r := range rows {
		m := kafka.Message{Key: r.Key, Value: r.Value}
		if r.Timestamp != 0 {
			m.Time = time.UnixMilli(r.Timestamp)
		}
		for _, h := range r.Headers {
			m.Headers = append(m.Headers, kafka.Header{Key: h.Key, Value: h.Value})
		}
		messages = append(messages, m)
	}
	ctx, cancel := background()
	defer cancel()
	if err := writer.WriteMessages(ctx, messages...); err != nil {
		return nil, err
	}
	return nil, writer.Close()
}

func readPartition(topic string, r driver.Range, out *os.File) error {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{driver.Bootstrap()}, Topic: topic, Partition: int(r.Partition), MaxBytes: maxMessage, MaxWait: 500 * time.Millisecond,
	})
	defer reader.Close()
	if err := reader.SetOffset(r.From); err != nil {
		return err
	}
	ctx, cancel := background()
	defer cancel()
	for {
		m, err := reader.ReadMessage(ctx)
		if err != nil {
			return err
		}
		var headers []driver.Header
		for _, h := range m.Headers {
			headers = append(headers, driver.Header{Key: h.Key, Value: h.Value})
		}
		fmt.Fprint(out, driver.Canonical(int32(m.Partition), m.Offset, m.Time.UnixMilli(), m.Key, m.Value, headers))
		if m.Offset+1 >= r.To {
			return nil
		}
	}
}

func consume(c driver.Command) (driver.Answer, error) {
	out, err := os.Create(c.Out)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	for _, r := range driver.Ranges(c) {
		if err := readPartition(c.Topic, r, out); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

func offsets(c driver.Command) (driver.Answer, error) {
	ctx, cancel := background()
	defer cancel()
	at := driver.Timestamp(c)
	answer, err := newClient().ListOffsets(ctx, &kafka.ListOffsetsRequest{
		Topics: map[string][]kafka.OffsetRequest{c.Topic: {{Partition: int(c.Partition), Timestamp: at}}},
	})
	if err != nil {
		return nil, err
	}
	found := answer.Topics[c.Topic][0]
	switch at {
	case -2:
		return driver.Answer{"offset": found.FirstOffset}, found.Error
	case -1:
		return driver.Answer{"offset": found.LastOffset}, found.Error
	}
	for offset := range found.Offsets {
		return driver.Answer{"offset": offset}, found.Error
	}
	return driver.Answer{"offset": -1}, found.Error
}

func main() {
	driver.Serve(map[string]func(driver.Command) (driver.Answer, error){
		"hello": hello, "create": create, "delete": remove, "metadata": metadata, "produce": produce, "consume": consume,
		"offsets": offsets,
	}, nil)
}
