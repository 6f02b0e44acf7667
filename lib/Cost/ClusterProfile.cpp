//===- ClusterProfile.cpp - reading and checking cluster profiles ---------===//
//
// One function for each kind of object in the file, in the order of docs/Clusters.md.
//
//===----------------------------------------------------------------------===//
#include "moe/Cost/ClusterProfile.h"
#include "LinkNames.h"
#include "moe/Support/JsonReader.h"

#include "moe/Support/InputFile.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace mlir::moe;
using llvm::StringRef;
using llvm::Twine;

static constexpr llvm::StringLiteral algorithmNames[kNumAlgorithms] = {"ring", "tree", "pairwise", "hierarchical",
                                                                       "ring_or_tree"};

StringRef mlir::moe::getName(Algorithm algorithm) { return algorithmNames[static_cast<unsigned>(algorithm)]; }

namespace {

constexpr int64_t nodesLimit = 1 << 16;
constexpr int64_t maxDevicesPerNode = 1 << 10;
constexpr int64_t maxProcessors = 1 << 12;
/// Element types of computation, then those that are only moved.
const StringRef dtypes[] = {"f64", "f32", "tf32", "bf16", "f16", "i32"};
constexpr size_t numComputeDtypes = 5;

struct Range {
  int64_t min = 0, max = 0;
  bool operator==(const Range &) const = default;
};

/// A number, or `{"min": .., "max": ..}`.
Range readRange(JsonReader &reader, StringRef key, int64_t max) {
  const llvm::json::Value *value = reader.find(key);
  if (!value || !value->getAsObject()) {
    int64_t number = reader.getInteger(key, 1, max);
    return {number, number};
  }
  JsonReader object = reader.getObject(key);
  Range range;
  range.min = object.getInteger("min", 1, max);
  range.max = object.getInteger("max", range.min, max);
  object.refuseOtherKeys();
  return range;
}

/// Every object of figures ends so.
void readSource(JsonReader &reader) {
  reader.getString("source");
  reader.refuseOtherKeys();
}

/// Empty where the key is missing.
std::string readOptionalDtype(JsonReader &reader) {
  return reader.find("dtype") ? dtypes[reader.getChoice("dtype", dtypes)].str() : std::string();
}

/// None where the key is missing.
std::vector<int64_t> readParams(JsonReader &reader) {
  return reader.getIntegers("params", std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max());
}

std::vector<double> readAxis(JsonReader &reader, StringRef key) {
  std::vector<double> axis = reader.getNumbers(key, kPositive);
  if (axis.empty())
    reader.fail(key, "a list of at least one number");
  for (size_t i = 1; i < axis.size(); ++i)
    if (axis[i] <= axis[i - 1])
      reader.fail((key + "[" + Twine(i) + "]").str(), "a number greater than the one before");
  return axis;
}

EfficiencyCurve readCurve(JsonReader &reader) {
  EfficiencyCurve curve;
  curve.rows = readAxis(reader, "rows");
  curve.columns = readAxis(reader, "columns");
  curve.depth = readAxis(reader, "depth");
  curve.values = reader.getNumbers("values", kFraction);
  size_t expected = curve.rows.size() * curve.columns.size() * curve.depth.size();
  if (curve.values.size() != expected)
    reader.fail("values", Twine(expected) + " numbers, one for each of rows x columns x depth,");
  readSource(reader);
  return curve;
}

std::vector<SpecialCurve> readSpecialCurves(JsonReader &rate) {
  std::vector<SpecialCurve> curves;
  for (JsonReader &reader : rate.getObjects("special")) {
    SpecialCurve &curve = curves.emplace_back();
    for (JsonReader &calls : reader.getObjects("calls")) {
      curve.calls.push_back({calls.getString("kernel"), readParams(calls)});
      calls.refuseOtherKeys();
    }
    curve.columnsMultiple = reader.getInteger("columns_multiple_of", 1, std::numeric_limits<int32_t>::max(), 1);
    curve.isRagged = reader.getBool("ragged", false);
    if (curve.calls.empty() && curve.columnsMultiple == 1 && !curve.isRagged)
      reader.fail("calls", "a list of calls, 'columns_multiple_of' above 1, or 'ragged',");
    curve.efficiency = readCurve(reader);
  }
  return curves;
}

std::vector<DeviceRate> readRates(JsonReader &device) {
  std::vector<DeviceRate> rates;
  for (JsonReader &reader : device.getObjects("rates")) {
    DeviceRate rate;
    rate.dtype = dtypes[reader.getChoice("dtype", llvm::ArrayRef(dtypes).take_front(numComputeDtypes))].str();
    if (llvm::any_of(rates, [&](const DeviceRate &other) { return other.dtype == rate.dtype; }))
      reader.fail("dtype", "an element type that no earlier entry has");
    rate.flopsPerSecond = reader.getNumber("flop_per_s", kPositive);
    JsonReader efficiency = reader.getObject("efficiency");
    rate.efficiency = readCurve(efficiency);
    rate.special = readSpecialCurves(reader);
    readSource(reader);
    rates.push_back(std::move(rate));
  }
  return rates;
}

/// Fills what kernels and collectives say of their fits.
template <typename Fit> void readFit(JsonReader &reader, Fit &fit) {
  fit.r2 = reader.getNumber("r2", kAtMostOne, 1);
  if (double error = reader.getNumber("relative_error", kNotNegative, 0); reader.find("relative_error"))
    fit.relativeError = error;
  for (const auto &[bytes, seconds] : reader.getPairs("points", kNotNegative, kPositive))
    fit.points.push_back({bytes, seconds});
}

std::vector<KernelRate> readKernels(JsonReader &device) {
  std::vector<KernelRate> kernels;
  for (JsonReader &reader : device.getObjects("kernels")) {
    KernelRate rate;
    rate.kernel = reader.getString("kernel");
    rate.dtype = readOptionalDtype(reader);
    rate.params = readParams(reader);
    if (llvm::any_of(kernels, [&](const KernelRate &other) {
          return other.kernel == rate.kernel && other.dtype == rate.dtype && other.params == rate.params;
        }))
      reader.fail("kernel", "a kernel, dtype and params that no earlier entry has");
    rate.latency = reader.getNumber("latency_s", kNotNegative);
    rate.bytesPerSecond = reader.getNumber("bytes_per_s", kPositive);
    readFit(reader, rate);
    readSource(reader);
    kernels.push_back(std::move(rate));
  }
  return kernels;
}

void readDevice(JsonReader &reader, ClusterProfile &profile) {
  profile.deviceName = reader.getString("name");
  profile.memoryBytes = reader.getNumber("memory_bytes", kPositive);
  profile.memoryBytesPerSecond = reader.getNumber("memory_bytes_per_s", kPositive);
  profile.launchSeconds = reader.getNumber("launch_s", kNotNegative);
  profile.kernelSeconds = reader.getNumber("kernel_s", kNotNegative);
  // For people: which products wait is the runtime's choice.
  reader.getNumber("counts_s", kNotNegative, 0);
  profile.rates = readRates(reader);
  profile.kernels = readKernels(reader);
  if (reader.find("host_link")) {
    JsonReader link = reader.getObject("host_link");
    profile.hostBytesPerSecond = link.getNumber("bytes_per_s", kPositive);
    profile.hostLatency = link.getNumber("latency_s", kNotNegative);
    readSource(link);
  }
  readSource(reader);
}

std::vector<LinkPattern> readLinks(JsonReader &root, int64_t devices) {
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
    readSource(reader);
    links.push_back(std::move(link));
  }
  return links;
}

std::vector<FabricLevel> readFabric(JsonReader &root) {
  std::vector<FabricLevel> levels;
  for (JsonReader &reader : root.getObjects("fabric")) {
    FabricLevel level;
    level.name = reader.getString("name");
    // A number follows to name the switch.
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

std::array<Algorithm, kNumCollectives> readAlgorithms(JsonReader &root) {
  std::array<Algorithm, kNumCollectives> algorithms;
  algorithms.fill(Algorithm::Ring);
  algorithms[static_cast<unsigned>(Collective::AllReduce)] = Algorithm::RingOrTree;
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

std::vector<Interference> readInterference(JsonReader &root) {
  std::vector<Interference> sets;
  for (JsonReader &reader : root.getObjects("interference")) {
    Interference set;
    const struct {
      StringRef name;
      bool &isBusy;
      double &speed;
    } kinds[] = {{"compute", set.compute, set.computeSpeed},
                 {"communication", set.communication, set.communicationSpeed},
                 {"copy", set.copy, set.copySpeed}};
    std::vector<std::string> running = reader.getStrings("running");
    for (const auto &[i, name] : llvm::enumerate(running)) {
      const auto *kind = llvm::find_if(kinds, [&](const auto &k) { return k.name == name; });
      if (kind == std::end(kinds) || kind->isBusy)
        reader.fail(("running[" + Twine(i) + "]").str(), "another one of \"compute\", \"communication\", \"copy\"");
      else
        kind->isBusy = true;
    }
    if (running.size() < 2)
      reader.fail("running", "at least two of \"compute\", \"communication\", \"copy\"");
    if (llvm::any_of(sets, [&](const Interference &other) {
          return other.compute == set.compute && other.communication == set.communication && other.copy == set.copy;
        }))
      reader.fail("running", "a set that no earlier entry has");
    for (const auto &kind : kinds)
      if (kind.isBusy)
        kind.speed = reader.getNumber(kind.name, kFraction);
    readSource(reader);
    sets.push_back(set);
  }
  return sets;
}

std::vector<CollectiveFit> readCollectives(JsonReader &root, const ClusterProfile &profile) {
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
    fit.alpha = reader.getNumber("alpha_s", kNotNegative);
    fit.perMember = reader.getNumber("per_member_s", kNotNegative, 0);
    fit.beta = reader.getNumber("beta_s_per_byte", kNotNegative);
    readFit(reader, fit);
    readSource(reader);
    fits.push_back(std::move(fit));
  }
  return fits;
}

Processors readProcessors(JsonReader &root) {
  Processors processors;
  if (!root.find("processors"))
    return processors;
  JsonReader reader = root.getObject("processors");
  processors.count = reader.getInteger("count", 1, maxProcessors);
  JsonReader speed = reader.getObject("speed");
  for (unsigned i = 1; i < kNumResources; ++i) {
    StringRef name = getName(static_cast<Resource>(i));
    processors.speed[i] = speed.getNumbers(name, kFraction);
    // Ranks on processors need not have a link to another memory.
    bool isOptional = static_cast<Resource>(i) == Resource::HostLink && processors.speed[i].empty();
    if (!isOptional && processors.speed[i].size() != static_cast<size_t>(processors.count))
      speed.fail(name, Twine(processors.count) + " numbers, one for each of 'processors.count',");
  }
  speed.refuseOtherKeys();
  readSource(reader);
  return processors;
}

} // namespace

llvm::Expected<ClusterProfile> ClusterProfile::parse(StringRef text, StringRef fileName) {
  llvm::Expected<JsonReader> root = JsonReader::parse(text, fileName);
  if (!root)
    return root.takeError();
  ClusterProfile profile;
  root->getInteger("moeplan_cluster", 1, 1);
  profile.name = root->getString("name");
  if (!llvm::all_of(profile.name, [](char c) { return llvm::isAlnum(c) || c == '-' || c == '_' || c == '.'; }))
    root->fail("name", "letters, digits, '-', '_' and '.'");
  profile.description = root->getString("description");
  Range nodes = readRange(*root, "nodes", nodesLimit);
  profile.minNodes = nodes.min;
  profile.maxNodes = nodes.max;
  profile.devicesPerNode = root->getInteger("devices_per_node", 1, maxDevicesPerNode);
  JsonReader device = root->getObject("device");
  readDevice(device, profile);
  profile.links = readLinks(*root, profile.devicesPerNode);
  profile.fabric = readFabric(*root);
  profile.algorithms = readAlgorithms(*root);
  profile.interference = readInterference(*root);
  profile.collectives = readCollectives(*root, profile);
  profile.processors = readProcessors(*root);
  root->refuseOtherKeys();
  if (root->hasFailed())
    return root->takeError();
  return profile;
}

llvm::Expected<ClusterProfile> ClusterProfile::load(StringRef path) {
  llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> file = readInputFile(path);
  if (!file)
    return file.takeError();
  return parse((*file)->getBuffer(), path);
}

const DeviceRate *ClusterProfile::getRate(StringRef dtype) const {
  const auto found = llvm::find_if(rates, [&](const DeviceRate &rate) { return rate.dtype == dtype; });
  return found == rates.end() ? nullptr : &*found;
}
