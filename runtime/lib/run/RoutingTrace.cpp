//===- RoutingTrace.cpp - files of routing ----------------------------------===//

#include "run/RoutingTrace.h"

#include <nlohmann/json.hpp>

#include <fstream>

using nlohmann::json;

namespace moert::run {
namespace {

/// Thrown inside this file only.
struct LineError {
  std::string message;
};

[[noreturn]] void fail(const std::string &key, const std::string &message) {
  throw LineError{"'" + key + "': " + message};
}

int32_t readNumber(const json &value, const std::string &key) {
  bool isWhole = value.is_number_unsigned() && value.get<uint64_t>() <= INT32_MAX;
  if (!isWhole)
    fail(key, "expected a whole number from 0 on but got " + (value.is_null() ? "nothing" : value.dump()));
  return value.get<int32_t>();
}

/// A list of whole numbers for each rank. `what` says what the numbers are.
std::vector<std::vector<int32_t>> readRanks(const json &value, const std::string &key, const std::string &what) {
  if (!value.is_array() || value.empty())
    fail(key, "expected a list for each rank");
  std::vector<std::vector<int32_t>> ranks;
  for (const json &row : value) {
    std::string rowKey = key + "[" + std::to_string(ranks.size()) + "]";
    if (!row.is_array())
      fail(rowKey, "expected " + what);
    ranks.emplace_back();
    for (const json &number : row)
      ranks.back().push_back(readNumber(number, rowKey + "[" + std::to_string(ranks.back().size()) + "]"));
  }
  return ranks;
}

RoutingLine readLine(const json &object) {
  if (!object.is_object())
    throw LineError{"expected an object with 'iteration', 'layer', 'counts' and perhaps 'choices'"};
  for (const auto &[key, value] : object.items())
    if (key != "iteration" && key != "layer" && key != "counts" && key != "choices")
      fail(key, "expected only 'iteration', 'layer', 'counts' and 'choices'");
  static const json nothing;
  auto get = [&](const char *key) -> const json & { return object.contains(key) ? object[key] : nothing; };
  RoutingLine line;
  line.iteration = readNumber(get("iteration"), "iteration");
  line.layer = readNumber(get("layer"), "layer");
  line.counts = readRanks(get("counts"), "counts", "a count for each expert");
  if (object.contains("choices"))
    line.choices = readRanks(object["choices"], "choices", "the experts of each token");
  return line;
}

} // namespace

Status readRoutingTrace(const std::string &path, std::vector<RoutingLine> &lines) {
  std::ifstream file(path, std::ios::binary);
  auto failed = [&](int64_t number, const std::string &message) {
    return Status::error(MOERT_ERROR_INVALID_ARGUMENT, path + ":" + std::to_string(number) + ": " + message);
  };
  if (!file)
    return Status::error(MOERT_ERROR_INVALID_ARGUMENT, "'" + path + "': cannot be opened");
  std::string text;
  for (int64_t number = 1; std::getline(file, text); ++number) {
    if (text.find_first_not_of(" \t\r") == std::string::npos)
      continue;
    try {
      lines.push_back(readLine(json::parse(text)));
    } catch (const LineError &error) {
      return failed(number, error.message);
    } catch (const json::exception &error) {
      return failed(number, std::string("expected a JSON object: ") + error.what());
    }
    lines.back().number = number;
  }
  return lines.empty() ? failed(1, "expected a line for each iteration and layer") : Status{};
}

void writeRoutingLine(const RoutingLine &line, std::ostream &out) {
  auto write = [&](const char *key, const std::vector<std::vector<int32_t>> &ranks) {
    out << ", \"" << key << "\": [";
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      out << (rank ? ", [" : "[");
      for (size_t i = 0; i < ranks[rank].size(); ++i)
        out << (i ? ", " : "") << ranks[rank][i];
      out << "]";
    }
    out << "]";
  };
  out << "{\"iteration\": " << line.iteration << ", \"layer\": " << line.layer;
  write("counts", line.counts);
  if (!line.choices.empty())
    write("choices", line.choices);
  out << "}\n";
}

} // namespace moert::run
