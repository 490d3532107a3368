import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
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

    /** Answers commands until standard input ends. */
    static void serve(Map<String, Handler> handlers) throws Exception {
        PrintStream out = System.out;
        System.setOut(System.err);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode command = JSON.readTree(line);
            Map<String, Object> answer;
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
