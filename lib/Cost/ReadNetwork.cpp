//===- ReadNetwork.cpp - links and collectives in a profile ---------------===//
#include "ProfileReader.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <tuple>

using namespace mlir::moe;
using namespace mlir::moe::profile;
using llvm::StringRef;
using llvm::Twine;

//===----------------------------------------------------------------------===//
// Names of vertices
//===----------------------------------------------------------------------===//

static constexpr int64_t maxNumber = 4095;

static llvm::Error expect(const Twine &what) { return llvm::createStringError(what); }

/// Parses a number without a sign or leading zeros.
static std::optional<int64_t> parseNumber(StringRef text) {
  int64_t number;
  if (text.getAsInteger(10, number) || number < 0 || number > maxNumber || text != std::to_string(number))
    return std::nullopt;
  return number;
}

namespace {
/// `stem*`, `stem[first-last]` or just `stem`.
struct NamePattern {
  StringRef stem;
  bool isPattern = false;
  int64_t first = 0, last = 0;
};
} // namespace

static std::optional<NamePattern> parsePattern(StringRef name, int64_t devices) {
  NamePattern pattern{name};
  if (name.ends_with("*")) {
    pattern = {name.drop_back(), true, 0, devices - 1};
  } else if (name.ends_with("]")) {
    auto [stem, numbers] = name.drop_back().split('[');
    auto [first, last] = numbers.split('-');
    std::optional<int64_t> from = parseNumber(first), to = parseNumber(last);
    if (!from || !to || *from > *to)
      return std::nullopt;
    pattern = {stem, true, *from, *to};
  }
  auto fits = [](char c) { return llvm::isLower(c) || llvm::isDigit(c) || c == '_'; };
  if (pattern.stem.empty() || !llvm::isLower(pattern.stem.front()) || !llvm::all_of(pattern.stem, fits))
    return std::nullopt;
  // device*1 or pcie1* would name vertices twice: a pattern's numbers are all of a name's digits.
  if (pattern.isPattern && llvm::isDigit(pattern.stem.back()))
    return std::nullopt;
  return pattern;
}

llvm::Expected<llvm::SmallVector<std::string>> mlir::moe::profile::expandLinkName(StringRef name, int64_t devices) {
  std::optional<NamePattern> pattern = parsePattern(name, devices);
  if (!pattern || (pattern->isPattern && pattern->stem == kNetwork))
    return expect("a name such as device0, device*, device[0-3], nic*, pcie0 or network");
  if (pattern->stem.starts_with("device")) {
    // Only names of devices begin this way.
    std::optional<int64_t> number = pattern->isPattern ? pattern->last : parseNumber(pattern->stem.drop_front(6));
    if (!number || *number >= devices || (pattern->isPattern && pattern->stem != "device"))
      return expect("devices from device0 to device" + Twine(devices - 1));
  }
  llvm::SmallVector<std::string> names;
  if (!pattern->isPattern)
    names.push_back(name.str());
  else
    for (int64_t i = pattern->first; i <= pattern->last; ++i)
      names.push_back((pattern->stem + Twine(i)).str());
  return names;
}

llvm::Expected<llvm::SmallVector<std::pair<std::string, std::string>>>
mlir::moe::profile::expandLink(StringRef from, StringRef to, int64_t devices) {
  auto fromNames = expandLinkName(from, devices);
  if (!fromNames)
    return fromNames.takeError();
  auto toNames = expandLinkName(to, devices);
  if (!toNames)
    return toNames.takeError();
  auto isPattern = [](StringRef name) { return name.ends_with("*") || name.ends_with("]"); };
  bool pairwise = isPattern(from) && isPattern(to);
  if (pairwise && fromNames->size() != toNames->size())
    return expect("a name that stands for " + Twine(fromNames->size()) + " vertices, as '" + from + "' does,");
  llvm::SmallVector<std::pair<std::string, std::string>> links;
  for (size_t i = 0; i < fromNames->size(); ++i)
    for (size_t j = pairwise ? i : 0, end = pairwise ? i + 1 : toNames->size(); j < end; ++j) {
      if ((*fromNames)[i] == (*toNames)[j])
        return expect("another vertex than '" + Twine((*fromNames)[i]) + "', where the link begins,");
      links.emplace_back((*fromNames)[i], (*toNames)[j]);
    }
  return links;
}

//===----------------------------------------------------------------------===//
// Links, algorithms and collectives
//===----------------------------------------------------------------------===//

static constexpr llvm::StringLiteral algorithmNames[kNumAlgorithms] = {"ring",         "tree", "pairwise",
                                                                       "hierarchical", "nvls", "fastest"};

StringRef mlir::moe::getName(Algorithm algorithm) { return algorithmNames[static_cast<unsigned>(algorithm)]; }

static void readLink(JsonReader &reader, LinkPattern &link, int64_t devices) {
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
}

static void readLevel(JsonReader &reader, FabricLevel &level, llvm::ArrayRef<FabricLevel> earlier) {
  level.name = reader.getString("name");
  // The number of the switch follows the name.
  if (level.name == kNetwork || !llvm::all_of(level.name, [](char c) { return llvm::isLower(c) || c == '_'; }))
    reader.fail("name", "a name of small letters other than network");
  if (llvm::any_of(earlier, [&](const FabricLevel &other) { return other.name == level.name; }))
    reader.fail("name", "a name that no earlier level has");
  int64_t below = earlier.empty() ? 1 : earlier.back().nodes;
  level.nodes = reader.getInteger("nodes", 1, nodesLimit);
  if (level.nodes % below != 0 || (!earlier.empty() && level.nodes == below))
    reader.fail("nodes", "a multiple of the level below, " + Twine(below) + ",");
  level.bytesPerSecond = reader.getNumber("bytes_per_s", kPositive);
  level.latency = reader.getNumber("latency_s", kNotNegative);
}

static std::array<Algorithm, kNumCollectives> readAlgorithms(JsonReader &root) {
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

static void readProtocol(JsonReader &reader, Protocol &protocol, llvm::ArrayRef<Protocol> earlier) {
  protocol.name = reader.getString("name");
  if (llvm::any_of(earlier, [&](const Protocol &other) { return other.name == protocol.name; }))
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
}

void mlir::moe::profile::readNetwork(JsonReader &root, ClusterProfile &profile) {
  profile.links = readList<LinkPattern>(root, "links", [&](JsonReader &reader, LinkPattern &link, auto) {
    readLink(reader, link, profile.devicesPerNode);
  });
  profile.fabric = readList<FabricLevel>(root, "fabric", readLevel);
  profile.algorithms = readAlgorithms(root);
  if (std::vector<Protocol> protocols = readList<Protocol>(root, "protocols", readProtocol); !protocols.empty())
    profile.protocols = std::move(protocols);
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

void mlir::moe::profile::readCollectives(JsonReader &root, ClusterProfile &profile) {
  llvm::SmallVector<StringRef> names;
  for (unsigned i = 1; i < kNumCollectives; ++i)
    names.push_back(getName(static_cast<Collective>(i)));
  auto read = [&](JsonReader &reader, CollectiveFit &fit, llvm::ArrayRef<CollectiveFit> earlier) {
    fit.collective = static_cast<Collective>(1 + reader.getChoice("collective", names));
    fit.dtype = readOptionalDtype(reader);
    std::tie(fit.minMembers, fit.maxMembers) = readRange(reader, "members", profile.getMaxDevices());
    int64_t mostPerNode = std::min(fit.maxMembers, profile.devicesPerNode);
    std::tie(fit.minPerNode, fit.maxPerNode) = readRange(reader, "per_node", mostPerNode);
    auto getAll = [](const CollectiveFit &it) {
      return std::tie(it.collective, it.dtype, it.minMembers, it.maxMembers, it.minPerNode, it.maxPerNode);
    };
    if (llvm::any_of(earlier, [&](const CollectiveFit &other) { return getAll(other) == getAll(fit); }))
      reader.fail("collective", "a collective, dtype, members and per_node that no earlier entry has");
    readTimes(reader, fit);
  };
  profile.collectives = readList<CollectiveFit>(root, "collectives", read);
}
