import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** A member of a group: the group command. */
final class Member {
    private static final Map<String, Class<?>> ASSIGNORS = Map.of("range", RangeAssignor.class, "roundrobin", RoundRobinAssignor.class,
        "sticky", StickyAssignor.class, "cooperative-sticky", CooperativeStickyAssignor.class);

    private Member() {
    }

    private static Properties properties(JsonNode c) {
        Properties p = new Properties();
        p.put("bootstrap.servers", Protocol.BOOTSTRAP);
        p.put("group.id", c.get("group").asText());
        String assignor = c.get("assignor").asText();
        if (assignor.equals("consumer")) { // KIP-848: the broker assigns, and says how often it wants to hear of us
            p.put("group.protocol", "consumer");
        } else {
            p.put("partition.assignment.strategy", List.of(ASSIGNORS.get(assignor)));
            p.put("session.timeout.ms", c.get("session").asText());
            p.put("heartbeat.interval.ms", "500");
        }
        p.put("auto.commit.interval.ms", "200");
        p.put("auto.offset.reset", "earliest");
        p.put("key.deserializer", ByteArrayDeserializer.class);
        p.put("value.deserializer", ByteArrayDeserializer.class);
        return p;
    }

    private static List<Integer> numbers(Collection<TopicPartition> partitions) {
        return partitions.stream().map(TopicPartition::partition).toList();
    }

    static void run(JsonNode c, Protocol.Emitter emitter, CountDownLatch ended) {
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(properties(c))) {
            consumer.subscribe(List.of(c.get("topic").asText()), new ConsumerRebalanceListener() {
                @Override
                public void onPartitionsRevoked(Collection<TopicPartition> revoked) {
                    emitter.emit("revoked", numbers(revoked), null, null);
                }

                @Override
                public void onPartitionsAssigned(Collection<TopicPartition> assigned) {
                    emitter.emit("assigned", numbers(assigned), consumer.groupMetadata().generationId(), null);
                }
            });
            while (ended.getCount() > 0) {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(100));
                for (TopicPartition tp : records.partitions())
                    emitter.emit("records", tp.partition(), consumer.groupMetadata().generationId(),
                        records.records(tp).stream().map(ConsumerRecord::offset).toList());
            }
        }
    }
}
