#!/usr/bin/env python3
"""Tests the Chakra execution traces of moe-sim: reads them by the numbers of the public schema, as ASTRA-sim's readers do, checks that
they fit together and to the simulator's own report, and replays them.

Usage: chakra.py --bin=BIN
"""
import argparse
import collections
import heapq
import json
import os
import subprocess
import sys
import tempfile
import unittest

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

BIN = ""

# Name, number and type of the fields in github.com/mlcommons/chakra, schema/protobuf/et_def.proto. The test does not use moe-sim's own
# schema on purpose.
SCHEMA = {
    "AttributeProto": [("name", 1, "string"), ("doc_string", 2, "string"), ("double_val", 3, "double"), ("float_val", 5, "float"),
                       ("int32_val", 7, "int32"), ("int64_val", 9, "int64"), ("uint32_val", 11, "uint32"), ("uint64_val", 13, "uint64"),
                       ("bool_val", 27, "bool"), ("string_val", 29, "string")],
    "GlobalMetadata": [("version", 1, "string"), ("attr", 2, "AttributeProto*")],
    "Node": [("id", 1, "uint64"), ("name", 2, "string"), ("type", 3, "int32"), ("ctrl_deps", 4, "uint64*"), ("data_deps", 5, "uint64*"),
             ("start_time_micros", 6, "uint64"), ("duration_micros", 7, "uint64"), ("attr", 10, "AttributeProto*")],
}
LOAD, STORE, COMP, SEND, RECV, COLL = 2, 3, 4, 5, 6, 7
ALL_REDUCE, REDUCE, ALL_GATHER, BROADCAST, ALL_TO_ALL, REDUCE_SCATTER = 0, 1, 2, 5, 6, 7
# The field from which the older reader (mlcommons/chakra, src/feeder/et_feeder_node.cpp) takes each attribute.
READ_AS = {"is_cpu_op": "bool_val", "num_ops": "int64_val", "tensor_size": "uint64_val", "comm_type": "int64_val", "comm_priority": "int32_val",
           "comm_size": "int64_val", "comm_src": "int32_val", "comm_dst": "int32_val", "comm_tag": "int32_val", "pg_name": "string_val"}
# Attributes that the newer reader (astra-sim/workload/Workload.cc) requires.
NEEDED = {COMP: {"is_cpu_op", "num_ops", "tensor_size"}, LOAD: {"is_cpu_op", "tensor_size"}, STORE: {"is_cpu_op", "tensor_size"},
          COLL: {"is_cpu_op", "comm_type", "comm_size", "pg_name", "comm_priority"}, SEND: {"is_cpu_op", "comm_size", "comm_src", "comm_dst", "comm_tag"},
          RECV: {"is_cpu_op", "comm_size", "comm_src", "comm_dst", "comm_tag"}}


def make_messages():
    file = descriptor_pb2.FileDescriptorProto(name="public.proto", package="public", syntax="proto3")
    for name, fields in SCHEMA.items():
        message = file.message_type.add(name=name)
        if name == "AttributeProto":
            message.oneof_decl.add(name="value")
        for field, number, kind in fields:
            added = message.field.add(name=field, number=number, label=3 if kind.endswith("*") else 1)
            kind = kind.rstrip("*")
            if kind in SCHEMA:
                added.type, added.type_name = 11, f".public.{kind}"
            else:
                added.type = descriptor_pb2.FieldDescriptorProto.Type.Value(f"TYPE_{kind.upper()}")
            if field.endswith("_val"):
                added.oneof_index = 0
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    make = getattr(message_factory, "GetMessageClass", None) or message_factory.MessageFactory(pool).GetPrototype
    return {name: make(pool.FindMessageTypeByName(f"public.{name}")) for name in SCHEMA}


MESSAGES = make_messages()


def read_varint(data, place):
    value = shift = 0
    while True:
        byte = data[place]
        value |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if not byte & 0x80:
            return value, place


class Node:
    def __init__(self, rank, message):
        self.rank, self.id, self.name, self.type = rank, message.id, message.name, message.type
        self.deps, self.ctrl_deps = list(message.data_deps), list(message.ctrl_deps)
        self.start, self.duration = message.start_time_micros, message.duration_micros
        self.fields = {attr.name: attr.WhichOneof("value") for attr in message.attr}
        self.attrs = {attr.name: getattr(attr, attr.WhichOneof("value")) for attr in message.attr}

    def __getattr__(self, name):
        return self.attrs[name]


def has_unknown(message):
    """Whether the message has a field outside of the schema. Python keeps such fields, so they are written again."""
    copy = type(message)()
    copy.CopyFrom(message)
    copy.DiscardUnknownFields()
    return copy.ByteSize() != message.ByteSize()


def read_trace(path, rank):
    with open(path, "rb") as file:
        data = file.read()
    place, nodes, metadata = 0, [], None
    while place < len(data):
        length, place = read_varint(data, place)
        message = MESSAGES["Node" if metadata else "GlobalMetadata"].FromString(data[place:place + length])
        assert place + length <= len(data) and not has_unknown(message)
        place += length
        if metadata:
            nodes.append(Node(rank, message))
        else:
            metadata = message
    return metadata, nodes


class Traces:
    """All files of a folder. `ranks[r]` has the nodes of rank r."""

    def __init__(self, folder, ranks):
        self.ranks = [read_trace(os.path.join(folder, f"moeplan.{rank}.et"), rank)[1] for rank in range(ranks)]
        with open(os.path.join(folder, "moeplan.groups.json")) as file:
            self.groups = json.load(file)

    def nodes(self, *types):
        return [node for nodes in self.ranks for node in nodes if not types or node.type in types]

    def meetings(self):
        """Nodes that are ends of one exchange, by its key."""
        met = collections.defaultdict(list)
        for nodes in self.ranks:
            number = collections.Counter()
            for node in nodes:
                if node.type == COLL:
                    number[node.pg_name] += 1
                    met[node.pg_name, number[node.pg_name]].append(node)
                elif node.type in (SEND, RECV):
                    met[node.comm_src, node.comm_dst, node.comm_tag].append(node)
        return met


def replay_together(traces):
    """Begin of each node in microseconds, by rank and id. A node begins when its dependences and the nodes that it meets have."""
    meeting_of, missing, ready, after = {}, {}, {}, collections.defaultdict(list)
    for nodes in traces.meetings().values():
        for node in nodes:
            meeting_of[node.rank, node.id] = nodes
    work = []
    for node in traces.nodes():
        key = node.rank, node.id
        missing[key], ready[key] = len(set(node.deps)), 0
        for dep in set(node.deps):
            after[node.rank, dep].append(node)
        if not node.deps:
            work.append(node)
    starts = {}
    while work:
        node = work.pop()
        together = meeting_of.get((node.rank, node.id), [node])
        if any(missing[other.rank, other.id] for other in together):
            continue
        start = max(ready[other.rank, other.id] for other in together)
        for other in together:
            if (other.rank, other.id) in starts:
                continue
            starts[other.rank, other.id] = start
            for later in after[other.rank, other.id]:
                key = later.rank, later.id
                missing[key] -= 1
                ready[key] = max(ready[key], start + other.duration)
                if missing[key] == 0:
                    work.append(later)
    return starts


def replay_alone(nodes):
    """Nanoseconds of ASTRA-sim's replay of a rank (Workload::issue_replay). It does not wait for other ranks, and a node without time
    takes 1 ns. One node of the host, one computation and one exchange run at once, with any number of receives."""
    unit = lambda node: None if node.type == RECV else "cpu" if node.is_cpu_op else "comp" if node.type == COMP else "comm"
    by_id = {node.id: node for node in nodes}
    missing = {node.id: len(set(node.deps)) for node in nodes}
    after = collections.defaultdict(list)
    for node in nodes:
        for dep in set(node.deps):
            after[dep].append(node.id)
    now, busy, running = 0, set(), []
    free = sorted(node.id for node in nodes if not node.deps)
    while free or running:
        waiting = []
        for node_id in sorted(free):
            node = by_id[node_id]
            if unit(node) in busy:
                waiting.append(node_id)
                continue
            busy.add(unit(node))
            busy.discard(None)
            heapq.heappush(running, (now + max(1, 1000 * node.duration), node_id))
        free = waiting
        now, node_id = heapq.heappop(running)
        busy.discard(unit(by_id[node_id]))
        for later in after[node_id]:
            missing[later] -= 1
            if missing[later] == 0:
                free.append(later)
    return now


def each_case(*names):
    """Tests each of the named cases, or all."""
    def wrap(test):
        def run(self):
            for name in names or self.CASES:
                with self.subTest(name):
                    test(self, self.traces[name], self.reports[name])
        run.__doc__ = test.__doc__
        return run
    return wrap


class ChakraTest(unittest.TestCase):
    CASES = {
        "data": ["switch-base-8", "--layers=2", "--parallel=dp=4,ep=4", "--cluster=hgx-h100"],
        "tensor": ["mixtral-8x7b", "--layers=2", "--seq=512", "--parallel=dp=4,mp=2,ep=4,esp=2", "--schedule=s1", "--cluster=hgx-h100"],
        "chunks": ["mixtral-8x7b", "--layers=2", "--seq=512", "--parallel=dp=8,ep=8", "--schedule=baseline+chunks:2", "--cluster=hgx-h100"],
        # A loop, and programs that differ by stage.
        "pipeline": ["gpt2-moe", "--whole-model", "--layers=4", "--seq=256", "--parallel=pp=2,dp=2,ep=2", "--micro-batches=12",
                     "--optimizer=adam", "--cluster=hgx-h100"],
        "uneven": ["switch-base-8", "--layers=2", "--dropless", "--parallel=dp=4,ep=4", "--cluster=hgx-h100", "--synthetic-routing=preset=unbalanced,first=50"],
        # Exchanges in phases. In each, a member sends to some of the others.
        "phases": ["switch-base-8", "--layers=1", "--dropless", "--parallel=dp=8,ep=8", "--schedule=baseline+smart:2,ring", "--cluster=fastermoe-trevor"],
        # Broadcasts of experts and sums of their gradients.
        "shadows": ["switch-base-8", "--layers=1", "--dropless", "--parallel=dp=8,ep=8", "--schedule=baseline+shadow:2,prefix", "--cluster=fastermoe-trevor"],
        # Values that wait in the memory of the host.
        "copies": ["switch-base-8", "--layers=1", "--parallel=dp=4,ep=4", "--schedule=baseline+chunks:2+mpipe-s1", "--cluster=mpipemoe-a100"],
        "processors": ["switch-base-8", "--layers=1", "--seq=16", "--parallel=dp=2,ep=2"],
    }

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.reports, cls.traces, cls.errors = {}, {}, {}
        for name, arguments in cls.CASES.items():
            folder = os.path.join(cls.folder.name, name)
            made = subprocess.run([os.path.join(BIN, "moe-sim"), *arguments, f"--chakra={folder}", f"--trace={folder}.trace", "--json"],
                                  capture_output=True, text=True)
            assert made.returncode == 0, made.stderr
            cls.reports[name], cls.errors[name] = json.loads(made.stdout), made.stderr
            with open(f"{folder}.trace") as file:
                cls.reports[name]["timeline"] = json.load(file)["traceEvents"]
            cls.traces[name] = Traces(folder, cls.reports[name]["num_ranks"])

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @each_case()
    def test_attributes_are_what_the_readers_ask_for(self, traces, report):
        for node in traces.nodes():
            self.assertEqual(node.fields, {name: READ_AS[name] for name in node.fields}, node.name)
            if node.is_cpu_op:
                self.assertEqual((node.type, node.name), (COMP, "host"))
            else:
                self.assertEqual(set(node.attrs), NEEDED[node.type], node.name)

    @each_case()
    def test_dependencies_are_earlier_nodes(self, traces, report):
        """There is then no cycle in the graph of a rank, and the older reader's window of nodes holds a node's dependences."""
        for nodes in traces.ranks:
            self.assertEqual([node.id for node in nodes], list(range(len(nodes))))
            for node in nodes:
                self.assertEqual(node.ctrl_deps, [])
                self.assertTrue(all(dep < node.id for dep in node.deps), node.name)
                self.assertEqual(len(set(node.deps)), len(node.deps), node.name)

    @each_case()
    def test_collectives_have_all_members(self, traces, report):
        self.assertEqual(len({tuple(ranks) for ranks in traces.groups.values()} | {()}) > 1, bool(traces.nodes(COLL)))
        for group, ranks in traces.groups.items():
            self.assertGreater(int(group), 0)
            self.assertGreater(len(ranks), 1)
            of_rank = {rank: [(node.name, node.comm_type, node.comm_size, node.duration) for node in traces.ranks[rank]
                              if node.type == COLL and node.pg_name == group] for rank in range(len(traces.ranks))}
            for rank, its in of_rank.items():
                self.assertEqual(its, of_rank[ranks[0]] if rank in ranks else [], f"rank {rank}")
            self.assertTrue(of_rank[ranks[0]], group)
        self.assertLessEqual({node.pg_name for node in traces.nodes(COLL)}, set(traces.groups))

    @each_case()
    def test_sends_have_receives(self, traces, report):
        ends = collections.defaultdict(list)
        for node in traces.nodes(SEND, RECV):
            self.assertEqual(node.rank, node.comm_src if node.type == SEND else node.comm_dst)
            self.assertNotEqual(node.comm_src, node.comm_dst)
            ends[node.comm_src, node.comm_dst, node.comm_tag].append(node)
        for nodes in ends.values():
            self.assertEqual(sorted(node.type for node in nodes), [SEND, RECV])
            self.assertEqual(nodes[0].comm_size, nodes[1].comm_size)
    @each_case()
    def test_all_together_never_stop(self, traces, report):
        """The nodes of all ranks together have no cycle either."""
        self.assertEqual(len(replay_together(traces)), len(traces.nodes()))

    @each_case()
    def test_work_is_that_of_the_report(self, traces, report):
        ranks = report["num_ranks"]
        launches, flops, micros, bytes_moved = (collections.Counter() for _ in range(4))
        for nodes in traces.ranks:
            last = None
            for node in nodes:
                if node.type in (SEND, RECV) and (node.name, node.start, node.duration, node.deps) == last:
                    continue  # An exchange in phases has several nodes.
                last = node.name, node.start, node.duration, node.deps
                kernel = max((its["kernel"] for its in report["kernels"] if f"{node.name} ".startswith(its["kernel"] + " ")), key=len, default="")
                launches[kernel] += 1
                micros[kernel] += node.duration
                if node.type == COMP and not node.is_cpu_op:
                    flops[kernel] += node.num_ops
                    bytes_moved[kernel] += node.tensor_size
        for its in report["kernels"]:
            count = round(its["launches"] * ranks)
            self.assertEqual(launches[its["kernel"]], count, its["kernel"])
            self.assertAlmostEqual(micros[its["kernel"]], its["busy_s"] * ranks * 1e6, delta=count, msg=its["kernel"])
            if its["resource"] in ("matrix", "memory"):
                self.assertAlmostEqual(flops[its["kernel"]], max(its["flops"] * ranks, count), delta=count + 1e-9 * its["flops"] * ranks)
                self.assertAlmostEqual(bytes_moved[its["kernel"]], its["bytes"] * ranks, delta=count + 1e-9 * its["bytes"] * ranks)
        self.assertGreater(sum(flops.values()), 0)

    @each_case()
    def test_operations_are_the_plans(self, traces, report):
        """FLOPs of each launch are those of --trace. A launch that only moves bytes has one operation."""
        written = sum(node.attrs.get("num_ops", 0) for node in traces.nodes(COMP))
        counts = {rank["rank"]: rank["count"] for rank in report["ranks"]}
        copies = {its["kernel"] for its in report["kernels"] if its["resource"] == "host_link"}
        flops = empty = 0
        for event in report["timeline"]:
            if event["ph"] == "X" and event["cat"] == "compute" and event["name"] not in copies:
                flops += counts[event["pid"]] * round(event["args"]["flops"])
                empty += counts[event["pid"]] * (event["args"]["flops"] < 0.5 and event["args"]["bytes"] > 0)
        self.assertEqual(written, flops + empty)
        of_report = sum(its["flops"] for its in report["kernels"] if its["resource"] != "network") * report["num_ranks"]
        self.assertAlmostEqual(flops / of_report, 1, delta=1e-9)

    def test_sizes_are_what_a_member_brings(self):
        """Sizes computed by hand: f32, 512 tokens for the two ranks of mp, two choices of a token, which both ranks of esp compute, and
        a gate of 8 experts."""
        sizes = collections.defaultdict(set)
        for node in self.traces["tensor"].nodes(COLL):
            sizes[node.comm_type].add(node.comm_size)
        row = 4096 * 4
        # These are rows, and the counts of 8 experts, from which the number of further passes follows.
        self.assertEqual(sizes[ALL_GATHER], {256 * row, 8 * 4})
        self.assertIn(256 * 2 * 2 * row, sizes[ALL_TO_ALL])
        self.assertIn(8 * row, sizes[ALL_REDUCE])

    def test_uneven_exchanges_have_the_size_of_the_largest_member(self):
        traces = self.traces["uneven"]
        sent = collections.defaultdict(list)  # by launch: bytes to other members
        for event in self.reports["uneven"]["timeline"]:
            if event["ph"] == "X" and event["name"].startswith("all_to_all_v"):
                sent[event["args"]["op"]].append(event["args"]["bytes"])
        launches = [node for node in traces.ranks[0] if not node.is_cpu_op]
        differ = 0
        for launch, its in sent.items():
            self.assertEqual((launches[launch].comm_type, len(its)), (ALL_TO_ALL, 4))
            self.assertGreaterEqual(launches[launch].comm_size, max(its))
            self.assertLess(launches[launch].comm_size, 2 * max(its))
            differ += launches[launch].comm_size > 4 * its[0]
        self.assertGreater(differ, 0)

    def test_replay_begins_each_node_when_the_simulator_does(self):
        for name in self.CASES:
            with self.subTest(name):
                traces, starts = self.traces[name], replay_together(self.traces[name])
                for node in traces.nodes():
                    self.assertAlmostEqual(starts[node.rank, node.id], node.start, delta=2, msg=f"rank {node.rank}: {node.id} {node.name}")
                end = max(starts[node.rank, node.id] + node.duration for node in traces.nodes())
                self.assertAlmostEqual(end, self.reports[name]["step_s"] * 1e6, delta=2)

    def test_replay_of_a_rank_alone(self):
        """If ranks run alike, ASTRA-sim's replay takes the simulator's step and 1 ns for each node without time."""
        for name in ("data", "tensor"):
            with self.subTest(name):
                for nodes in self.traces[name].ranks:
                    empty = sum(node.duration == 0 for node in nodes)
                    self.assertAlmostEqual(replay_alone(nodes) / 1000, self.reports[name]["step_s"] * 1e6, delta=2 + empty / 1000)
        pipeline = self.traces["pipeline"]
        step = self.reports["pipeline"]["step_s"] * 1e9
        self.assertLessEqual(max(map(replay_alone, pipeline.ranks)), step * 1.001)

    def test_copies_go_to_the_host_and_back(self):
        traces, report = self.traces["copies"], self.reports["copies"]
        stored = [sum(node.tensor_size for node in nodes if node.type == STORE) for nodes in traces.ranks]
        loaded = [sum(node.tensor_size for node in nodes if node.type == LOAD) for nodes in traces.ranks]
        self.assertEqual(stored, loaded)
        copied = sum(its["bytes"] for its in report["kernels"] if its["resource"] == "host_link") / 2
        self.assertEqual(set(map(sum, zip(stored, loaded))), {copied})

    def test_pipelines_and_phases_send(self):
        self.assertTrue(self.traces["pipeline"].nodes(SEND))
        self.assertTrue(self.traces["phases"].nodes(SEND))

    def test_warnings(self):
        self.assertRegex(self.errors["shadows"], "--chakra: ASTRA-sim has no REDUCE")
        self.assertRegex(self.errors["copies"], "--chakra: copies to and from the host")
        self.assertEqual(self.errors["data"], "")


class LimitsTest(unittest.TestCase):
    def run_sim(self, *arguments):
        return subprocess.run([os.path.join(BIN, "moe-sim"), *arguments], capture_output=True, text=True)

    def test_a_folder_that_cannot_be_written(self):
        with tempfile.NamedTemporaryFile() as file:
            made = self.run_sim("switch-base-8", "--layers=1", "--seq=16", "--parallel=dp=1", f"--chakra={file.name}/traces")
        self.assertNotEqual(made.returncode, 0)
        self.assertIn("cannot write", made.stderr)

    def test_more_than_a_disk_should_hold(self):
        with tempfile.TemporaryDirectory() as folder:
            made = self.run_sim("gpt2-moe", "--whole-model", "--layers=2", "--seq=64", "--parallel=dp=4096,ep=8", "--micro-batches=512",
                                "--cluster=hgx-h100", f"--chakra={folder}")
            self.assertNotEqual(made.returncode, 0)
            self.assertRegex(made.stderr, r"at most 16 GiB of --chakra but got \d+ GiB for 4096 ranks; take fewer ranks")
            self.assertEqual(os.listdir(folder), [])

    def test_one_rank(self):
        """One rank has no exchange, and no communicator."""
        with tempfile.TemporaryDirectory() as folder:
            made = self.run_sim("switch-base-8", "--layers=1", "--seq=16", "--parallel=dp=1", "--cluster=hgx-h100", f"--chakra={folder}")
            self.assertEqual((made.returncode, made.stderr), (0, ""))
            traces = Traces(folder, 1)
        self.assertEqual((traces.groups, traces.nodes(COLL, SEND, RECV)), ({}, []))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    options, rest = parser.parse_known_args()
    BIN = os.path.abspath(options.bin)
    unittest.main(argv=[sys.argv[0], *rest])
