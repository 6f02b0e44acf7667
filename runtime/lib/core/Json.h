//===- Json.h - typed reads of JSON, which say where something is wrong ----===//
#ifndef MOERT_CORE_JSON_H
#define MOERT_CORE_JSON_H

#include "core/View.h"

#include <nlohmann/json.hpp>

#include <string_view>

namespace moert {

/// Thrown inside readers, which add the name of their file to the message.
struct JsonError {
  std::string path; ///< path of the JsonNode
  std::string message;
};

/// A JSON value and its path, such as `a.b[2]`; empty at the top level. Wrong values throw a JsonError.
struct JsonNode {
  const nlohmann::json &value;
  std::string path;

  template <class... Parts> [[noreturn]] void fail(const Parts &...parts) const {
    throw JsonError{path, joined(parts...)};
  }
  /// Fails with `expected WHAT but got` and the value, unless it fits.
  void require(bool fits, std::string_view what) const {
    if (!fits)
      fail("expected ", what, " but got ", value.dump());
  }
  /// Fails with `expected WHAT but got` and the value's type, unless it fits.
  void requireType(bool fits, std::string_view what) const {
    if (!fits)
      fail("expected ", what, " but got ", value.type_name());
  }

  bool has(const char *key) const { return value.is_object() && value.contains(key); }
  JsonNode at(const char *key) const {
    requireType(value.is_object(), "an object");
    auto it = value.find(key);
    if (it == value.end())
      fail("missing key '", key, "'");
    return {*it, path.empty() ? key : path + "." + key};
  }

  size_t size() const {
    requireType(value.is_array(), "an array");
    return value.size();
  }
  /// Returns item `index`, which must be below the size.
  JsonNode at(size_t index) const { return {value[index], path + "[" + std::to_string(index) + "]"}; }

  bool boolean() const {
    require(value.is_boolean(), "true or false");
    return value.get<bool>();
  }
  std::string string() const {
    requireType(value.is_string(), "a string");
    return value.get<std::string>();
  }
  int64_t integer(int64_t low, int64_t high) const {
    require(value.is_number_integer(), "an integer");
    bool huge = value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX);
    int64_t number = huge ? INT64_MAX : value.get<int64_t>();
    if (number < low || number > high)
      require(false, joined("an integer from ", low, " to ", high));
    return number;
  }
  double amount() const {
    require(value.is_number() && value.get<double>() >= 0, "a number that is not negative");
    return value.get<double>();
  }
};

} // namespace moert

#endif // MOERT_CORE_JSON_H
