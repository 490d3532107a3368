import java.lang.reflect.Method;
import java.lang.reflect.ParameterizedType;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HexFormat;
import java.util.List;
import java.util.Scanner;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.protocol.types.BoundField;
import org.apache.kafka.common.protocol.types.Field;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.TaggedFields;
import org.apache.kafka.common.protocol.types.Type;
import org.apache.kafka.common.record.BaseRecords;
import org.apache.kafka.common.record.MemoryRecords;

/**
 * Golden vectors from Kafka's own message classes.  Reads lines "NAME MIN MAX KEY" (a message of wire/schema,
 * the versions it knows, its API) and prints, for each version that Kafka knows, one line a variant:
 *
 *     NAME VERSION VARIANT HEX JSON
 *
 * Which fields a version has is taken from Kafka's schema of that version; the JSON has them in the order of
 * the wire, the tagged ones last by tag, bytes and uuids as hex.  Variants:
 *
 *     full      every field set, two elements an array
 *     null      what may be null is null, one element an array
 *     edge      smallest and largest numbers, long strings of two-byte characters, one element
 *     default   a message as it is constructed
 *     elements  as default, but with one default element in each array of structures
 */
public class Vectors {
    private final String variant;
    private long counter = 0;

    private Vectors(String variant) {
        this.variant = variant;
    }

    /** A field of a version; tag < 0 is an ordinary one. */
    private record Slot(String name, Type type, int tag) { }

    private static List<Slot> slots(Schema schema) {
        List<Slot> out = new ArrayList<>();
        for (BoundField f : schema.fields()) {
            if (f.def.type instanceof TaggedFields tagged)
                tagged.fields().forEach((tag, field) -> out.add(new Slot(field.name, field.type, tag)));
            else
                out.add(new Slot(f.def.name, f.def.type, -1));
        }
        return out;
    }

    private static String camel(String snake) {
        StringBuilder out = new StringBuilder();
        for (String part : snake.split("_"))
            out.append(out.length() == 0 ? part : part.substring(0, 1).toUpperCase() + part.substring(1));
        return out.toString();
    }

    private static Method setter(Object o, String name) {
        for (Method m : o.getClass().getMethods())
            if (m.getName().equals(camel("set_" + name)) && m.getParameterCount() == 1)
                return m;
        throw new IllegalStateException(o.getClass() + " has no setter for " + name);
    }

    private static Object get(Object o, String name) throws Exception {
        return o.getClass().getMethod(camel(name)).invoke(o);
    }

    private long number(int bits) {
        counter++;
        if (variant.equals("edge"))
            return counter % 2 == 0 ? -(1L << (bits - 1)) : (1L << (bits - 1)) - 1;
        return bits == 8 ? counter % 100 + 1 : counter * 3 + 1;
    }

    private String string() {
        counter++;
        return variant.equals("edge") ? "é".repeat(70) + counter : "s" + counter;
    }

    private byte[] bytes() {
        return string().getBytes(StandardCharsets.UTF_8);
    }

    private Object scalar(Class<?> c) {
        if (c == boolean.class)
            return true;
        if (c == byte.class)
            return (byte) number(8);
        if (c == short.class)
            return (short) number(16);
        if (c == int.class || c == Integer.class)
            return (int) number(32);
        if (c == long.class)
            return number(64);
        if (c == double.class)
            return number(20) + 0.25;
        if (c == String.class)
            return string();
        if (c == byte[].class)
            return bytes();
        if (c == ByteBuffer.class)
            return ByteBuffer.wrap(bytes());
        if (c == Uuid.class)
            return new Uuid(number(64), number(64));
        if (BaseRecords.class.isAssignableFrom(c))
            return MemoryRecords.readableRecords(ByteBuffer.wrap(bytes()));
        throw new IllegalStateException("no value for " + c);
    }

    private static Class<?> box(Class<?> c) {
        return c == Short.class ? short.class : c == Long.class ? long.class : c == Byte.class ? byte.class : c;
    }

    private boolean leavesDefaults() {
        return variant.equals("default") || variant.equals("elements");
    }

    @SuppressWarnings("unchecked")
    private Object array(Method set, Type element) throws Exception {
        Class<?> c = set.getParameterTypes()[0];
        Class<?> of = (Class<?>) ((ParameterizedType) (c == List.class ? set.getGenericParameterTypes()[0]
            : c.getGenericSuperclass())).getActualTypeArguments()[0];
        Collection<Object> out = (Collection<Object>) (c == List.class ? new ArrayList<>()
            : c.getConstructor().newInstance());
        for (int i = 0; i < (variant.equals("full") ? 2 : 1); i++) {
            if (element instanceof Schema schema) {
                Object item = of.getConstructor().newInstance();
                fill(item, schema);
                out.add(item);
            } else if (box(of) == short.class) {
                out.add((short) number(16));
            } else {
                out.add(scalar(box(of)));
            }
        }
        return out;
    }

    private void fill(Object o, Schema schema) throws Exception {
        for (Slot s : slots(schema)) {
            Method set = setter(o, s.name());
            Type element = s.type().isArray() ? s.type().arrayElementType().get() : null;
            if (leavesDefaults()) {
                if (variant.equals("elements") && element instanceof Schema)
                    set.invoke(o, array(set, element));
                continue;
            }
            if (variant.equals("null") && s.type().isNullable())
                set.invoke(o, (Object) null);
            else if (element != null)
                set.invoke(o, array(set, element));
            else if (s.type() instanceof Schema inner) {
                Object item = set.getParameterTypes()[0].getConstructor().newInstance();
                fill(item, inner);
                set.invoke(o, item);
            } else if (s.type() == Type.UINT16) {
                set.invoke(o, (int) (number(16) & 0xffff));
            } else
                set.invoke(o, scalar(set.getParameterTypes()[0]));
        }
    }

    private static String hex(ByteBuffer b) {
        byte[] out = new byte[b.remaining()];
        b.duplicate().get(out);
        return HexFormat.of().formatHex(out);
    }

    private static String json(Object v, Type type) throws Exception {
        if (v == null)
            return "null";
        if (type.isArray()) {
            List<String> out = new ArrayList<>();
            for (Object item : (Collection<?>) v)
                out.add(json(item, type.arrayElementType().get()));
            return "[" + String.join(",", out) + "]";
        }
        if (type instanceof Schema schema) {
            List<String> out = new ArrayList<>();
            for (Slot s : slots(schema))
                out.add("\"" + s.name() + "\":" + json(get(v, s.name()), s.type()));
            return "{" + String.join(",", out) + "}";
        }
        if (v instanceof String s)
            return "\"" + s + "\"";
        if (v instanceof byte[] b)
            return "\"" + hex(ByteBuffer.wrap(b)) + "\"";
        if (v instanceof ByteBuffer b)
            return "\"" + hex(b) + "\"";
        if (v instanceof MemoryRecords r)
            return "\"" + hex(r.buffer()) + "\"";
        if (v instanceof Uuid u)
            return "\"" + String.format("%016x%016x", u.getMostSignificantBits(), u.getLeastSignificantBits()) + "\"";
        return v.toString();
    }

    public static void main(String[] args) throws Exception {
        Scanner in = new Scanner(System.in);
        StringBuilder out = new StringBuilder();
        while (in.hasNext()) {
            String name = in.next();
            int min = in.nextInt();
            int max = in.nextInt();
            in.nextInt();
            String suffix = name.startsWith("ConsumerProtocol") ? "" : "Data";
            Class<?> c = Class.forName("org.apache.kafka.common.message." + name + suffix);
            Schema[] schemas = (Schema[]) c.getField("SCHEMAS").get(null);
            for (int version = min; version <= max; version++) {
                if (version >= schemas.length || schemas[version] == null)
                    continue;
                for (String variant : List.of("full", "null", "edge", "default", "elements")) {
                    Message message = (Message) c.getConstructor().newInstance();
                    new Vectors(variant).fill(message, schemas[version]);
                    ByteBuffer data;
                    try {
                        data = MessageUtil.toByteBufferAccessor(message, (short) version).buffer();
                    } catch (Exception e) {
                        System.err.println(name + " v" + version + " " + variant + ": " + e);
                        continue;
                    }
                    out.append(name).append(' ').append(version).append(' ').append(variant).append(' ')
                        .append('x').append(hex(data)).append(' ')
                        .append(json(message, schemas[version])).append('\n');
                }
            }
        }
        System.out.write(out.toString().getBytes(StandardCharsets.UTF_8));
        System.out.flush();
    }
}
