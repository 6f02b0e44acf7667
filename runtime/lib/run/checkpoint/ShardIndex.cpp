//===- ShardIndex.cpp - what is where in a sharded checkpoint -------------===//

#include "run/checkpoint/ShardIndex.h"
#include "core/Json.h"
#include "core/Metadata.h"
#include "run/checkpoint/Safetensors.h"

namespace moert::run {
namespace {

constexpr int64_t kVersion = 1;
constexpr const char *kVersionKey = "moeplan_checkpoint";

std::vector<int64_t> integersOf(const JsonNode &node) {
  std::vector<int64_t> values;
  for (size_t i = 0; i < node.size(); ++i)
    values.push_back(node.at(i).integer(0, INT64_MAX));
  return values;
}

ShardIndex::Block parseBlock(const JsonNode &node, const ShardIndex::Tensor &tensor, size_t files) {
  ShardIndex::Block block;
  block.file = node.at("file").integer(0, static_cast<int64_t>(files) - 1);
  block.region.offset = integersOf(node.at("offset"));
  block.region.lengths = integersOf(node.at("lengths"));
  std::string expected = "a block of a tensor of shape " + shapeText(tensor.shape);
  node.require(block.region.liesIn(tensor.shape), expected);
  block.region.count = block.region.boxElements();
  if (node.has("range")) {
    JsonNode range = node.at("range");
    range.require(range.size() == 2, "where a range begins and ends");
    block.region.begin = range.at(size_t(0)).integer(0, INT64_MAX);
    block.region.count = range.at(1).integer(block.region.begin, INT64_MAX) - block.region.begin;
    node.require(block.region.liesIn(tensor.shape), expected);
  }
  return block;
}

ShardIndex::Tensor parseTensor(const JsonNode &node, size_t files) {
  ShardIndex::Tensor tensor{node.at("dtype").string(), integersOf(node.at("shape")), {}};
  int64_t bytes = fileDtypeSize(tensor.dtype);
  node.at("dtype").require(bytes > 0, "a type of safetensors");
  for (int64_t dim : tensor.shape)
    if (__builtin_mul_overflow(bytes, dim, &bytes))
      node.at("shape").fail("the shape is too large");
  JsonNode blocks = node.at("blocks");
  for (size_t i = 0; i < blocks.size(); ++i)
    tensor.blocks.push_back(parseBlock(blocks.at(i), tensor, files));
  return tensor;
}

std::string parseFile(const JsonNode &node) {
  std::string name = node.string();
  bool isInFolder = !name.empty() && name.find_first_of(std::string("/\\\0", 3)) == std::string::npos;
  node.require(isInFolder && name != "." && name != "..", "the name of a file in the index's folder");
  return name;
}

ShardIndex parseIndex(const JsonNode &root) {
  root.at(kVersionKey)
      .require(root.at(kVersionKey).integer(0, INT64_MAX) == kVersion,
               "version " + std::to_string(kVersion) + ", which this moe-run reads,");
  ShardIndex index;
  index.position.step = root.at("step").integer(0, INT32_MAX);
  JsonNode data = root.at("data");
  data.at("seed").require(data.at("seed").value.is_number_unsigned(), "an integer that is not negative");
  index.position.seed = data.at("seed").value.get<uint64_t>();
  index.position.tokens = data.at("tokens").integer(0, INT64_MAX);
  index.position.stepTokens = data.at("step_tokens").integer(0, INT64_MAX);
  JsonNode files = root.at("files"), tensors = root.at("tensors");
  for (size_t i = 0; i < files.size(); ++i)
    index.files.push_back(parseFile(files.at(i)));
  tensors.requireType(tensors.value.is_object(), "an object");
  for (const auto &[name, value] : tensors.value.items())
    index.tensors[name] = parseTensor({value, "tensors['" + name + "']"}, index.files.size());
  return index;
}

} // namespace

std::string ShardIndex::json() const {
  nlohmann::ordered_json root = {
      {kVersionKey, kVersion},
      {"step", position.step},
      {"data", {{"seed", position.seed}, {"tokens", position.tokens}, {"step_tokens", position.stepTokens}}},
      {"files", files},
      {"tensors", nlohmann::ordered_json::object()}};
  for (const auto &[name, tensor] : tensors) {
    auto blocks = nlohmann::ordered_json::array();
    for (const Block &block : tensor.blocks) {
      const Region &region = block.region;
      auto &entry = blocks.emplace_back(
          nlohmann::ordered_json{{"file", block.file}, {"offset", region.offset}, {"lengths", region.lengths}});
      if (!region.isBox())
        entry["range"] = {region.begin, region.begin + region.count};
    }
    root["tensors"][name] = {{"dtype", tensor.dtype}, {"shape", tensor.shape}, {"blocks", std::move(blocks)}};
  }
  return root.dump() + "\n";
}

Status ShardIndex::parse(const std::string &path, const std::string &text, ShardIndex &index) {
  auto wrong = [&](const std::string &message) { return invalid("'" + path + "': " + message); };
  nlohmann::json root = nlohmann::json::parse(text, nullptr, false);
  if (!root.is_object())
    return wrong("expected an object of JSON; the file is damaged");
  try {
    index = parseIndex({root, ""});
  } catch (const JsonError &error) {
    return wrong((error.path.empty() ? "" : error.path + ": ") + error.message);
  }
  return {};
}

} // namespace moert::run
