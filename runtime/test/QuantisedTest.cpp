//===- QuantisedTest.cpp - checkpoints of codes and scales ----------------===//

#include "CheckpointTest.h"

#include <cmath>
#include <random>

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

namespace moert::run {
namespace {

/// Number of a code, by the definition of its type: a sign, `exponentBits` and `mantissaBits`.
float number(unsigned code, int exponentBits, int mantissaBits, bool hasInfinity) {
  int bias = (1 << (exponentBits - 1)) - 1, mantissas = 1 << mantissaBits;
  int mantissa = static_cast<int>(code) % mantissas;
  int exponent = static_cast<int>(code >> mantissaBits) % (1 << exponentBits);
  bool isTop = exponent == (1 << exponentBits) - 1 && exponentBits > 2;
  double size = exponent == 0 ? std::ldexp(mantissa, 1 - bias - mantissaBits)
                              : std::ldexp(mantissas + mantissa, exponent - bias - mantissaBits);
  if (isTop && hasInfinity)
    size = mantissa ? NAN : INFINITY;
  if (isTop && !hasInfinity && mantissa == mantissas - 1)
    size = NAN;
  return static_cast<float>(code >> (exponentBits + mantissaBits) ? -size : size);
}

std::string allCodes() {
  std::string codes;
  for (int code = 0; code < 256; ++code)
    codes += static_cast<char>(code);
  return codes;
}

std::string randomBytes(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::string bytes(count, '\0');
  // Removes NaNs, so that values can be compared.
  for (char &byte : bytes)
    byte = static_cast<char>(random() % 127 | (random() & 128));
  return bytes;
}

std::vector<float> randomScales(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> scales(count);
  for (float &scale : scales)
    scale = std::ldexp(static_cast<float>(random() % 10000 + 1), -20);
  return scales;
}

void writeConfig(const std::string &folder, const std::string &text) { writeAll(folder + "config.json", text); }

// Covers every code of both types, one scale for all, and each type of scale.
TEST(Quantised, EveryCode) {
  Value argument = parameter("w", {16, 16}, {{"t"}});
  for (bool isE5M2 : {false, true})
    for (const auto &[dtype, bytes] : {std::pair("F32", bytesOf<float>({0.5f})),
                                       {"BF16", bytesOf<uint16_t>({0x3f00})},
                                       {"F16", bytesOf<uint16_t>({0x3800})},
                                       {"F8_E8M0", std::string(1, 126)}}) {
      std::vector<float> got = valueOf(
          argument, {{"t", isE5M2 ? "F8_E5M2" : "F8_E4M3", {16, 16}, allCodes()}, {"t_scale_inv", dtype, {}, bytes}});
      ASSERT_EQ(got.size(), 256u);
      for (unsigned code = 0; code < 256; ++code) {
        float want = number(code, isE5M2 ? 5 : 4, isE5M2 ? 2 : 3, isE5M2) / 2;
        EXPECT_TRUE(got[code] == want || (std::isnan(got[code]) && std::isnan(want))) << code << " " << got[code];
        EXPECT_EQ(std::signbit(got[code]), code >= 128);
      }
    }
}

/// w of a tensor [R, C] in blocks of `rows` x `columns`, by plain loops.
std::vector<float> expected(int64_t R, int64_t C, int64_t rows, int64_t columns, const std::string &codes,
                            const std::vector<float> &scales) {
  std::vector<float> values;
  int64_t gridColumns = (C + columns - 1) / columns;
  for (int64_t i = 0; i < R; ++i)
    for (int64_t j = 0; j < C; ++j)
      values.push_back(number(static_cast<unsigned char>(codes[static_cast<size_t>(i * C + j)]), 4, 3, false) *
                       scales[static_cast<size_t>(i / rows * gridColumns + j / columns)]);
  return values;
}

// The last blocks are smaller. config.json gives the size of blocks, and the default is 128.
TEST(Quantised, Blocks) {
  constexpr int64_t kRows = 301, kColumns = 201;
  std::string codes = randomBytes(kRows * kColumns, 1), folder = temporary(), path = folder + "a.safetensors";
  auto load = [&](std::vector<int64_t> grid, std::vector<float> scales, int32_t dtype = MOERT_F32) {
    writeFile(path, {{"t", "F8_E4M3", {kRows, kColumns}, codes}, floats("t_scale_inv", std::move(grid), scales)});
    std::ostringstream log;
    Tensors inputs;
    Status status = makeInputs({parameter("w", {kRows, kColumns}, {{"t"}}, dtype)}, path, 0, log, inputs);
    EXPECT_EQ(status.message, "");
    EXPECT_EQ(log.str(), "");
    std::vector<double> values;
    for (int64_t i = 0; status.ok() && i < kRows * kColumns; ++i)
      values.push_back(elementAt(inputs["w"].as<char>(), dtype, i));
    return values;
  };
  auto compare = [&](const std::vector<double> &got, const std::vector<float> &want, auto convert) {
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i)
      ASSERT_EQ(got[i], convert(want[i])) << i;
  };
  auto same = [](float value) { return value; };
  std::vector<float> six = randomScales(6, 2);
  compare(load({3, 2}, six), expected(kRows, kColumns, 128, 128, codes, six), same);
  compare(load({3, 2}, six, MOERT_BF16), expected(kRows, kColumns, 128, 128, codes, six),
          [](float value) { return widen(toBf16(value)); });
  // Blocks are 101 x 96, and only config.json's reading of the scales is possible.
  writeConfig(folder, R"({"quantization_config": {"quant_method": "fp8", "weight_block_size": [101, 96]}})");
  std::vector<float> nine = randomScales(9, 3);
  compare(load({3, 3}, nine), expected(kRows, kColumns, 101, 96, codes, nine), same);
}

TEST(Quantised, Stacks) {
  // Two matrices [3, 2] with rows in blocks of 2, transposed and separate.
  Source experts = matrix({"{e}.weight"});
  experts.experts = 2;
  std::string ones(6, 0x38), folder = temporary();
  writeConfig(folder, R"({"quantization_config": {"weight_block_size": [2, 2]}})");
  writeFile(folder + "a", {{"0.weight", "F8_E4M3", {3, 2}, ones},
                           floats("0.weight_scale_inv", {2, 1}, {1, 2}),
                           {"1.weight", "F8_E4M3", {3, 2}, ones},
                           floats("1.weight_scale_inv", {2, 1}, {3, 4})});
  std::ostringstream log;
  Tensors inputs;
  ASSERT_EQ(makeInputs({parameter("w", {2, 2, 3}, experts)}, folder + "a", 0, log, inputs).message, "");
  EXPECT_THAT(elements<float>(inputs["w"]), ElementsAre(1, 1, 2, 1, 1, 2, 3, 3, 4, 3, 3, 4));
  // All matrices in one tensor.
  writeFile(folder + "a", {{"t", "F8_E4M3", {2, 3, 2}, ones + ones}, floats("t_scale_inv", {2, 2, 1}, {1, 2, 3, 4})});
  ASSERT_EQ(makeInputs({parameter("w", {2, 3, 2}, {{"t"}})}, folder + "a", 0, log, inputs).message, "");
  EXPECT_THAT(elements<float>(inputs["w"]), ElementsAre(1, 1, 1, 1, 2, 2, 3, 3, 3, 3, 4, 4));
}

// Tensors are larger than the memory for one read.
TEST(Quantised, ManyRows) {
  constexpr int64_t kRows = 2501, kColumns = 1100;
  std::string codes = randomBytes(kRows * kColumns, 4);
  std::vector<float> scales = randomScales(20 * 9, 5);
  std::vector<float> got =
      valueOf(parameter("w", {kColumns, kRows}, matrix({"t"})),
              {{"t", "F8_E4M3", {kRows, kColumns}, codes}, floats("t_scale_inv", {20, 9}, scales)});
  std::vector<float> want = expected(kRows, kColumns, 128, 128, codes, scales);
  ASSERT_EQ(got.size(), want.size());
  int64_t different = 0;
  for (int64_t i = 0; i < kRows; ++i)
    for (int64_t j = 0; j < kColumns; ++j)
      different += got[static_cast<size_t>(j * kRows + i)] != want[static_cast<size_t>(i * kColumns + j)];
  EXPECT_EQ(different, 0);
}

/// MXFP4 of [experts, in, out].
std::vector<Stored> mxfp4(int64_t experts, int64_t in, int64_t out, unsigned seed) {
  auto count = static_cast<size_t>(experts * in * out);
  std::string scales = randomBytes(count / 32, seed + 1);
  for (char &scale : scales)
    scale = static_cast<char>(110 + static_cast<unsigned char>(scale) % 20);
  return {{"t_blocks", "U8", {experts, out, in / 32, 16}, randomBytes(count / 2, seed)},
          {"t_scales", "U8", {experts, out, in / 32}, scales}};
}

TEST(Quantised, Mxfp4) {
  // Covers the whole tensor, windows of rows and columns, and tensors that are larger than the memory for one read.
  struct Case {
    int64_t experts, in, out, begin, taken;
  };
  for (const Case &c : {Case{2, 64, 6, 0, 6}, Case{3, 32, 10, 4, 3}, Case{2, 1600, 900, 10, 880}}) {
    std::vector<Stored> tensors = mxfp4(c.experts, c.in, c.out, 6);
    Source source{{"t"}};
    if (c.taken != c.out) {
      source.begin = c.begin;
      source.of = c.out;
    }
    std::vector<float> got = valueOf(parameter("w", {c.experts, c.in, c.taken}, source), tensors);
    ASSERT_EQ(got.size(), static_cast<size_t>(c.experts * c.in * c.taken));
    auto at = [](const std::string &bytes, int64_t i) {
      return static_cast<unsigned char>(bytes[static_cast<size_t>(i)]);
    };
    int64_t different = 0;
    for (int64_t e = 0; e < c.experts; ++e)
      for (int64_t i = 0; i < c.in; ++i)
        for (int64_t j = 0; j < c.taken; ++j) {
          int64_t row = e * c.out + c.begin + j;
          unsigned code = at(tensors[0].bytes, (row * c.in + i) / 2) >> (i % 2 ? 4 : 0) & 15;
          float want = number(code, 2, 1, false) * std::ldexp(1.0f, at(tensors[1].bytes, (row * c.in + i) / 32) - 127);
          different += got[static_cast<size_t>((e * c.in + i) * c.taken + j)] != want;
        }
    EXPECT_EQ(different, 0) << c.in;
  }
}

TEST(Quantised, Wrong) {
  std::string folder = temporary(), path = folder + "a.safetensors", codes(192 * 64, 0x38);
  std::vector<Value> arguments{parameter("w", {192, 64}, {{"m.weight"}})};
  auto error = [&](const std::vector<Stored> &tensors) {
    writeFile(path, tensors);
    return errorOf(arguments, path);
  };
  Stored weight{"m.weight", "F8_E4M3", {192, 64}, codes};
  auto scales = [](std::vector<int64_t> shape) {
    int64_t count = 1;
    for (int64_t dim : shape)
      count *= dim;
    return floats("m.weight_scale_inv", shape, std::vector<float>(static_cast<size_t>(count), 1));
  };
  EXPECT_EQ(error({weight}), "'" + path +
                                 "': tensor 'm.weight' of argument 'w': expected its scales, tensor "
                                 "'m.weight_scale_inv', beside a tensor of F8_E4M3");
  EXPECT_THAT(error({weight, {"m.weight_scale_inv", "I32", {2, 1}, std::string(8, 1)}}),
              HasSubstr("tensor 'm.weight_scale_inv': expected F32, BF16, F16, F8_E8M0 or U8 but got I32"));
  EXPECT_THAT(error({weight, scales({5, 1})}),
              HasSubstr("rows: expected scales for blocks of 128, or for equal blocks, of 192 but got 5"));
  EXPECT_THAT(error({weight, scales({2})}),
              HasSubstr("expected a scale for each block of a tensor [192, 64] but got [2]"));
  // Block sizes of 128 and 96 are both possible here.
  EXPECT_THAT(error({weight, scales({2, 1})}),
              HasSubstr("2 scales for 192 may be for blocks of 128 or of 96; expected a "
                        "config.json beside the file"));
  writeConfig(folder, R"({"quantization_config": {"weight_block_size": [96, 64]}})");
  EXPECT_EQ(error({weight, scales({2, 1})}), "");
  EXPECT_THAT(error({weight, scales({3, 1})}),
              HasSubstr("rows: expected scales for blocks of 96, as config.json says, of 192 but got 3"));
  for (const char *text : {"", "[1]", "{\"quantization_config\": 3}",
                           "{\"quantization_config\": {\"weight_block_size\": [0, -1], \"quant_method\": 7}}"}) {
    writeConfig(folder, text);
    EXPECT_THAT(error({weight, scales({2, 1})}), HasSubstr("expected a config.json")) << text;
  }
  fs::remove(folder + "config.json");
  // The error shows the shape that the plan expects.
  EXPECT_THAT(error({{"m.weight", "F8_E4M3", {64, 192}, codes}, scales({1, 1})}),
              HasSubstr("expected [192, 64] but got [64, 192]"));

  arguments[0] = parameter("w", {2, 64, 6}, {{"t"}});
  std::vector<Stored> four = mxfp4(2, 64, 6, 1);
  EXPECT_EQ(error(four), "");
  EXPECT_THAT(error({four[0]}), HasSubstr("expected tensor 't_scales' beside 't_blocks' but it is missing"));
  EXPECT_THAT(error({four[1]}), HasSubstr("expected tensor 't_blocks' beside 't_scales' but it is missing"));
  EXPECT_THAT(error(mxfp4(2, 32, 12, 1)),
              HasSubstr("tensor 't_blocks': expected U8 [2, 6, 2, 16] but got U8 [2, 12, 1, 16]"));
  four[1].shape = {2, 2, 6};
  EXPECT_THAT(error(four), HasSubstr("tensor 't_scales': expected U8 [2, 6, 2] but got U8 [2, 2, 6]"));
}

// Other kinds are refused by name, even if missing parameters are allowed.
TEST(Quantised, OtherKinds) {
  std::string folder = temporary(), path = folder + "a.safetensors";
  std::vector<Value> arguments{parameter("w", {2, 2}, matrix({"m.weight"}))};
  auto error = [&](const std::vector<Stored> &tensors) {
    writeFile(path, tensors);
    Loads loads;
    EXPECT_TRUE(loads.open({path}, arguments).ok());
    std::ostringstream log;
    Tensors inputs;
    return makeInputs(arguments, loads, {0, true}, log, inputs).message;
  };
  EXPECT_EQ(
      error({{"m.weight_packed", "I32", {1}, "abcd"}}),
      "'" + path +
          "': tensor 'm.weight' of argument 'w': it is quantised by compressed-tensors; expected F32, F64, "
          "BF16 or F16, block-scaled fp8 as DeepSeek-V3 has it, or MXFP4 as gpt-oss has it: save the model dequantised "
          "first");
  EXPECT_THAT(error({{"m.weight", "F8_E4M3", {2, 2}, "abcd"}, floats("m.weight_scale", {1}, {1})}),
              HasSubstr("quantised by compressed-tensors, fbgemm_fp8 or modelopt;"));
  EXPECT_THAT(error({{"m.qweight", "I32", {1}, "abcd"}}), HasSubstr("quantised by GPTQ or AWQ;"));
  EXPECT_THAT(error({{"m.weight", "U8", {2, 1}, "ab"}, floats("m.weight.absmax", {1}, {1})}),
              HasSubstr("quantised by bitsandbytes;"));
  writeConfig(folder, R"({"quantization_config": {"quant_method": "awq"}})");
  EXPECT_THAT(error({{"m.qweight", "I32", {1}, "abcd"}}), HasSubstr("quantised by awq;"));
}

// Parameters of a quantised checkpoint are saved dequantised, to another path.
TEST(Quantised, Saved) {
  std::string folder = temporary();
  fs::create_directory(folder + "in");
  std::vector<Value> arguments{parameter("w", {2, 2}, matrix({"t"})), parameter("v", {2}, {{"u"}})};
  writeFile(folder + "in/model.safetensors",
            {{"t", "F8_E4M3", {2, 2}, std::string(4, 0x38)}, floats("t_scale_inv", {}, {3}), floats("u", {2}, {1, 2})});
  EXPECT_THAT(saveBack(arguments, {folder + "in"}, folder + "in"),
              HasSubstr("expected another folder than that of '" + folder + "in', whose tensors are quantised"));
  EXPECT_THAT(saveBack(arguments, {folder + "in/model.safetensors"}, folder + "in/other.safetensors"),
              HasSubstr("expected another folder"));
  EXPECT_EQ(saveBack(arguments, {folder + "in"}, folder + "out"), "");
  SafetensorsFile made;
  ASSERT_TRUE(made.open(folder + "out/model.safetensors").ok());
  EXPECT_EQ(made.entries().size(), 2u);
  EXPECT_EQ(made.entries().at("t").dtype, "F32");
  std::string bytes = readAll(folder + "out/model.safetensors");
  EXPECT_EQ(bytes.substr(bytes.size() - 24), bytesOf<float>({3, 3, 3, 3, 1, 2}));
}

} // namespace
} // namespace moert::run
