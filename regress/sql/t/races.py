"""Several sessions at once: each case names the hazard whose interleaving it runs (hazards A2 to A23)."""
import time

from session import Broker, Failed, Session, wait_for
from tap import Tap

ISR = "SELECT landed, partition_epoch, isr FROM broker_internal.alter_isr_1({b.id}, {b.epoch}, ARRAY[fx.topic_id('t')], '{{0}}', '{{0}}', '{{{pe}}}', '{isr}')"


def members(*pairs):
    return "[[" + ",".join(f'{{"id":{i},"epoch":{e}}}' for i, e in pairs) + "]]"


with Tap() as t:
    sql = Session()
    b1, b2, b3 = Broker(1), Broker(2), Broker(3)
    brokers = [b1, b2, b3]
    sql("SELECT fx.topic('t', '{1,2,3}')")
    # Nobody sends heartbeats here but where it is about them.
    sql("SELECT * FROM broker.alter_cluster('{\"broker.session.timeout.ms\": 600000}')")
    b1.tick()

    def state(name="t"):
        return sql(f"SELECT fx.state('{name}')")

    with t.case("A4: the order of versions is the order of commits"):
        first, second = Session(), Session()
        first("BEGIN")
        v1 = int(first("SELECT error_code FROM broker_internal.create_topics_1('u', NULL, '[{\"name\":\"v1\"}]', false)") or 0)
        assert v1 == 0
        second.send("SELECT error_code FROM broker_internal.create_topics_1('u', NULL, '[{\"name\":\"v2\"}]', false)")
        wait_for(second.waits, "the second takes its version after the first has committed")
        before = int(sql("SELECT version FROM broker_internal.cluster"))
        assert sql(f"SELECT count(*) FROM broker_internal.topics_1({before}, NULL, 10)") == "0"
        first("COMMIT")
        second.result()
        assert sql(f"SELECT string_agg(topic || (version - {before}), ' ' ORDER BY version) FROM broker_internal.topics_1({before}, NULL, 10)") == "v11 v22"
        first.close()
        second.close()

    with t.case("A2: an ISR change whose reply was lost is settled by a compare-and-set of one's own"):
        holder, lost, again = Session(), Session(), Session()
        holder("BEGIN")
        holder("UPDATE broker_internal.cluster SET version = version + 1")
        shrink = members((1, -1), (2, -1))
        lost.send(ISR.format(b=b1, pe=0, isr=shrink))
        wait_for(lost.waits, "the change that seems lost waits in its old session")
        assert sql("SELECT partition_epoch FROM broker.partitions WHERE topic = 't'") == "0"  # reading it proves nothing
        again.send(ISR.format(b=b1, pe=0, isr=members((1, -1))))
        wait_for(again.waits, "one's own waits behind it")
        holder("COMMIT")
        answers = [lost.result(), again.result()]
        # One landed, mostly the first that waited; the other learned what is.
        assert answers in (["t|1|{1,2}", "f|1|{1,2}"], ["f|1|{1}", "t|1|{1}"]), answers
        for session in (holder, lost, again):
            session.close()

    with t.case("A3: a member that restarted meanwhile is not taken into the ISR with its old epoch"):
        old = b3.epoch
        other = Session()
        other("BEGIN")
        new = int(other(f"SELECT broker_epoch FROM broker_internal.register_broker_1(3, fx.id(33), fx.id(1003), {old}, NULL, NULL, '[]', '1.0', '{{}}')"))
        b1.control.send(ISR.format(b=b1, pe=1, isr=members((1, b1.epoch), (2, b2.epoch), (3, old))))
        wait_for(b1.control.waits, "the leader's change waits for the registration")
        other("COMMIT")
        answer = b1.control.result()
        assert answer.startswith("f|"), answer
        assert new > old
        b3.heart = other
        b3.register(process=33)
        pe = sql("SELECT partition_epoch FROM broker.partitions WHERE topic = 't'")
        assert b1.control(ISR.format(b=b1, pe=pe, isr=members((1, b1.epoch), (2, b2.epoch), (3, b3.epoch)))).startswith("t|")

    with t.case("A8: a write under the old epoch waits for the fencing and is refused"):
        fencer = Session()
        fencer("BEGIN")
        fencer(f"SELECT pg_advisory_xact_lock(7701, 3)")
        fencer("UPDATE broker_internal.brokers SET broker_epoch = broker_epoch + 1 WHERE broker_id = 3")
        b3.control.send(f"SELECT * FROM broker_internal.producer_ids_1(3, {b3.epoch})")
        wait_for(b3.control.waits, "the writer waits for the fence")
        fencer("COMMIT")
        try:
            b3.control.result()
            raise AssertionError("it got in")
        except Failed as failure:
            assert failure.state == "PB077", failure
        fencer("UPDATE broker_internal.brokers SET broker_epoch = broker_epoch - 1 WHERE broker_id = 3")
        fencer.close()

    with t.case("A8, A22: who holds a fence in an unfinished statement does not hold up the fencing"):
        zombie = Session()
        zombie("BEGIN")
        zombie(f"SELECT * FROM broker_internal.producer_ids_1(3, {b3.epoch})")
        b3.heart.close()
        wait_for(lambda: sql(f"SELECT count(*) FROM pg_stat_activity WHERE pid = {b3.heart.pid}") == "0", "broker 3's session ends")
        assert b1.tick("{3}")
        assert sql("SELECT state FROM broker.brokers WHERE broker_id = 3") == "dead"
        assert zombie.state("SELECT 1") in ("57P01", "the session ended")
        assert state() == "1 {1,2} {}", state()
        b3 = brokers[2] = Broker(3, process=34)

    with t.case("a person's open transaction stops no failover, no registration, no ISR change"):
        person = Session()
        sql("SELECT fx.topic('held', '{2,1}')")
        sql("SELECT fx.topic('doomed', '{2,1}')")
        sql("SELECT fx.topic('grown', '{2,1}')")
        person("BEGIN")
        person("SELECT broker.create_topic('mine')")
        person("SELECT * FROM broker.alter_topic('held', '{\"flush.ms\": 5}')")
        person("SELECT broker.delete_topic('doomed')")
        person("SELECT broker.set_partition_count('grown', 7)")
        person("SELECT broker.delete_records('held', 0, -1)")
        person("SELECT * FROM broker.purge_topic('held')")
        person("SELECT * FROM broker.alter_cluster('{\"log.flush.interval.ms\": 7}')")
        person("SELECT * FROM broker.alter_broker(1, '{\"log.flush.interval.ms\": 7}')")
        # nobody may take longer than this for it
        for session in (b1.control, b1.heart, b3.heart):
            session("SET statement_timeout = '3s'")
        b2.heart.close()
        wait_for(lambda: sql(f"SELECT count(*) FROM pg_stat_activity WHERE pid = {b2.heart.pid}") == "0", "broker 2's session ends")
        assert b1.tick("{2}")
        assert state("held") == "1 {1} {}" and state("doomed") == "1 {1} {}" and state("grown") == "1 {1} {}"
        b1.beat()
        b3.register(process=35)
        b2.heart = Session()
        b2.register(process=22)
        assert b1.control("SELECT fx.alter_isr(1, 'held', '{1,2}')") == "t"
        assert not b1.tick(), "nothing of it is to be seen"

        def code(call):
            return b1.control(f"SELECT string_agg(error_code::text, ' ') FROM broker_internal.{call}")
        config = '[{"type":%d,"name":"%s","ops":[{"key":"%s","op":0,"value":"9"}]}]'
        assert code("create_topics_1('u', NULL, '[{\"name\":\"mine\"},{\"name\":\"free\"}]', false)") == "7 0"
        assert code("delete_topics_1('u', NULL, '{held,doomed,free}', NULL)") == "7 7 0"
        assert code("create_partitions_1('u', NULL, '[{\"name\":\"grown\",\"count\":9}]', false)") == "7"
        assert code(f"alter_configs_1('u', NULL, '{config % (2, 'held', 'flush.ms')}', false, false)") == "7"
        assert code(f"alter_configs_1('u', NULL, '{config % (4, '', 'log.flush.interval.ms')}', false, false)") == "7"
        assert code(f"alter_configs_1('u', NULL, '{config % (4, '1', 'log.flush.interval.ms')}', false, false)") == "7"
        assert code(f"alter_configs_1('u', NULL, '{config % (2, 't', 'flush.ms')}', false, false)") == "0"
        person("COMMIT")
        assert b1.tick()
        assert sql("SELECT string_agg(DISTINCT state, ' ') FROM broker.operations WHERE kind <> 'delete_records'") == "done"
        assert sql("SELECT count(*) FROM broker.partitions WHERE topic IN ('mine', 'grown', 'doomed')") == "8"
        person.close()

    with t.case("two creators of one name: the second waits; it fails when the first commits, succeeds when it does not"):
        first, second = Session(), Session()
        for end, expected in (("ROLLBACK", "00000"), ("COMMIT", "PB036")):
            first("BEGIN")
            first(f"SELECT broker.create_topic('race_{end.lower()}')")
            second.send(f"SELECT broker.create_topic('race_{end.lower()}')")
            wait_for(second.waits, "the second waits")
            first(end)
            try:
                second.result()
                got = "00000"
            except Failed as failure:
                got = failure.state
            assert got == expected, (end, got)
        first.close()
        second.close()
        b1.tick()

    with t.case("A17: a new process on the same disk ends the half-open session of the old one"):
        older = b1.heart
        b1.heart = Session()
        b1.register(process=111)
        assert older.state("SELECT 1") in ("57P01", "the session ended")
        with_other_disk = Session()
        assert with_other_disk.state("SELECT fx.register(1, 112, 77)") == "PB101"
        with_other_disk.close()
        b1.beat()

    with t.case("a session that lost its broker's place is told so"):
        twin = Session()
        sql(f"UPDATE broker_internal.brokers SET backend_pid = {twin.pid}, backend_start = (SELECT backend_start FROM pg_stat_activity WHERE pid = {twin.pid}) WHERE broker_id = 1")
        try:
            b1.beat()
            raise AssertionError("its heartbeat was accepted")
        except Failed as failure:
            assert failure.state == "PB077" and "superseded" in str(failure), failure
        b1.register(process=111)
        twin.close()

    sql("SELECT * FROM broker.alter_cluster('{\"broker.session.timeout.ms\": 3000}')")
    b1.tick()

    def all_beat(*alive):
        for broker in alive:
            broker.beat()

    def state_of(broker):
        return sql(f"SELECT CASE WHEN fenced THEN 'fenced' WHEN suspect_since IS NOT NULL THEN 'suspect' ELSE 'alive' END FROM broker_internal.brokers WHERE broker_id = {broker.id}")

    def until(condition, what, *alive):
        """Ticks and heartbeats of the living go on until it is so."""
        end = time.monotonic() + 30
        while time.monotonic() < end:
            all_beat(*alive)
            alive[0].tick()
            if condition():
                return
            time.sleep(0.05)
        raise AssertionError("not within 30 s: " + what)

    with t.case("A15: a session that is gone makes a broker suspect; it is dead after the timeout, not before"):
        all_beat(*brokers)
        sql(f"SELECT pg_terminate_backend({b3.heart.pid}, 5000)")
        b1.tick()
        assert state_of(b3) == "suspect"
        b1.tick()
        assert state_of(b3) == "suspect"
        b3.heart = Session()
        b3.register(process=35)
        assert state_of(b3) == "alive"
        assert sql(f"SELECT count(*) FROM broker.events WHERE kind = 'broker.dead' AND broker_id = 3") == "1"  # the one of A22
        sql(f"SELECT pg_terminate_backend({b3.heart.pid}, 5000)")
        until(lambda: state_of(b3) == "fenced", "broker 3 is dead", b1, b2)
        b3.heart = Session()
        b3.register(process=36)

    with t.case("A16: a session that waits for a lock is not silent, one that sends nothing is"):
        all_beat(*brokers)
        blocker = Session()
        blocker("SELECT pg_advisory_lock(1, 1)")
        b2.heart.send("SELECT pg_advisory_lock(1, 1)")
        wait_for(b2.heart.waits, "broker 2's session waits")
        until(lambda: state_of(b3) == "fenced", "broker 3, which sends nothing, is dead", b1)
        until(lambda: sql(f"SELECT state_change < clock_timestamp() - interval '6 s' FROM pg_stat_activity WHERE pid = {b2.heart.pid}") == "t", "two timeouts pass", b1)
        assert state_of(b2) == "alive"
        assert "silent for 3000 ms" in sql("SELECT string_agg(reason, ' ') FROM broker.events WHERE kind = 'broker.dead' AND broker_id = 3")
        blocker("SELECT pg_advisory_unlock(1, 1)")
        b2.heart.result()
        blocker.close()
        assert b3.heart.state("SELECT 1") in ("57P01", "the session ended")  # fencing ended its session
        b3.heart = Session()
        b3.register(process=37)

    with t.case("A15: more than half gone at once is PostgreSQL or the network: one more timeout before anybody is fenced"):
        all_beat(*brokers)
        for broker in (b2, b3):
            sql(f"SELECT pg_terminate_backend({broker.heart.pid}, 5000)")
        began = time.monotonic()
        until(lambda: state_of(b2) == "fenced" and state_of(b3) == "fenced", "both are dead", b1)
        assert time.monotonic() - began > 3, "at once"
        for broker, process in ((b2, 23), (b3, 38)):
            broker.heart = Session()
            broker.register(process=process)
        all_beat(*brokers)
        b1.tick()
        for broker in (b2, b3):
            sql(f"SELECT pg_terminate_backend({broker.heart.pid}, 5000)")
        assert b1.tick("{2,3}"), "but listeners that refuse are proof"
        assert state_of(b2) == "fenced" and state_of(b3) == "fenced"
        for broker, process in ((b2, 24), (b3, 39)):
            broker.heart = Session()
            broker.register(process=process)

    sql("SELECT * FROM broker.alter_cluster('{\"broker.session.timeout.ms\": 600000}')")
    b1.tick()

    with t.case("a controller that is paused keeps its lock: whoever runs its overdue tick ends its session"):
        paused = Session()
        assert paused(f"SELECT is_controller FROM broker_internal.try_controller_1(1, {b1.epoch})") == "t"
        assert b2.control(f"SELECT is_controller FROM broker_internal.try_controller_1(2, {b2.epoch})") == "f"
        assert b2.heart(f"SELECT tick_overdue FROM broker_internal.heartbeat_1(2, {b2.epoch})") == "f"
        wait_for(lambda: b2.heart(f"SELECT tick_overdue FROM broker_internal.heartbeat_1(2, {b2.epoch})") == "t", "the tick is overdue")

        def ended():
            all_beat(*brokers)
            b2.tick()
            return sql(f"SELECT count(*) FROM pg_stat_activity WHERE pid = {paused.pid}") == "0"
        wait_for(ended, "its session is ended")
        assert b2.control(f"SELECT is_controller, controller_id, controller_epoch FROM broker_internal.try_controller_1(2, {b2.epoch})") == "t|2|2"
        all_beat(*brokers)

    with t.case("A23: a stranger with the controller's lock stops nothing"):
        stranger = Session()
        b2.control.close()
        wait_for(lambda: stranger("SELECT pg_try_advisory_lock(7700, 1)") == "t", "the stranger has the lock")
        assert b3.control(f"SELECT is_controller FROM broker_internal.try_controller_1(3, {b3.epoch})") == "f"
        assert sql("SELECT count(*) FROM broker.cluster WHERE controller_id IS NULL") == "1"
        sql("SELECT broker.create_topic('anyway')")
        assert b3.tick(), "any broker's tick does the work"
        stranger.close()
        b2.control = Session()
        all_beat(*brokers)

    with t.case("two ticks at once: one decides, the other goes away"):
        one = Session()
        one("BEGIN")
        assert b1.tick(session=one) is False
        sql("SELECT broker.create_topic('later')")
        assert not b2.tick(), "the second does nothing while the first has not ended"
        one("COMMIT")
        assert b2.tick()
        one.close()

    with t.case("A21: brokers hear of a person's change at the commit; the control plane's own functions do not NOTIFY"):
        ear = Session()
        ear("LISTEN pg_broker")
        person = Session()
        person("BEGIN")
        person("SELECT broker.create_topic('heard')")
        assert ear("SELECT 1") == "1"
        person("COMMIT")
        wait_for(lambda: "pg_broker" in ear("SELECT 1"), "the notification comes")
        b1.tick()
        b1.control("SELECT fx.topic('quiet', '{1}')")
        sql("SELECT 1")
        assert ear("SELECT 1") == "1"
        ear.close()
        person("BEGIN")
        person("SELECT broker.create_topic('prepared')")
        assert person.state("PREPARE TRANSACTION 'x'") == "0A000"
        person.close()

    with t.case("A22: what brokers read holds no row and no advisory lock"):
        reader = Session()
        reader("BEGIN")
        for call in ("topics_1(0, NULL, 100)", "brokers_1(0)", "configs_1(0)", f"operations_1(1, {b1.epoch})", "session_check_1()"):
            reader(f"SELECT count(*) FROM broker_internal.{call}")
        assert reader("SELECT string_agg(DISTINCT locktype || ' ' || mode, ', ') FROM pg_locks WHERE pid = pg_backend_pid() AND locktype <> 'virtualxid'") == "relation AccessShareLock"
        assert reader("SELECT pg_current_xact_id_if_assigned() IS NULL") == "t"
        reader.close()

    with t.case("DROP EXTENSION is refused while a broker is alive, and cleans up when none is"):
        assert sql.state("DROP EXTENSION pg_broker CASCADE") == "55006"
        assert sql.state("DROP SCHEMA broker CASCADE") == "55006"
        assert sql.state("DROP SCHEMA nothing_of_ours") == "3F000"
        for broker in brokers:
            broker.close()
        wait_for(lambda: sql("SELECT brokers_alive FROM broker.cluster") == "0", "the sessions end")
        assert sql("SELECT string_agg(problem, '; ') FROM broker.problems WHERE object = 'cluster'") == "no broker is alive"
        sql("DROP EXTENSION pg_broker")
        assert sql("SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'broker%'") == "0"
