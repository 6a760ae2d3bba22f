import java.io.BufferedOutputStream;
import java.io.BufferedReader;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.JobStatus;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.CheckpointType;
import org.apache.flink.runtime.execution.ExecutionState;
import org.apache.flink.runtime.executiongraph.AccessExecutionVertex;
import org.apache.flink.runtime.executiongraph.ErrorInfo;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.streaming.api.functions.source.legacy.RichParallelSourceFunction;
import org.apache.flink.util.Collector;

/**
 * Workload W on Flink: one job in this process, of which each line of the input asks for one epoch.
 *
 * <p>Arguments: the state backend (hashmap, rocksdb), the directory to work in, the parallelism, and the managed memory.
 * A line is the path of a file of events, pairs of 64-bit integers (key, value). The answer is a line with the seconds
 * from the moment at which the sources may read the file until the checkpoint after its events is completed. A line
 * "tell DIRECTORY FILE" asks for the totals of the keys in FILE instead: they are written into DIRECTORY.
 */
public final class FlinkEngine {
    /** As a value, it asks what a key's totals are. */
    private static final long ASKED = Long.MIN_VALUE;

    private static final TypeInformation<Tuple2<Long, Long>> EVENT = Types.TUPLE(Types.LONG, Types.LONG);
    private static final TypeInformation<Tuple3<Long, Long, Long>> TOTALS =
            Types.TUPLE(Types.LONG, Types.LONG, Types.LONG);

    /** What the sources read next. The job runs in this process, so its subtasks see what is put here. */
    private static BlockingQueue<Share>[] handedOver;

    private static volatile Path told;

    private record Share(Path file, CompletableFuture<Void> emitted) {}

    @SuppressWarnings("unchecked")
    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err); // what Flink prints is no answer
        int parallelism = Integer.parseInt(arguments[2]);
        handedOver = new BlockingQueue[parallelism];
        for (int subtask = 0; subtask < parallelism; subtask++) {
            handedOver[subtask] = new LinkedBlockingQueue<>();
        }
        Configuration settings = settings(arguments[0], Path.of(arguments[1]), arguments[3]);
        MiniClusterConfiguration configured =
                new MiniClusterConfiguration.Builder()
                        .setConfiguration(settings)
                        .setNumTaskManagers(1)
                        .setNumSlotsPerTaskManager(parallelism)
                        .build();
        try (MiniCluster cluster = new MiniCluster(configured)) {
            cluster.start();
            JobID job = cluster.submitJob(job(settings, parallelism)).get().getJobID();
            awaitRunning(cluster, job);
            BufferedReader asked = new BufferedReader(new InputStreamReader(System.in));
            for (String line = asked.readLine(); line != null; line = asked.readLine()) {
                String[] words = line.split(" ");
                if (words[0].equals("tell")) {
                    told = Files.createDirectories(Path.of(words[1]));
                }
                answers.println(epoch(cluster, job, Path.of(words[words.length - 1])));
            }
            cluster.cancelJob(job).get();
        }
        System.exit(0);
    }

    /** Flink's defaults, except for what a user chooses, and that nothing is hidden by a restart. */
    private static Configuration settings(String backend, Path root, String managed) {
        Configuration settings = new Configuration();
        settings.setString("state.backend.type", backend);
        settings.setString("execution.checkpointing.incremental", "true"); // RocksDB's; the heap has no such thing
        settings.setString("execution.checkpointing.storage", "filesystem");
        settings.setString("execution.checkpointing.dir", root.resolve("checkpoints").toUri().toString());
        settings.setString("execution.checkpointing.interval", "3650 d"); // each is asked for
        settings.setString("execution.checkpointing.timeout", "1 h");
        settings.setString("execution.checkpointing.tolerable-failed-checkpoints", "0");
        settings.setString("restart-strategy.type", "none");
        settings.setString("state.backend.rocksdb.localdir", root.resolve("rocksdb").toString());
        settings.setString("io.tmp.dirs", root.resolve("local").toString());
        settings.setString("taskmanager.memory.managed.size", managed);
        settings.setString("pipeline.object-reuse", "true"); // faster, and right here
        settings.setString("rest.bind-port", "0");
        return settings;
    }

    private static JobGraph job(Configuration settings, int parallelism) {
        StreamExecutionEnvironment flink = StreamExecutionEnvironment.getExecutionEnvironment(settings);
        flink.setParallelism(parallelism);
        flink.addSource(new Events(), "events", EVENT)
                .uid("events")
                .keyBy(event -> event.f0, Types.LONG)
                .process(new Totals())
                .uid("totals")
                .sinkTo(new DiscardingSink<>());
        return flink.getStreamGraph().getJobGraph();
    }

    /** A checkpoint needs all subtasks, also those to which nothing has come yet. */
    private static void awaitRunning(MiniCluster cluster, JobID job) throws Exception {
        boolean running = false;
        while (!running) {
            Thread.sleep(20);
            requireAlive(cluster, job);
            // Of a job that is not yet initialized, no subtask is known.
            running = cluster.getJobStatus(job).get() == JobStatus.RUNNING;
            for (AccessExecutionVertex subtask : cluster.getExecutionGraph(job).get().getAllExecutionVertices()) {
                running &= subtask.getExecutionState() == ExecutionState.RUNNING;
            }
        }
    }

    private static void requireAlive(MiniCluster cluster, JobID job) throws Exception {
        if (cluster.getJobStatus(job).get().isGloballyTerminalState()) {
            ErrorInfo failure = cluster.getExecutionGraph(job).get().getFailureInfo();
            throw new IllegalStateException("The job has failed: " + failure.getExceptionAsString());
        }
    }

    private static double epoch(MiniCluster cluster, JobID job, Path file) throws Exception {
        long begin = System.nanoTime();
        Share[] shares = new Share[handedOver.length];
        for (int subtask = 0; subtask < shares.length; subtask++) {
            shares[subtask] = new Share(file, new CompletableFuture<>());
            handedOver[subtask].add(shares[subtask]);
        }
        for (Share share : shares) {
            while (!share.emitted.isDone()) { // a job that has failed will never emit
                requireAlive(cluster, job);
                try {
                    share.emitted.get(1, TimeUnit.SECONDS);
                } catch (TimeoutException stillReading) {
                    continue;
                }
            }
        }
        cluster.triggerCheckpoint(job, CheckpointType.CONFIGURED).get();
        return (System.nanoTime() - begin) / 1e9;
    }

    /** Each subtask reads its share of each file. How many files it has read is its position. */
    private static final class Events extends RichParallelSourceFunction<Tuple2<Long, Long>>
            implements CheckpointedFunction {
        private static final int CHUNK = 16 * 4096;
        private transient ListState<Long> position;
        private long files;
        private volatile boolean running = true;

        @Override
        public void run(SourceContext<Tuple2<Long, Long>> context) throws Exception {
            int subtask = getRuntimeContext().getTaskInfo().getIndexOfThisSubtask();
            while (running) {
                Share share = handedOver[subtask].poll(100, TimeUnit.MILLISECONDS);
                if (share != null) {
                    read(share.file, subtask, context);
                    synchronized (context.getCheckpointLock()) {
                        files++;
                    }
                    share.emitted.complete(null);
                }
            }
        }

        private void read(Path file, int subtask, SourceContext<Tuple2<Long, Long>> context) throws IOException {
            ByteBuffer buffer = ByteBuffer.allocateDirect(CHUNK).order(ByteOrder.LITTLE_ENDIAN);
            Tuple2<Long, Long> event = new Tuple2<>();
            try (FileChannel channel = FileChannel.open(file)) {
                long events = channel.size() / 16;
                long at = 16 * (events * subtask / handedOver.length);
                long end = 16 * (events * (subtask + 1) / handedOver.length);
                while (at < end) {
                    buffer.clear().limit((int) Math.min(CHUNK, end - at));
                    while (buffer.hasRemaining()) {
                        at += channel.read(buffer, at);
                    }
                    buffer.flip();
                    synchronized (context.getCheckpointLock()) { // once for 4096 events
                        while (buffer.hasRemaining()) {
                            event.f0 = buffer.getLong();
                            event.f1 = buffer.getLong();
                            context.collect(event);
                        }
                    }
                }
            }
        }

        @Override
        public void cancel() {
            running = false;
        }

        @Override
        public void initializeState(FunctionInitializationContext context) throws Exception {
            position = context.getOperatorStateStore().getListState(new ListStateDescriptor<>("files", Types.LONG));
        }

        @Override
        public void snapshotState(FunctionSnapshotContext context) throws Exception {
            position.update(List.of(files));
        }
    }

    /** Of each key how many events there were, their sum and the largest. */
    private static final class Totals extends KeyedProcessFunction<Long, Tuple2<Long, Long>, Void>
            implements CheckpointedFunction {
        private transient ValueState<Tuple3<Long, Long, Long>> totals;
        private transient DataOutputStream out;

        @Override
        public void open(OpenContext context) {
            totals = getRuntimeContext().getState(new ValueStateDescriptor<>("totals", TOTALS));
        }

        @Override
        public void processElement(Tuple2<Long, Long> event, Context context, Collector<Void> collector)
                throws Exception {
            Tuple3<Long, Long, Long> found = totals.value();
            long value = event.f1;
            if (value == ASKED) {
                tell(event.f0, found);
                return;
            }
            if (found == null) {
                found = Tuple3.of(1L, value, value);
            } else {
                found.f0 += 1;
                found.f1 += value;
                found.f2 = Math.max(found.f2, value);
            }
            totals.update(found);
        }

        private void tell(long key, Tuple3<Long, Long, Long> found) throws IOException {
            if (out == null) {
                int subtask = getRuntimeContext().getTaskInfo().getIndexOfThisSubtask();
                out = new DataOutputStream(new BufferedOutputStream(Files.newOutputStream(told.resolve("" + subtask))));
            }
            for (long number : new long[] {key, found.f0, found.f1, found.f2}) {
                out.writeLong(number);
            }
        }

        @Override
        public void initializeState(FunctionInitializationContext context) {}

        @Override
        public void snapshotState(FunctionSnapshotContext context) throws IOException {
            if (out != null) {
                out.close();
                out = null;
            }
        }
    }

    private FlinkEngine() {}
}
