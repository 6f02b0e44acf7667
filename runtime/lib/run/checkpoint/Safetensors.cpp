//===- Safetensors.cpp - reading and writing .safetensors files -----------===//

#include "run/checkpoint/Safetensors.h"
#include "core/Json.h"
#include "run/checkpoint/Replace.h"

#include <algorithm>
#include <cstring>
#include <set>

using nlohmann::json;

namespace moert::run {

int64_t fileDtypeSize(const std::string &dtype) {
  // Published checkpoints have these dtypes, though plans do not compute with all of them.
  static const std::map<std::string, int64_t> kSizes = {
      {"F64", 8}, {"F32", 4}, {"F16", 2}, {"BF16", 2}, {"I64", 8},  {"U64", 8},     {"I32", 4},     {"U32", 4},
      {"I16", 2}, {"U16", 2}, {"I8", 1},  {"U8", 1},   {"BOOL", 1}, {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"F8_E8M0", 1}};
  auto it = kSizes.find(dtype);
  return it == kSizes.end() ? 0 : it->second;
}

const char *fileDtype(int32_t dtype) {
  constexpr const char *kNames[] = {"F32", "F64", "BF16", "I32", "F16"};
  return kNames[dtype];
}

namespace {

/// Limit of the reference implementation.
constexpr int64_t kMaxHeader = 100'000'000;

[[noreturn]] void fail(const std::string &message) { throw JsonError{"", message}; }

int64_t integerOf(const JsonNode &node) {
  bool fits = node.value.is_number_unsigned() && node.value.get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX);
  node.require(fits, "an integer that is not negative");
  return node.value.get<int64_t>();
}

/// Member `key` of a tensor's object, whose errors are the tensor's.
JsonNode member(const JsonNode &tensor, const char *key) {
  auto it = tensor.value.find(key);
  if (it == tensor.value.end())
    tensor.fail(std::string("missing '") + key + "'");
  return {*it, tensor.path};
}

SafetensorsFile::Entry parseEntry(const JsonNode &tensor, int64_t dataBytes) {
  tensor.requireType(tensor.value.is_object(), "an object");
  SafetensorsFile::Entry entry;
  const json &dtype = member(tensor, "dtype").value;
  if (!dtype.is_string() || fileDtypeSize(dtype.get<std::string>()) == 0)
    tensor.fail("unknown dtype " + dtype.dump() + ", expected one of F32, F64, BF16, F16, of integers, BOOL, or F8");
  entry.dtype = dtype.get<std::string>();
  const JsonNode shape = member(tensor, "shape");
  shape.requireType(shape.value.is_array(), "the shape to be an array");
  int64_t bytes = fileDtypeSize(entry.dtype);
  for (const json &dim : shape.value) {
    entry.shape.push_back(integerOf({dim, tensor.path + ": shape"}));
    if (__builtin_mul_overflow(bytes, entry.shape.back(), &bytes))
      tensor.fail("the shape is too large");
  }
  const JsonNode offsets = member(tensor, "data_offsets");
  offsets.require(offsets.value.is_array() && offsets.value.size() == 2, "data_offsets to be two integers");
  entry.begin = integerOf({offsets.value[0], tensor.path + ": data_offsets"});
  entry.end = integerOf({offsets.value[1], tensor.path + ": data_offsets"});
  if (entry.begin > entry.end || entry.end > dataBytes)
    tensor.fail("data_offsets " + offsets.value.dump() + " lie outside the " + std::to_string(dataBytes) +
                " bytes of data");
  if (entry.end - entry.begin != bytes)
    tensor.fail("expected " + std::to_string(bytes) + " bytes for " + entry.dtype + " " + shapeText(entry.shape) +
                " but data_offsets have " + std::to_string(entry.end - entry.begin));
  return entry;
}

/// Parses JSON whose objects name no key twice.
json parseStrictly(const std::string &text) {
  std::vector<std::set<std::string>> keys;
  return json::parse(text, [&](int, json::parse_event_t event, json &parsed) {
    if (event == json::parse_event_t::object_start)
      keys.emplace_back();
    else if (event == json::parse_event_t::object_end)
      keys.pop_back();
    else if (event == json::parse_event_t::key && !keys.back().insert(parsed.get<std::string>()).second)
      fail("the header names " + parsed.dump() + " twice");
    return true;
  });
}

void checkLayout(const std::map<std::string, SafetensorsFile::Entry> &tensors, int64_t dataBytes) {
  std::vector<std::pair<int64_t, std::string>> order;
  for (const auto &[name, entry] : tensors)
    order.emplace_back(entry.begin, name);
  // Sorts empty tensors first among those that begin at the same place.
  std::sort(order.begin(), order.end(), [&](const auto &a, const auto &b) {
    return std::pair(a.first, tensors.at(a.second).end) < std::pair(b.first, tensors.at(b.second).end);
  });
  int64_t end = 0;
  std::string previous;
  for (const auto &[begin, name] : order) {
    if (begin < end)
      fail("tensor '" + name + "' overlaps tensor '" + previous + "'");
    if (begin > end)
      fail("bytes " + std::to_string(end) + " to " + std::to_string(begin) + " before tensor '" + name +
           "' belong to no tensor");
    end = tensors.at(name).end;
    previous = name;
  }
  if (end != dataBytes)
    fail("expected " + std::to_string(end) + " bytes of data but the file has " + std::to_string(dataBytes));
}

} // namespace

Status SafetensorsFile::parseHeader(const std::string &text, int64_t dataBytes) {
  try {
    json header = parseStrictly(text);
    JsonNode{header, ""}.requireType(header.is_object(), "the header to be an object");
    for (const auto &[name, object] : header.items())
      if (name != "__metadata__")
        tensors[name] = parseEntry({object, "tensor '" + name + "'"}, dataBytes);
    checkLayout(tensors, dataBytes);
  } catch (const JsonError &error) {
    return invalid("'" + path + "': " + (error.path.empty() ? "" : error.path + ": ") + error.message);
  } catch (const json::exception &error) {
    // The message may quote bytes of the file that are not text.
    std::string message = error.what();
    std::replace_if(message.begin(), message.end(), [](unsigned char c) { return c < 32 || c > 126; }, '?');
    return invalid("'" + path + "': the header is not JSON: " + message);
  }
  return {};
}

Status SafetensorsFile::open(const std::string &filePath) {
  path = filePath;
  auto invalid = [&](const std::string &message) { return moert::invalid("'" + path + "': " + message); };
  file.open(path, std::ios::binary | std::ios::ate);
  if (!file)
    return invalid("cannot be opened for reading");
  auto size = static_cast<int64_t>(file.tellg());
  uint64_t headerBytes = 0;
  auto *length = reinterpret_cast<char *>(&headerBytes);
  file.seekg(0);
  if (size < 8 || !file.read(length, 8))
    return invalid("expected at least the 8 bytes of the header's length but the file has " + std::to_string(size));
  if (headerBytes > static_cast<uint64_t>(kMaxHeader))
    return invalid("the header says it has " + std::to_string(headerBytes) + " bytes, expected at most " +
                   std::to_string(kMaxHeader));
  if (headerBytes > static_cast<uint64_t>(size - 8))
    return invalid("the header says it has " + std::to_string(headerBytes) + " bytes, but only " +
                   std::to_string(size - 8) + " follow: the file is truncated");
  std::string text(headerBytes, '\0');
  if (!file.read(text.data(), static_cast<std::streamsize>(headerBytes)))
    return invalid("cannot be read");
  prefix = std::string(length, 8) + text;
  return parseHeader(text, size - static_cast<int64_t>(prefix.size()));
}

Status SafetensorsFile::readBytes(int64_t begin, int64_t count, char *bytes) {
  file.clear();
  file.seekg(static_cast<int64_t>(prefix.size()) + begin);
  if (file.read(bytes, count))
    return {};
  return invalid("'" + path + "': expected " + std::to_string(count) + " bytes from byte " + std::to_string(begin) +
                 " of the data on but they cannot be read");
}

Status checkType(const std::string &name, const Value &value, const SafetensorsFile::Entry &entry) {
  if (entry.dtype == fileDtype(value.dtype) && entry.shape == value.shape)
    return {};
  return invalid(name + ": tensor '" + value.name + "': expected " + fileDtype(value.dtype) + " " +
                 shapeText(value.shape) + " but got " + entry.dtype + " " + shapeText(entry.shape));
}

Status SafetensorsFile::read(const Value &value, Tensor &tensor) {
  auto it = tensors.find(value.name);
  if (it == tensors.end())
    return invalid("'" + path + "' has no tensor '" + value.name + "'");
  const Entry &entry = it->second;
  MOERT_RETURN_IF_ERROR(checkType("'" + path + "'", value, entry));
  MOERT_RETURN_IF_ERROR(Tensor::allocate(value, tensor));
  return readBytes(entry.begin, entry.end - entry.begin, tensor.as<char>());
}

std::string headOf(std::string header) {
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const uint64_t length = header.size();
  return std::string(reinterpret_cast<const char *>(&length), sizeof length) + header;
}

static Status writeTensors(OutputFile &file, const Tensors &tensors) {
  json header = json::object();
  int64_t offset = 0;
  for (const auto &[name, tensor] : tensors) {
    int64_t end = offset + tensor.bytes();
    header[name] = {{"dtype", fileDtype(tensor.dtype)}, {"shape", tensor.shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  file << headOf(header.dump());
  for (const auto &[name, tensor] : tensors)
    file.write(tensor.as<char>(), tensor.bytes());
  return {};
}

Status writeSafetensors(const std::string &path, const Tensors &tensors) {
  OutputFile file;
  MOERT_RETURN_IF_ERROR(file.open(path));
  writeTensors(file, tensors);
  return file.close();
}

Status writeSafetensorsAtomically(const std::string &path, const Tensors &tensors) {
  MOERT_RETURN_IF_ERROR(writePartial(path, [&](OutputFile &file) { return writeTensors(file, tensors); }));
  return renamePartial(path);
}

} // namespace moert::run
