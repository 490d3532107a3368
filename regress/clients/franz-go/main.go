// franz-go under the driver protocol.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"pg_broker/regress/driver"
)

const maxMessage = 4 << 20

var codecs = map[string]kgo.CompressionCodec{
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

var acks = map[int]kgo.Acks{0: kgo.NoAck(), 1: kgo.LeaderAck(), -1: kgo.AllISRAcks()}

func background() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 30*time.Second)
}

func newClient(options ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append(options, kgo.SeedBrokers(driver.Bootstrap()))...)
}

func withAdmin(use func(context.Context, *kadm.Client) (driver.Answer, error)) (driver.Answer, error) {
	client, err := newClient()
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ctx, cancel := background()
	defer cancel()
	return use(ctx, kadm.NewClient(client))
}

func hello(driver.Command) (driver.Answer, error) {
	return driver.Answer{
		"version": driver.Version("github.com/twmb/franz-go"),
		"codecs":  []string{"none", "gzip", "snappy", "lz4", "zstd"},
		"cannot":  []string{},
	}, nil
}

func create(c driver.Command) (driver.Answer, error) {
	return withAdmin(func(ctx context.Context, admin *kadm.Client) (driver.Answer, error) {
		configs := map[string]*string{}
		for k, v := range c.Config {
			configs[k] = kadm.StringPtr(v)
		}
		_, err := admin.CreateTopic(ctx, int32(c.Partitions), 1, configs, c.Topic)
		return nil, err
	})
}

func remove(c driver.Command) (driver.Answer, error) {
	return withAdmin(func(ctx context.Context, admin *kadm.Client) (driver.Answer, error) {
		_, err := admin.DeleteTopic(ctx, c.Topic)
		return nil, err
	})
}

func metadata(c driver.Command) (driver.Answer, error) {
	return withAdmin(func(ctx context.Context, admin *kadm.Client) (driver.Answer, error) {
		found, err := admin.Metadata(ctx, c.Topic)
		if err != nil {
			return nil, err
		}
		topic := found.Topics[c.Topic]
		if topic.Err == kerr.UnknownTopicOrPartition {
			return driver.Answer{"missing": true}, nil
		}
		var partitions []driver.Answer
		for _, p := range topic.Partitions.Sorted() {
			partitions = append(partitions, driver.Answer{"id": p.Partition, "leader": p.Leader})
		}
		return driver.Answer{"brokers": found.Brokers.NodeIDs(), "partitions": partitions}, topic.Err
	})
}

func produce(c driver.Command) (driver.Answer, error) {
	options := []kgo.Opt{
		kgo.ProducerBatchCompression(codecs[c.Codec]),
		kgo.RequiredAcks(acks[c.Acks]),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchMaxBytes(maxMessage / 4),
	}
	if !c.Idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	client, err := newClient(options...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	rows, err := driver.ReadRecords(c.Records)
	if err != nil {
		return nil, err
	}
	var records []*kgo.Record
	for _, r := range rows {
		record := &kgo.Record{Topic: c.Topic, Partition: r.Partition, Key: r.Key, Value: r.Value}
		if r.Timestamp != 0 {
			record.Timestamp = time.UnixMilli(r.Timestamp)
		}
		for _, h := range r.Headers {
			record.Headers = append(record.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
		}
		records = append(records, record)
	}
	ctx, cancel := background()
	defer cancel()
	return nil, client.ProduceSync(ctx, records...).FirstErr()
}

func headersOf(r *kgo.Record) []driver.Header {
	var headers []driver.Header
	for _, h := range r.Headers {
		headers = append(headers, driver.Header{Key: h.Key, Value: h.Value})
	}
	return headers
}

func consume(c driver.Command) (driver.Answer, error) {
	out, err := os.Create(c.Out)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	waiting := map[int32]int64{}
	from := map[int32]kgo.Offset{}
	for _, r := range driver.Ranges(c) {
		waiting[r.Partition] = r.To
		from[r.Partition] = kgo.NewOffset().At(r.From)
	}
	client, err := newClient(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{c.Topic: from}))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ctx, cancel := background()
	defer cancel()
	for len(waiting) > 0 {
		fetches := client.PollFetches(ctx)
		if errs := fetches.Errors(); len(errs) > 0 {
			return nil, fmt.Errorf("partition %d: %w", errs[0].Partition, errs[0].Err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if to, ok := waiting[r.Partition]; ok {
				fmt.Fprint(out, driver.Canonical(r.Partition, r.Offset, r.Timestamp.UnixMilli(), r.Key, r.Value, headersOf(r)))
				if r.Offset+1 >= to {
					delete(waiting, r.Partition)
				}
			}
		})
	}
	return nil, nil
}

func offsets(c driver.Command) (driver.Answer, error) {
	return withAdmin(func(ctx context.Context, admin *kadm.Client) (driver.Answer, error) {
		var listed kadm.ListedOffsets
		var err error
		switch at := driver.Timestamp(c); at {
		case -2:
			listed, err = admin.ListStartOffsets(ctx, c.Topic)
		case -1:
			listed, err = admin.ListEndOffsets(ctx, c.Topic)
		default:
			listed, err = admin.ListOffsetsAfterMilli(ctx, at, c.Topic)
		}
		if err != nil {
			return nil, err
		}
		found, _ := listed.Lookup(c.Topic, c.Partition)
		return driver.Answer{"offset": found.Offset}, found.Err
	})
}

func main() {
	driver.Serve(map[string]func(driver.Command) (driver.Answer, error){
		"hello": hello, "create": create, "delete": remove, "metadata": metadata, "produce": produce, "consume": consume,
		"offsets": offsets,
	}, member)
}
