//===- FrameworkProfile.cpp - reading and applying descriptions of frameworks ----===//
#include "moe/Cost/FrameworkProfile.h"
#include "ProfileReader.h"

#include "moe/Support/InputFile.h"
#include "moe/Support/Text.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace mlir::moe;
using namespace mlir::moe::profile;
using llvm::StringRef;
using llvm::Twine;

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

/// Reads `launch_s`: one number for all launches, or one for each resource.
static std::array<double, kNumResources> readLaunchSeconds(JsonReader &reader) {
  std::array<double, kNumResources> seconds{};
  const llvm::json::Value *value = reader.find("launch_s");
  if (!value || !value->getAsObject()) {
    seconds.fill(reader.getNumber("launch_s", kNotNegative));
    return seconds;
  }
  JsonReader byResource = reader.getObject("launch_s");
  for (Resource resource : {Resource::Matrix, Resource::Memory, Resource::Network, Resource::HostLink})
    seconds[static_cast<unsigned>(resource)] = byResource.getNumber(getName(resource), kNotNegative);
  byResource.refuseOtherKeys();
  return seconds;
}

/// Reads a name that no earlier element has.
template <typename Element>
static void readName(JsonReader &reader, Element &element, llvm::ArrayRef<Element> earlier) {
  element.name = reader.getString("name");
  if (llvm::any_of(earlier, [&](const Element &other) { return other.name == element.name; }))
    reader.fail("name", "a name that no earlier entry has");
}

/// Reads `kernels` of a host: seconds of single kernels.
static llvm::StringMap<double> readKernelSeconds(JsonReader &reader) {
  llvm::StringMap<double> seconds;
  for (JsonReader &kernels : reader.getObjects("kernels")) {
    double its = kernels.getNumber("launch_s", kNotNegative);
    for (const std::string &name : kernels.getStrings("names"))
      if (!seconds.try_emplace(name, its).second)
        kernels.fail("names", "kernels that no earlier entry has");
    readSource(kernels);
  }
  return seconds;
}

static void readHost(JsonReader &root, FrameworkProfile &framework) {
  JsonReader reader = root.getObject("host");
  framework.host.launchSeconds = readLaunchSeconds(reader);
  framework.host.kernelSeconds = readKernelSeconds(reader);
  framework.cpus = readList<HostSpeed>(reader, "cpus", [](JsonReader &cpu, HostSpeed &speed, auto) {
    speed.cpu = cpu.getString("cpu");
    speed.times = cpu.getNumber("times", kPositive);
  });
  readSource(reader);
}

static void readKernels(JsonReader &reader, FrameworkKernels &kernels, llvm::ArrayRef<FrameworkKernels>) {
  kernels.devices = reader.getStrings("devices");
  for (JsonReader &factor : reader.getObjects("factors")) {
    KernelFactor its;
    its.calls = {factor.getString("kernel", ""), readParams(factor)};
    its.times = factor.getNumber("times", kNotNegative);
    readSource(factor);
    kernels.factors.push_back(std::move(its));
  }
}

/// Reads `arguments`.
static std::vector<FrameworkArgument> readArguments(JsonReader &reader) {
  std::vector<FrameworkArgument> arguments;
  for (JsonReader &argument : reader.getObjects("arguments")) {
    arguments.push_back({argument.getString("flag"), argument.getString("value", ""), argument.getString("needs", "")});
    argument.refuseOtherKeys();
  }
  return arguments;
}

static void readGraph(JsonReader &reader, GraphScope &scope, llvm::ArrayRef<GraphScope> earlier) {
  readName(reader, scope, earlier);
  scope.hostShare = reader.getNumber("host_share", NumberRange{0, 1, true, "a number from 0 to 1"});
  scope.kernels = readList<FrameworkKernels>(reader, "kernels", readKernels);
  scope.runs = readPlanRules(reader, "runs");
  scope.isPlanned = reader.getBool("planned", true);
  scope.arguments = readArguments(reader);
}

static TokenExchange readExchange(JsonReader &reader) {
  return {reader.getNumber("fixed_s", kNotNegative, 0), 1 / reader.getNumber("inside_share", kPositive, 1),
          1 / reader.getNumber("between_share", kPositive, 1), reader.getNumber("message_s", kNotNegative, 0)};
}

static void readDispatcher(JsonReader &reader, Dispatcher &dispatcher, llvm::ArrayRef<Dispatcher> earlier) {
  readName(reader, dispatcher, earlier);
  dispatcher.sendsOnce = reader.getBool("once", false);
  dispatcher.exchange = readExchange(reader);
  for (JsonReader &placed : reader.getObjects("networks")) {
    std::vector<std::string> devices = placed.getStrings("devices");
    std::string network = devices.empty() ? placed.getString("network") : placed.getString("network", "");
    dispatcher.placed.push_back({network, devices, readExchange(placed)});
    readSource(placed);
  }
  dispatcher.kernelSeconds = readKernelSeconds(reader);
  dispatcher.awaited = reader.getStrings("awaited");
  dispatcher.inOrder = reader.getStrings("in_order");
  if (reader.find("counts_s"))
    dispatcher.countsSeconds = reader.getNumber("counts_s", kNotNegative);
  if (reader.find("compute_beside"))
    dispatcher.computeBeside =
        reader.getNumber("compute_beside", NumberRange{0, 1, false, "a number above 0, up to 1"});
  dispatcher.runs = readPlanRules(reader, "runs");
  dispatcher.isPlanned = reader.getBool("planned", true);
  dispatcher.places = {reader.getStrings("only_networks"), reader.getStrings("not_networks"),
                       reader.getStrings("devices")};
  dispatcher.arguments = readArguments(reader);
}

static void readProduct(JsonReader &reader, NarrowProduct &product, llvm::ArrayRef<NarrowProduct>) {
  constexpr int64_t most = std::numeric_limits<int64_t>::max();
  product.kernels = reader.getStrings("kernels");
  product.dtype = readDtype(reader, numComputeDtypes);
  product.ofWeights = reader.getBool("of_weights", false);
  if (reader.find("weights")) {
    JsonReader weights = reader.getObject("weights");
    product.leastSide = weights.getInteger("least", 1, most);
    product.mostSide = weights.getInteger("most", product.leastSide, most);
    weights.refuseOtherKeys();
  }
  product.times = reader.getNumber("times", kPositive);
  product.fixedSeconds = reader.getNumber("fixed_s", kNotNegative, 0);
  product.bytesPerElement = reader.getNumber("quantised_bytes", kNotNegative, 0);
  product.relativeError = readError(reader);
}

static void readPrecision(JsonReader &reader, PrecisionChoice &choice, llvm::ArrayRef<PrecisionChoice> earlier) {
  choice.precision.name = reader.getString("name");
  choice.devices = reader.getStrings("devices");
  choice.needs = reader.getString("needs", "");
  choice.precision.products = readList<NarrowProduct>(reader, "products", readProduct);
  choice.precision.keptShare = reader.getNumber("kept_share", kPositive, 1);
  choice.hostSeconds = reader.getNumber("host_s", kNotNegative, 0);
  choice.exchangeTimes = reader.getNumber("exchanged_share", kPositive, 1);
  choice.precision.arguments = readArguments(reader);
  if (!choice.precision.arguments.empty())
    choice.precision.mixedPrecision = reader.getString("mixed_precision");
}

static std::optional<bool> readOptionalBool(JsonReader &reader, StringRef key) {
  return reader.find(key) ? std::optional(reader.getBool(key)) : std::nullopt;
}

static void readMeasured(JsonReader &reader, MeasuredClass &its, llvm::ArrayRef<MeasuredClass>) {
  constexpr int64_t most = std::numeric_limits<int64_t>::max();
  its.devices = reader.getStrings("devices");
  its.precision = reader.getString("precision", "");
  its.hasWholeGraph = readOptionalBool(reader, "whole_graph");
  its.steps.isInsideNode = readOptionalBool(reader, "inside_node");
  its.steps.hasEvenRouting = readOptionalBool(reader, "even_routing");
  if (reader.find("tokens")) {
    JsonReader tokens = reader.getObject("tokens");
    its.steps.minTokens = tokens.getInteger("min", 0, most);
    if (tokens.find("below"))
      its.steps.belowTokens = tokens.getInteger("below", 1, most);
    tokens.refuseOtherKeys();
  }
  its.steps.low = reader.getNumber("low", kPositive);
  its.steps.high = reader.getNumber("high", kPositive);
  its.steps.steps = reader.getInteger("steps", 1, most);
  its.steps.sources = reader.getInteger("sources", 1, most);
}

static double readPairError(JsonReader &root) {
  if (!root.find("measured_pairs"))
    return 0;
  JsonReader reader = root.getObject("measured_pairs");
  double error = reader.getNumber("error", kPositive);
  reader.getInteger("pairs", 1, std::numeric_limits<int64_t>::max());
  readSource(reader);
  return error;
}

llvm::Expected<FrameworkProfile> FrameworkProfile::parse(StringRef text, StringRef fileName) {
  llvm::Expected<JsonReader> root = JsonReader::parse(text, fileName);
  if (!root)
    return root.takeError();
  FrameworkProfile framework;
  root->getInteger("moeplan_framework", 1, 1);
  framework.name = root->getString("name");
  framework.description = root->getString("description");
  readHost(*root, framework);
  framework.graphs = readList<GraphScope>(*root, "graphs", readGraph);
  framework.kernels = readList<FrameworkKernels>(*root, "kernels", readKernels);
  framework.dispatchers = readList<Dispatcher>(*root, "dispatchers", readDispatcher);
  framework.precisions = readList<PrecisionChoice>(*root, "precisions", readPrecision);
  framework.measured = readList<MeasuredClass>(*root, "measured_steps", readMeasured);
  framework.pairError = readPairError(*root);
  framework.runs = readPlanRules(*root, "runs");
  framework.wholeBlocks = root->getBool("whole_blocks", false);
  framework.keepsRoutedRows = root->getBool("routed_rows", false);
  root->refuseOtherKeys();
  if (root->hasFailed())
    return root->takeError();
  return framework;
}

llvm::Expected<FrameworkProfile> FrameworkProfile::load(StringRef path) {
  llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> file = readInputFile(path);
  if (!file)
    return file.takeError();
  return parse((*file)->getBuffer(), path);
}

//===----------------------------------------------------------------------===//
// Applying
//===----------------------------------------------------------------------===//

/// Finds the element of that name. The error says which there are.
template <typename Element>
static llvm::Expected<const Element *> find(llvm::ArrayRef<Element> elements, StringRef name, StringRef framework,
                                            StringRef kind) {
  llvm::SmallVector<StringRef> known;
  for (const Element &element : elements) {
    if (element.name == name)
      return &element;
    known.push_back(element.name);
  }
  std::string text = "framework '" + framework.str() + "' has no " + kind.str() + " '" + name.str() + "'";
  text += known.empty() ? "" : "; it has " + llvm::join(known, ", ") + suggestName(name, known);
  return llvm::createStringError(text);
}

static void scale(HostIssue &host, double times) {
  for (double &seconds : host.launchSeconds)
    seconds *= times;
  for (auto &kernel : host.kernelSeconds)
    kernel.second *= times;
}

/// Whether the profile's device is one of those that begin with `devices`.
static bool isFor(const ClusterProfile &profile, llvm::ArrayRef<std::string> devices) {
  return llvm::any_of(devices, [&](StringRef device) { return StringRef(profile.deviceName).starts_with(device); });
}

bool PlacedExchange::isFor(const ClusterProfile &profile) const {
  return (network.empty() || network == profile.network) && (devices.empty() || ::isFor(profile, devices));
}

static void useKernels(ClusterProfile &profile, llvm::ArrayRef<FrameworkKernels> kernels) {
  for (const FrameworkKernels &its : kernels)
    if (isFor(profile, its.devices))
      llvm::append_range(profile.factors, its.factors);
}

static void useDispatcher(ClusterProfile &profile, const Dispatcher &dispatcher) {
  profile.tokenExchange = dispatcher.exchange;
  for (const PlacedExchange &placed : dispatcher.placed)
    if (placed.isFor(profile))
      profile.tokenExchange = placed.exchange;
  profile.host.countsSeconds = dispatcher.countsSeconds;
  for (const auto &kernel : dispatcher.kernelSeconds)
    profile.host.kernelSeconds[kernel.first()] = kernel.second;
  for (const std::string &kernel : dispatcher.awaited)
    profile.host.awaited.insert(kernel);
  for (const std::string &kernel : dispatcher.inOrder)
    profile.host.inOrder.insert(kernel);
  for (Interference &set : profile.interference)
    if (set.communication && dispatcher.computeBeside)
      set.computeSpeed = *dispatcher.computeBeside;
}

/// Finds the entry of the precision that is for the profile's device.
static llvm::Expected<const PrecisionChoice *> findPrecision(const FrameworkProfile &framework, StringRef name,
                                                             const ClusterProfile &profile) {
  llvm::SmallVector<StringRef> known;
  const PrecisionChoice *elsewhere = nullptr;
  for (const PrecisionChoice &choice : framework.precisions) {
    if (choice.precision.name != name) {
      if (!llvm::is_contained(known, choice.precision.name))
        known.push_back(choice.precision.name);
      continue;
    }
    if (choice.devices.empty() || isFor(profile, choice.devices))
      return &choice;
    elsewhere = &choice;
  }
  if (elsewhere)
    return llvm::createStringError("framework '" + framework.name + "' has no precision '" + name + "' on '" +
                                   profile.deviceName + "'" + (elsewhere->needs.empty() ? "" : ": ") +
                                   elsewhere->needs);
  return llvm::createStringError("framework '" + framework.name + "' has no precision '" + name + "'" +
                                 (known.empty() ? "" : "; it has " + llvm::join(known, ", ")) +
                                 suggestName(name, known));
}

static void usePrecision(ClusterProfile &profile, const PrecisionChoice &choice) {
  profile.precision = choice.precision;
  profile.tokenExchange.insideTimes *= choice.exchangeTimes;
  profile.tokenExchange.betweenTimes *= choice.exchangeTimes;
  const HostIssue plain = profile.host;
  for (const NarrowProduct &product : choice.precision.products)
    for (const std::string &kernel : product.kernels)
      profile.host.kernelSeconds[kernel] = plain.getLaunchSeconds(kernel, Resource::Matrix) + choice.hostSeconds;
}

bool FrameworkProfile::has(const FrameworkUse &use) const {
  auto isIn = [](const auto &parts, StringRef name) {
    return name.empty() || llvm::any_of(parts, [&](const auto &part) { return part.name == name; });
  };
  return isIn(dispatchers, use.dispatcher) && isIn(graphs, use.graph);
}

bool FrameworkProfile::sendsOnce(StringRef dispatcher) const {
  const auto its =
      llvm::find_if(dispatchers, [&](const Dispatcher &one) { return dispatcher.empty() || one.name == dispatcher; });
  return its != dispatchers.end() && its->sendsOnce;
}

std::string FrameworkUse::describe() const {
  std::string text = dispatcher.empty() ? "its first dispatcher" : "dispatcher " + dispatcher;
  return text + (graph.empty() ? "" : ", CUDA graphs of " + graph);
}

bool PartPlaces::contains(const ClusterProfile &profile) const {
  auto begins = [](llvm::ArrayRef<std::string> names, StringRef name) {
    return llvm::any_of(names, [&](const std::string &one) { return name.starts_with(one); });
  };
  return (networks.empty() || begins(networks, profile.network)) && !begins(otherNetworks, profile.network) &&
         (devices.empty() || begins(devices, profile.deviceName));
}

std::vector<std::string> FrameworkProfile::getPlannedDispatchers(const ClusterProfile &profile) const {
  std::vector<std::string> names;
  for (const Dispatcher &one : dispatchers)
    if (one.isPlanned && one.places.contains(profile))
      names.push_back(one.name);
  if (names.empty())
    names.push_back(dispatchers.empty() ? "" : dispatchers.front().name);
  return names;
}

std::vector<std::string> FrameworkProfile::getPlannedGraphs() const {
  std::vector<std::string> names;
  for (const GraphScope &one : graphs)
    if (one.isPlanned)
      names.push_back(one.name);
  return names;
}

std::vector<FrameworkArgument> FrameworkProfile::getArguments(const FrameworkUse &use) const {
  std::vector<FrameworkArgument> arguments;
  auto add = [&](const auto &parts, StringRef name) {
    for (const auto &one : parts)
      if (one.name == name)
        llvm::append_range(arguments, one.arguments);
  };
  add(dispatchers, use.dispatcher);
  add(graphs, use.graph);
  return arguments;
}

PlanRules FrameworkProfile::getRules(const FrameworkUse &use) const {
  PlanRules rules{name, runs, wholeBlocks};
  for (const Dispatcher &one : dispatchers)
    if (use.dispatcher.empty() ? &one == &dispatchers.front() : one.name == use.dispatcher)
      llvm::append_range(rules.rules, one.runs);
  for (const GraphScope &one : graphs)
    if (one.name == use.graph)
      llvm::append_range(rules.rules, one.runs);
  return rules;
}

llvm::Error FrameworkProfile::apply(ClusterProfile &profile, const FrameworkUse &use) const {
  profile.framework = name;
  profile.host = host;
  useKernels(profile, kernels);
  if (!dispatchers.empty() || !use.dispatcher.empty()) {
    llvm::Expected<const Dispatcher *> dispatcher =
        use.dispatcher.empty() ? &dispatchers.front()
                               : find<Dispatcher>(dispatchers, use.dispatcher, name, "dispatcher");
    if (!dispatcher)
      return dispatcher.takeError();
    useDispatcher(profile, **dispatcher);
  }
  if (!use.precision.empty()) {
    llvm::Expected<const PrecisionChoice *> choice = findPrecision(*this, use.precision, profile);
    if (!choice)
      return choice.takeError();
    usePrecision(profile, **choice);
  }
  for (const HostSpeed &speed : cpus)
    if (speed.cpu == profile.cpu)
      scale(profile.host, speed.times);
  double hostShare = 1;
  if (!use.graph.empty()) {
    llvm::Expected<const GraphScope *> scope = find<GraphScope>(graphs, use.graph, name, "graph scope");
    if (!scope)
      return scope.takeError();
    scale(profile.host, hostShare = (*scope)->hostShare);
    useKernels(profile, (*scope)->kernels);
  }
  profile.measured.pairError = pairError;
  for (const MeasuredClass &its : measured)
    if (its.precision == use.precision && (its.devices.empty() || isFor(profile, its.devices)) &&
        its.hasWholeGraph.value_or(hostShare == 0) == (hostShare == 0))
      profile.measured.classes.push_back(its.steps);
  return llvm::Error::success();
}
