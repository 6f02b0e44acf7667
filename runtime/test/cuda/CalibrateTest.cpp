//===- CalibrateTest.cpp - calibration of a device ------------------------===//
//
// On the emulated one, whose times say nothing: what is measured, and that a profile may hold it.
//
//===----------------------------------------------------------------------===//

#include "calibrate/Calibrate.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

using namespace moert;
using namespace moert::calibrate;
using nlohmann::json;
using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::Gt;
using testing::HasSubstr;
using testing::Le;
using testing::Pair;

namespace {

Settings settingsOf(const std::string &backend) {
  ::setenv("MOERT_BACKENDS", BACKENDS, 1);
  Settings settings;
  settings.backend = backend;
  settings.largestRows = 64;
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
  // For moe-sim to read, too.
  std::ofstream(PROFILES "/" + backend + ".json") << text.str();
  return status.ok() ? json::parse(text.str()) : json::object();
}

std::vector<std::string> typesOf(const json &rates) {
  std::vector<std::string> types;
  for (const json &rate : rates)
    types.push_back(rate["dtype"]);
  return types;
}

/// Rates and kernels of all types that devices compute in, and copies.
void checkDevice(const json &device) {
  EXPECT_EQ(device["name"], "Emulated device 0");
  EXPECT_GT(device["launch_s"], 0);
  EXPECT_GT(device["kernel_s"], 0);
  EXPECT_GT(device["host_link"]["bytes_per_s"], 0);
  ASSERT_THAT(typesOf(device["rates"]), ElementsAre("f32", "bf16", "f16"));
  for (const json &rate : device["rates"]) {
    ASSERT_EQ(rate["special"].size(), 2u);
    EXPECT_EQ(rate["special"][0]["calls"][0]["kernel"], "grouped_matmul");
    EXPECT_EQ(rate["special"][1]["calls"][0]["kernel"], "grouped_matmul_wgrad");
    double most = 0;
    for (const json *curve : {&rate["efficiency"], &rate["special"][0], &rate["special"][1]})
      for (double value : (*curve)["values"]) {
        EXPECT_GT(value, 0);
        most = std::max(most, value);
      }
    EXPECT_EQ(most, 1);
  }
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

} // namespace

// A GPU alone has nothing to communicate with.
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
  for (const char *kind : {"compute", "copy"}) {
    EXPECT_GT(root["interference"][0][kind], 0);
    EXPECT_LE(root["interference"][0][kind], 1);
  }
}

// Ranks that share a GPU are as ranks that share one processor.
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

// What ranks with devices of their own measure together: collectives in groups of each shape, and every set of kinds of
// work. Here the ranks share a device, because nothing emulates NCCL.
TEST(CalibrateDevice, Together) {
  const Settings settings = settingsOf("cuda-loopback");
  const std::vector<Group> groups = allGroups(4, 2);
  std::unique_ptr<Ranks> ranks;
  Status status = Ranks::create({settings.backend, 4, 1, arenaBytes(settings), groups}, ranks);
  ASSERT_TRUE(status.ok()) << status.message;
  std::unique_ptr<DeviceBench> bench;
  status = DeviceBench::create(*ranks, arenaBytes(settings), arenaBytes(settings) / 2, bench);
  ASSERT_TRUE(status.ok()) << status.message;

  Profile profile;
  status = calibrateGroups(*bench, groups, 2, settings, profile.exchanges);
  ASSERT_TRUE(status.ok()) << status.message;
  std::map<std::pair<int64_t, int64_t>, int> shapes;
  for (const ExchangeFit &fit : profile.exchanges) {
    EXPECT_EQ(fit.minMembers, fit.maxMembers);
    EXPECT_EQ(fit.minPerNode, fit.maxPerNode);
    EXPECT_GT(fit.fit.at(4096), 0);
    ++shapes[{fit.minMembers, fit.minPerNode}];
  }
  EXPECT_THAT(shapes, ElementsAre(Pair(Pair(2, 1), 12), Pair(Pair(2, 2), 12), Pair(Pair(4, 2), 12)));

  status = calibrateInterference(*bench, settings, groups.size() - 1, profile.interference);
  ASSERT_TRUE(status.ok()) << status.message;
  ASSERT_EQ(profile.interference.size(), 4u);
  EXPECT_THAT(profile.interference[0].running, ElementsAre("compute", "communication"));
  EXPECT_THAT(profile.interference[3].running, ElementsAre("compute", "communication", "copy"));
  for (const Interference &set : profile.interference)
    EXPECT_THAT(set.speeds, Each(AllOf(Gt(0), Le(1))));
}

// One group for each number of members and of those on one node.
TEST(CalibrateDevice, Groups) {
  auto textOf = [](int64_t ranks, int64_t perNode) {
    std::string text;
    for (const Group &group : allGroups(ranks, perNode))
      text += group.name + "/" + std::to_string(membersOnNode(group, perNode)) + " ";
    return text;
  };
  EXPECT_EQ(textOf(1, 1), "");
  EXPECT_EQ(textOf(8, 8), "2x1/2 4x1/4 8x1/8 ");
  EXPECT_EQ(textOf(6, 6), "2x1/2 3x1/3 6x1/6 ");
  EXPECT_EQ(textOf(8, 4), "2x1/2 2x4/1 4x1/4 4x2/2 8x1/4 ");
}
