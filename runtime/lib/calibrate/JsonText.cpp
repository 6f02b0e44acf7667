//===- JsonText.cpp - JSON with short numbers and lists on few lines ------===//

#include "calibrate/JsonText.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

using json = nlohmann::ordered_json;

namespace moert::calibrate {
namespace {

bool isFlat(const json &value) {
  auto isNumber = [](const json &item) {
    return item.is_number() || (item.is_array() && item.size() == 2 && item[0].is_number());
  };
  return value.is_array() && std::all_of(value.begin(), value.end(), isNumber);
}

/// Text of a number with the fewest digits. nlohmann prints the nearest value, which may have many.
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

/// Prints items with commas between them, and begins a new line at the margin.
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

double roundedNumber(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return std::strtod(text, nullptr);
}

json roundedNumbers(const std::vector<double> &values) {
  json list = json::array();
  for (double value : values)
    list.push_back(roundedNumber(value));
  return list;
}

void printJson(const json &value, std::ostream &out) {
  print(value, "", out);
  out << "\n";
}

} // namespace moert::calibrate
