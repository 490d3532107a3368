import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs mains of Apache Kafka in one JVM, since starting a JVM costs more than most of them do.
 *
 * <pre>
 * Judge tools                       a server on standard input and output, see kafka.py's ToolBox:
 *                                   request  = int32 argc, argc x (int32 length, UTF-8), int32 length, standard input
 *                                              (the first argument is the class)
 *                                   response = int32 exit status, int32 length, stdout, int32 length, stderr
 * Judge server CONFIG CLUSTER_ID    formats the storage that CONFIG names where it is not yet, then runs a broker
 * Judge CLASS ARG...                one main, as it is
 * </pre>
 */
public final class Judge {
    /** Thrown instead of ending the process. */
    private static final class Exited extends Error {
        Exited(int status) {
            super("exit " + status, null, false, false);
        }
    }

    private static final int RUNNING = -1;
    private static final Switch STDOUT = new Switch();
    private static final Switch STDERR = new Switch();
    private static volatile int exitStatus = RUNNING;

    /** Scala keeps the System.out that it finds first, so the stream stays and what is behind it changes. */
    private static final class Switch extends OutputStream {
        private volatile OutputStream to = OutputStream.nullOutputStream();

        @Override
        public void write(int b) throws java.io.IOException {
            to.write(b);
        }

        @Override
        public void write(byte[] b, int off, int len) throws java.io.IOException {
            to.write(b, off, len);
        }

        @Override
        public void flush() throws java.io.IOException {
            to.flush();
        }

        @Override
        public void close() {
            to = OutputStream.nullOutputStream();
        }
    }

    private static void runMain(String name, String[] args) throws Throwable {
        try {
            Class.forName(name).getMethod("main", String[].class).invoke(null, (Object) args);
        } catch (InvocationTargetException e) {
            throw e.getCause();
        }
    }

    /**
     * A main that exits would neither go on nor print, so the first status counts and the output ends there: some mains catch
     * what is thrown here.
     */
    private static void exit(int status) {
        if (exitStatus == RUNNING) {
            exitStatus = status;
            System.out.flush();
            System.err.flush();
            STDOUT.close();
            STDERR.close();
        }
        throw new Exited(status);
    }

    /** The exit status that a process of its own would have had; what it wanted done at its end is done. */
    private static int runCaught(String name, String[] args) {
        List<Runnable> hooks = new ArrayList<>();
        exitStatus = RUNNING;
        Exit.setShutdownHookAdder((hook, runnable) -> hooks.add(runnable));
        Exit.setExitProcedure((status, message) -> exit(status));
        Exit.setHaltProcedure((status, message) -> exit(status));
        try {
            runMain(name, args);
        } catch (Exited e) {
            // exit() has kept the status
        } catch (Throwable e) {
            e.printStackTrace();
            exitStatus = exitStatus == RUNNING ? 1 : exitStatus;
        }
        hooks.forEach(Runnable::run);
        Exit.resetShutdownHookAdder();
        Exit.resetExitProcedure();
        Exit.resetHaltProcedure();
        return exitStatus == RUNNING ? 0 : exitStatus;
    }

    private static byte[] readBytes(DataInputStream in) throws java.io.IOException {
        return in.readNBytes(in.readInt());
    }

    private static void writeBytes(DataOutputStream out, ByteArrayOutputStream bytes) throws java.io.IOException {
        out.writeInt(bytes.size());
        bytes.writeTo(out);
    }

    private static void serveTools() throws Exception {
        DataInputStream in = new DataInputStream(new FileInputStream(FileDescriptor.in));
        DataOutputStream out = new DataOutputStream(new java.io.BufferedOutputStream(new FileOutputStream(FileDescriptor.out)));

        System.setOut(new PrintStream(STDOUT, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(STDERR, true, StandardCharsets.UTF_8));
        for (;;) {
            int argc;
            try {
                argc = in.readInt();
            } catch (EOFException e) {
                return;
            }
            String[] argv = new String[argc];
            for (int i = 0; i < argc; i++)
                argv[i] = new String(readBytes(in), StandardCharsets.UTF_8);
            System.setIn(new ByteArrayInputStream(readBytes(in)));

            ByteArrayOutputStream captured = new ByteArrayOutputStream();
            ByteArrayOutputStream complained = new ByteArrayOutputStream();
            STDOUT.to = captured;
            STDERR.to = complained;
            int status = runCaught(argv[0], Arrays.copyOfRange(argv, 1, argc));
            System.out.flush();
            System.err.flush();
            STDOUT.close();
            STDERR.close();
            out.writeInt(status);
            writeBytes(out, captured);
            writeBytes(out, complained);
            out.flush();
        }
    }

    private static void serveBroker(String config, String clusterId) throws Throwable {
        int status = runCaught("kafka.tools.StorageTool",
            new String[] {"format", "--ignore-formatted", "-t", clusterId, "-c", config});
        if (status != 0)
            System.exit(status);
        runMain("kafka.Kafka", new String[] {config});
    }

    public static void main(String[] args) throws Throwable {
        switch (args[0]) {
            case "tools":
                serveTools();
                System.exit(0);
                break;
            case "server":
                serveBroker(args[1], args[2]);
                break;
            default:
                runMain(args[0], Arrays.copyOfRange(args, 1, args.length));
        }
    }
}
