//===- ReadNetwork.cpp - links and collectives in a profile ---------------===//
#include "LinkNames.h"
#include "ProfileReader.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir::moe;
using namespace mlir::moe::profile;
using llvm::StringRef;
using llvm::Twine;

static constexpr llvm::StringLiteral algorithmNames[kNumAlgorithms] = {"ring",         "tree", "pairwise",
                                                                       "hierarchical", "nvls", "fastest"};

StringRef mlir::moe::getName(Algorithm algorithm) { return algorithmNames[static_cast<unsigned>(algorithm)]; }

std::vector<LinkPattern> mlir::moe::profile::readLinks(JsonReader &root, int64_t devices) {
  std::vector<LinkPattern> links;
  for (JsonReader &reader : root.getObjects("links")) {
    LinkPattern link;
    link.from = reader.getString("from");
    link.to = reader.getString("to");
    if (auto names = expandLinkName(link.from, devices); !names)
      reader.fail("from", llvm::toString(names.takeError()));
    if (auto pairs = expandLink(link.from, link.to, devices); !pairs)
      reader.fail("to", llvm::toString(pairs.takeError()));
    link.bytesPerSecond = reader.getNumber("bytes_per_s", kPositive);
    link.backBytesPerSecond = reader.getNumber("back_bytes_per_s", kNotNegative, link.bytesPerSecond);
    link.latency = reader.getNumber("latency_s", kNotNegative);
    link.post = reader.getNumber("post_s", kNotNegative, 0);
    link.reduces = reader.getBool("reduces", false);
    readSource(reader);
    links.push_back(std::move(link));
  }
  return links;
}

std::vector<FabricLevel> mlir::moe::profile::readFabric(JsonReader &root) {
  std::vector<FabricLevel> levels;
  for (JsonReader &reader : root.getObjects("fabric")) {
    FabricLevel level;
    level.name = reader.getString("name");
    // The number of the switch follows the name.
    if (level.name == kNetwork || !llvm::all_of(level.name, [](char c) { return llvm::isLower(c) || c == '_'; }))
      reader.fail("name", "a name of small letters other than network");
    if (llvm::any_of(levels, [&](const FabricLevel &other) { return other.name == level.name; }))
      reader.fail("name", "a name that no earlier level has");
    int64_t below = levels.empty() ? 1 : levels.back().nodes;
    level.nodes = reader.getInteger("nodes", 1, nodesLimit);
    if (level.nodes % below != 0 || (!levels.empty() && level.nodes == below))
      reader.fail("nodes", "a multiple of the level below, " + Twine(below) + ",");
    level.bytesPerSecond = reader.getNumber("bytes_per_s", kPositive);
    level.latency = reader.getNumber("latency_s", kNotNegative);
    readSource(reader);
    levels.push_back(std::move(level));
  }
  return levels;
}

std::array<Algorithm, kNumCollectives> mlir::moe::profile::readAlgorithms(JsonReader &root) {
  std::array<Algorithm, kNumCollectives> algorithms;
  algorithms.fill(Algorithm::Ring);
  algorithms[static_cast<unsigned>(Collective::AllReduce)] = Algorithm::Fastest;
  algorithms[static_cast<unsigned>(Collective::AllToAll)] = Algorithm::Pairwise;
  if (!root.find("algorithms"))
    return algorithms;
  JsonReader reader = root.getObject("algorithms");
  const llvm::SmallVector<StringRef> accepted(std::begin(algorithmNames), std::end(algorithmNames));
  for (unsigned i = 1; i < kNumCollectives; ++i)
    algorithms[i] = static_cast<Algorithm>(
        reader.getChoice(getName(static_cast<Collective>(i)), accepted, static_cast<size_t>(algorithms[i])));
  reader.refuseOtherKeys();
  return algorithms;
}

std::vector<Protocol> mlir::moe::profile::readProtocols(JsonReader &root) {
  std::vector<Protocol> protocols;
  for (JsonReader &reader : root.getObjects("protocols")) {
    Protocol protocol;
    protocol.name = reader.getString("name");
    if (llvm::any_of(protocols, [&](const Protocol &other) { return other.name == protocol.name; }))
      reader.fail("name", "a name that no earlier protocol has");
    protocol.base = reader.getNumber("base_s", kNotNegative);
    protocol.latency = reader.getNumber("latency", kNotNegative);
    protocol.treeLatency = reader.getNumber("tree_latency", kNotNegative, protocol.latency);
    protocol.post = reader.getNumber("post", kNotNegative);
    protocol.bandwidth = reader.getNumber("bandwidth", kFraction);
    for (const auto &[i, name] : llvm::enumerate(reader.getStrings("algorithms"))) {
      const auto *known = llvm::find(algorithmNames, name);
      if (known == std::end(algorithmNames))
        reader.fail(("algorithms[" + Twine(i) + "]").str(), "the name of an algorithm");
      protocol.algorithms.push_back(static_cast<Algorithm>(known - algorithmNames));
    }
    readSource(reader);
    protocols.push_back(std::move(protocol));
  }
  if (protocols.empty())
    protocols.emplace_back();
  return protocols;
}

/// Reads a line, or a curve through the points if there is no line.
static void readTimes(JsonReader &reader, CollectiveFit &fit) {
  fit.isCurve = !reader.find("alpha_s") && !reader.find("beta_s_per_byte") && reader.find("points");
  if (!fit.isCurve) {
    fit.alpha = reader.getNumber("alpha_s", kNotNegative);
    fit.perMember = reader.getNumber("per_member_s", kNotNegative, 0);
    fit.beta = reader.getNumber("beta_s_per_byte", kNotNegative);
  }
  readFit(reader, fit);
  bool isRising = llvm::is_sorted(fit.points, [](auto &a, auto &b) { return a.bytes <= b.bytes; });
  if (fit.isCurve && (fit.points.size() < 2 || fit.points.front().bytes <= 0 || !isRising))
    reader.fail("points",
                "at least two points with rising bytes from more than 0, or 'alpha_s' and 'beta_s_per_byte',");
}

std::vector<CollectiveFit> mlir::moe::profile::readCollectives(JsonReader &root, const ClusterProfile &profile) {
  llvm::SmallVector<StringRef> names;
  for (unsigned i = 1; i < kNumCollectives; ++i)
    names.push_back(getName(static_cast<Collective>(i)));
  std::vector<CollectiveFit> fits;
  for (JsonReader &reader : root.getObjects("collectives")) {
    CollectiveFit fit;
    fit.collective = static_cast<Collective>(1 + reader.getChoice("collective", names));
    fit.dtype = readOptionalDtype(reader);
    Range members = readRange(reader, "members", profile.getMaxDevices());
    Range perNode = readRange(reader, "per_node", std::min(members.max, profile.devicesPerNode));
    fit.minMembers = members.min;
    fit.maxMembers = members.max;
    fit.minPerNode = perNode.min;
    fit.maxPerNode = perNode.max;
    if (llvm::any_of(fits, [&](const CollectiveFit &other) {
          return other.collective == fit.collective && other.dtype == fit.dtype &&
                 members == Range{other.minMembers, other.maxMembers} &&
                 perNode == Range{other.minPerNode, other.maxPerNode};
        }))
      reader.fail("collective", "a collective, dtype, members and per_node that no earlier entry has");
    readTimes(reader, fit);
    readSource(reader);
    fits.push_back(std::move(fit));
  }
  return fits;
}
