"""Segments: what goes in comes out, by tenant; and what is not one is refused by name."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from icegate.errors import FormatTooNew, SegmentCorrupt
from icegate.tables import TABLES, TOPICS, segment_schema
from icegate.wal import Batch, Footer, Shard, decode, encode, read_footer, read_segment
from icegate.wal import segment as segments
from icegate.wal.segment import FOOTER_KEY, OWN_ROW_GROUP, ROW_GROUP_ROWS
from wal.fake import FakeStore
from wal.rows import EPOCH, rows, segment

tenants = st.sampled_from(["a", "B", "tenant-2", "tenant-10", "é", "\U0001f600", "\uffee", "z.z"])
batch_lists = st.lists(
    st.tuples(
        tenants,
        st.lists(st.tuples(st.integers(0, 2**50), st.sampled_from([None, "", "evt"])), max_size=5),
        st.none() | st.text(min_size=1, max_size=8),
    ),
    min_size=1,
    max_size=12,
).filter(lambda batches: any(records for _, records, _ in batches))


def index(footer: Footer) -> dict[str, Any]:
    return {each.tenant: each for each in footer.tenants}


def with_footer(change: dict[str, Any] | bytes) -> bytes:
    """A real segment whose footer has some fields replaced, or is replaced as a whole."""
    encoded = segment(("a", 2), ("b", 1))
    table = pq.read_table(pa.BufferReader(encoded.data))
    text = change if isinstance(change, bytes) else json.dumps(json.loads(encoded.footer.to_json()) | change).encode()
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, table.schema) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({FOOTER_KEY: text})
    return bytes(sink.getvalue())


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(batch_lists)
def test_rows_come_back_by_tenant_in_the_order_they_came(batches: list[Any]) -> None:
    records = [
        (tenant, time, {"event_name": event, "body": f"{b}.{r}"})
        for b, (tenant, each, _) in enumerate(batches)
        for r, (time, event) in enumerate(each)
    ]
    declared = [Batch(tenant, len(each), key) for tenant, each, key in batches]
    encoded = encode("logs", rows("logs", records), declared, attempt="att", writer="w", created=7)
    found = decode(encoded.data, "x")

    names = sorted({tenant for tenant, *_ in records}, key=str.encode)
    assert [each.tenant for each in found.footer.tenants] == names
    assert found.footer == encoded.footer
    assert (found.footer.attempt, found.footer.writer, found.footer.created) == ("att", "w", 7)
    assert (found.footer.topic, found.footer.rows) == ("logs", len(records))
    first = 0
    for each in found.footer.tenants:
        own = [record for record in records if record[0] == each.tenant]
        assert (each.first_row, each.rows) == (first, len(own))
        first += len(own)
        assert found.rows_of(each.tenant).column("body").to_pylist() == [other["body"] for *_, other in own]
        assert set(found.rows_of(each.tenant).column("tenant_id").to_pylist()) == {each.tenant}
        assert (each.min_timestamp, each.max_timestamp) == (min(r[1] for r in own), max(r[1] for r in own))
        events = sum(other["event_name"] is not None for *_, other in own)
        assert each.tables == {"logs": len(own) - events, "events": events}
        assert each.batches == tuple(b for b in declared if b.tenant == each.tenant and b.rows)
    assert found.rows_of("nobody").num_rows == 0
    assert segments.read_footer(encoded.data, "x") == encoded.footer


def _sample(kind: pa.DataType, seed: Random) -> Any:
    if pa.types.is_map(kind):
        return [("k", _sample(kind.item_type, seed)), ("l", None)]
    if pa.types.is_list(kind):
        return [_sample(kind.value_type, seed) for _ in range(seed.randrange(3))]
    if pa.types.is_struct(kind):
        return {field.name: _sample(field.type, seed) for field in kind}
    if pa.types.is_string(kind):
        return seed.choice(["", "text", "\u00e9\U0001f600"])
    if pa.types.is_boolean(kind):
        return seed.random() < 0.5
    return seed.random() if pa.types.is_floating(kind) else seed.randrange(2**31)


@pytest.mark.parametrize("topic", TOPICS)
def test_every_column_of_every_topic_survives(topic: str) -> None:
    seed = Random(topic)
    columns = segment_schema(topic)
    records = [
        {f.name: None if f.nullable and seed.random() < 0.3 else _sample(f.type, seed) for f in columns}
        | {"tenant_id": "only"}
        for _ in range(20)
    ]
    table = pa.Table.from_pylist(records, schema=columns)
    encoded = encode(topic, table, [Batch("only", 20)], attempt="a", writer="w", created=1)
    found = decode(encoded.data, "x")
    assert found.table.to_pylist() == table.to_pylist()
    assert found.table.schema.names == columns.names
    for got, wanted in zip(found.table.schema, columns, strict=True):
        assert got.type == wanted.type, wanted.name
    assert sum(each.tables[t.name] for each in found.footer.tenants for t in TABLES.values() if t.topic == topic) == 20


def test_a_big_tenant_has_row_groups_of_its_own_and_small_ones_share() -> None:
    big, huge = OWN_ROW_GROUP, ROW_GROUP_ROWS + 10
    encoded = segment(("a", 10), ("b", 20), ("c", big), ("d", 5), ("e", huge), ("f", 3))
    file = pq.ParquetFile(pa.BufferReader(encoded.data))
    groups = [file.metadata.row_group(n).num_rows for n in range(file.num_row_groups)]
    assert groups == [30, big, 5, ROW_GROUP_ROWS, 10, 3]
    assert decode(encoded.data, "x").rows_of("e").num_rows == huge


def test_a_shared_row_group_does_not_grow_without_end() -> None:
    encoded = segment(*((f"t{n:02d}", OWN_ROW_GROUP // 2) for n in range(5)))
    file = pq.ParquetFile(pa.BufferReader(encoded.data))
    groups = [file.metadata.row_group(n).num_rows for n in range(file.num_row_groups)]
    assert groups == [OWN_ROW_GROUP, OWN_ROW_GROUP, OWN_ROW_GROUP // 2]


def test_row_groups_can_be_skipped_by_tenant_and_time() -> None:
    encoded = segment(("a", OWN_ROW_GROUP), ("b", OWN_ROW_GROUP))
    file = pq.ParquetFile(pa.BufferReader(encoded.data))
    for number, tenant in enumerate("ab"):
        group = file.metadata.row_group(number)
        stats = {group.column(c).path_in_schema: group.column(c).statistics for c in range(group.num_columns)}
        assert (stats["tenant_id"].min, stats["tenant_id"].max) == (tenant, tenant)
        assert stats["timestamp"].has_min_max


@pytest.mark.parametrize(("count", "batches"), [(3, [Batch("a", 2)]), (3, [Batch("a", 4)]), (0, []), (1, [])])
def test_batches_that_do_not_add_up_are_refused(count: int, batches: list[Batch]) -> None:
    table = rows("logs", (("a", EPOCH, {}) for _ in range(count)))
    with pytest.raises(ValueError, match="rows"):
        encode("logs", table, batches, attempt="a", writer="w", created=1)


def test_a_footer_larger_than_the_first_read_is_read_whole() -> None:
    encoded = segment(*((f"tenant-{n:05d}", 1) for n in range(3_000)))
    assert len(encoded.footer.to_json()) > 2 * 64 * 1024
    store = FakeStore()
    key = Shard("logs", 0).segment(5)
    store.objects[key.path] = encoded.data
    assert read_footer(store, key) == encoded.footer
    assert len(store.calls) == 2
    assert read_segment(store, key).rows_of("tenant-02999").num_rows == 1


def test_a_small_footer_costs_one_read() -> None:
    store = FakeStore()
    key = Shard("logs", 0).segment(5)
    store.objects[key.path] = segment(("a", 1)).data
    read_footer(store, key)
    assert len(store.calls) == 1


def test_the_keys_that_senders_declare_are_kept() -> None:
    encoded = segment(("a", 1), ("b", 1), ("a", 2), keys=["k1", None, "k2"])
    found = index(decode(encoded.data, "x").footer)
    assert found["a"].batches == (Batch("a", 1, "k1"), Batch("a", 2, "k2"))
    assert found["b"].batches == (Batch("b", 1, None),)


def test_a_newer_format_is_refused_by_name_and_says_what_to_do() -> None:
    data = with_footer({"format": segments.FORMAT + 1, "tenants": "whatever"})
    for read in (decode, segments.read_footer):
        with pytest.raises(FormatTooNew, match=r"logs/0@7 has format 2.*upgrade"):
            read(data, "logs/0@7")


def test_unknown_optional_fields_are_ignored() -> None:
    known = json.loads(segment(("a", 2), ("b", 1)).footer.to_json())
    for tenant in known["tenants"]:
        tenant["stream"] = "s"
        tenant["batches"] = [each | {"epoch": 3, "sequence": 9} for each in tenant["batches"]]
    data = with_footer({"tenants": known["tenants"], "something": {"new": [1]}})
    assert [each.tenant for each in decode(data, "x").footer.tenants] == ["a", "b"]


@pytest.mark.parametrize(
    "text",
    [b"", b"null", b"[]", b"{}", b"{", b"\xff", b'"x"', b'{"format":"1"}', b'{"format":1}', b"[" * 100_000,
     b'{"format":1,"topic":"logs","attempt":"a","writer":"w","created":1,"rows":3,"tenants":[1]}'],
    ids=range(11),
)  # fmt: skip
def test_a_footer_that_is_none_is_corrupt(text: bytes) -> None:
    data = with_footer(text)
    for read in (decode, segments.read_footer):
        with pytest.raises(SegmentCorrupt, match="logs/0@7"):
            read(data, "logs/0@7")


def test_a_parquet_file_without_our_footer_is_corrupt() -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"n": [1]}), sink)
    for read in (decode, segments.read_footer):
        with pytest.raises(SegmentCorrupt, match="logs/0@7"):
            read(bytes(sink.getvalue()), "logs/0@7")


def test_a_file_with_other_rows_than_its_footer_says_is_corrupt() -> None:
    with pytest.raises(SegmentCorrupt, match="holds 3 rows, its footer says 4"):
        decode(with_footer({"rows": 4}), "logs/0@7")


def test_an_object_shorter_than_its_footer_says_is_corrupt() -> None:
    store = FakeStore()
    key = Shard("logs", 3).segment(7)
    store.objects[key.path] = b"PAR1" + (2**31).to_bytes(4, "little") + b"PAR1"
    with pytest.raises(SegmentCorrupt, match="logs/3@7"):
        read_footer(store, key)


def test_damaged_bytes_raise_nothing_but_corrupt() -> None:
    whole = segment(("a", 40), ("b", 3)).data
    seed = Random(7)
    damaged = [whole[:n] for n in (0, 1, 7, 8, 11, 12, len(whole) // 2, len(whole) - 1)]
    damaged += [seed.randbytes(n) for n in (1, 8, 100, 5_000)]
    damaged += [b"PAR1" + seed.randbytes(n) + b"PAR1" for n in (4, 8, 100, 5_000)]
    tail = len(whole) - int.from_bytes(whole[-8:-4], "little") - 8
    for _ in range(1_500):
        mutable = bytearray(whole)
        for _ in range(seed.choice([1, 1, 1, 3, 20])):
            mutable[seed.randrange(tail if seed.random() < 0.8 else 0, len(whole))] = seed.randrange(256)
        damaged.append(bytes(mutable))
    refused = 0
    for data in damaged:
        for read in (decode, segments.read_footer):
            try:
                read(data, "logs/0@7")
            except (SegmentCorrupt, FormatTooNew) as error:
                refused += 1
                assert "logs/0@7" in str(error)  # noqa: PT017 - one of many, most of which raise
    assert refused > 500


def test_a_damaged_page_is_found_out_even_if_it_still_decodes() -> None:
    seed = Random(5)
    table = rows("logs", (("t", EPOCH, {"time_unix_nano": seed.randrange(2**62)}) for _ in range(300)))
    data = encode("logs", table, [Batch("t", 300)], attempt="a", writer="w", created=1).data
    column = pq.read_metadata(pa.BufferReader(data)).row_group(0).column(table.column_names.index("time_unix_nano"))
    end = column.data_page_offset + column.total_compressed_size
    for position in range(end - 300 * 8, end, 100):  # values that do not compress: the page's last bytes
        damaged = bytearray(data)
        damaged[position] ^= 0x40
        with pytest.raises(SegmentCorrupt, match="logs/0@7"):
            decode(bytes(damaged), "logs/0@7")
