//===- TopologyTest.cpp - links and the paths over them -------------------===//
//
// Toy clusters with integer latencies, whose sums are exact.
//
//===----------------------------------------------------------------------===//

#include "moe/Cost/Topology.h"

#include "llvm/ADT/StringExtras.h"

#include <gtest/gtest.h>

using namespace mlir::moe;

namespace {

ClusterProfile makeProfile(int64_t nodes, int64_t devices, std::vector<LinkPattern> links,
                           std::vector<FabricLevel> fabric = {}) {
  ClusterProfile profile;
  profile.name = "toy";
  profile.maxNodes = nodes;
  profile.devicesPerNode = devices;
  profile.links = std::move(links);
  profile.fabric = std::move(fabric);
  return profile;
}

LinkPattern makeLink(std::string from, std::string to, double bytesPerSecond, double latency) {
  return {std::move(from), std::move(to), bytesPerSecond, bytesPerSecond, latency};
}

Topology makeTopology(const ClusterProfile &profile, int64_t ranks) {
  llvm::Expected<Topology> topology = Topology::create(profile, ranks);
  if (topology)
    return std::move(*topology);
  ADD_FAILURE() << llvm::toString(topology.takeError());
  return Topology();
}

std::string errorOf(const ClusterProfile &profile, int64_t ranks) {
  llvm::Expected<Topology> topology = Topology::create(profile, ranks);
  return topology ? "" : llvm::toString(topology.takeError());
}

/// Vertices of the path, as in `a b c`. Checks that its links follow each other.
std::string getVertices(const Topology &topology, int64_t from, int64_t to) {
  std::string text;
  const Link *last = nullptr;
  for (uint32_t number : topology.getPath(from, to)) {
    const Link &link = topology.getLinks()[number];
    if (last) {
      EXPECT_EQ(last->to, link.from);
    }
    text += (last ? "" : link.from) + " " + link.to;
    last = &link;
  }
  return text;
}

const Link *findLink(const Topology &topology, llvm::StringRef from, llvm::StringRef to) {
  for (const Link &link : topology.getLinks())
    if (link.from == from && link.to == to)
      return &link;
  return nullptr;
}

// Directly joined devices reach each other in one hop, and others over the device between.
TEST(Topology, Mesh) {
  // Joins device 0 with all others, and 1 with 2.
  Topology topology = makeTopology(makeProfile(1, 4,
                                               {makeLink("device0", "device[1-3]", 10, 3), // 0-1, 0-2, 0-3
                                                makeLink("device1", "device2", 20, 5)}),
                                   4);
  EXPECT_EQ(topology.getLinks().size(), 8u);
  EXPECT_EQ(getVertices(topology, 1, 2), "node0/device1 node0/device2");
  EXPECT_EQ(topology.getLatency(1, 2), 5);
  EXPECT_EQ(getVertices(topology, 1, 3), "node0/device1 node0/device0 node0/device3");
  EXPECT_EQ(topology.getLatency(1, 3), 6);
  EXPECT_TRUE(topology.getPath(2, 2).empty());
  EXPECT_EQ(topology.getLatency(2, 2), 0);
}

// A switch joins all devices in two hops, and a path keeps its address after the first request.
TEST(Topology, Switch) {
  Topology topology = makeTopology(makeProfile(1, 8, {makeLink("device*", "nvswitch", 100, 2)}), 8);
  EXPECT_EQ(topology.getLinks().size(), 16u);
  llvm::ArrayRef<uint32_t> path = topology.getPath(0, 7);
  EXPECT_EQ(getVertices(topology, 0, 7), "node0/device0 node0/nvswitch node0/device7");
  for (int64_t i = 0; i < 8; ++i)
    for (int64_t j = 0; j < 8; ++j)
      EXPECT_EQ(topology.getPath(i, j).size(), i == j ? 0u : 2u);
  EXPECT_EQ(topology.getPath(0, 7).data(), path.data());
}

ClusterProfile makeTree(int64_t nodes) {
  return makeProfile(nodes, 4,
                     {makeLink("device[0-1]", "pcie0", 12, 1), makeLink("device[2-3]", "pcie1", 12, 1),
                      makeLink("pcie0", "socket0", 12, 10), makeLink("pcie1", "socket1", 12, 10),
                      makeLink("socket0", "socket1", 10, 100), makeLink("socket0", "nic", 12, 1000),
                      makeLink("nic", "network", 6, 10000)});
}

// PCIe switches below two sockets, one NIC on the first: paths inside the node, and between nodes.
TEST(Topology, PcieTreeWithTwoSockets) {
  Topology topology = makeTopology(makeTree(2), 8);
  EXPECT_EQ(getVertices(topology, 2, 3), "node0/device2 node0/pcie1 node0/device3");
  EXPECT_EQ(getVertices(topology, 1, 2),
            "node0/device1 node0/pcie0 node0/socket0 node0/socket1 node0/pcie1 node0/device2");
  EXPECT_EQ(topology.getLatency(1, 2), 122);
  EXPECT_EQ(getVertices(topology, 3, 4),
            "node0/device3 node0/pcie1 node0/socket1 node0/socket0 node0/nic network node1/nic node1/socket0 "
            "node1/pcie0 node1/device0");
  EXPECT_EQ(topology.getLatency(3, 4), 111 + 11000 + 11000 + 11);
  EXPECT_EQ(getVertices(topology, 6, 7), "node1/device2 node1/pcie1 node1/device3");
}

// `*` in both names pairs each device with its NIC. Devices without a link inside the node meet over the network.
TEST(Topology, NicPerDevice) {
  ClusterProfile profile = makeProfile(4, 2, {makeLink("device*", "nic*", 50, 1), makeLink("nic*", "network", 50, 10)});
  Topology topology = makeTopology(profile, 8);
  EXPECT_EQ(getVertices(topology, 3, 6), "node1/device1 node1/nic1 network node3/nic0 node3/device0");
  EXPECT_EQ(getVertices(topology, 2, 3), "node1/device0 node1/nic0 network node1/nic1 node1/device1");
  EXPECT_EQ(topology.getLatency(2, 3), 22);
  // A switch inside is nearer.
  profile.links.push_back(makeLink("device*", "nvswitch", 400, 100));
  EXPECT_EQ(getVertices(makeTopology(profile, 8), 2, 3), "node1/device0 node1/nvswitch node1/device1");
}

// Two fabric levels: the path goes up to the lowest switch that serves both nodes.
TEST(Topology, TwoFabricLevels) {
  Topology topology = makeTopology(
      makeProfile(16, 1, {makeLink("device0", "network", 50, 1)}, {{"leaf", 2, 80, 10}, {"spine", 4, 120, 100}}), 10);
  EXPECT_EQ(getVertices(topology, 0, 1), "node0/device0 leaf0 node1/device0");
  EXPECT_EQ(topology.getLatency(0, 1), 2);
  EXPECT_EQ(getVertices(topology, 1, 2), "node1/device0 leaf0 spine0 leaf1 node2/device0");
  EXPECT_EQ(topology.getLatency(1, 2), 22);
  EXPECT_EQ(getVertices(topology, 9, 3), "node9/device0 leaf4 spine2 network spine0 leaf1 node3/device0");
  EXPECT_EQ(topology.getLatency(9, 3), 222);
  // 10 nodes, 5 leaves and 3 spines, each with a link up and one down.
  EXPECT_EQ(topology.getLinks().size(), 2u * (10 + 5 + 3));
  ASSERT_NE(findLink(topology, "spine2", "network"), nullptr);
  EXPECT_EQ(findLink(topology, "spine2", "network")->bytesPerSecond, 120);
}

// Among paths of as many links the least latency counts, and then the order of the file.
TEST(Topology, TieBreaks) {
  std::vector<LinkPattern> links = {makeLink("device*", "a", 1, 2), makeLink("device*", "b", 1, 1),
                                    makeLink("device*", "c", 1, 1)};
  EXPECT_EQ(getVertices(makeTopology(makeProfile(1, 2, links), 2), 0, 1), "node0/device0 node0/b node0/device1");
  std::swap(links[1], links[2]);
  EXPECT_EQ(getVertices(makeTopology(makeProfile(1, 2, links), 2), 0, 1), "node0/device0 node0/c node0/device1");
  // The first different link decides, not the last.
  links = {makeLink("b", "device1", 1, 1), makeLink("device0", "a", 1, 1), makeLink("device0", "b", 1, 1),
           makeLink("a", "device1", 1, 1)};
  EXPECT_EQ(getVertices(makeTopology(makeProfile(1, 2, links), 2), 0, 1), "node0/device0 node0/a node0/device1");
  // Fewer links have priority over less latency.
  links = {makeLink("device0", "device1", 1, 100), makeLink("device*", "a", 1, 1)};
  EXPECT_EQ(getVertices(makeTopology(makeProfile(1, 2, links), 2), 0, 1), "node0/device0 node0/device1");
}

// Links between the same vertices form one with the sum of their bandwidths. A back bandwidth of 0 leaves one
// direction.
TEST(Topology, MergesLinks) {
  std::vector<LinkPattern> links = {makeLink("device0", "device1", 10, 3), makeLink("device1", "device0", 5, 2)};
  links[1].backBytesPerSecond = 0;
  Topology topology = makeTopology(makeProfile(1, 2, links), 2);
  ASSERT_EQ(topology.getLinks().size(), 2u);
  EXPECT_EQ(findLink(topology, "node0/device0", "node0/device1")->bytesPerSecond, 10);
  EXPECT_EQ(findLink(topology, "node0/device0", "node0/device1")->latency, 3);
  EXPECT_EQ(findLink(topology, "node0/device1", "node0/device0")->bytesPerSecond, 15);
  EXPECT_EQ(findLink(topology, "node0/device1", "node0/device0")->latency, 2);
}

// A fault slows one direction of one node's link. Other links and the paths do not change.
TEST(Topology, Faults) {
  Topology topology = makeTopology(makeTree(2), 8);
  EXPECT_FALSE(static_cast<bool>(topology.slowDown("node1/nic", "network", 0.5)));
  EXPECT_EQ(findLink(topology, "node1/nic", "network")->bytesPerSecond, 3);
  EXPECT_EQ(findLink(topology, "network", "node1/nic")->bytesPerSecond, 6);
  EXPECT_EQ(findLink(topology, "node0/nic", "network")->bytesPerSecond, 6);
  EXPECT_EQ(topology.getPath(0, 4).size(), 8u);
  EXPECT_EQ(llvm::toString(topology.slowDown("node1/nic", "network0", 0.5)),
            "link 'node1/nic' to 'network0': expected one of the links, such as 'node1/nic' to 'node1/socket0', "
            "'node1/nic' to 'network'");
  EXPECT_EQ(llvm::toString(topology.slowDown("nic", "network", 0.5)),
            "link 'nic' to 'network': expected one of the links, such as 'node0/device0' to 'node0/pcie0', "
            "'node0/pcie0' to 'node0/device0', 'node0/device1' to 'node0/pcie0', 'node0/pcie0' to 'node0/device1', "
            "'node0/device2' to 'node0/pcie1', 'node0/pcie1' to 'node0/device2'");
  for (double factor : {0.0, -1.0, 1.5, std::numeric_limits<double>::quiet_NaN()})
    EXPECT_EQ(llvm::toString(topology.slowDown("node1/nic", "network", factor)),
              "link 'node1/nic' to 'network': expected a factor greater than 0 and at most 1");
}

// Ranks without a path are named, inside a node and between nodes.
TEST(Topology, NoWay) {
  EXPECT_EQ(
      errorOf(makeProfile(1, 4, {makeLink("device[0-1]", "a", 1, 1), makeLink("device[2-3]", "b", 1, 1)}), 4),
      "cluster 'toy': expected links that lead from 'node0/device0' to 'node0/device2', but there is no such path");
  EXPECT_EQ(
      errorOf(makeProfile(2, 2, {makeLink("device0", "device1", 1, 1)}), 4),
      "cluster 'toy': expected links that lead from 'node0/device0' to 'node1/device0', but there is no such path");
  std::vector<LinkPattern> oneWay = {makeLink("device*", "network", 1, 1)};
  oneWay[0].backBytesPerSecond = 0;
  oneWay.push_back(makeLink("device0", "device1", 1, 1));
  EXPECT_EQ(
      errorOf(makeProfile(2, 2, oneWay), 4),
      "cluster 'toy': expected links that lead from 'node1/device0' to 'node0/device0', but there is no such path");
  // Unused devices need not be joined.
  EXPECT_EQ(errorOf(makeProfile(2, 2, {makeLink("device0", "device1", 1, 1)}), 2), "");
}

// Errors of links that the profile's reader would refuse.
TEST(Topology, RefusesWhatDoesNotFit) {
  EXPECT_EQ(errorOf(makeProfile(1, 4, {}), 1), "");
  EXPECT_EQ(errorOf(makeProfile(1, 4, {makeLink("device4", "a", 1, 1)}), 4),
            "cluster 'toy': link 'device4' to 'a': expected devices from device0 to device3");
}

// Each shipped profile with links joins all of its devices. In those of 1024 devices, nodes at the far ends are
// checked, too.
TEST(Topology, SharedProfiles) {
  for (const char *name : {"parm-a",           "parm-b",           "mpipemoe-a100", "ppmoe-v100-32", "ppmoe-v100-128",
                           "fastermoe-johnny", "fastermoe-trevor", "hgx-h100",      "hgx-h200",      "hgx-b200",
                           "hgx-b300",         "gb200-nvl72",      "h800",          "gb300-nvl72",   "aws-p5",
                           "aws-p5en",         "aws-p6-b200",      "aws-p6-b300",   "mi300x",        "mi355x"}) {
    SCOPED_TRACE(name);
    llvm::Expected<ClusterProfile> profile =
        ClusterProfile::load(std::string(MOE_SHARE_DIR) + "/clusters/" + name + ".json");
    ASSERT_TRUE(static_cast<bool>(profile)) << llvm::toString(profile.takeError());
    int64_t ranks = profile->getMaxDevices();
    Topology topology = makeTopology(*profile, ranks);
    EXPECT_GT(topology.getLatency(0, ranks - 1), 0);
    EXPECT_NE(getVertices(topology, 0, ranks - 1), "");
  }
}

} // namespace
