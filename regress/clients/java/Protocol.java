import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;

/** The Java side of the driver protocol (see ../README.md): commands in, one JSON object a line; answers out, the same. */
final class Protocol {
    interface Handler {
        Map<String, Object> handle(JsonNode command) throws Exception;
    }

    /** One record to produce; a timestamp of null is now. */
    record Row(int partition, byte[] key, byte[] value, List<Header> headers, Long timestamp) {
    }

    static final String BOOTSTRAP = System.getenv("BOOTSTRAP");
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int SHOWN_WHOLE = 64;

    private Protocol() {
    }

    /** The group command has no answer: it prints what happens to a group's member, until the ended latch. */
    interface GroupHandler {
        void handle(JsonNode command, Emitter emitter, CountDownLatch ended) throws Exception;
    }

    /** Prints one event of a group's member: assigned, revoked or records. */
    interface Emitter {
        void emit(String kind, Object partitions, Integer generation, Object offsets);
    }

    private static void runMember(GroupHandler group, JsonNode command, BufferedReader in, PrintStream out) throws Exception {
        CountDownLatch ended = new CountDownLatch(1);
        Thread watcher = new Thread(() -> {
            try {
                while (in.readLine() != null)
                    continue;
            } catch (IOException e) {
                // as an end
            }
            ended.countDown();
        });
        watcher.setDaemon(true);
        watcher.start();
        group.handle(command, (kind, partitions, generation, offsets) -> {
            Map<String, Object> event = new HashMap<>();
            event.put("e", kind);
            event.put("p", partitions);
            event.put("g", generation);
            event.put("o", offsets);
            event.put("t", System.currentTimeMillis() / 1000.0);
            try {
                out.println(JSON.writeValueAsString(event));
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }, ended);
        out.println("{\"e\": \"left\"}");
    }

    /** Answers commands until standard input ends. */
    static void serve(Map<String, Handler> handlers, GroupHandler group) throws Exception {
        PrintStream out = System.out;
        System.setOut(System.err);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode command = JSON.readTree(line);
            Map<String, Object> answer;
            if (command.get("op").asText().equals("group")) {
                runMember(group, command, in, out);
                return;
            }
            try {
                answer = handlers.get(command.get("op").asText()).handle(command);
            } catch (Exception e) {
                Throwable cause = e instanceof ExecutionException ? e.getCause() : e;
                answer = Map.of("error", cause.toString());
            }
            out.println(JSON.writeValueAsString(answer));
            out.flush();
        }
    }

    private static byte[] bytes(JsonNode node) throws Exception {
        return node.isNull() ? null : node.binaryValue();
    }

    static List<Row> readRecords(String path) throws Exception {
        List<Row> rows = new ArrayList<>();
        for (String line : Files.readAllLines(Path.of(path))) {
            JsonNode row = JSON.readTree(line);
            List<Header> headers = new ArrayList<>();
            for (JsonNode h : row.get("h"))
                headers.add(new RecordHeader(h.get(0).asText(), bytes(h.get(1))));
            rows.add(new Row(row.get("p").asInt(), bytes(row.get("k")), bytes(row.get("v")), headers,
                row.get("t").isNull() ? null : row.get("t").asLong()));
        }
        return rows;
    }

    private static String show(byte[] data) throws Exception {
        if (data == null)
            return "-";
        if (data.length <= SHOWN_WHOLE)
            return "x" + HexFormat.of().formatHex(data);
        return "#" + data.length + ":" + HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(data));
    }

    /** The line that a consume command writes for a record. */
    static String canonical(int partition, long offset, long timestamp, byte[] key, byte[] value, Iterable<Header> headers)
        throws Exception {
        List<String> pairs = new ArrayList<>();
        for (Header h : headers)
            pairs.add(HexFormat.of().formatHex(h.key().getBytes(StandardCharsets.UTF_8)) + "=" + show(h.value()));
        return String.format("%d %d %d %s %s %s%n", partition, offset, timestamp, show(key), show(value),
            pairs.isEmpty() ? "." : String.join(";", pairs));
    }
}
