//===- Profile.cpp - writing a cluster profile ----------------------------===//

#include "calibrate/Profile.h"
#include "calibrate/JsonText.h"

using json = nlohmann::ordered_json;

namespace moert::calibrate {
namespace {

constexpr int64_t kFormatVersion = 1;

void addSamples(json &entry, const std::vector<Sample> &samples) {
  json points = json::array();
  for (const Sample &sample : samples)
    points.push_back({sample.bytes, roundedNumber(sample.seconds)});
  entry["points"] = points;
}

void addFit(json &entry, const Fit &fit, const std::vector<Sample> &samples) {
  entry["r2"] = roundedNumber(fit.r2);
  entry["relative_error"] = roundedNumber(fit.relativeError);
  addSamples(entry, samples);
}

/// Adds a curve of times by bytes.
void addPoints(json &entry, const std::vector<Sample> &samples) {
  std::vector<double> bytes, seconds;
  for (const Sample &sample : samples) {
    bytes.push_back(sample.bytes);
    seconds.push_back(sample.seconds);
  }
  if (samples.size() > 2)
    entry["relative_error"] = roundedNumber(neighbourError(bytes, seconds, 1));
  addSamples(entry, samples);
}

/// Adds the error of the curve's points against their neighbours, along the axis `sizes`.
void addNeighbourError(json &entry, const std::vector<int64_t> &sizes, const std::vector<double> &values,
                       size_t stride) {
  if (sizes.size() > 2)
    entry["relative_error"] =
        roundedNumber(neighbourError(std::vector<double>(sizes.begin(), sizes.end()), values, stride));
}

json curveJson(const Curve &curve, const std::string &source) {
  json entry = json::object();
  for (const KernelCalls &calls : curve.calls)
    entry["calls"].push_back({{"kernel", calls.kernel}, {"params", calls.params}});
  if (curve.columnsMultiple > 1)
    entry["columns_multiple_of"] = curve.columnsMultiple;
  if (curve.isRagged)
    entry["ragged"] = true;
  entry["rows"] = curve.rows;
  entry["columns"] = curve.columns;
  entry["depth"] = curve.depth;
  if (!curve.groups.empty())
    entry["groups"] = curve.groups;
  entry["values"] = roundedNumbers(curve.efficiency);
  addNeighbourError(entry, curve.rows, curve.efficiency, curve.efficiency.size() / curve.rows.size());
  entry["source"] = source + (curve.note.empty() ? "" : ", " + curve.note);
  return entry;
}

json rateJson(const Rate &rate, const Profile &profile) {
  const std::string &source = profile.source;
  json special = json::array();
  for (size_t i = 1; i < rate.curves.size(); ++i)
    special.push_back(curveJson(rate.curves[i], source));
  return {{"dtype", rate.dtype},
          {"flop_per_s", roundedNumber(rate.flopsPerSecond)},
          {"efficiency", curveJson(rate.curves.front(), source)},
          {"special", special},
          {"source", source + ", the fastest product of all"}};
}

json attentionJson(const AttentionCurve &curve, const Profile &profile) {
  json entry = {{"dtype", curve.dtype},       {"head_columns", curve.headColumns},
                {"products", curve.products}, {"length", curve.length},
                {"heads", curve.heads},       {"values", roundedNumbers(curve.efficiency)}};
  addNeighbourError(entry, curve.length, curve.efficiency, curve.heads.size());
  entry["source"] = profile.source;
  return entry;
}

/// Entry of a kernel. If its time does not grow with its bytes, it takes at least the time to stream them.
json kernelJson(const KernelFit &kernel, const Profile &profile) {
  json entry = {{"kernel", kernel.calls.kernel}, {"dtype", kernel.dtype}};
  if (!kernel.calls.params.empty())
    entry["params"] = kernel.calls.params;
  entry["latency_s"] = roundedNumber(kernel.fit.latency);
  entry["bytes_per_s"] = roundedNumber(kernel.fit.perByte > 0 ? 1 / kernel.fit.perByte : profile.memoryBytesPerSecond);
  addFit(entry, kernel.fit, kernel.samples);
  entry["source"] = profile.source;
  return entry;
}

json rangeJson(int64_t min, int64_t max) {
  json range = {{"min", min}, {"max", max}};
  return min == max ? json(min) : range;
}

json exchangeJson(const ExchangeFit &exchange, const Profile &profile) {
  json entry = {{"collective", exchange.collective}};
  if (!exchange.dtype.empty())
    entry["dtype"] = exchange.dtype;
  entry["members"] = rangeJson(exchange.minMembers, exchange.maxMembers);
  entry["per_node"] = rangeJson(exchange.minPerNode, exchange.maxPerNode);
  if (exchange.isCurve && exchange.samples.size() > 1) {
    addPoints(entry, exchange.samples);
  } else {
    entry["alpha_s"] = roundedNumber(exchange.fit.latency);
    entry["beta_s_per_byte"] = roundedNumber(exchange.fit.perByte);
    addFit(entry, exchange.fit, exchange.samples);
  }
  entry["source"] = profile.source;
  return entry;
}

json interferenceJson(const Interference &set, const Profile &profile) {
  json entry = {{"running", set.running}};
  for (size_t i = 0; i < set.running.size(); ++i)
    entry[set.running[i]] = roundedNumber(set.speeds[i]);
  entry["source"] = profile.source;
  return entry;
}

template <class Entries, class ToJson> json list(const Entries &entries, const Profile &profile, ToJson toJson) {
  json result = json::array();
  for (const auto &entry : entries)
    result.push_back(toJson(entry, profile));
  return result;
}

/// Adds the link to the host. If the host's memory is the device's, copies to the host stay in it: each byte is read
/// once and written once.
void addHostLink(json &device, const Profile &profile) {
  if (profile.hostLink) {
    device["host_link"] = {{"bytes_per_s", roundedNumber(1 / profile.hostLink->perByte)},
                           {"latency_s", roundedNumber(profile.hostLink->latency)},
                           {"source", profile.source + ", copies both ways"}};
    return;
  }
  for (const KernelFit &kernel : profile.kernels)
    if (kernel.calls.kernel == "copy" && kernel.dtype == "f32")
      device["host_link"] = {{"bytes_per_s", roundedNumber(0.5 / kernel.fit.perByte)},
                             {"latency_s", roundedNumber(kernel.fit.latency)},
                             {"source", profile.source + ", the kernel 'copy'"}};
}

json processorsJson(const Profile &profile) {
  json speed = {{"matrix", roundedNumbers(profile.speeds.matrix)},
                {"memory", roundedNumbers(profile.speeds.memory)},
                {"network", roundedNumbers(profile.speeds.network)},
                {"host_link", roundedNumbers(profile.speeds.memory)}};
  return {{"count", profile.processors}, {"speed", speed}, {"source", profile.source}};
}

json profileJson(const Profile &profile) {
  json device = {{"name", profile.deviceName},
                 {"memory_bytes", profile.memoryBytes},
                 {"memory_bytes_per_s", roundedNumber(profile.memoryBytesPerSecond)},
                 {"launch_s", roundedNumber(profile.launchSeconds)},
                 {"kernel_s", roundedNumber(profile.kernelSeconds)},
                 {"rates", list(profile.rates, profile, rateJson)},
                 {"kernels", list(profile.kernels, profile, kernelJson)},
                 {"source", profile.source}};
  if (profile.reservedBytes > 0)
    device["reserved_bytes"] = profile.reservedBytes;
  if (profile.sustained < 1)
    device["sustained"] = roundedNumber(profile.sustained);
  if (!profile.attention.empty())
    device["attention"] = list(profile.attention, profile, attentionJson);
  if (profile.countsSeconds)
    device["counts_s"] = roundedNumber(*profile.countsSeconds);
  addHostLink(device, profile);
  json root = {{"moeplan_cluster", kFormatVersion},
               {"name", profile.name},
               {"description", profile.description},
               {"nodes", profile.nodes},
               {"devices_per_node", profile.devicesPerNode},
               {"device", device},
               {"collectives", list(profile.exchanges, profile, exchangeJson)}};
  if (!profile.interference.empty())
    root["interference"] = list(profile.interference, profile, interferenceJson);
  if (profile.processors > 0)
    root["processors"] = processorsJson(profile);
  return root;
}

} // namespace

void writeProfile(const Profile &profile, std::ostream &out) { printJson(profileJson(profile), out); }

} // namespace moert::calibrate
