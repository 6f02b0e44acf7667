//===- CalibrateTest.cpp - calibration of a device ------------------------===//
//
// Measures the emulated device. Its times mean nothing, so the tests check which figures are measured, and that a
// profile may hold them.
//
//===----------------------------------------------------------------------===//

#include "calibrate/Calibrate.h"
#include "calibrate/ProductMethods.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <numeric>
#include <set>
#include <sstream>
#include <unistd.h>

using namespace moert;
using namespace moert::calibrate;
using nlohmann::json;
using testing::DoubleEq;
using testing::Each;
using testing::ElementsAre;
using testing::Gt;
using testing::HasSubstr;
using testing::Pair;

namespace {

Settings settingsOf(const std::string &backend) {
  ::setenv("MOERT_BACKENDS", BACKENDS, 1);
  Settings settings;
  settings.backend = backend;
  settings.device = {16, 32, 1 << 20, 1 << 21, 1 << 17, 24, 0.01};
  settings.quick = true;
  return settings;
}

json calibrated(const std::string &backend) {
  Settings settings = settingsOf(backend);
  Profile profile;
  Status status = calibrateDevice(settings, profile);
  EXPECT_TRUE(status.ok()) << status.message;
  std::ostringstream text;
  writeProfile(profile, text);
  // moe-sim also reads this profile.
  std::ofstream(PROFILES "/" + backend + ".json") << text.str();
  return status.ok() ? json::parse(text.str()) : json::object();
}

std::vector<std::string> typesOf(const json &rates) {
  std::vector<std::string> types;
  for (const json &rate : rates)
    types.push_back(rate["dtype"]);
  return types;
}

/// Curves of full groups, then of experts with different numbers of rows.
void checkCurves(const json &rate) {
  const std::vector<json> calls = {{"grouped_matmul", json::array(), false},
                                   {"grouped_matmul_wgrad", json::array(), false},
                                   {"grouped_matmul", {0}, true},
                                   {"grouped_matmul", {1}, true},
                                   {"grouped_matmul_wgrad", json::array(), true}};
  std::vector<json> found;
  std::vector<double> values = rate["efficiency"]["values"];
  for (const json &curve : rate["special"]) {
    const bool isRagged = curve.value("ragged", false);
    found.push_back({curve["calls"][0]["kernel"], curve["calls"][0]["params"], isRagged});
    EXPECT_EQ(curve["source"].get<std::string>().find("as many rows, skewed, take") != std::string::npos, isRagged);
    // Axes of rows, columns and depth are thinned and go up to 32, as do groups.
    EXPECT_EQ(curve.contains("groups"), isRagged);
    if (isRagged) {
      EXPECT_EQ(curve["groups"], json({2, 8, 32}));
    }
    values.insert(values.end(), curve["values"].begin(), curve["values"].end());
  }
  EXPECT_EQ(found, calls);
  EXPECT_THAT(values, Each(Gt(0)));
  EXPECT_EQ(*std::max_element(values.begin(), values.end()), 1);
}

/// Forward and backward for heads of 64 and 128 columns in each type.
void checkAttention(const json &curves) {
  std::vector<json> found;
  for (const json &curve : curves) {
    found.push_back({curve["dtype"], curve["head_columns"], curve["products"]});
    EXPECT_EQ(curve["length"], json({32}));
    EXPECT_EQ(curve["heads"], json({8, 32}));
    EXPECT_THAT(curve["values"].get<std::vector<double>>(), Each(Gt(0)));
  }
  std::vector<json> expected;
  for (const char *dtype : {"f32", "bf16", "f16"})
    for (int columns : {64, 128})
      for (int products : {2, 5})
        expected.push_back({dtype, columns, products});
  EXPECT_EQ(found, expected);
}

/// Rates and kernels of all types that devices compute in, and copies.
void checkDevice(const json &device) {
  EXPECT_EQ(device["name"], "Emulated device 0");
  EXPECT_GT(device["launch_s"], 0);
  EXPECT_GT(device["kernel_s"], 0);
  EXPECT_GE(device["counts_s"], 0);
  EXPECT_GT(device["host_link"]["bytes_per_s"], 0);
  ASSERT_THAT(typesOf(device["rates"]), ElementsAre("f32", "bf16", "f16"));
  for (const json &rate : device["rates"]) {
    checkCurves(rate);
  }
  checkAttention(device["attention"]);
  const double sustained = device.value("sustained", 1.0);
  EXPECT_GT(sustained, 0);
  EXPECT_LE(sustained, 1);
  std::map<std::string, int> kernels;
  for (const json &kernel : device["kernels"]) {
    ++kernels[kernel["dtype"]];
    EXPECT_GE(kernel["latency_s"], 0);
    EXPECT_GT(kernel["bytes_per_s"], 0);
  }
  EXPECT_GT(kernels["f32"], 60);
  EXPECT_EQ(kernels["bf16"], kernels["f32"]);
  EXPECT_EQ(kernels["f16"], kernels["f32"]);
}

const SaveMethods kSaveNothing = [](const MethodTable &) { return Status(); };

} // namespace

// A single GPU has no other to communicate with.
TEST(CalibrateDevice, Alone) {
  json root = calibrated("cuda");
  checkDevice(root["device"]);
  EXPECT_EQ(root["name"], "emulated-device-0");
  EXPECT_EQ(root["nodes"], 1);
  EXPECT_EQ(root["devices_per_node"], 1);
  EXPECT_THAT(root["description"], HasSubstr("neither links nor collectives"));
  EXPECT_TRUE(root["collectives"].empty());
  EXPECT_FALSE(root.contains("processors"));
  ASSERT_EQ(root["interference"].size(), 1u);
  EXPECT_EQ(root["interference"][0]["running"], json({"compute", "copy"}));
  for (const char *kind : {"compute", "copy"})
    EXPECT_GT(root["interference"][0][kind], 0);
}

// Ranks that share a GPU are like ranks that share a processor.
TEST(CalibrateDevice, Loopback) {
  json root = calibrated("cuda-loopback");
  checkDevice(root["device"]);
  EXPECT_EQ(root["processors"]["count"], 1);
  EXPECT_FALSE(root.contains("interference"));
  // Three sums of three types and three other collectives, in groups of 2, 8 and 32.
  EXPECT_EQ(root["collectives"].size(), 3u * (3 * 3 + 3));
  for (const json &exchange : root["collectives"])
    EXPECT_FALSE(exchange["points"].empty());
}

// Ranks with their own devices measure collectives in groups of each shape, and every set of kinds of work. Here the
// ranks share a device, because the test does not emulate NCCL.
TEST(CalibrateDevice, Together) {
  const Settings settings = settingsOf("cuda-loopback");
  const std::vector<Group> groups = allGroups(4, 2);
  std::unique_ptr<Ranks> ranks;
  Status status = Ranks::create({settings.backend, 4, 1, settings.device.arenaBytes, groups}, ranks);
  ASSERT_TRUE(status.ok()) << status.message;
  std::unique_ptr<DeviceBench> bench;
  status = DeviceBench::create(*ranks, settings.device.arenaBytes, settings.device.coldBytes, bench);
  ASSERT_TRUE(status.ok()) << status.message;

  Profile profile;
  status = calibrateGroups(*bench, groups, 2, settings, profile.exchanges);
  ASSERT_TRUE(status.ok()) << status.message;
  std::map<std::pair<int64_t, int64_t>, int> shapes;
  for (const ExchangeFit &fit : profile.exchanges) {
    EXPECT_EQ(fit.minMembers, fit.maxMembers);
    EXPECT_EQ(fit.minPerNode, fit.maxPerNode);
    EXPECT_GT(fit.fit.at(4096), 0);
    EXPECT_TRUE(fit.isCurve);
    EXPECT_GT(fit.samples.size(), 1u);
    ++shapes[{fit.minMembers, fit.minPerNode}];
  }
  EXPECT_THAT(shapes, ElementsAre(Pair(Pair(2, 1), 12), Pair(Pair(2, 2), 12), Pair(Pair(4, 2), 12)));

  status = calibrateInterference(*bench, settings, groups.size() - 1, profile.interference);
  ASSERT_TRUE(status.ok()) << status.message;
  std::vector<std::vector<std::string>> sets;
  for (const Interference &set : profile.interference) {
    sets.push_back(set.running);
    EXPECT_EQ(set.speeds.size(), set.running.size());
    EXPECT_THAT(set.speeds, Each(Gt(0)));
  }
  EXPECT_THAT(sets, ElementsAre(ElementsAre("compute", "communication"), ElementsAre("compute", "copy"),
                                ElementsAre("communication", "copy"), ElementsAre("compute", "communication", "copy")));
}

// The table has each product once, and the times of each possible method, twice. The runtime reads it.
TEST(CalibrateDevice, Methods) {
  Settings settings = settingsOf("cuda-loopback");
  MethodTable table;
  Status status = calibrateMethods(settings, kSaveNothing, table);
  ASSERT_TRUE(status.ok()) << status.message;
  EXPECT_THAT(table.leftOut, ElementsAre());
  const std::string file = testing::TempDir() + "/methods-" + std::to_string(::getpid());
  ASSERT_TRUE(saveMethods(table, file).ok());
  const json root = json::parse(std::ifstream(file));
  EXPECT_EQ(root["device"], "Emulated device 0");
  EXPECT_THAT(root["source"].get<std::string>(), HasSubstr("moe-calibrate --backend=cuda-loopback on Emulated"));
  // Three products of each type remain after sizes are cut.
  ASSERT_EQ(root["choices"].size(), 6u);
  for (const json &entry : root["choices"]) {
    EXPECT_EQ(entry["seconds"].size(), 8u) << entry;
    EXPECT_EQ(entry["rows"], 3 * 24);
    EXPECT_TRUE(entry["seconds"].contains(entry["method"]));
    for (const json &seconds : entry["seconds"])
      EXPECT_THAT(seconds.get<std::vector<double>>(), ElementsAre(Gt(0), Gt(0)));
  }
  // Three dense products of each type remain, with three algorithms of cuBLASLt for each.
  ASSERT_EQ(root["dense"].size(), 6u);
  for (const json &entry : root["dense"]) {
    const std::vector<double> seconds = entry["seconds"];
    ASSERT_THAT(seconds, testing::SizeIs(3));
    const size_t fastest = std::min_element(seconds.begin(), seconds.end()) - seconds.begin();
    EXPECT_THAT(entry["algorithm"].get<std::string>(), testing::StartsWith("130000:000000000000000"));
    EXPECT_EQ(seconds.at(static_cast<size_t>(entry["algorithm"].get<std::string>().at(22) - '1')), seconds[fastest]);
  }
  auto makeRanks = [&] {
    std::unique_ptr<Ranks> ranks;
    ::setenv("MOERT_PRODUCTS", file.c_str(), 1);
    const Status made = Ranks::create({.backend = settings.backend, .arenaBytes = 1 << 20}, ranks);
    ::unsetenv("MOERT_PRODUCTS");
    return made.message;
  };
  EXPECT_EQ(makeRanks(), "");
  std::ofstream(file) << "{}";
  EXPECT_THAT(makeRanks(), HasSubstr("(MOERT_PRODUCTS): missing key 'moert_products'"));
  std::remove(file.c_str());
}

// The table leaves out methods that a product's sizes do not allow.
TEST(CalibrateDevice, MethodsThatCannot) {
  Settings settings = settingsOf("cuda");
  settings.device.raggedSize = 9;
  MethodTable table;
  Status status = calibrateMethods(settings, kSaveNothing, table);
  ASSERT_TRUE(status.ok()) << status.message;
  std::vector<std::string> names;
  for (const MeasuredMethod &method : table.products.at(0).methods)
    names.push_back(method.name);
  EXPECT_THAT(names, ElementsAre("tiles", "cublas-grouped", "cublaslt-1", "cublaslt-2", "cublaslt-4"));
}

// A measurement that ends early leaves a complete table of all products before, those of bf16 first.
TEST(CalibrateDevice, MethodsSoFar) {
  const Settings settings = settingsOf("cuda-loopback");
  const std::string file = testing::TempDir() + "/early-" + std::to_string(::getpid());
  MethodTable table;
  size_t saved = 0;
  Status status = calibrateMethods(
      settings,
      [&](const MethodTable &measured) {
        if (++saved > 8)
          return Status::error(MOERT_ERROR_INTERNAL, "the end");
        return saveMethods(measured, file);
      },
      table);
  EXPECT_EQ(status.message, "the end");
  const json root = json::parse(std::ifstream(file));
  std::remove(file.c_str());
  EXPECT_THAT(typesOf(root["choices"]), ElementsAre("bf16", "bf16", "bf16", "f16", "f16"));
  EXPECT_THAT(typesOf(root["dense"]), ElementsAre("bf16", "bf16", "bf16"));
  EXPECT_FALSE(std::ifstream(file + ".new").is_open());
  EXPECT_THAT(saveMethods(table, "/nowhere/x.json").message, HasSubstr("/nowhere/x.json.new': cannot be written: "));
}

// Products for which no time is left are named.
TEST(CalibrateDevice, MethodsInTime) {
  Settings settings = settingsOf("cuda-loopback");
  settings.limit = 0;
  settings.quick = false;
  MethodTable table;
  Status status = calibrateMethods(settings, kSaveNothing, table);
  ASSERT_TRUE(status.ok()) << status.message;
  EXPECT_TRUE(table.products.empty() && table.dense.empty());
  EXPECT_THAT(table.leftOut,
              ElementsAre("3 of 3 products of experts in bf16, from forward of 3 experts with 24 rows, n 24, k 24 on",
                          "3 of 3 dense products in bf16, from m 24, n 24, k 24 on",
                          "3 of 3 products of experts in f16, from forward of 3 experts with 24 rows, n 24, k 24 on",
                          "3 of 3 dense products in f16, from m 24, n 24, k 24 on"));
}

// Few and many rows are measured, also for layers of many experts and by quick measurements.
TEST(CalibrateDevice, MethodsOfRows) {
  Settings settings = settingsOf("cuda-loopback");
  for (bool quick : {true, false}) {
    settings.quick = quick;
    settings.device.raggedSize = int64_t(1) << 15;
    std::map<int64_t, std::set<int64_t>> rows;
    for (const RaggedShape &shape : raggedShapes(settings))
      rows[shape.experts].insert(shape.rows);
    const std::set<int64_t> few = quick ? std::set<int64_t>{} : std::set<int64_t>{32};
    for (auto &[experts, found] : rows) {
      std::set<int64_t> wanted = few;
      wanted.insert({256, experts == 128 ? 512 : 2048});
      EXPECT_EQ(found, wanted) << experts;
    }
    EXPECT_EQ(rows.size(), 4u);
  }
}

TEST(CalibrateDevice, SkewedRows) {
  EXPECT_THAT(skewedRows(1, 5), ElementsAre(5));
  // Shares of 1, 1 / sqrt(4), 1 / sqrt(3) and 1 / sqrt(2).
  EXPECT_THAT(skewedRows(4, 2784), ElementsAre(1000, 500, 577, 707));
  for (int64_t experts : {3, 7, 128}) {
    const std::vector<int64_t> rows = skewedRows(experts, 1000);
    EXPECT_EQ(std::accumulate(rows.begin(), rows.end(), int64_t(0)), 1000);
    EXPECT_THAT(rows, Each(testing::Ge(0)));
  }
}

// Time before all streams have begun, or after one has ended, does not count.
TEST(CalibrateDevice, SecondsTogether) {
  auto timesOf = [](std::vector<std::pair<int64_t, int64_t>> spans) {
    std::vector<OpTime> times;
    for (auto [begin, end] : spans)
      times.push_back({0, -1, begin, end});
    return times;
  };
  const std::vector<OpTime> slowInside = timesOf({{0, 10}, {10, 20}, {20, 50}, {50, 80}, {80, 90}, {90, 100}});
  EXPECT_THAT(secondsTogether({slowInside, timesOf({{20, 40}, {40, 80}})}),
              ElementsAre(DoubleEq(30e-9), DoubleEq(20e-9)));
  EXPECT_THAT(secondsTogether({slowInside}), ElementsAre(DoubleEq(10e-9)));
  // The streams never ran at the same time.
  EXPECT_THAT(secondsTogether({slowInside, timesOf({{200, 260}})}), ElementsAre(DoubleEq(10e-9), DoubleEq(60e-9)));
}

// There is one group for each number of members and of members on one node.
TEST(CalibrateDevice, Groups) {
  auto textOf = [](int64_t ranks, int64_t perNode) {
    std::string text;
    for (const Group &group : allGroups(ranks, perNode))
      text += group.name + "/" + std::to_string(membersOnNode(group, ranks, perNode)) + " ";
    return text;
  };
  EXPECT_EQ(textOf(1, 1), "");
  EXPECT_EQ(textOf(8, 8), "2x1/2 4x1/4 8x1/8 ");
  EXPECT_EQ(textOf(6, 6), "2x1/2 3x1/3 6x1/6 ");
  EXPECT_EQ(textOf(8, 4), "2x1/2 2x4/1 4x1/4 4x2/2 8x1/4 ");
  // 6x1 has 4 and 2 members on a node, then 2 and 4. Some instances of 2x3 are on one node, and some on two.
  EXPECT_EQ(textOf(12, 4), "2x1/2 2x6/1 3x4/1 4x1/4 6x2/2 12x1/4 ");
  EXPECT_EQ(membersOnNode({"6x1", 6, 1}, 12, 4), 0);
  EXPECT_EQ(membersOnNode({"2x3", 2, 3}, 12, 4), 0);
}

TEST(CalibrateDevice, Identity) {
  ProcessPlace place;
  place.rank = 5;
  place.size = 8;
  place.localRank = 1;
  place.localSize = 4;
  Settings settings;
  settings.backend = "cuda";
  const std::vector<Group> groups = {{"2x1", 2, 1}, {"8x1", 8, 1}};
  EXPECT_EQ(identityOf(place, settings, groups), "moe-calibrate\nprocesses on a machine: 4\n"
                                                 "ranks of a machine follow each other\ngroups: 2x1 8x1");
  settings.quick = true;
  place.localRank = 2;
  EXPECT_EQ(identityOf(place, settings, {}), "moe-calibrate --quick\nprocesses on a machine: 4\n"
                                             "ranks of a machine do not follow each other\ngroups:");
}

// Machines have one, one and two processes, each of which sees all four. Every process gets the error.
TEST(CalibrateDevice, MachinesDiffer) {
  const std::string err = testing::TempDir() + "/calibrate-" + std::to_string(::getpid()) + ".";
  std::string command =
      "export WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 MASTER_PORT=" + std::to_string(20000 + ::getpid() % 20000) +
      " MOERT_BACKENDS=" BACKENDS " CUDA_EMULATION_DEVICES=8; ";
  const int localSizes[] = {1, 1, 2, 2}, localRanks[] = {0, 0, 0, 1};
  // GPUs of different machines are different.
  const char *const visible[] = {"0", "1", "2,3", "2,3"};
  for (int r = 0; r < 4; ++r)
    command += "RANK=" + std::to_string(r) + " LOCAL_RANK=" + std::to_string(localRanks[r]) +
               " LOCAL_WORLD_SIZE=" + std::to_string(localSizes[r]) + " CUDA_VISIBLE_DEVICES=" + visible[r] +
               " timeout 60 " MOE_CALIBRATE " --backend=cuda --quick -o - > /dev/null 2> " + err + std::to_string(r) +
               " & ";
  ASSERT_EQ(std::system((command + "wait").c_str()), 0);
  for (int r = 0; r < 4; ++r) {
    std::ostringstream text;
    text << std::ifstream(err + std::to_string(r)).rdbuf();
    EXPECT_THAT(text.str(),
                HasSubstr("rank 2 does not run the same as rank 0; start all ranks with the same plan, options and "
                          "data:\n  processes on a machine: expected '1' but got '2'"))
        << r;
    std::remove((err + std::to_string(r)).c_str());
  }
}
