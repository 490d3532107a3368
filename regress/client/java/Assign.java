import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.Utils;

/**
 * What Kafka's Java client answers to the questions of regress/client/lines.c, one line each (the form is described there).
 */
final class Assign {
    private static List<TopicPartition> partitions(String text) {
        List<TopicPartition> list = new ArrayList<>();
        for (String item : text.isEmpty() ? new String[0] : text.split(",")) {
            int colon = item.lastIndexOf(':');
            list.add(new TopicPartition(item.substring(0, colon), Integer.parseInt(item.substring(colon + 1))));
        }
        return list;
    }

    private static ConsumerPartitionAssignor assignor(String name) {
        switch (name) {
            case "range": return new RangeAssignor();
            case "roundrobin": return new RoundRobinAssignor();
            case "sticky": return new StickyAssignor();
            default: return new CooperativeStickyAssignor();
        }
    }

    private static String assign(String[] parts) {
        Map<String, Subscription> subscriptions = new HashMap<>();
        List<PartitionInfo> infos = new ArrayList<>();
        Node node = new Node(1, "localhost", 9092);
        for (TopicPartition topic : partitions(parts[1]))
            for (int i = 0; i < topic.partition(); i++)
                infos.add(new PartitionInfo(topic.topic(), i, node, new Node[] {node}, new Node[] {node}));
        for (int i = 2; i < parts.length; i++) {
            String[] m = parts[i].split("\\|", -1);
            List<TopicPartition> owned = partitions(m[5]);
            java.nio.ByteBuffer data = null;
            if (parts[0].equals("sticky") && !m[2].equals("-")) {
                StickyAssignor writer = new StickyAssignor();
                writer.onAssignment(new Assignment(owned), new ConsumerGroupMetadata("g", Integer.parseInt(m[2]), m[0], Optional.empty()));
                data = writer.subscriptionUserData(Collections.emptySet());
            }
            Subscription s = new Subscription(List.of(m[4].split(",")), data, owned, m[3].equals("-") ? -1 : Integer.parseInt(m[3]), Optional.empty());
            if (!m[1].equals("-"))
                s.setGroupInstanceId(Optional.of(m[1]));
            subscriptions.put(m[0], s);
        }
        Cluster cluster = new Cluster("c", List.of(node), infos, Collections.emptySet(), Collections.emptySet());
        Map<String, Assignment> result = new TreeMap<>(
            assignor(parts[0]).assign(cluster, new GroupSubscription(subscriptions)).groupAssignment());
        StringBuilder out = new StringBuilder();
        result.forEach((member, assignment) -> {
            List<String> names = new ArrayList<>();
            List<TopicPartition> sorted = new ArrayList<>(assignment.partitions());
            sorted.sort((a, b) -> a.topic().equals(b.topic()) ? a.partition() - b.partition() : a.topic().compareTo(b.topic()));
            sorted.forEach(tp -> names.add(tp.topic() + ":" + tp.partition()));
            out.append(out.length() == 0 ? "" : ";").append(member).append('=').append(String.join(",", names));
        });
        return out.toString();
    }

    private static byte[] hex(String text) {
        byte[] bytes = new byte[text.length() / 2];
        for (int i = 0; i < bytes.length; i++)
            bytes[i] = (byte) Integer.parseInt(text.substring(2 * i, 2 * i + 2), 16);
        return bytes;
    }

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        PrintStream out = new PrintStream(System.out, false);
        for (String line; (line = in.readLine()) != null;) {
            String[] parts = line.split(";");
            try {
                if (parts[0].equals("murmur2"))
                    out.println(Utils.toPositive(Utils.murmur2(hex(parts.length > 2 ? parts[2] : ""))) % Integer.parseInt(parts[1]));
                else
                    out.println(assign(parts));
            } catch (RuntimeException e) {
                out.println("error: " + e);
            }
            out.flush();
        }
    }
}
