//===- Quantised.cpp - weights of a few bits and their scales -------------===//

#include "run/checkpoint/Quantised.h"
#include "core/Convert.h"
#include "run/checkpoint/Pieces.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <limits>

namespace moert::run {
namespace {

using Entry = SafetensorsFile::Entry;

/// Number of a code: a sign, 4 bits of exponent with bias 7, and 3 bits of mantissa; no infinities, and NaN if all bits
/// are set.
float fromE4M3(unsigned code) {
  int exponent = static_cast<int>(code >> 3 & 15), mantissa = static_cast<int>(code & 7);
  float size = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                             : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
  if ((code & 127) == 127)
    size = std::numeric_limits<float>::quiet_NaN();
  return code & 128 ? -size : size;
}

/// Number of a code that is the upper byte of a Half.
float fromE5M2(unsigned code) { return convert<float>(Half{static_cast<uint16_t>(code << 8)}); }

float fromE2M1(unsigned code) {
  constexpr float kSizes[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  return code & 8 ? -kSizes[code & 7] : kSizes[code & 7];
}

template <unsigned kCount> std::array<float, kCount> tableOf(float (*number)(unsigned)) {
  std::array<float, kCount> table;
  for (unsigned code = 0; code < kCount; ++code)
    table[code] = number(code);
  return table;
}

bool isPowerOfTwo(const std::string &dtype) { return dtype == "U8" || dtype == "F8_E8M0"; }

/// Value of scale `index` of those at `scales`.
float scaleAt(const char *scales, const std::string &dtype, int64_t index) {
  if (isPowerOfTwo(dtype)) {
    int exponent = static_cast<unsigned char>(scales[index]);
    return exponent == 255 ? std::numeric_limits<float>::quiet_NaN() : std::ldexp(1.0f, exponent - 127);
  }
  return static_cast<float>(elementAt(scales, floatingType(dtype), index));
}

/// Finds how many of `size` rows (or columns) share one of `scales` scales: the number in config.json, or 128 as in all
/// published checkpoints, or an equal part. Fails if the last two both fit and differ.
Status blockOf(const std::string &what, int64_t size, int64_t scales, int64_t configured, int64_t &block) {
  auto fits = [&](int64_t candidate) { return (size + candidate - 1) / candidate == scales; };
  if (configured) {
    block = configured;
    return fits(block)
               ? Status{}
               : invalid(what + ": expected scales for blocks of " + std::to_string(block) +
                         ", as config.json says, of " + std::to_string(size) + " but got " + std::to_string(scales));
  }
  constexpr int64_t kUsual = 128;
  int64_t part = scales > 0 && size % scales == 0 ? size / scales : 0;
  block = fits(kUsual) ? kUsual : part;
  if (block == 0)
    return invalid(what + ": expected scales for blocks of 128, or for equal blocks, of " + std::to_string(size) +
                   " but got " + std::to_string(scales));
  if (part && part != block && scales > 1)
    return invalid(what + ": " + std::to_string(scales) + " scales for " + std::to_string(size) +
                   " may be for blocks of 128 or of " + std::to_string(part) +
                   "; expected a config.json beside the file whose quantization_config says 'weight_block_size'");
  return {};
}

Status describeFp8(const std::string &name, const Entry &codes, const FindTensor &find,
                   const QuantisationConfig &config, Quantised &quantised) {
  std::string scaleName = name + "_scale_inv";
  const Entry *scales = find(scaleName);
  if (!scales)
    return invalid("expected its scales, tensor '" + scaleName + "', beside a tensor of " + codes.dtype);
  std::string what = "tensor '" + scaleName + "'";
  if (!isPowerOfTwo(scales->dtype) && scales->dtype != "F32" && scales->dtype != "BF16" && scales->dtype != "F16")
    return invalid(what + ": expected F32, BF16, F16, F8_E8M0 or U8 but got " + scales->dtype);
  const std::vector<int64_t> &shape = codes.shape, &grid = scales->shape;
  quantised = {name, scaleName, codes.dtype, scales->dtype};
  quantised.length = shape.empty() ? 1 : shape.back();
  quantised.matrixRows = shape.size() < 2 ? 1 : std::max<int64_t>(1, shape[shape.size() - 2]);
  if (grid.empty() || (grid.size() == 1 && grid[0] == 1)) {
    // All matrices share the one scale, which is that of row 0.
    quantised.matrixRows = quantised.blockRows = std::numeric_limits<int64_t>::max();
    quantised.blockColumns = std::max<int64_t>(1, quantised.length);
    return {};
  }
  if (shape.size() < 2 || grid.size() != shape.size() || !std::equal(grid.begin(), grid.end() - 2, shape.begin()))
    return invalid(what + ": expected a scale for each block of a tensor " + shapeText(shape) + " but got " +
                   shapeText(grid));
  quantised.matrixScaleRows = grid[grid.size() - 2];
  quantised.scaleColumns = grid.back();
  Status status = blockOf(what + ", rows", shape[shape.size() - 2], quantised.matrixScaleRows, config.blockRows,
                          quantised.blockRows);
  return status.ok() ? blockOf(what + ", columns", quantised.length, quantised.scaleColumns, config.blockColumns,
                               quantised.blockColumns)
                     : status;
}

Status describeMxfp4(const std::string &name, const std::vector<int64_t> &shape, const FindTensor &find,
                     Quantised &quantised) {
  constexpr int64_t kBlock = 32;
  std::string codeName = name + "_blocks", scaleName = name + "_scales";
  const Entry *codes = find(codeName), *scales = find(scaleName);
  if (!codes || !scales)
    return invalid("expected tensor '" + (codes ? scaleName : codeName) + "' beside '" +
                   (codes ? codeName : scaleName) + "' but it is missing");
  if (shape.size() != 3 || shape[1] % kBlock != 0)
    return invalid("tensor '" + codeName +
                   "': expected MXFP4 of a tensor [experts, in, out] whose in is a multiple of 32 "
                   "but the plan's is " +
                   shapeText(shape));
  std::vector<int64_t> grid{shape[0], shape[2], shape[1] / kBlock}, blocks = grid;
  blocks.push_back(kBlock / 2);
  if (codes->dtype != "U8" || codes->shape != blocks)
    return invalid("tensor '" + codeName + "': expected U8 " + shapeText(blocks) + " but got " + codes->dtype + " " +
                   shapeText(codes->shape));
  if (!isPowerOfTwo(scales->dtype) || scales->shape != grid)
    return invalid("tensor '" + scaleName + "': expected U8 " + shapeText(grid) + " but got " + scales->dtype + " " +
                   shapeText(scales->shape));
  quantised = {codeName, scaleName, "F4_E2M1", scales->dtype, true, shape[1]};
  quantised.blockColumns = kBlock;
  quantised.scaleColumns = grid[2];
  return {};
}

/// Tensors that mark other kinds of quantisation: their names end in a suffix after 'T', a name that ends in 'weight',
/// or W.
struct OtherKind {
  const char *suffix, *name;
};
constexpr OtherKind kOtherKinds[] = {{"_packed", "compressed-tensors"},
                                     {"_scale", "compressed-tensors, fbgemm_fp8 or modelopt"},
                                     {".absmax", "bitsandbytes"},
                                     {"_quanto", "quanto"}};

/// Name of the kind; empty if none is known.
std::string otherKindOf(const std::string &name, const FindTensor &find) {
  for (const OtherKind &kind : kOtherKinds)
    if (find(name + kind.suffix))
      return kind.name;
  constexpr std::string_view kWeight = "weight";
  if (name.ends_with(kWeight) && find(name.substr(0, name.size() - kWeight.size()) + "qweight"))
    return "GPTQ or AWQ";
  return "";
}

} // namespace

QuantisationConfig QuantisationConfig::read(const std::string &folder) {
  std::ifstream file(std::filesystem::path(folder) / "config.json", std::ios::binary);
  auto root = nlohmann::json::parse(file, nullptr, false);
  if (!root.is_object() || !root.contains("quantization_config") || !root["quantization_config"].is_object())
    return {};
  const auto &said = root["quantization_config"];
  QuantisationConfig config;
  if (said.contains("quant_method") && said["quant_method"].is_string())
    config.method = said["quant_method"];
  auto isSize = [](const nlohmann::json &size) {
    return size.is_number_unsigned() && size.get<uint64_t>() > 0 && size.get<uint64_t>() <= INT32_MAX;
  };
  if (said.contains("weight_block_size") && said["weight_block_size"].is_array())
    if (const auto &sizes = said["weight_block_size"]; sizes.size() == 2 && isSize(sizes[0]) && isSize(sizes[1])) {
      config.blockRows = sizes[0];
      config.blockColumns = sizes[1];
    }
  return config;
}

bool isQuantised(const std::string &name, const FindTensor &find) {
  const Entry *plain = find(name);
  if (plain && isConvertible(plain->dtype))
    return false;
  bool isKnown =
      plain ? plain->dtype == "F8_E4M3" || plain->dtype == "F8_E5M2" : find(name + "_blocks") || find(name + "_scales");
  return isKnown || !otherKindOf(name, find).empty();
}

Status describe(const std::string &name, const std::vector<int64_t> &shape, const FindTensor &find,
                const QuantisationConfig &config, Quantised &quantised) {
  std::string other = otherKindOf(name, find);
  if (!other.empty() && !config.method.empty())
    other = config.method;
  if (!other.empty())
    return invalid("it is quantised by " + other +
                   "; expected F32, F64, BF16 or F16, block-scaled fp8 as DeepSeek-V3 has it, or MXFP4 as gpt-oss has "
                   "it: save the model dequantised first");
  const Entry *plain = find(name);
  return plain ? describeFp8(name, *plain, find, config, quantised) : describeMxfp4(name, shape, find, quantised);
}

void dequantise(const Quantised &quantised, int64_t first, int64_t count, const char *codes, const char *scales,
                float *values) {
  static const auto kE4M3 = tableOf<256>(fromE4M3), kE5M2 = tableOf<256>(fromE5M2);
  static const auto kE2M1 = tableOf<16>(fromE2M1);
  const auto &kBytes = quantised.codeType == "F8_E5M2" ? kE5M2 : kE4M3;
  const bool isPacked = quantised.codeType == "F4_E2M1";
  const auto *code = reinterpret_cast<const unsigned char *>(codes);
  for (int64_t row = first; row < first + count; ++row, code += quantised.rowBytes()) {
    int64_t scaleRow = quantised.scaleRow(row) - quantised.scaleRow(first);
    for (int64_t begin = 0, block = 0; begin < quantised.length; begin += quantised.blockColumns, ++block) {
      float scale = scaleAt(scales, quantised.scaleType, scaleRow * quantised.scaleColumns + block);
      int64_t end = std::min(begin + quantised.blockColumns, quantised.length);
      for (int64_t i = begin; i < end; ++i)
        *values++ = scale * (isPacked ? kE2M1[code[i / 2] >> (i % 2 * 4) & 15] : kBytes[code[i]]);
    }
  }
}

} // namespace moert::run
