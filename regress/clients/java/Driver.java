import com.fasterxml.jackson.databind.JsonNode;
import java.io.InputStream;
import java.io.Writer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Java's kafka-clients under the driver protocol. */
public final class Driver {
    private static final int MAX_MESSAGE = 4 << 20;
    private static final Map<String, Object> NOTHING = Map.of();

    private Driver() {
    }

    private static Properties common() {
        Properties p = new Properties();
        p.put("bootstrap.servers", Protocol.BOOTSTRAP);
        p.put("default.api.timeout.ms", "20000");
        p.put("request.timeout.ms", "15000");
        return p;
    }

    private static Map<String, Object> hello(JsonNode c) throws Exception {
        Properties build = new Properties();
        try (InputStream in = KafkaProducer.class.getResourceAsStream("/kafka/kafka-version.properties")) {
            build.load(in);
        }
        return Map.of("version", build.get("version"), "codecs", List.of("none", "gzip", "snappy", "lz4", "zstd"),
            "cannot", List.of());
    }

    private static Map<String, Object> create(JsonNode c) throws Exception {
        Map<String, String> configs = new HashMap<>();
        c.get("config").properties().forEach(e -> configs.put(e.getKey(), e.getValue().asText()));
        try (Admin admin = Admin.create(common())) {
            NewTopic topic = new NewTopic(c.get("topic").asText(), c.get("partitions").asInt(), (short) 1).configs(configs);
            admin.createTopics(List.of(topic)).all().get();
        }
        return NOTHING;
    }

    private static Map<String, Object> delete(JsonNode c) throws Exception {
        try (Admin admin = Admin.create(common())) {
            admin.deleteTopics(List.of(c.get("topic").asText())).all().get();
        }
        return NOTHING;
    }

    private static Map<String, Object> metadata(JsonNode c) throws Exception {
        String name = c.get("topic").asText();
        try (Admin admin = Admin.create(common())) {
            List<Integer> brokers = new ArrayList<>();
            admin.describeCluster().nodes().get().forEach(n -> brokers.add(n.id()));
            TopicDescription topic = admin.describeTopics(List.of(name)).allTopicNames().get().get(name);
            List<Map<String, Object>> partitions = new ArrayList<>();
            topic.partitions().forEach(p -> partitions.add(Map.of("id", p.partition(), "leader", p.leader().id())));
            return Map.of("brokers", brokers, "partitions", partitions);
        } catch (ExecutionException e) {
            if (e.getCause() instanceof UnknownTopicOrPartitionException)
                return Map.of("missing", true);
            throw e;
        }
    }

    private static Map<String, Object> produce(JsonNode c) throws Exception {
        Properties p = common();
        p.put("compression.type", c.get("codec").asText());
        p.put("acks", c.get("acks").asText());
        p.put("enable.idempotence", c.get("idempotent").asText());
        p.put("max.request.size", MAX_MESSAGE);
        p.put("key.serializer", ByteArraySerializer.class);
        p.put("value.serializer", ByteArraySerializer.class);
        try (Producer<byte[], byte[]> producer = new KafkaProducer<>(p)) {
            List<Future<?>> sent = new ArrayList<>();
            for (Protocol.Row r : Protocol.readRecords(c.get("records").asText()))
                sent.add(producer.send(new ProducerRecord<>(c.get("topic").asText(), r.partition(), r.timestamp(), r.key(), r.value(),
                    r.headers())));
            producer.flush();
            for (Future<?> f : sent)
                f.get();
        }
        return NOTHING;
    }

    private static KafkaConsumer<byte[], byte[]> consumer() {
        Properties p = common();
        p.put("enable.auto.commit", "false");
        p.put("auto.offset.reset", "none");
        p.put("max.poll.records", "5000");
        p.put("key.deserializer", ByteArrayDeserializer.class);
        p.put("value.deserializer", ByteArrayDeserializer.class);
        return new KafkaConsumer<>(p);
    }

    private static Map<String, Object> consume(JsonNode c) throws Exception {
        Map<TopicPartition, Long> waiting = new HashMap<>();
        c.get("to").properties().forEach(e -> {
            if (e.getValue().asLong() > c.get("from").get(e.getKey()).asLong())
                waiting.put(new TopicPartition(c.get("topic").asText(), Integer.parseInt(e.getKey())), e.getValue().asLong());
        });
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(); Writer out = Files.newBufferedWriter(Path.of(c.get("out").asText()))) {
            consumer.assign(waiting.keySet());
            for (TopicPartition tp : waiting.keySet())
                consumer.seek(tp, c.get("from").get(Integer.toString(tp.partition())).asLong());
            while (!waiting.isEmpty()) {
                for (ConsumerRecord<byte[], byte[]> r : consumer.poll(Duration.ofMillis(500))) {
                    TopicPartition tp = new TopicPartition(r.topic(), r.partition());
                    if (!waiting.containsKey(tp))
                        continue;
                    out.write(Protocol.canonical(r.partition(), r.offset(), r.timestamp(), r.key(), r.value(), r.headers()));
                    if (r.offset() + 1 >= waiting.get(tp))
                        waiting.remove(tp);
                }
            }
        }
        return NOTHING;
    }

    private static Map<String, Object> offsets(JsonNode c) throws Exception {
        TopicPartition tp = new TopicPartition(c.get("topic").asText(), c.get("partition").asInt());
        Callable<Long> ask;
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            if (c.get("at").isNumber()) {
                ask = () -> {
                    OffsetAndTimestamp found = consumer.offsetsForTimes(Map.of(tp, c.get("at").asLong())).get(tp);
                    return found == null ? -1 : found.offset();
                };
            } else if (c.get("at").asText().equals("earliest")) {
                ask = () -> consumer.beginningOffsets(List.of(tp)).get(tp);
            } else {
                ask = () -> consumer.endOffsets(List.of(tp)).get(tp);
            }
            return Map.of("offset", ask.call());
        }
    }

    public static void main(String[] args) throws Exception {
        Protocol.serve(Map.of("hello", Driver::hello, "create", Driver::create, "delete", Driver::delete, "metadata", Driver::metadata,
            "produce", Driver::produce, "consume", Driver::consume, "offsets", Driver::offsets), Member::run);
    }
}
