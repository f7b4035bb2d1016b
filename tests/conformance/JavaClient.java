import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Journeys of the Java client. Each prints facts, one "name value" line each; test_java_client.py judges them.
 * Called as: JavaClient.java JOURNEY BOOTSTRAP TOPIC
 */
public class JavaClient {
    private static final Duration PATIENCE = Duration.ofSeconds(30);
    private static final int RECORDS = 1000;

    private static String bootstrap;
    private static String topic;

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[1];
        topic = arguments[2];
        switch (arguments[0]) {
            case "produce" -> produceAndConsume(false);
            case "idempotent" -> produceAndConsume(true);
            case "cooperative" -> cooperativeGroup();
            case "static" -> staticMember();
            case "admin" -> administer();
            default -> throw new IllegalArgumentException(arguments[0]);
        }
    }

    private static void fact(String name, Object value) {
        System.out.println(name + " " + value);
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static Properties settings(String... pairs) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        for (int i = 0; i < pairs.length; i += 2) settings.put(pairs[i], pairs[i + 1]);
        return settings;
    }

    private static KafkaProducer<byte[], byte[]> producer(String... pairs) {
        return new KafkaProducer<>(settings(pairs), new ByteArraySerializer(), new ByteArraySerializer());
    }

    private static KafkaConsumer<byte[], byte[]> consumer(String... pairs) {
        Properties settings = settings(pairs);
        settings.putIfAbsent("auto.offset.reset", "earliest");
        settings.putIfAbsent("enable.auto.commit", "false");
        settings.putIfAbsent("heartbeat.interval.ms", "300");
        settings.putIfAbsent("session.timeout.ms", "6000");
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private static void create(int partitions) throws Exception {
        try (Admin admin = Admin.create(settings())) {
            admin.createTopics(List.of(new NewTopic(topic, partitions, (short) 1))).all().get();
        }
    }

    private static List<ConsumerRecord<byte[], byte[]>> read(KafkaConsumer<byte[], byte[]> source, int count) {
        List<ConsumerRecord<byte[], byte[]>> found = new ArrayList<>();
        long giveUp = System.nanoTime() + PATIENCE.toNanos();
        while (found.size() < count && System.nanoTime() < giveUp) {
            source.poll(Duration.ofMillis(200)).forEach(found::add);
        }
        return found;
    }

    private interface Condition {
        boolean holds();
    }

    @SafeVarargs
    private static void until(Condition condition, KafkaConsumer<byte[], byte[]>... sources) {
        long giveUp = System.nanoTime() + PATIENCE.toNanos();
        while (!condition.holds()) {
            for (KafkaConsumer<byte[], byte[]> source : sources) source.poll(Duration.ofMillis(100));
            if (System.nanoTime() > giveUp) throw new IllegalStateException("waited in vain");
        }
    }

    private static void produceAndConsume(boolean idempotent) throws Exception {
        create(1);
        for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
            List<Future<RecordMetadata>> told = new ArrayList<>();
            try (var producer = producer("compression.type", codec, "enable.idempotence", "" + idempotent,
                    "acks", idempotent ? "all" : "1", "linger.ms", "1", "batch.size", "4000")) {
                for (int i = 0; i < RECORDS; i++) {
                    var record = new ProducerRecord<>(topic, 0, 1000L + i, bytes("k" + i), bytes(codec + " " + i));
                    record.headers().add("codec", bytes(codec));
                    told.add(producer.send(record));
                }
            }
            fact("told-" + codec, told.get(0).get().offset() + "-" + told.get(RECORDS - 1).get().offset());
        }
        try (var source = consumer()) {
            var place = new TopicPartition(topic, 0);
            source.assign(List.of(place));
            source.seekToBeginning(List.of(place));
            var got = read(source, 5 * RECORDS);
            boolean inOrder = true;
            for (int i = 0; i < got.size(); i++) {
                var record = got.get(i);
                String codec = new String(record.headers().lastHeader("codec").value(), StandardCharsets.UTF_8);
                inOrder &= record.offset() == i
                        && record.timestamp() == 1000L + i % RECORDS
                        && new String(record.key(), StandardCharsets.UTF_8).equals("k" + i % RECORDS)
                        && new String(record.value(), StandardCharsets.UTF_8).equals(codec + " " + i % RECORDS);
            }
            fact("read", got.size());
            fact("in-order", inOrder);
            fact("at-1500", source.offsetsForTimes(Map.of(place, 1500L)).get(place).offset());
            fact("end", source.endOffsets(List.of(place)).get(place));
        }
    }

    private static class Rebalances implements ConsumerRebalanceListener {
        int revoked = 0;
        int lost = 0;

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            revoked += partitions.size();
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {}

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            lost += partitions.size();
        }
    }

    private static void cooperativeGroup() throws Exception {
        create(4);
        String[] group = {"group.id", "group-" + topic, "partition.assignment.strategy",
            "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"};
        Rebalances ofFirst = new Rebalances();
        try (var first = consumer(group)) {
            first.subscribe(List.of(topic), ofFirst);
            until(() -> first.assignment().size() == 4, first);
            try (var second = consumer(group)) {
                second.subscribe(List.of(topic));
                until(() -> first.assignment().size() == 2 && second.assignment().size() == 2, first, second);
                fact("revoked", ofFirst.revoked);
                fact("lost", ofFirst.lost);
                try (var producer = producer("acks", "all")) {
                    for (int i = 0; i < 100; i++) producer.send(new ProducerRecord<>(topic, i % 4, null, bytes("" + i)));
                }
                Set<String> values = new TreeSet<>();
                for (var source : List.of(first, second)) {
                    for (var record : read(source, 50)) values.add(new String(record.value(), StandardCharsets.UTF_8));
                    source.commitSync();
                }
                fact("values", values.size());
            }
            until(() -> first.assignment().size() == 4, first);
            Set<TopicPartition> all = first.assignment();
            long sum = first.committed(all).values().stream().mapToLong(OffsetAndMetadata::offset).sum();
            fact("committed", sum);
        }
    }

    private static void staticMember() throws Exception {
        create(2);
        String group = "group-" + topic;
        Rebalances ofFirst = new Rebalances();
        try (var first = consumer("group.id", group, "group.instance.id", "first")) {
            first.subscribe(List.of(topic), ofFirst);
            Set<TopicPartition> before;
            try (var second = consumer("group.id", group, "group.instance.id", "second")) {
                second.subscribe(List.of(topic));
                until(() -> first.assignment().size() == 1 && second.assignment().size() == 1, first, second);
                before = second.assignment();
                ofFirst.revoked = 0;
            }
            try (var again = consumer("group.id", group, "group.instance.id", "second")) {
                again.subscribe(List.of(topic));
                until(() -> again.assignment().size() == 1, first, again);
                fact("same-partition", again.assignment().equals(before));
            }
            fact("revoked", ofFirst.revoked);
        }
    }

    private static void administer() throws Exception {
        try (Admin admin = Admin.create(settings())) {
            fact("nodes", admin.describeCluster().nodes().get().size());
            fact("controller", admin.describeCluster().controller().get().id() >= 0);
            var wanted = new NewTopic(topic, 3, (short) 1).configs(Map.of("retention.ms", "60000"));
            var created = admin.createTopics(List.of(wanted));
            fact("created-partitions", created.numPartitions(topic).get());
            fact("created-config", created.config(topic).get().get("retention.ms").value());
            var topicId = created.topicId(topic).get();
            var described = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
            fact("same-id", described.topicId().equals(topicId));
            fact("leader-is-in-sync", described.partitions().stream().allMatch(p -> p.isr().contains(p.leader())));

            admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(4))).all().get();
            fact("partitions", admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size());

            var resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
            admin.incrementalAlterConfigs(Map.of(resource, List.<AlterConfigOp>of(
                new AlterConfigOp(new ConfigEntry("max.message.bytes", "5000"), AlterConfigOp.OpType.SET),
                new AlterConfigOp(new ConfigEntry("retention.ms", ""), AlterConfigOp.OpType.DELETE)))).all().get();
            var config = admin.describeConfigs(List.of(resource)).all().get().get(resource);
            fact("max.message.bytes", config.get("max.message.bytes").value());
            fact("max.message.bytes-source", config.get("max.message.bytes").source());
            fact("retention.ms-source", config.get("retention.ms").source());

            try (var producer = producer()) {
                for (int i = 0; i < 10; i++) producer.send(new ProducerRecord<>(topic, 0, 1000L + i, null, bytes("x"))).get();
            }
            var place = new TopicPartition(topic, 0);
            var deleted = admin.deleteRecords(Map.of(place, RecordsToDelete.beforeOffset(4))).all();
            deleted.get();
            Map<String, OffsetSpec> specs = new HashMap<>();
            specs.put("earliest", OffsetSpec.earliest());
            specs.put("latest", OffsetSpec.latest());
            specs.put("max-timestamp", OffsetSpec.maxTimestamp());
            specs.put("at-1007", OffsetSpec.forTimestamp(1007));
            for (var spec : specs.entrySet()) {
                fact(spec.getKey(), admin.listOffsets(Map.of(place, spec.getValue())).partitionResult(place).get().offset());
            }
            int broker = admin.describeCluster().nodes().get().iterator().next().id();
            var logs = admin.describeLogDirs(List.of(broker)).allDescriptions().get().get(broker);
            fact("size-is-told", logs.values().stream().anyMatch(d -> d.replicaInfos().containsKey(place)
                && d.replicaInfos().get(place).size() > 0));

            admin.alterConsumerGroupOffsets("group-" + topic, Map.of(place, new OffsetAndMetadata(6, "noted"))).all().get();
            var offsets = admin.listConsumerGroupOffsets("group-" + topic).partitionsToOffsetAndMetadata().get();
            fact("committed", offsets.get(place).offset() + " " + offsets.get(place).metadata());
            fact("group-state", admin.describeConsumerGroups(List.of("group-" + topic)).all().get()
                .get("group-" + topic).groupState());
            admin.deleteConsumerGroupOffsets("group-" + topic, Set.of(place)).all().get();
            fact("committed-after-delete",
                admin.listConsumerGroupOffsets("group-" + topic).partitionsToOffsetAndMetadata().get().size());

            admin.deleteTopics(List.of(topic)).all().get();
            fact("still-there", admin.listTopics().names().get().contains(topic));
        }
    }
}
