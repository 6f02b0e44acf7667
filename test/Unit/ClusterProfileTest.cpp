//===- ClusterProfileTest.cpp - reading and checking cluster profiles -----===//
//
// MOE_SHARE_DIR is the source tree's share/.
//
//===----------------------------------------------------------------------===//

#include "moe/Cost/ClusterProfile.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <gtest/gtest.h>

#include <ostream>

using namespace mlir::moe;

namespace {

/// Every kind of object that a profile may hold. The error cases below replace its lines.
const char *const toy = R"({
  "moeplan_cluster": 1,
  "name": "toy",
  "description": "made up",
  "nodes": {"min": 1, "max": 8},
  "devices_per_node": 4,
  "device": {
    "name": "Toy",
    "memory_bytes": 16e9, "reserved_bytes": 1e9,
    "memory_bytes_per_s": 400e9,
    "launch_s": 4e-6,
    "kernel_s": 2e-6,
    "source": "made up",
    "rates": [
      {"dtype": "f32", "flop_per_s": 10e12, "source": "s",
       "efficiency": {
         "rows": [16, 256],
         "columns": [64],
         "depth": [32, 64],
         "values": [0.1, 0.2, 0.5, 1],
         "source": "s"}}
    ],
    "kernels": [
      {"kernel": "activation", "dtype": "f32", "params": [1], "latency_s": 3e-6, "bytes_per_s": 300e9, "r2": 0.99,
       "relative_error": 0.02, "points": [[1024, 4e-6], [4096, 5e-6]], "source": "s"}
    ],
    "host_link": {"bytes_per_s": 12e9, "latency_s": 1e-5, "source": "s"}
  },
  "links": [
    {"from": "device*", "to": "pcie", "bytes_per_s": 12e9, "latency_s": 1e-6, "post_s": 1e-7, "reduces": true, "source": "s"},
    {"from": "pcie", "to": "network", "bytes_per_s": 6e9, "back_bytes_per_s": 3e9, "latency_s": 2e-6, "source": "s"}
  ],
  "fabric": [
    {"name": "leaf", "nodes": 2, "bytes_per_s": 6e9, "latency_s": 1e-6, "source": "s"},
    {"name": "spine", "nodes": 4, "bytes_per_s": 6e9, "latency_s": 1e-6, "source": "s"}
  ],
  "algorithms": {"all_to_all": "hierarchical"},
  "interference": [
    {"running": ["compute", "communication"], "compute": 0.95, "communication": 0.9, "source": "s"},
    {"running": ["copy", "compute"], "compute": 0.97, "copy": 0.9, "source": "s"}
  ],
  "collectives": [
    {"collective": "all_to_all", "members": {"min": 2, "max": 8}, "per_node": 4, "alpha_s": 1e-4, "per_member_s": 1e-6,
     "beta_s_per_byte": 3e-10, "r2": 0.98, "relative_error": 0.05, "points": [[1000, 2e-4]], "source": "s"}
  ],
  "processors": {"count": 2, "source": "s", "speed": {
    "matrix": [1, 0.95],
    "memory": [1, 0.8],
    "network": [1, 0.7]}},
  "protocols": [
    {"name": "ll", "base_s": 1e-6, "latency": 0.2, "tree_latency": 0.4, "post": 0.3, "bandwidth": 0.25,
     "algorithms": ["ring", "nvls"], "source": "s"},
    {"name": "simple", "base_s": 2e-6, "latency": 1, "post": 1, "bandwidth": 1, "source": "s"}
  ]
}
)";

ClusterProfile parseOrFail(llvm::StringRef text) {
  llvm::Expected<ClusterProfile> profile = ClusterProfile::parse(text, "c.json");
  if (profile)
    return *profile;
  ADD_FAILURE() << llvm::toString(profile.takeError());
  return {};
}

std::string errorOf(llvm::StringRef text) {
  llvm::Expected<ClusterProfile> profile = ClusterProfile::parse(text, "c.json");
  return profile ? "" : llvm::toString(profile.takeError());
}

/// The toy with the only occurrence of `from` replaced.
std::string replace(const std::string &from, const std::string &to) {
  std::string text = toy;
  size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  EXPECT_EQ(text.find(from, at + 1), std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

/// The toy's rates with curves for launches of several products, for attention, and for another type.
const char *const curves = R"("values": [0.1, 0.2, 0.5, 1],
         "relative_error": 0.07,
         "source": "s"},
       "grouped": {"rows": [1], "columns": [64], "depth": [32], "groups": [1, 8], "values": [0.3, 0.4], "source": "s"}},
      {"dtype": "f16", "flop_per_s": 20e12, "like": "f32", "source": "s"}
    ],
    "attention": [
      {"dtype": "f32", "head_columns": 64, "products": 2, "length": [16, 32], "heads": [8], "values": [0.1, 0.2],
       "relative_error": 0.05, "source": "s"},
      {"dtype": "f32", "head_columns": 128, "products": 2, "length": [16], "heads": [8], "values": [0.3], "source": "s"}
    ],
    "kernels": [)";
const char *const noCurves = R"("values": [0.1, 0.2, 0.5, 1],
         "source": "s"}}
    ],
    "kernels": [)";

/// A profile that is like another one has its keys where it lacks them, also those of the device.
TEST(ClusterProfile, IsLikeAnother) {
  const char *const text =
      R"({"moeplan_cluster": 1, "name": "other", "like": "toy", "description": "made up", "network": "efa",
                               "device": {"name": "Other", "cpu": "fast"}})";
  llvm::json::Value base = llvm::cantFail(llvm::json::parse(toy));
  llvm::Expected<ClusterProfile> profile = ClusterProfile::parse(text, "other.json", base.getAsObject());
  ASSERT_TRUE(static_cast<bool>(profile)) << llvm::toString(profile.takeError());
  EXPECT_EQ(profile->name, "other");
  EXPECT_EQ(profile->network, "efa");
  EXPECT_EQ(profile->deviceName, "Other");
  EXPECT_EQ(profile->cpu, "fast");
  EXPECT_EQ(profile->memoryBytes, 16e9);
  EXPECT_EQ(profile->fabric.size(), 2u);
  // A profile that is like a third one is refused, because the third one's keys would be missing.
  base.getAsObject()->insert({"like", "third"});
  profile = ClusterProfile::parse(text, "other.json", base.getAsObject());
  EXPECT_NE(llvm::toString(profile.takeError()).find("'like': expected the name of a profile in the same folder that"),
            std::string::npos);
  // Without the other one, it says what it expects.
  EXPECT_NE(errorOf(text).find(
                "'like': expected the name of a profile in the same folder that is like no other one but got \"toy\""),
            std::string::npos);
}

TEST(ClusterProfile, ReadsCurves) {
  ClusterProfile p = parseOrFail(replace(noCurves, curves));
  EXPECT_EQ(p.getRate("f32")->efficiency.relativeError, 0.07);
  EXPECT_EQ(p.getRate("f32")->efficiency.groups, (std::vector<double>{1}));
  ASSERT_TRUE(p.getRate("f32")->grouped);
  EXPECT_EQ(p.getRate("f32")->grouped->groups, (std::vector<double>{1, 8}));
  EXPECT_EQ(p.getRate("f32")->grouped->values, (std::vector<double>{0.3, 0.4}));
  EXPECT_EQ(p.getRate("f16")->flopsPerSecond, 20e12);
  EXPECT_EQ(p.getRate("f16")->like, "f32");
  EXPECT_EQ(p.getRate("f16")->efficiency.values, p.getRate("f32")->efficiency.values);
  ASSERT_EQ(p.attention.size(), 2u);
  EXPECT_EQ(p.attention[0].dtype, "f32");
  EXPECT_EQ(p.attention[0].headColumns, 64);
  EXPECT_EQ(p.attention[0].products, 2);
  EXPECT_EQ(p.attention[0].length, (std::vector<double>{16, 32}));
  EXPECT_EQ(p.attention[0].heads, (std::vector<double>{8}));
  EXPECT_EQ(p.attention[0].values, (std::vector<double>{0.1, 0.2}));
  EXPECT_EQ(p.attention[0].relativeError, 0.05);
}

TEST(ClusterProfile, CurveErrors) {
  auto getError = [](const std::string &from, const std::string &to) {
    std::string text = replace(noCurves, curves);
    size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return errorOf(text.replace(at, from.size(), to));
  };
  EXPECT_NE(getError("\"like\": \"f32\"", "\"like\": \"bf16\"")
                .find("'device.rates[1].like': expected the dtype of an earlier entry with curves of its own"),
            std::string::npos);
  EXPECT_NE(getError("\"reserved_bytes\": 1e9", "\"reserved_bytes\": 16e9")
                .find("'device.reserved_bytes': expected less than 'memory_bytes'"),
            std::string::npos);
  EXPECT_NE(getError("[0.3, 0.4]", "[0.3]")
                .find("'device.rates[0].grouped.values': expected 2 numbers, one for each of rows x columns x depth x "
                      "groups,"),
            std::string::npos);
  EXPECT_NE(getError("\"head_columns\": 128", "\"head_columns\": 64")
                .find("'device.attention[1].head_columns': expected more columns than in earlier entries"),
            std::string::npos);
  EXPECT_NE(getError("\"values\": [0.3], \"source\"", "\"values\": [0.3, 1], \"source\"")
                .find("'device.attention[1].values': expected 1 numbers, one for each of length x heads,"),
            std::string::npos);
}

// Every key sets its field.
TEST(ClusterProfile, ReadsEveryKey) {
  ClusterProfile p = parseOrFail(toy);
  EXPECT_EQ(p.name, "toy");
  EXPECT_EQ(p.description, "made up");
  EXPECT_EQ(p.maxNodes, 8);
  EXPECT_EQ(p.devicesPerNode, 4);
  EXPECT_EQ(p.getMaxDevices(), 32);
  EXPECT_EQ(p.deviceName, "Toy");
  EXPECT_EQ(p.memoryBytes, 16e9);
  EXPECT_EQ(p.reservedBytes, 1e9);
  EXPECT_EQ(p.getPlanBytes(), 15e9);
  EXPECT_EQ(p.memoryBytesPerSecond, 400e9);
  EXPECT_EQ(p.host.launchSeconds[0], 4e-6);
  EXPECT_EQ(p.kernelSeconds, 2e-6);
  ASSERT_NE(p.getRate("f32"), nullptr);
  EXPECT_EQ(p.getRate("bf16"), nullptr);
  EXPECT_EQ(p.getRate("f32")->flopsPerSecond, 10e12);
  EXPECT_EQ(p.getRate("f32")->efficiency.rows, (std::vector<double>{16, 256}));
  EXPECT_EQ(p.getRate("f32")->efficiency.columns, (std::vector<double>{64}));
  EXPECT_EQ(p.getRate("f32")->efficiency.depth, (std::vector<double>{32, 64}));
  EXPECT_EQ(p.getRate("f32")->efficiency.values, (std::vector<double>{0.1, 0.2, 0.5, 1}));
  ASSERT_EQ(p.kernels.size(), 1u);
  EXPECT_EQ(p.kernels[0].kernel, "activation");
  EXPECT_EQ(p.kernels[0].dtype, "f32");
  EXPECT_EQ(p.kernels[0].params, (std::vector<int64_t>{1}));
  EXPECT_EQ(p.kernels[0].latency, 3e-6);
  EXPECT_EQ(p.kernels[0].bytesPerSecond, 300e9);
  EXPECT_EQ(p.kernels[0].relativeError, 0.02);
  ASSERT_EQ(p.kernels[0].points.size(), 2u);
  EXPECT_EQ(p.kernels[0].points[1].bytes, 4096);
  EXPECT_EQ(p.kernels[0].points[1].seconds, 5e-6);
  EXPECT_EQ(p.hostBytesPerSecond, 12e9);
  EXPECT_EQ(p.hostLatency, 1e-5);
  ASSERT_EQ(p.links.size(), 2u);
  EXPECT_EQ(p.links[0].from, "device*");
  EXPECT_EQ(p.links[0].to, "pcie");
  EXPECT_EQ(p.links[0].backBytesPerSecond, 12e9);
  EXPECT_EQ(p.links[0].post, 1e-7);
  EXPECT_TRUE(p.links[0].reduces);
  EXPECT_EQ(p.links[1].post, 0);
  EXPECT_FALSE(p.links[1].reduces);
  EXPECT_EQ(p.links[1].bytesPerSecond, 6e9);
  EXPECT_EQ(p.links[1].backBytesPerSecond, 3e9);
  EXPECT_EQ(p.links[1].latency, 2e-6);
  ASSERT_EQ(p.fabric.size(), 2u);
  EXPECT_EQ(p.fabric[1].name, "spine");
  EXPECT_EQ(p.fabric[1].nodes, 4);
  EXPECT_EQ(p.algorithms[static_cast<unsigned>(Collective::AllToAll)], Algorithm::Hierarchical);
  ASSERT_EQ(p.protocols.size(), 2u);
  EXPECT_EQ(p.protocols[0].name, "ll");
  EXPECT_EQ(p.protocols[0].base, 1e-6);
  EXPECT_EQ(p.protocols[0].latency, 0.2);
  EXPECT_EQ(p.protocols[0].treeLatency, 0.4);
  EXPECT_EQ(p.protocols[0].post, 0.3);
  EXPECT_EQ(p.protocols[0].bandwidth, 0.25);
  EXPECT_EQ(p.protocols[0].algorithms, std::vector<Algorithm>({Algorithm::Ring, Algorithm::Nvls}));
  EXPECT_EQ(p.protocols[1].treeLatency, 1);
  EXPECT_TRUE(p.protocols[1].algorithms.empty());
  EXPECT_EQ(p.algorithms[static_cast<unsigned>(Collective::AllReduce)], Algorithm::Fastest);
  EXPECT_EQ(p.algorithms[static_cast<unsigned>(Collective::Reduce)], Algorithm::Ring);
  ASSERT_EQ(p.interference.size(), 2u);
  EXPECT_TRUE(p.interference[1].compute && p.interference[1].copy && !p.interference[1].communication);
  EXPECT_EQ(p.interference[1].computeSpeed, 0.97);
  EXPECT_EQ(p.interference[1].copySpeed, 0.9);
  ASSERT_EQ(p.collectives.size(), 1u);
  EXPECT_EQ(p.collectives[0].collective, Collective::AllToAll);
  EXPECT_EQ(p.collectives[0].dtype, "");
  EXPECT_EQ(p.collectives[0].minMembers, 2);
  EXPECT_EQ(p.collectives[0].maxMembers, 8);
  EXPECT_EQ(p.collectives[0].minPerNode, 4);
  EXPECT_EQ(p.collectives[0].maxPerNode, 4);
  EXPECT_EQ(p.collectives[0].alpha, 1e-4);
  EXPECT_EQ(p.collectives[0].perMember, 1e-6);
  EXPECT_EQ(p.collectives[0].beta, 3e-10);
  EXPECT_EQ(p.collectives[0].relativeError, 0.05);
  ASSERT_EQ(p.collectives[0].points.size(), 1u);
  EXPECT_EQ(p.collectives[0].points[0].bytes, 1000);
  EXPECT_EQ(p.processors.count, 2);
  EXPECT_EQ(p.processors.speed[static_cast<unsigned>(Resource::Memory)], (std::vector<double>{1, 0.8}));
  EXPECT_TRUE(p.processors.speed[static_cast<unsigned>(Resource::HostLink)].empty());
}

// Without alpha_s and beta_s_per_byte the points are a curve.
TEST(ClusterProfile, Curve) {
  ClusterProfile p =
      parseOrFail(replace("\"alpha_s\": 1e-4, \"per_member_s\": 1e-6,\n     \"beta_s_per_byte\": 3e-10, \"r2\": 0.98, "
                          "\"relative_error\": 0.05, \"points\": [[1000, 2e-4]]",
                          "\"points\": [[1000, 2e-4], [2000, 3e-4]]"));
  ASSERT_EQ(p.collectives.size(), 1u);
  EXPECT_TRUE(p.collectives[0].isCurve);
  EXPECT_EQ(p.collectives[0].points[1].seconds, 3e-4);
  EXPECT_EQ(p.collectives[0].beta, 0);
}

struct BadProfile {
  const char *from;
  const char *to;
  const char *error; ///< text after `c.json:`
};

void PrintTo(const BadProfile &bad, std::ostream *os) { *os << bad.from << " -> " << bad.to; }

const BadProfile badProfiles[] = {
    {"\"moeplan_cluster\": 1", "\"moeplan_cluster\": 2", "2:3: error: 'moeplan_cluster': expected 1 but got 2"},
    {"  \"name\": \"toy\",\n", "", "1:1: error: 'name': expected a string that is not empty but the key is missing"},
    {"\"name\": \"toy\"", "\"name\": \"a b\"",
     "3:3: error: 'name': expected letters, digits, '-', '_' and '.' but got \"a b\""},
    {"\"nodes\": {\"min\": 1, \"max\": 8}", "\"nodes\": 0",
     "5:3: error: 'nodes': expected an integer from 1 to 65536 but got 0"},
    {"\"nodes\": {\"min\": 1, \"max\": 8}", "\"nodes\": {\"min\": 9, \"max\": 8}",
     "5:23: error: 'nodes.max': expected an integer from 9 to 65536 but got 8"},
    {"\"nodes\": {\"min\": 1, \"max\": 8}", "\"nodes\": {\"min\": 1, \"most\": 8}",
     "5:3: error: 'nodes.max': expected an integer from 1 to 65536 but the key is missing"},
    {"\"devices_per_node\": 4", "\"devices_per_node\": 2.5",
     "6:3: error: 'devices_per_node': expected an integer from 1 to 1024 but got 2.5"},
    {"\"device\": {", "\"device\": [], \"x\": {", "7:3: error: 'device': expected an object but got []"},
    {"\"memory_bytes\": 16e9", "\"memory_bytes\": -1",
     "9:5: error: 'device.memory_bytes': expected a number greater than 0 but got -1"},
    {"\"memory_bytes\": 16e9", "\"memory_bytes\": 1e999",
     "9:5: error: 'device.memory_bytes': expected a number greater than 0 but got inf"},
    {"\"memory_bytes\": 16e9", "\"memory_bytes\": NaN",
     "9:5: error: 'device.memory_bytes': expected a number greater than 0 but got \"N\""},
    {"\"memory_bytes\": 16e9", "\"memory_bytes\": \"16e9\"",
     "9:5: error: 'device.memory_bytes': expected a number greater than 0 but got \"16e9\""},
    {"\"launch_s\": 4e-6", "\"launch_s\": -4e-6",
     "11:5: error: 'device.launch_s': expected a number of at least 0 but got -3.9999999999999998e-06"},
    {"\"kernel_s\": 2e-6", "\"kernel_us\": 2",
     "7:3: error: 'device.kernel_s': expected a number of at least 0 but the key is missing"},
    {"    \"source\": \"made up\",\n", "",
     "7:3: error: 'device.source': expected a string that is not empty but the key is missing"},
    {"    \"source\": \"made up\",\n", "    \"source\": \" \",\n",
     "13:5: error: 'device.source': expected a string that is not empty but got \" \""},
    {"\"dtype\": \"f32\", \"flop_per_s\"", "\"dtype\": \"i32\", \"flop_per_s\"",
     "15:8: error: 'device.rates[0].dtype': expected one of \"f64\", \"f32\", \"tf32\", \"bf16\", \"f16\" but got "
     "\"i32\""},
    {"    \"rates\": [",
     "    \"rates\": [{\"dtype\": \"f32\", \"flop_per_s\": 1, \"source\": \"s\", \"efficiency\": {\"rows\": [1], "
     "\"columns\": [1], \"depth\": [1], \"values\": [1], \"source\": \"s\"}},",
     "15:8: error: 'device.rates[1].dtype': expected an element type that no earlier entry has but got \"f32\""},
    {"\"rows\": [16, 256]", "\"rows\": [256, 16]",
     "17:24: error: 'device.rates[0].efficiency.rows[1]': expected a number greater than the one before but got 16"},
    {"\"rows\": [16, 256]", "\"rows\": [0, 16]",
     "17:19: error: 'device.rates[0].efficiency.rows[0]': expected a number greater than 0 but got 0"},
    {"\"columns\": [64]", "\"columns\": []",
     "18:10: error: 'device.rates[0].efficiency.columns': expected a list of at least one number but got []"},
    {"\"columns\": [64]", "\"columns\": 64",
     "18:10: error: 'device.rates[0].efficiency.columns': expected a list of numbers but got 64"},
    {"[0.1, 0.2, 0.5, 1]", "[0.1, 0.2, 0.5]",
     "20:10: error: 'device.rates[0].efficiency.values': expected 4 numbers, one for each of rows x columns x depth, "
     "but got [0.10000000000000001,0.20000000000000001,0.5]"},
    {"[0.1, 0.2, 0.5, 1]", "[0.1, 0, 0.5, 1]",
     "20:26: error: 'device.rates[0].efficiency.values[1]': expected a number greater than 0 and at most 1 but got 0"},
    {"[0.1, 0.2, 0.5, 1]", "[0.1, 0.2, 0.5, 1.01]",
     "20:36: error: 'device.rates[0].efficiency.values[3]': expected a number greater than 0 and at most 1 but got "
     "1.01"},
    {"\"params\": [1]", "\"params\": [0.5]",
     "24:59: error: 'device.kernels[0].params[0]': expected an integer but got 0.5"},
    {"\"r2\": 0.99", "\"r2\": 1.5",
     "24:104: error: 'device.kernels[0].r2': expected a number of at most 1 but got 1.5"},
    {"\"relative_error\": 0.02", "\"relative_error\": -1",
     "25:8: error: 'device.kernels[0].relative_error': expected a number of at least 0 but got -1"},
    {"[4096, 5e-6]", "[4096, 0]",
     "25:57: error: 'device.kernels[0].points[1]': expected a list of a number of at least 0 and a number greater than "
     "0 but got [4096,0]"},
    {"[4096, 5e-6]", "[4096]",
     "25:57: error: 'device.kernels[0].points[1]': expected a list of a number of at least 0 and a number greater than "
     "0 but got [4096]"},
    {"    \"kernels\": [",
     "    \"kernels\": [{\"kernel\": \"activation\", \"dtype\": \"f32\", \"params\": [1], \"latency_s\": 0, "
     "\"bytes_per_s\": 1, \"source\": \"s\"},",
     "24:8: error: 'device.kernels[1].kernel': expected a kernel, dtype and params that no earlier entry has but got "
     "\"activation\""},
    {"\"host_link\": {\"bytes_per_s\": 12e9", "\"host_link\": {\"bytes_per_s\": 0",
     "27:19: error: 'device.host_link.bytes_per_s': expected a number greater than 0 but got 0"},
    {"\"from\": \"device*\"", "\"from\": \"device4\"",
     "30:6: error: 'links[0].from': expected devices from device0 to device3 but got \"device4\""},
    {"\"from\": \"device*\"", "\"from\": \"device[2-4]\"",
     "30:6: error: 'links[0].from': expected devices from device0 to device3 but got \"device[2-4]\""},
    {"\"from\": \"device*\"", "\"from\": \"device[2-1]\"",
     "30:6: error: 'links[0].from': expected a name such as device0, device*, device[0-3], nic*, pcie0 or network but "
     "got \"device[2-1]\""},
    {"\"from\": \"device*\"", "\"from\": \"Device0\"",
     "30:6: error: 'links[0].from': expected a name such as device0, device*, device[0-3], nic*, pcie0 or network but "
     "got \"Device0\""},
    {"\"from\": \"device*\"", "\"from\": \"network*\"",
     "30:6: error: 'links[0].from': expected a name such as device0, device*, device[0-3], nic*, pcie0 or network but "
     "got \"network*\""},
    {"\"to\": \"pcie\"", "\"to\": \"pcie[0-1]\"",
     "30:25: error: 'links[0].to': expected a name that stands for 4 vertices, as 'device*' does, but got "
     "\"pcie[0-1]\""},
    {"\"to\": \"pcie\"", "\"to\": \"device*\"",
     "30:25: error: 'links[0].to': expected another vertex than 'device0', where the link begins, but got \"device*\""},
    {"\"from\": \"pcie\", ", "",
     "31:5: error: 'links[1].from': expected a string that is not empty but the key is missing"},
    {"\"back_bytes_per_s\": 3e9", "\"back_bytes_per_s\": -3e9",
     "31:59: error: 'links[1].back_bytes_per_s': expected a number of at least 0 but got -3000000000"},
    {"\"back_bytes_per_s\": 3e9, \"latency_s\"", "\"latency\"",
     "31:5: error: 'links[1].latency_s': expected a number of at least 0 but the key is missing"},
    {"\"name\": \"leaf\"", "\"name\": \"leaf1\"",
     "34:6: error: 'fabric[0].name': expected a name of small letters other than network but got \"leaf1\""},
    {"\"name\": \"spine\"", "\"name\": \"leaf\"",
     "35:6: error: 'fabric[1].name': expected a name that no earlier level has but got \"leaf\""},
    {"\"name\": \"spine\", \"nodes\": 4", "\"name\": \"spine\", \"nodes\": 3",
     "35:23: error: 'fabric[1].nodes': expected a multiple of the level below, 2, but got 3"},
    {"\"name\": \"spine\", \"nodes\": 4", "\"name\": \"spine\", \"nodes\": 2",
     "35:23: error: 'fabric[1].nodes': expected a multiple of the level below, 2, but got 2"},
    {"{\"all_to_all\": \"hierarchical\"}", "{\"all_to_all\": \"fast\"}",
     "37:18: error: 'algorithms.all_to_all': expected one of \"ring\", \"tree\", \"pairwise\", \"hierarchical\", "
     "\"nvls\", \"fastest\" but got \"fast\""},
    {"{\"all_to_all\": \"hierarchical\"}", "{\"alltoall\": \"ring\"}",
     "37:18: error: 'algorithms.alltoall': expected one of the keys \"all_gather\", \"all_reduce\", \"all_to_all\", "
     "\"broadcast\", \"reduce\", \"reduce_scatter\""},
    {"[\"copy\", \"compute\"]", "[\"copy\"]",
     "40:6: error: 'interference[1].running': expected at least two of \"compute\", \"communication\", \"copy\" but "
     "got [\"copy\"]"},
    {"[\"copy\", \"compute\"]", "[\"copy\", \"copy\"]",
     "40:26: error: 'interference[1].running[1]': expected another one of \"compute\", \"communication\", \"copy\" but "
     "got \"copy\""},
    {"[\"copy\", \"compute\"]", "[\"copy\", \"network\"]",
     "40:26: error: 'interference[1].running[1]': expected another one of \"compute\", \"communication\", \"copy\" but "
     "got \"network\""},
    {"{\"running\": [\"copy\", \"compute\"], \"compute\": 0.97, \"copy\": 0.9",
     "{\"running\": [\"communication\", \"compute\"], \"compute\": 0.97, \"communication\": 0.9",
     "40:6: error: 'interference[1].running': expected a set that no earlier entry has but got "
     "[\"communication\",\"compute\"]"},
    {"\"copy\": 0.9", "\"copy\": 1.1",
     "40:55: error: 'interference[1].copy': expected a number greater than 0 and at most 1 but got 1.1000000000000001"},
    {"\"compute\": 0.95, ", "",
     "39:5: error: 'interference[0].compute': expected a number greater than 0 and at most 1 but the key is missing"},
    {"\"compute\": 0.95", "\"compute\": 0.95, \"copy\": 1",
     "39:64: error: 'interference[0].copy': expected one of the keys \"communication\", \"compute\", \"running\", "
     "\"source\""},
    {"\"collective\": \"all_to_all\", ", "\"collective\": \"none\", ",
     "43:6: error: 'collectives[0].collective': expected one of \"all_gather\", \"reduce_scatter\", \"all_reduce\", "
     "\"all_to_all\", \"broadcast\", \"reduce\" but got \"none\""},
    {"{\"min\": 2, \"max\": 8}", "33",
     "43:34: error: 'collectives[0].members': expected an integer from 1 to 32 but got 33"},
    {"\"per_node\": 4", "\"per_node\": 5",
     "43:67: error: 'collectives[0].per_node': expected an integer from 1 to 4 but got 5"},
    {"\"alpha_s\": 1e-4", "\"alpha_s\": -1e-4",
     "43:82: error: 'collectives[0].alpha_s': expected a number of at least 0 but got -0.0001"},
    {"\"beta_s_per_byte\": 3e-10", "\"beta\": 3e-10",
     "43:5: error: 'collectives[0].beta_s_per_byte': expected a number of at least 0 but the key is missing"},
    {"  \"collectives\": [",
     "  \"collectives\": [{\"collective\": \"all_to_all\", \"members\": {\"min\": 2, \"max\": 8}, \"per_node\": 4, "
     "\"alpha_s\": 0, \"beta_s_per_byte\": 0, \"source\": \"s\"},",
     "43:6: error: 'collectives[1].collective': expected a collective, dtype, members and per_node that no earlier "
     "entry has but got \"all_to_all\""},
    {"\"count\": 2", "\"count\": 0", "46:18: error: 'processors.count': expected an integer from 1 to 4096 but got 0"},
    {"\"memory\": [1, 0.8]", "\"memory\": [1]",
     "48:5: error: 'processors.speed.memory': expected 2 numbers, one for each of 'processors.count', but got [1]"},
    {"\"network\": [1, 0.7]", "\"network\": [1, 2]",
     "49:20: error: 'processors.speed.network[1]': expected a number greater than 0 and at most 1 but got 2"},
    {"    \"network\": [1, 0.7]", "    \"net\": [1, 0.7]",
     "46:45: error: 'processors.speed.network': expected 2 numbers, one for each of 'processors.count', but the key is "
     "missing"},
    {"\"name\": \"simple\"", "\"name\": \"ll\"",
     "53:6: error: 'protocols[1].name': expected a name that no earlier protocol has but got \"ll\""},
    {"[\"ring\", \"nvls\"]", "[\"ring\", \"rings\"]",
     "52:29: error: 'protocols[0].algorithms[1]': expected the name of an algorithm but got \"rings\""},
    {"\"bandwidth\": 0.25", "\"bandwidth\": 0",
     "51:86: error: 'protocols[0].bandwidth': expected a number greater than 0 and at most 1 but got 0"},
    {"\"alpha_s\": 1e-4, \"per_member_s\": 1e-6,\n     \"beta_s_per_byte\": 3e-10, ", "",
     "43:118: error: 'collectives[0].points': expected at least two points with rising bytes from more than 0, or "
     "'alpha_s' and 'beta_s_per_byte', but got [[1000,0.00020000000000000001]]"},
    {"\"algorithms\": {", "\"links\": [], \"algorithms\": {", "37:3: error: 'links': expected each key once"},
    {"\"algorithms\": {", "\"comment\": 1, \"algorithms\": {",
     "37:3: error: 'comment': expected one of the keys \"algorithms\", \"collectives\", \"description\", \"device\", "
     "\"devices_per_node\", \"fabric\", \"interference\", \"like\", \"links\", \"moeplan_cluster\", \"name\", "
     "\"network\", \"nodes\", "
     "\"processors\", \"protocols\""},
};

class ClusterProfileErrors : public testing::TestWithParam<BadProfile> {};

// Each error names the key, its place, the expected value and the given one.
TEST_P(ClusterProfileErrors, NamesTheKey) {
  EXPECT_EQ(errorOf(replace(GetParam().from, GetParam().to)), std::string("c.json:") + GetParam().error);
}
INSTANTIATE_TEST_SUITE_P(All, ClusterProfileErrors, testing::ValuesIn(badProfiles));

// No text crashes the reader: the toy, truncated anywhere or with any character replaced, is parsed or refused.
TEST(ClusterProfile, SurvivesAnyText) {
  std::string text = toy;
  for (size_t i = 0; i < text.size(); ++i) {
    errorOf(text.substr(0, i));
    for (char c : {'"', '{', ']', '0', '-', '\\'}) {
      std::string changed = text;
      changed[i] = c;
      errorOf(changed);
    }
  }
}

// The error for a missing file names the file.
TEST(ClusterProfile, NamesMissingFile) {
  llvm::Expected<ClusterProfile> profile = ClusterProfile::load("/no/such.json");
  ASSERT_FALSE(static_cast<bool>(profile));
  EXPECT_EQ(llvm::toString(profile.takeError()),
            "/no/such.json: error: cannot read the file: No such file or directory");
}

ClusterProfile loadShared(const std::string &name) {
  llvm::Expected<ClusterProfile> profile =
      ClusterProfile::load(std::string(MOE_SHARE_DIR) + "/clusters/" + name + ".json");
  if (profile)
    return *profile;
  ADD_FAILURE() << llvm::toString(profile.takeError());
  return {};
}

// Special products have these keys, some of them required.
TEST(ClusterProfile, SpecialCurves) {
  auto read = [](const std::string &special) {
    std::string text = toy, rate = "\"flop_per_s\": 10e12,";
    text.insert(text.find(rate) + rate.size(), " \"special\": [{" + special +
                                                   "\"rows\": [1], \"columns\": [64], \"depth\": [1], "
                                                   "\"values\": [0.5], \"source\": \"s\"}],");
    return ClusterProfile::parse(text, "c.json");
  };
  llvm::Expected<ClusterProfile> profile =
      read("\"calls\": [{\"kernel\": \"matmul\", \"params\": [1, 0]}, {\"kernel\": \"other\"}], "
           "\"columns_multiple_of\": 64, ");
  ASSERT_TRUE(static_cast<bool>(profile)) << llvm::toString(profile.takeError());
  ASSERT_EQ(profile->rates[0].special.size(), 1u);
  const SpecialCurve &special = profile->rates[0].special[0];
  ASSERT_EQ(special.calls.size(), 2u);
  EXPECT_EQ(special.calls[0].kernel, "matmul");
  EXPECT_EQ(special.calls[0].params, (std::vector<int64_t>{1, 0}));
  EXPECT_TRUE(special.calls[1].params.empty());
  EXPECT_EQ(special.columnsMultiple, 64);
  EXPECT_EQ(special.efficiency.values, (std::vector<double>{0.5}));
  EXPECT_FALSE(special.isRagged);

  profile = read("\"ragged\": true, ");
  ASSERT_TRUE(static_cast<bool>(profile)) << llvm::toString(profile.takeError());
  EXPECT_TRUE(profile->rates[0].special[0].isRagged);

  auto getError = [&](const std::string &text) { return llvm::toString(read(text).takeError()); };
  EXPECT_NE(getError("").find("'device.rates[0].special[0].calls': expected a list of calls, "
                              "'columns_multiple_of' above 1, or 'ragged', but the key is missing"),
            std::string::npos)
      << getError("");
  EXPECT_NE(getError("\"columns_multiple_of\": 0, ").find("'device.rates[0].special[0].columns_multiple_of'"),
            std::string::npos);
  EXPECT_NE(getError("\"ragged\": 1, ").find("'device.rates[0].special[0].ragged': expected true or false but got 1"),
            std::string::npos)
      << getError("\"ragged\": 1, ");
  EXPECT_NE(getError("\"calls\": [{\"params\": [1]}], ").find("'device.rates[0].special[0].calls[0].kernel'"),
            std::string::npos);
}

// Every shipped profile loads, has the name of its file, and, if it has links, the speeds of all simultaneous kinds of
// work.
TEST(SharedProfiles, Load) {
  std::error_code ec;
  int count = 0;
  for (llvm::sys::fs::directory_iterator it(std::string(MOE_SHARE_DIR) + "/clusters", ec), end; !ec && it != end;
       it.increment(ec)) {
    if (llvm::sys::path::extension(it->path()) != ".json")
      continue;
    ++count;
    std::string stem = llvm::sys::path::stem(it->path()).str();
    SCOPED_TRACE(stem);
    ClusterProfile profile = loadShared(stem);
    EXPECT_EQ(profile.name, stem);
    EXPECT_FALSE(profile.rates.empty());
    if (profile.processors.count == 0) {
      EXPECT_EQ(profile.interference.size(), 4u);
    }
  }
  EXPECT_FALSE(ec) << ec.message();
  EXPECT_GE(count, 9);
}

// The alpha and beta that Parm's authors measured, and the testbed's shape, are those of the papers.
TEST(SharedProfiles, ParmB) {
  ClusterProfile p = loadShared("parm-b");
  EXPECT_EQ(p.getMaxDevices(), 32);
  EXPECT_EQ(p.devicesPerNode, 4);
  ASSERT_EQ(p.collectives.size(), 4u);
  EXPECT_EQ(p.collectives[0].collective, Collective::AllToAll);
  EXPECT_EQ(p.collectives[0].minMembers, 32);
  EXPECT_EQ(p.collectives[0].minPerNode, 4);
  EXPECT_DOUBLE_EQ(p.collectives[0].alpha, 0.175e-3);
  EXPECT_DOUBLE_EQ(p.collectives[0].beta, 3.06e-10);
  EXPECT_DOUBLE_EQ(p.collectives[3].alpha, 0.0837e-3);
  EXPECT_DOUBLE_EQ(p.collectives[3].beta, 5.99e-10);
}

// The sizes of the clusters, and peak rates of data sheets.
TEST(SharedProfiles, Sizes) {
  const struct {
    const char *name;
    int64_t nodes, devices;
    const char *dtype;
    double peak;
  } clusters[] = {{"parm-a", 1, 8, "f32", 82.6e12},
                  {"parm-b", 8, 4, "f32", 13.45e12},
                  {"mpipemoe-a100", 8, 8, "f16", 312e12},
                  {"ppmoe-v100-32", 4, 8, "f16", 125e12},
                  {"ppmoe-v100-128", 16, 8, "f16", 125e12},
                  {"fastermoe-johnny", 2, 8, "f32", 14e12},
                  {"fastermoe-trevor", 16, 4, "f32", 15.7e12},
                  {"hgx-h100", 512, 8, "bf16", 989.4e12},
                  {"hgx-h200", 512, 8, "bf16", 989.4e12},
                  {"hgx-b200", 512, 8, "bf16", 2250e12},
                  {"hgx-b300", 512, 8, "bf16", 2250e12},
                  {"gb300-nvl72", 64, 64, "bf16", 2250e12},
                  {"aws-p5en", 512, 8, "bf16", 989.4e12},
                  {"aws-p6-b300", 512, 8, "bf16", 2250e12},
                  {"mi300x", 512, 8, "bf16", 1307.4e12},
                  {"mi355x", 512, 8, "bf16", 2516.6e12}};
  for (const auto &cluster : clusters) {
    SCOPED_TRACE(cluster.name);
    ClusterProfile p = loadShared(cluster.name);
    EXPECT_EQ(p.maxNodes, cluster.nodes);
    EXPECT_EQ(p.devicesPerNode, cluster.devices);
    ASSERT_NE(p.getRate(cluster.dtype), nullptr);
    EXPECT_EQ(p.getRate(cluster.dtype)->flopsPerSecond, cluster.peak);
  }
}

} // namespace
