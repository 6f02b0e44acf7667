//===- Profile.cpp - writing a cluster profile ----------------------------===//

#include "calibrate/Profile.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

using json = nlohmann::ordered_json;

namespace moert::calibrate {
namespace {

constexpr int64_t kFormatVersion = 1;

/// Measurements do not have more digits than that.
double rounded(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return std::strtod(text, nullptr);
}

json numbers(const std::vector<double> &values) {
  json list = json::array();
  for (double value : values)
    list.push_back(rounded(value));
  return list;
}

void addFit(json &entry, const Fit &fit, const std::vector<Sample> &samples) {
  entry["r2"] = rounded(fit.r2);
  entry["relative_error"] = rounded(fit.relativeError);
  json points = json::array();
  for (const Sample &sample : samples)
    points.push_back({sample.bytes, rounded(sample.seconds)});
  entry["points"] = points;
}

json curveJson(const Curve &curve, const std::string &source) {
  json entry = json::object();
  for (const KernelCalls &calls : curve.calls)
    entry["calls"].push_back({{"kernel", calls.kernel}, {"params", calls.params}});
  if (curve.columnsMultiple > 1)
    entry["columns_multiple_of"] = curve.columnsMultiple;
  entry["rows"] = curve.rows;
  entry["columns"] = curve.columns;
  entry["depth"] = curve.depth;
  entry["values"] = numbers(curve.efficiency);
  entry["source"] = source;
  return entry;
}

json rateJson(const Rate &rate, const Profile &profile) {
  const std::string &source = profile.source;
  json special = json::array();
  for (size_t i = 1; i < rate.curves.size(); ++i)
    special.push_back(curveJson(rate.curves[i], source));
  return {{"dtype", rate.dtype},
          {"flop_per_s", rounded(rate.flopsPerSecond)},
          {"efficiency", curveJson(rate.curves.front(), source)},
          {"special", special},
          {"source", source + ", the fastest product of all"}};
}

/// A kernel whose time does not grow with its bytes takes no less than these take to stream.
json kernelJson(const KernelFit &kernel, const Profile &profile) {
  json entry = {{"kernel", kernel.calls.kernel}, {"dtype", kernel.dtype}};
  if (!kernel.calls.params.empty())
    entry["params"] = kernel.calls.params;
  entry["latency_s"] = rounded(kernel.fit.latency);
  entry["bytes_per_s"] = rounded(kernel.fit.perByte > 0 ? 1 / kernel.fit.perByte : profile.memoryBytesPerSecond);
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
  entry["alpha_s"] = rounded(exchange.fit.latency);
  entry["beta_s_per_byte"] = rounded(exchange.fit.perByte);
  addFit(entry, exchange.fit, exchange.samples);
  entry["source"] = profile.source;
  return entry;
}

json interferenceJson(const Interference &set, const Profile &profile) {
  json entry = {{"running", set.running}};
  for (size_t i = 0; i < set.running.size(); ++i)
    entry[set.running[i]] = rounded(set.speeds[i]);
  entry["source"] = profile.source;
  return entry;
}

template <class Entries, class ToJson> json list(const Entries &entries, const Profile &profile, ToJson toJson) {
  json result = json::array();
  for (const auto &entry : entries)
    result.push_back(toJson(entry, profile));
  return result;
}

/// Where the host's memory is the device's what goes over the link is copied in it, each byte read once and written
/// once.
void addHostLink(json &device, const Profile &profile) {
  if (profile.hostLink) {
    device["host_link"] = {{"bytes_per_s", rounded(1 / profile.hostLink->perByte)},
                           {"latency_s", rounded(profile.hostLink->latency)},
                           {"source", profile.source + ", copies both ways"}};
    return;
  }
  for (const KernelFit &kernel : profile.kernels)
    if (kernel.calls.kernel == "copy" && kernel.dtype == "f32")
      device["host_link"] = {{"bytes_per_s", rounded(0.5 / kernel.fit.perByte)},
                             {"latency_s", rounded(kernel.fit.latency)},
                             {"source", profile.source + ", the kernel 'copy'"}};
}

json processorsJson(const Profile &profile) {
  json speed = {{"matrix", numbers(profile.speeds.matrix)},
                {"memory", numbers(profile.speeds.memory)},
                {"network", numbers(profile.speeds.network)},
                {"host_link", numbers(profile.speeds.memory)}};
  return {{"count", profile.processors}, {"speed", speed}, {"source", profile.source}};
}

json profileJson(const Profile &profile) {
  json device = {{"name", profile.deviceName},
                 {"memory_bytes", profile.memoryBytes},
                 {"memory_bytes_per_s", rounded(profile.memoryBytesPerSecond)},
                 {"launch_s", rounded(profile.launchSeconds)},
                 {"kernel_s", rounded(profile.kernelSeconds)},
                 {"rates", list(profile.rates, profile, rateJson)},
                 {"kernels", list(profile.kernels, profile, kernelJson)},
                 {"source", profile.source}};
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

bool isFlat(const json &value) {
  auto isNumber = [](const json &item) {
    return item.is_number() || (item.is_array() && item.size() == 2 && item[0].is_number());
  };
  return value.is_array() && std::all_of(value.begin(), value.end(), isNumber);
}

/// As short as the digits are; nlohmann's own are the nearest ones, which may be many.
std::string numberText(const json &value) {
  if (!value.is_number_float())
    return value.dump();
  char text[32];
  std::snprintf(text, sizeof text, "%.12g", value.get<double>());
  return text;
}

std::string itemText(const json &item) {
  return item.is_array() ? "[" + numberText(item[0]) + ", " + numberText(item[1]) + "]" : numberText(item);
}

/// Items separated by commas, a new line where the next would pass the margin.
void printWrapped(const json &items, const std::string &indent, std::ostream &out) {
  constexpr size_t kMargin = 120;
  out << "[";
  size_t column = kMargin;
  for (size_t i = 0; i < items.size(); ++i) {
    std::string text = itemText(items[i]);
    bool fits = items.size() <= 16 || column + text.size() + 2 <= kMargin;
    if (!fits)
      out << "\n" << indent << "  ";
    else if (i > 0)
      out << " ";
    column = (fits ? column + 1 : indent.size() + 2) + text.size() + 1;
    out << text << (i + 1 < items.size() ? "," : "");
  }
  out << "]";
}

void print(const json &value, const std::string &indent, std::ostream &out) {
  if (isFlat(value))
    return printWrapped(value, indent, out);
  if (!value.is_structured()) {
    out << numberText(value);
    return;
  }
  std::string inner = indent + "  ";
  const char *separator = "";
  out << (value.is_object() ? "{" : "[");
  for (const auto &[key, item] : value.items()) {
    out << separator << "\n" << inner;
    if (value.is_object())
      out << json(key).dump() << ": ";
    print(item, inner, out);
    separator = ",";
  }
  out << "\n" << indent << (value.is_object() ? "}" : "]");
}

} // namespace

void writeProfile(const Profile &profile, std::ostream &out) {
  print(profileJson(profile), "", out);
  out << "\n";
}

} // namespace moert::calibrate
