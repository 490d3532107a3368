"""Two coordinators alive (hazards A8, A20): the interleavings of docs/groups.md, by their numbers."""
from session import Broker, Session, wait_for
from tap import Tap

SLOT = "broker_internal.slot_of('g')"


def values(*rows):
    """Columns of rows as array literals."""
    return ["'{" + ",".join(str(v) for v in column) + "}'" for column in zip(*rows)]


def commit(b, offset, generation=0, epoch=None, partition=0, group="g", broker_epoch=None):
    return (f"SELECT coalesce(string_agg(error_code || '/' || stored_generation, ','), 'ok') FROM broker_internal.commit_offsets_1({b.id}, {broker_epoch or b.epoch}, '{{{group}}}', "
            f"ARRAY[broker_internal.slot_of('{group}')], '{{{epoch if epoch is not None else b.slot_epoch}}}', '{{{generation}}}', "
            f"'{{1}}', ARRAY[fx.topic_id('t')], '{{{partition}}}', '{{{offset}}}', '{{-1}}', ARRAY['\\x00ff'::bytea])")


def save(b, generation, expected, members=("m1",), epoch=None, group="g"):
    rows = ",".join(f'{{"id":"{m}","instance":null,"client":"c","host":"/10.0.0.1","session":10000,"rebalance":30000,"age_ms":5,"protocols":"0000",'
                    f'"assignment":"","partitions":{{"t":[{n}]}}}}' for n, m in enumerate(members))
    leader = f"'{members[0]}'" if members else "NULL"
    return (f"SELECT outcome || '/' || coalesce(stored_generation, -1) FROM broker_internal.save_group_1({b.id}, {b.epoch}, {SLOT}, {epoch if epoch is not None else b.slot_epoch}, '{group}', "
            f"{expected}, {generation}, 'consumer', 'range', {leader}, '[{rows}]', "
            f"'{{\"reason\":\"member joined\",\"member\":null,\"before\":0,\"after\":{len(members)},\"duration_ms\":12}}')")


def slots(b, session=None):
    return (session or b.control)(f"SELECT count(*) FILTER (WHERE coordinator = {b.id}) || ' ' || max(slot_epoch) FILTER (WHERE slot = {SLOT}) FROM broker_internal.slots_1({b.id}, {b.epoch})")


with Tap() as t:
    sql = Session()
    b1 = Broker(1)
    sql("SELECT fx.topic('t', '{1}')")

    def stored(partition=0):
        return sql(f"SELECT committed_offset FROM broker_internal.offsets JOIN broker_internal.groups USING (group_no) WHERE group_id = 'g' AND partition = {partition}")

    def coordinator():
        return sql(f"SELECT coordinator FROM broker_internal.slots WHERE slot = {SLOT}")

    def give_to(b):
        """The slot of g moves to b, as if the other broker stopped; both stay alive and believe what they did."""
        other = b1 if b is b2 else b2
        sql(f"UPDATE broker_internal.brokers SET stopping = broker_id = {other.id}")
        b.control(f"SELECT count(*) FROM broker_internal.slots_1({b.id}, {b.epoch})")
        b.slot_epoch = int(sql(f"SELECT epoch FROM broker_internal.slots WHERE slot = {SLOT}"))
        assert coordinator() == str(b.id)

    with t.case("slots: all to the first broker, then even shares, and no move without need"):
        assert slots(b1) == "256 1"
        version = sql("SELECT version FROM broker_internal.cluster")
        assert slots(b1) == "256 1"
        assert sql("SELECT version FROM broker_internal.cluster") == version
        b2 = Broker(2)
        racer = Session()
        first = Session()
        first("BEGIN")
        first(f"SELECT count(*) FROM broker_internal.slots_1(2, {b2.epoch})")
        racer.send(f"SELECT count(*) FROM broker_internal.slots_1(1, {b1.epoch})")
        wait_for(racer.waits, "the second one that sees it waits for the first")
        first("COMMIT")
        racer.result()
        assert sql("SELECT string_agg(n::text, ' ' ORDER BY c) FROM (SELECT coordinator AS c, count(*) AS n FROM broker_internal.slots GROUP BY 1) x") == "128 128"
        assert sql("SELECT max(epoch) || ' ' || count(*) FILTER (WHERE epoch = 2) FROM broker_internal.slots") == "2 128"  # moved once
        first.close()
        racer.close()
        b2.slot_epoch = 0
        give_to(b1)

    with t.case("G1: a commit under way when the slot moves is committed first, and the new coordinator reads it"):
        assert b1.control(commit(b1, 100)) == "ok"
        b1.control("BEGIN")
        assert b1.control(commit(b1, 150)) == "ok"
        sql("UPDATE broker_internal.brokers SET stopping = broker_id = 1")
        b2.control.send(f"SELECT count(*) FROM broker_internal.slots_1(2, {b2.epoch})")
        wait_for(b2.control.waits, "the move waits for the fence of the old coordinator")
        assert coordinator() == "1"
        b1.control("COMMIT")
        b2.control.result()
        assert coordinator() == "2" and stored() == "150"
        b2.slot_epoch = int(sql(f"SELECT epoch FROM broker_internal.slots WHERE slot = {SLOT}"))

    with t.case("G2: a commit of the old coordinator after the move changes nothing"):
        assert b2.control(commit(b2, 200)) == "ok"
        assert b1.control(commit(b1, 160)) == "16/0"
        assert stored() == "200"

    with t.case("G3: a commit that begins while the move is under way waits for it, and changes nothing"):
        give_to(b1)
        mover = Session()
        mover("BEGIN")
        sql("UPDATE broker_internal.brokers SET stopping = broker_id = 1")
        mover(f"SELECT count(*) FROM broker_internal.slots_1(2, {b2.epoch})")
        b1.control.send(commit(b1, 210))
        wait_for(b1.control.waits, "the commit waits for the mover")
        mover("COMMIT")
        assert b1.control.result() == "16/0"  # its second statement has a younger snapshot than its lock
        assert stored() == "200"
        mover.close()

    with t.case("G4: a generation of the old coordinator after the move changes nothing"):
        b2.slot_epoch = int(sql(f"SELECT epoch FROM broker_internal.slots WHERE slot = {SLOT}"))
        assert b2.control(save(b2, 1, 0, ("m1", "m2"))) == "0/1"
        assert b1.control(save(b1, 1, 0, ("z",))) == "1/-1"
        assert sql("SELECT string_agg(member_id, ' ' ORDER BY position) FROM broker_internal.group_members") == "m1 m2"

    with t.case("G5: a member of an old generation changes nothing, however late it comes"):
        assert b2.control(commit(b2, 300, generation=1)) == "ok"
        assert b2.control(save(b2, 2, 1)) == "0/2"
        assert b2.control(commit(b2, 250, generation=1)) == "22/2"
        assert b2.control(commit(b2, 260, generation=0)) == "22/2"
        assert stored() == "300"

    with t.case("G6: a save whose answer was lost is repeated without harm"):
        moved = sql("SELECT partitions_moved FROM broker_internal.rebalances WHERE generation = 2")
        assert b2.control(save(b2, 2, 1)) == "0/2"
        assert sql("SELECT count(*) || ' ' || max(partitions_moved) FROM broker_internal.rebalances WHERE generation = 2") == f"1 {moved}"
        assert sql("SELECT count(*) FROM broker_internal.group_members") == "1"

    with t.case("G7: a generation given by an administrator fences commits and saves that do not know it"):
        sql("UPDATE broker_internal.groups SET generation = 3, fenced = true WHERE group_id = 'g'")
        assert b2.control(commit(b2, 310, generation=2)) == "22/3"
        assert b2.control(save(b2, 3, 2)) == "2/3"  # the same number, by chance
        assert b2.control(save(b2, 3, 3)) == "0/3"
        assert sql("SELECT fenced FROM broker_internal.groups") == "f"

    with t.case("G8: a process that was replaced (same broker id) writes nothing"):
        zombie = b2.epoch
        b2.register(process=77)
        assert b2.epoch > zombie
        assert b2.control.state(commit(b2, 400, generation=3, broker_epoch=zombie)) == "PB077"
        assert b2.control(commit(b2, 320, generation=3)) == "ok"
        assert stored() == "320"

    with t.case("G9: a fenced broker writes nothing"):
        sql("UPDATE broker_internal.brokers SET stopping = false")
        owner = Session()
        owner("SET search_path = pg_catalog, broker_internal, pg_temp")
        owner("SELECT fence_brokers('{1}', n.version, n.epoch_floor, n.incarnation, 'test') FROM next_version() n")
        owner.close()
        assert sql.state(commit(b1, 500, generation=3)) == "PB077"
        assert stored() == "320"

    with t.case("G10: a group that was deleted meanwhile: its members' commits are refused, its next generation is stored"):
        assert b2.control(save(b2, 4, 3, ())) == "0/4"
        assert b2.control(f"SELECT broker_internal.delete_group_1({b2.id}, {b2.epoch}, {SLOT}, {b2.slot_epoch}, 'g')") == "0"
        assert sql("SELECT count(*) FROM broker_internal.offsets") == "0"
        assert b2.control(commit(b2, 600, generation=4)) == "22/0"
        assert b2.control(save(b2, 5, 4)) == "0/5"
        assert b2.control(f"SELECT broker_internal.delete_group_1({b2.id}, {b2.epoch}, {SLOT}, {b2.slot_epoch}, 'g')") == "68"
        assert b2.control(f"SELECT broker_internal.delete_group_1({b2.id}, {b2.epoch}, {SLOT}, {b2.slot_epoch - 1}, 'g')") == "16"

    with t.case("A20: one key twice in a batch fails the batch and writes nothing of it (the queue sends a key once)"):
        two = (f"SELECT count(*) FROM broker_internal.commit_offsets_1({b2.id}, {b2.epoch}, '{{g}}', ARRAY[{SLOT}], '{{{b2.slot_epoch}}}', '{{5}}', "
               "'{1,1}', ARRAY[fx.topic_id('t')], '{1,1}', '{7,8}', '{-1,-1}', ARRAY[''::bytea, ''])")
        assert b2.control.state(two) == "23505"
        assert sql("SELECT count(*) FROM broker_internal.offsets") == "0"
        assert b2.control(commit(b2, 6, generation=5, partition=1)) == "ok"
        assert b2.control.state(two) == "21000"
        assert stored(1) == "6"
        sql("DELETE FROM broker_internal.offsets")

    with t.case("A20: an open transaction of a person on a topic or an operation holds no commit up"):
        person = Session()
        person("BEGIN")
        person("SELECT * FROM broker.alter_topic('t', '{\"retention.ms\": \"1 day\"}')")
        assert b2.control(commit(b2, 1, generation=5)) == "ok"
        person("ROLLBACK")
        person.close()

    with t.case("nothing is written for the same commit again within a minute, and a newer one is"):
        before = sql("SELECT xmin || ' ' || commit_no FROM broker_internal.offsets")
        assert b2.control(commit(b2, 1, generation=5)) == "ok"
        assert sql("SELECT xmin || ' ' || commit_no FROM broker_internal.offsets") == before
        assert b2.control(commit(b2, 2, generation=5)) == "ok"
        assert sql("SELECT xmin || ' ' || commit_no FROM broker_internal.offsets") != before
