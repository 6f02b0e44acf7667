//===- RoutingFile.cpp - files of routing -----------------------------------===//

#include "core/Json.h"
#include "moert/routing_file.h"

#include <algorithm>
#include <cmath>

using nlohmann::json;

namespace moert {
namespace {

int32_t readNumber(const JsonNode &node) {
  double number = node.value.is_number() ? node.value.get<double>() : -1;
  if (!(number >= 0 && number <= INT32_MAX && number == std::trunc(number)))
    node.fail("expected a whole number of at least 0 but got ", node.value.is_null() ? "nothing" : node.value.dump());
  return static_cast<int32_t>(number);
}

/// Reads a list of whole numbers for each rank. `expected` names the numbers in errors.
std::vector<std::vector<int32_t>> readRanks(const JsonNode &node, const char *expected, bool mayBeEmpty) {
  if (!node.value.is_array() || node.value.empty())
    node.fail("expected a list for each rank");
  std::vector<std::vector<int32_t>> ranks;
  for (size_t rank = 0; rank < node.size(); ++rank) {
    JsonNode row = node.at(rank);
    if (!row.value.is_array() || (row.value.empty() && !mayBeEmpty))
      row.fail("expected ", expected);
    ranks.emplace_back();
    for (size_t i = 0; i < row.size(); ++i)
      ranks.back().push_back(readNumber(row.at(i)));
  }
  return ranks;
}

RoutingLine readLine(const JsonNode &object) {
  if (!object.value.is_object())
    object.fail("expected an object with 'iteration', 'layer', 'counts' and perhaps 'choices'");
  for (const auto &[key, value] : object.value.items())
    if (key != "iteration" && key != "layer" && key != "counts" && key != "choices")
      JsonNode{value, key}.fail("expected only 'iteration', 'layer', 'counts' and 'choices'");
  static const json nothing;
  auto get = [&](const char *key) { return object.has(key) ? object.at(key) : JsonNode{nothing, key}; };
  RoutingLine line;
  line.iteration = readNumber(get("iteration"));
  line.layer = readNumber(get("layer"));
  line.counts = readRanks(get("counts"), "a count for each expert", false);
  if (object.has("choices"))
    line.choices = readRanks(get("choices"), "the experts of each token", true);
  return line;
}

std::string ranksText(const char *key, const std::vector<std::vector<int32_t>> &ranks) {
  std::string text = std::string(", \"") + key + "\": [";
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    text += rank ? ", [" : "[";
    for (size_t i = 0; i < ranks[rank].size(); ++i)
      text += (i ? ", " : "") + std::to_string(ranks[rank][i]);
    text += "]";
  }
  return text + "]";
}

} // namespace

bool RoutingReader::next(RoutingLine &line) {
  while (message.empty() && !rest.empty()) {
    std::string_view text = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(text.size() + 1, rest.size()));
    ++lines;
    if (text.find_first_not_of(" \t\r\v\f") == std::string_view::npos)
      continue;
    try {
      const json object = json::parse(text);
      line = readLine({object, ""});
      line.number = lines;
      return hasLine = true;
    } catch (const JsonError &error) {
      message = (error.path.empty() ? "" : "'" + error.path + "': ") + error.message;
    } catch (const json::exception &error) {
      message = std::string("expected a JSON object: ") + error.what();
    }
  }
  if (message.empty() && !hasLine) {
    lines = 1;
    message = "expected a line for each iteration and layer";
  }
  return false;
}

std::string routingText(const RoutingLine &line) {
  return "{\"iteration\": " + std::to_string(line.iteration) + ", \"layer\": " + std::to_string(line.layer) +
         ranksText("counts", line.counts) + (line.choices.empty() ? "" : ranksText("choices", line.choices)) + "}\n";
}

} // namespace moert
