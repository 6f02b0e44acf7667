#!/usr/bin/env python3
"""Tests the Chakra execution traces of moe-sim: reads them by the numbers of the public schema, as ASTRA-sim's readers do, checks that
they fit together and to the simulator's own report, and replays them.

Usage: chakra.py --bin=BIN
"""
import argparse
import collections
import heapq
import json
import math
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
ALL_REDUCE, ALL_GATHER, ALL_TO_ALL = 0, 2, 6
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


def replay(nodes):
    """Begins and ends of a rank's nodes in ASTRA-sim's replay (Workload::issue_replay), in nanoseconds by id. It does not wait for other
    ranks, and a node without time takes 1 ns. One node of the host, one computation and one exchange run at once, with any number of
    receives."""
    unit = lambda node: None if node.type == RECV else "cpu" if node.is_cpu_op else "comp" if node.type == COMP else "comm"
    by_id = {node.id: node for node in nodes}
    missing = {node.id: len(set(node.deps)) for node in nodes}
    after = collections.defaultdict(list)
    for node in nodes:
        for dep in set(node.deps):
            after[dep].append(node.id)
    now, busy, running, times = 0, set(), [], {}
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
            times[node_id] = now, now + max(1, 1000 * node.duration)
            heapq.heappush(running, (times[node_id][1], node_id))
        free = waiting
        now, node_id = heapq.heappop(running)
        busy.discard(unit(by_id[node_id]))
        for later in after[node_id]:
            missing[later] -= 1
            if missing[later] == 0:
                free.append(later)
    return times


def run_together(traces):
    """Number of nodes that end if ranks wait for each other: a receive for its send, and a collective for all members. A rank has one send
    or collective under way, the one with the lowest id."""
    after, missing, ended, sent, came = collections.defaultdict(list), {}, set(), set(), collections.Counter()
    for node in traces.nodes():
        missing[node.rank, node.id] = len(set(node.deps))
        for dep in set(node.deps):
            after[node.rank, dep].append(node)
    key = {}
    for its, nodes in traces.meetings().items():
        for node in nodes:
            key[node.rank, node.id] = its, len(nodes)
    free = [sorted((node for node in nodes if not node.deps), key=lambda it: it.id) for nodes in traces.ranks]
    arrived = [None] * len(free)  # the collective that a rank waits in
    moved = True
    while moved:
        moved = False
        for rank, nodes in enumerate(free):
            for node in list(nodes):
                its, members = key.get((rank, node.id), (None, 0))
                if node.type == COLL:
                    if arrived[rank] is None:
                        arrived[rank], moved = node, True
                        came[its] += 1
                    done = arrived[rank] is node and came[its] == members
                elif node.type == SEND:
                    done = arrived[rank] is None
                    sent |= {its} if done else set()
                else:
                    done = node.type != RECV or its in sent
                if not done:
                    continue
                moved = True
                ended.add((rank, node.id))
                nodes.remove(node)
                arrived[rank] = None if arrived[rank] is node else arrived[rank]
                for later in after[rank, node.id]:
                    missing[rank, later.id] -= 1
                    if missing[rank, later.id] == 0:
                        nodes.append(later)
            nodes.sort(key=lambda it: it.id)
    return len(ended)


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
        # Stages that wait for each other, exchanges that overlap, and members that differ.
        "windows": ["gpt2-moe", "--whole-model", "--layers=4", "--seq=256", "--parallel=pp=2,dp=2,ep=2", "--micro-batches=6", "--pipeline=1f1b-overlap",
                    "--dropless", "--optimizer=adam", "--cluster=hgx-h100", "--synthetic-routing=preset=unbalanced,first=500"],
        "v": ["gpt2-moe", "--whole-model", "--layers=4", "--seq=256", "--parallel=pp=2,dp=2,ep=2", "--micro-batches=6", "--pipeline=zb-v",
              "--interleave=2", "--optimizer=adam", "--cluster=hgx-h100"],
        # Broadcasts of experts and sums of their gradients.
        "shadows": ["switch-base-8", "--layers=1", "--dropless", "--parallel=dp=8,ep=8", "--schedule=baseline+shadow:2,prefix", "--cluster=fastermoe-trevor",
                    "--synthetic-routing=preset=unbalanced,first=500"],
        # Values that wait in the memory of the host.
        "copies": ["switch-base-8", "--layers=1", "--parallel=dp=4,ep=4", "--schedule=baseline+chunks:2+mpipe-s1", "--cluster=mpipemoe-a100"],
        "processors": ["switch-base-8", "--layers=1", "--seq=16", "--parallel=dp=2,ep=2"],
    }

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.reports, cls.traces, cls.errors, cls.folders = {}, {}, {}, {}
        for name, arguments in cls.CASES.items():
            folder = os.path.join(cls.folder.name, name)
            made = subprocess.run([os.path.join(BIN, "moe-sim"), *arguments, f"--chakra={folder}", f"--trace={folder}.trace", "--json"],
                                  capture_output=True, text=True)
            assert made.returncode == 0, made.stderr
            cls.reports[name], cls.errors[name] = json.loads(made.stdout), made.stderr
            with open(f"{folder}.trace") as file:
                cls.reports[name]["timeline"] = json.load(file)["traceEvents"]
            cls.reports[name]["plan_case"], cls.folders[name] = name, folder
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
            of_rank = {rank: [(node.name, node.comm_type, node.comm_size, node.start + node.duration) for node in traces.ranks[rank]
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
    def test_a_rank_ends_with_a_marker(self, traces, report):
        for nodes in traces.ranks:
            later = {dep for node in nodes for dep in node.deps}
            self.assertEqual([node.name for node in nodes if node.id not in later], ["end"])

    @each_case()
    def test_all_together_never_stop(self, traces, report):
        self.assertEqual(run_together(traces), len(traces.nodes()))

    @each_case()
    def test_work_is_that_of_the_report(self, traces, report):
        ranks = report["num_ranks"]
        launches, flops, micros, bytes_moved = (collections.Counter() for _ in range(4))
        sends = {node.name for node in traces.nodes(SEND, RECV)}  # A launch has one or many of them.
        for node in traces.nodes():
            kernel = max((its["kernel"] for its in report["kernels"] if f"{node.name} ".startswith(its["kernel"] + " ")), key=len, default="")
            launches[kernel] += node.name not in sends
            micros[kernel] += node.duration
            if node.type == COMP and not node.is_cpu_op:
                flops[kernel] += node.num_ops
                bytes_moved[kernel] += node.tensor_size
        for its in report["kernels"]:
            count = round(its["launches"] * ranks)
            if not any(f"{name} ".startswith(its["kernel"] + " ") for name in sends):
                self.assertEqual(launches[its["kernel"]], count, its["kernel"])
            if its["resource"] in ("matrix", "memory"):
                self.assertAlmostEqual(micros[its["kernel"]], its["busy_s"] * ranks * 1e6, delta=count, msg=its["kernel"])
            if its["resource"] in ("matrix", "memory"):
                self.assertAlmostEqual(flops[its["kernel"]], max(its["flops"] * ranks, count), delta=count + 1e-9 * its["flops"] * ranks)
                self.assertAlmostEqual(bytes_moved[its["kernel"]], its["bytes"] * ranks, delta=count + 1e-9 * its["bytes"] * ranks)
        self.assertGreater(sum(flops.values()), 0)

    @each_case()
    def test_operations_are_the_plans(self, traces, report):
        """FLOPs of each launch are those of --trace. A launch that only moves bytes has one operation. Markers have one byte."""
        written = sum(node.num_ops for node in traces.nodes(COMP) if not node.is_cpu_op and node.tensor_size > 1)
        self.assertTrue(all(node.num_ops >= 1 and node.tensor_size >= 1 for node in traces.nodes(COMP) if not node.is_cpu_op))
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

    @each_case("pipeline", "uneven", "phases", "shadows", "windows")
    def test_sends_have_the_bytes_of_the_exchange(self, traces, report):
        sent, expected = collections.Counter(), collections.Counter()
        for node in traces.nodes(SEND):
            sent[node.name.split(" ")[0]] += node.comm_size
        counts = {rank["rank"]: rank["count"] for rank in report["ranks"]}
        for event in report["timeline"]:
            if event["ph"] == "X" and (kernel := event["name"].split(" ")[0]) in sent:
                expected[kernel] += counts[event["pid"]] * event["args"].get("bytes", 0)
        self.assertTrue(sent)
        for kernel, its in sent.items():
            self.assertAlmostEqual(its / expected[kernel], 1, delta=1e-3, msg=kernel)

    def test_members_send_different_bytes_to_each_other(self):
        of_pair = collections.defaultdict(set)
        for node in self.traces["uneven"].nodes(SEND):
            of_pair[node.comm_src].add(node.comm_size)
        self.assertEqual(len(of_pair), 4)
        self.assertTrue(all(len(sizes) > 2 for sizes in of_pair.values()))
        self.assertFalse([node for node in self.traces["uneven"].nodes(COLL) if node.comm_type == ALL_TO_ALL and node.name.startswith("all_to_all_v")])

    def test_shadows_pass_from_member_to_member_in_parts(self):
        """The root of a broadcast sends 16 parts to its neighbour, and no other member receives from it."""
        nodes = [node for node in self.traces["shadows"].nodes(SEND) if node.name.startswith("broadcast")]
        peers = collections.defaultdict(set)
        for node in nodes:
            peers[node.name, node.comm_src].add(node.comm_dst)
        self.assertTrue(nodes)
        self.assertEqual({(dst - src) % 8 for (_, src), its in peers.items() for dst in its}, {1})
        self.assertEqual({node.comm_dst for node in self.traces["shadows"].nodes(SEND) if node.name.startswith("reduce_experts") and node.comm_src == 5}, {4})

    @each_case()
    def test_replay_ends_when_the_simulator_does(self, traces, report):
        """Two computations at a time take turns there, so single nodes may be later. A node of no time takes 1 ns."""
        step = report["step_s"] * 1e6
        ends = []
        for nodes in traces.ranks:
            times = replay(nodes)
            self.assertEqual(len(times), len(nodes))
            for node in nodes:
                self.assertAlmostEqual(times[node.id][1] / 1000, node.start + node.duration, delta=2 + 0.01 * step,
                                       msg=f"rank {node.rank}: {node.id} {node.name}")
            ends.append(max(end for _, end in times.values()) / 1000)
            self.assertAlmostEqual(ends[-1], max(node.start + node.duration for node in nodes), delta=2 + 1e-3 * step)
        self.assertAlmostEqual(max(ends), step, delta=2 + 1e-3 * step)

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

    @each_case()
    def test_files_describe_the_cluster(self, traces, report):
        folder = self.folders[report["plan_case"]]
        network = {}
        with open(os.path.join(folder, "network.yml")) as file:
            for line in file:
                key, _, values = line.strip().partition(": ")
                network[key] = values.strip("[]").split(", ")
        self.assertEqual(set(network), {"topology", "npus_count", "bandwidth", "latency"})
        levels = len(network["topology"])
        self.assertEqual(math.prod(map(int, network["npus_count"])), report["num_ranks"])
        self.assertTrue(all(float(value) > 0 for value in network["bandwidth"]))
        self.assertTrue(all(float(value) >= 0 for value in network["latency"]))
        for name, replays in (("system.json", 0), ("replay.json", 1)):
            with open(os.path.join(folder, name)) as file:
                system = json.load(file)
            self.assertEqual((system["replay-only"], len(system["all-to-all-implementation"])), (replays, levels))
        with open(os.path.join(folder, "memory.json")) as file:
            memory = json.load(file)["memory-type"]
        self.assertEqual(memory != "NO_MEMORY_EXPANSION" or not traces.nodes(LOAD, STORE), True)

    def test_warnings(self):
        self.assertEqual({name for name, errors in self.errors.items() if "--chakra" in errors}, set())


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
