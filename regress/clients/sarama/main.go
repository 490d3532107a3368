// sarama under the driver protocol.
package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/IBM/sarama"
	"pg_broker/regress/driver"
)

const maxBatch = 1200000

var codecs = map[string]sarama.CompressionCodec{
	"none":   sarama.CompressionNone,
	"gzip":   sarama.CompressionGZIP,
	"snappy": sarama.CompressionSnappy,
	"lz4":    sarama.CompressionLZ4,
	"zstd":   sarama.CompressionZSTD,
}

func newConfig() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Metadata.AllowAutoTopicCreation = false
	return config
}

func newClient(config *sarama.Config) (sarama.Client, error) {
	return sarama.NewClient([]string{driver.Bootstrap()}, config)
}

func withAdmin(use func(sarama.ClusterAdmin) (driver.Answer, error)) (driver.Answer, error) {
	admin, err := sarama.NewClusterAdmin([]string{driver.Bootstrap()}, newConfig())
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	return use(admin)
}

func hello(driver.Command) (driver.Answer, error) {
	return driver.Answer{
		"version": driver.Version("github.com/IBM/sarama"),
		"codecs":  []string{"none", "gzip", "snappy", "lz4", "zstd"},
		"cannot":  []string{},
	}, nil
}

func create(c driver.Command) (driver.Answer, error) {
	return withAdmin(func(admin sarama.ClusterAdmin) (driver.Answer, error) {
		configs := map[string]*string{}
		for k, v := range c.Config {
			configs[k] = &v
		}
		detail := &sarama.TopicDetail{NumPartitions: int32(c.Partitions), ReplicationFactor: 1, ConfigEntries: configs}
		return nil, admin.CreateTopic(c.Topic, detail, false)
	})
}

func remove(c driver.Command) (driver.Answer, error) {
	return withAdmin(func(admin sarama.ClusterAdmin) (driver.Answer, error) {
		return nil, admin.DeleteTopic(c.Topic)
	})
}

func metadata(c driver.Command) (driver.Answer, error) {
	return withAdmin(func(admin sarama.ClusterAdmin) (driver.Answer, error) {
		brokers, _, err := admin.DescribeCluster()
		if err != nil {
			return nil, err
		}
		ids := []int32{}
		for _, b := range brokers {
			ids = append(ids, b.ID())
		}
		topics, err := admin.DescribeTopics([]string{c.Topic})
		if err != nil {
			return nil, err
		}
		if errors.Is(topics[0].Err, sarama.ErrUnknownTopicOrPartition) {
			return driver.Answer{"missing": true}, nil
		}
		if topics[0].Err != sarama.ErrNoError {
			return nil, topics[0].Err
		}
		var partitions []driver.Answer
		for _, p := range topics[0].Partitions {
			partitions = append(partitions, driver.Answer{"id": p.ID, "leader": p.Leader})
		}
		return driver.Answer{"brokers": ids, "partitions": partitions}, nil
	})
}

func encoder(data []byte) sarama.Encoder {
	if data == nil {
		return nil
	}
	return sarama.ByteEncoder(data)
}

func messages(c driver.Command) ([]*sarama.ProducerMessage, error) {
	rows, err := driver.ReadRecords(c.Records)
	if err != nil {
		return nil, err
	}
	var list []*sarama.ProducerMessage
	for _, r := range rows {
		m := &sarama.ProducerMessage{Topic: c.Topic, Partition: r.Partition, Key: encoder(r.Key), Value: encoder(r.Value)}
		if r.Timestamp != 0 {
			m.Timestamp = time.UnixMilli(r.Timestamp)
		}
		for _, h := range r.Headers {
			m.Headers = append(m.Headers, sarama.RecordHeader{Key: []byte(h.Key), Value: h.Value})
		}
		list = append(list, m)
	}
	return list, nil
}

func produce(c driver.Command) (driver.Answer, error) {
	config := newConfig()
	config.Producer.Compression = codecs[c.Codec]
	config.Producer.RequiredAcks = sarama.RequiredAcks(c.Acks)
	config.Producer.Idempotent = c.Idempotent
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.MaxMessageBytes = maxBatch
	config.Producer.Return.Successes = true
	config.Producer.Flush.Frequency = 5 * time.Millisecond
	config.Net.MaxOpenRequests = 1
	producer, err := sarama.NewSyncProducer([]string{driver.Bootstrap()}, config)
	if err != nil {
		return nil, err
	}
	defer producer.Close()
	list, err := messages(c)
	if err != nil {
		return nil, err
	}
	var failed sarama.ProducerErrors
	if err := producer.SendMessages(list); errors.As(err, &failed) {
		return nil, fmt.Errorf("%d not delivered: %w", len(failed), failed[0].Err)
	} else {
		return nil, err
	}
}

func readPartition(consumer sarama.Consumer, topic string, r driver.Range, out *os.File) error {
	partition, err := consumer.ConsumePartition(topic, r.Partition, r.From)
	if err != nil {
		return err
	}
	defer partition.Close()
	for {
		select {
		case m := <-partition.Messages():
			var headers []driver.Header
			for _, h := range m.Headers {
				headers = append(headers, driver.Header{Key: string(h.Key), Value: h.Value})
			}
			fmt.Fprint(out, driver.Canonical(m.Partition, m.Offset, m.Timestamp.UnixMilli(), m.Key, m.Value, headers))
			if m.Offset+1 >= r.To {
				return nil
			}
		case err := <-partition.Errors():
			return err
		case <-time.After(30 * time.Second):
			return errors.New("nothing comes")
		}
	}
}

func consume(c driver.Command) (driver.Answer, error) {
	out, err := os.Create(c.Out)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	config := newConfig()
	config.Consumer.Return.Errors = true
	consumer, err := sarama.NewConsumer([]string{driver.Bootstrap()}, config)
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	for _, r := range driver.Ranges(c) {
		if err := readPartition(consumer, c.Topic, r, out); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

func offsets(c driver.Command) (driver.Answer, error) {
	client, err := newClient(newConfig())
	if err != nil {
		return nil, err
	}
	defer client.Close()
	offset, err := client.GetOffset(c.Topic, c.Partition, driver.Timestamp(c))
	return driver.Answer{"offset": offset}, err
}

func main() {
	driver.Serve(map[string]func(driver.Command) (driver.Answer, error){
		"hello": hello, "create": create, "delete": remove, "metadata": metadata, "produce": produce, "consume": consume,
		"offsets": offsets,
	}, member)
}
