"""Table: the labs about messages, consumers and the broker."""

from __future__ import annotations

from seckill.lab.labs.lab import Code, Lab, Server

STEPS = "seckill/lab/labs/steps"
WORKER = "seckill/messaging/batch_worker.py"
POSTGRES_AND_BROKER = frozenset({Server.POSTGRES, Server.BROKER})

MESSAGE_LABS = (
    Lab(
        4, "save-then-send",
        question="What is lost if you save a row, then send its message?",
        damage="orders that were stored and never announced",
        broken="commit the order, then send its message; kill -9 in between, three times",
        fixed="store order and message in one transaction; a relay sends what is stored",
        why="Two systems cannot commit together without a protocol between them. Between the two there is always "
        "a moment at which a crash leaves one without the other, in either order.",
        code=(
            Code(f"{STEPS}/save_then_send.py", "save_then_send"),
            Code(f"{STEPS}/save_then_send.py", "save_with_outbox"),
            Code("seckill/messaging/outbox.py", "insert_rows", "assert", "binary_sql.send_only(_INSERT"),
            Code("seckill/messaging/relay.py", "Relay.publish_some", "sent = self._send_all", "cursor.execute(_DELETE"),
        ),
        test="tests/concurrency/test_messaging_relay.py::test_an_event_is_published_only_if_its_transaction_commits",
        next="Send first, save afterwards. What does the crash leave now, and why is that worse?",
        servers=POSTGRES_AND_BROKER,
    ),
    Lab(
        5, "delivery",
        question="At most, at least or exactly once: what does kill -9 leave?",
        damage="records lost or repeated",
        broken="the offset before the effects (at most once), and after them (at least once)",
        fixed="offset and effects in one transaction (exactly once in effect)",
        why="No broker can make your effect happen once. If the offset is a row beside the effect, one commit decides "
        "about both, and a crash leaves either both or neither.",
        code=(
            Code(WORKER, "BatchWorker._attempt"),
            Code("seckill/messaging/offsets.py", "advance"),
        ),
        test="tests/concurrency/test_messaging_consume_loop.py::"
        "test_what_a_kill_loses_or_repeats_under_each_delivery_guarantee",
        next="Which of the three would be enough if the handler wrote `SET price = 5` instead of inserting a row?",
        servers=POSTGRES_AND_BROKER,
    ),
    Lab(
        6, "zombie",
        question="What can a consumer damage that was declared dead and only slept?",
        damage="effects repeated",
        broken="the consumer wakes up and commits; its UPDATE matches no row, and no code checks that",
        fixed="the same statement, and a row count of 0 ends the transaction",
        why="A lease cannot stop a process that sleeps through its end. So the place that the process writes to must "
        "refuse it: each claim has a higher epoch, and a write names the epoch under which it was begun.",
        code=(
            Code(f"{STEPS}/zombie.py", "update_without_fence"),
            Code("seckill/messaging/offsets.py", "_ADVANCE"),
            Code("seckill/messaging/offsets.py", "_OF_CLAIM"),
            Code("seckill/messaging/offsets.py", "_update"),
        ),
        test="tests/concurrency/test_messaging_batch_worker.py::test_without_the_fence_a_zombie_repeats_the_effects",
        next="Let the zombie wake up before its successor has finished. Which of the two gets ClaimFenced?",
        servers=POSTGRES_AND_BROKER,
    ),
    Lab(
        9, "poison",
        question="What does one record that cannot be processed do to the others?",
        damage="good records that wait behind it",
        broken="retry until it works, because nothing may be lost",
        fixed="halve the batch until the one is found; after three tries it becomes a dead letter",
        why="A partition is a queue: what cannot be processed blocks everything behind it. Order and progress together "
        "need a place for the record that an operator can examine and replay.",
        code=(
            Code(f"{STEPS}/poison.py", "retry_until_it_works"),
            Code(WORKER, "BatchWorker._process_range", "except Exception", "return self._process"),
            Code(WORKER, "BatchWorker._handle_failure"),
        ),
        test="tests/concurrency/test_messaging_batch_worker.py::"
        "test_the_one_bad_record_of_a_batch_is_found_and_the_others_are_processed_in_order",
        next="Let every second record fail. Why does the real consumer stop instead of filling the dead letters?",
        servers=POSTGRES_AND_BROKER,
    ),
    Lab(
        10, "growing-topic",
        question="What happens to each user's order when a topic gets another partition?",
        damage="users served out of order",
        broken="hash of the key modulo the number of partitions, as every client does it by default",
        fixed="slots: a new partition moves nothing, and a slot moves after its old partition is read",
        why="With modulo, a new partition moves two thirds of all keys at once. Their new messages meet an empty queue "
        "while the old ones wait in a long one.",
        code=(
            Code(f"{STEPS}/growing_topic.py", "send_by_modulo", "if number == BEFORE", "sent ="),
            Code("seckill/messaging/partitioners.py", "slot_of"),
            Code("seckill/messaging/slot_moves.py", "finish_move", "wait_until_empty(", "wait_until_passed("),
        ),
        test="tests/concurrency/test_messaging_slots_load.py::test_slot_moves_under_load_keep_each_users_order",
        next="Let the move skip its third step. Which test shows what happens?",
        servers=POSTGRES_AND_BROKER,
    ),
    Lab(
        13, "leader-dies",
        question="Which acknowledged records survive the death of the leader?",
        damage="acknowledged records lost",
        broken="acks=1: the leader's word is enough",
        fixed="acks=all: every in-sync replica has the record before the producer gets its acknowledgement",
        why="With acks=1 the acknowledgement says only that one disk cache has the record. If that broker dies before "
        "its followers fetch, the record is gone, and the producer has no reason to send it again.",
        code=(
            Code(f"{STEPS}/leader_dies.py", "ACKS"),
            Code("mqcore/apis/produce.py", "handle", "appended = found.append", "continue"),
            Code("mqcore/partitions/local_copy.py", "LocalCopy.is_acknowledged"),
        ),
        test="tests/cluster/test_three_brokers.py::test_the_death_of_a_leader_loses_no_acknowledged_record",
        next="Keep acks=all, set min.insync.replicas=1, and freeze the followers for longer than "
        "replica.lag.time.max.ms.",
    ),
    Lab(
        14, "truncation",
        question="Where may a follower cut its log?",
        damage="acknowledged records lost",
        broken="cut at the high watermark, as Kafka did before KIP-101 (seeded bug M1)",
        fixed="cut where the leader's answer says that the histories part",
        why="A follower learns the high watermark one fetch late. What it cuts above it may be committed, and two "
        "deaths later no broker has it.",
        code=(
            Code("mqcore/log/epochs.py", "EpochCache.end_offset_for"),
            Code("mqcore/partitions/follower.py", "FollowerState._cut_at"),
        ),
        test="tests/simulation/replication/test_told.py::test_a_told_scenario_shows_what_a_wrong_truncation_does",
        next="`python -m tests.simulation.replication s3 --bug M3`: why do epochs alone not suffice?",
    ),
)  # fmt: skip
