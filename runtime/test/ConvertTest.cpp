//===- ConvertTest.cpp - between floating-point types ---------------------===//

#include "core/Convert.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace moert {
namespace {

// Every bf16 and f16 is unchanged by conversion to f32, or f64, and back, including NaN.
TEST(Convert, ThereAndBack) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    Bf16 bf16{static_cast<uint16_t>(bits)};
    Half half{static_cast<uint16_t>(bits)};
    EXPECT_EQ(convert<Bf16>(convert<float>(bf16)).bits, bits);
    EXPECT_EQ(convert<Bf16>(convert<double>(bf16)).bits, bits);
    EXPECT_EQ(convert<Half>(convert<float>(half)).bits, bits);
    EXPECT_EQ(convert<Half>(convert<double>(half)).bits, bits);
  }
  std::mt19937 random(1);
  for (int i = 0; i < 100000; ++i) {
    auto bits = static_cast<uint32_t>(random());
    EXPECT_EQ(std::bit_cast<uint32_t>(convert<float>(convert<double>(std::bit_cast<float>(bits)))), bits);
  }
}

TEST(Convert, Values) {
  EXPECT_EQ(convert<float>(Half{0x3c00}), 1.0f);
  EXPECT_EQ(convert<float>(Half{0xc500}), -5.0f);
  EXPECT_EQ(convert<float>(Half{0x7bff}), 65504.0f);
  EXPECT_EQ(convert<float>(Half{0x0001}), 0x1p-24f);
  EXPECT_EQ(convert<float>(Half{0x8000}), 0.0f);
  EXPECT_TRUE(std::signbit(convert<float>(Half{0x8000})));
  EXPECT_TRUE(std::isinf(convert<float>(Half{0xfc00})));
  EXPECT_EQ(convert<float>(Bf16{0x4049}), 3.140625f);
}

// Values round to the nearest neighbour, and a value in the middle to the even one.
TEST(Convert, Rounding) {
  for (uint16_t bits = 0; bits < 0x7bff; ++bits) {
    auto low = convert<double>(Half{bits}), high = convert<double>(Half{static_cast<uint16_t>(bits + 1)});
    double middle = (low + high) / 2;
    EXPECT_EQ(convert<Half>(static_cast<float>(middle)).bits, bits + (bits & 1)) << bits;
    EXPECT_EQ(convert<Half>(std::nextafter(static_cast<float>(middle), -1.0f)).bits, bits);
    EXPECT_EQ(convert<Half>(std::nextafter(static_cast<float>(middle), 1e9f)).bits, bits + 1);
  }
  EXPECT_EQ(convert<Half>(65519.0f).bits, 0x7bff);
  EXPECT_EQ(convert<Half>(65520.0f).bits, 0x7c00);
  EXPECT_EQ(convert<Half>(-1e30f).bits, 0xfc00);
  EXPECT_EQ(convert<Bf16>(std::bit_cast<float>(0x3f808000)).bits, 0x3f80);
  EXPECT_EQ(convert<Bf16>(std::bit_cast<float>(0x3f818000)).bits, 0x3f82);
  // A NaN whose upper bits are 0 does not become infinite.
  EXPECT_GT(convert<Bf16>(std::bit_cast<float>(0x7f800001)).bits & 0x7fff, 0x7f80);
  EXPECT_GT(convert<Half>(std::bit_cast<float>(0xff800001)).bits & 0x7fff, 0x7c00);
  EXPECT_TRUE(std::isnan(convert<float>(std::bit_cast<double>(uint64_t(0x7ff0000000000001)))));
}

// Conversion from f64 rounds once. Through f32, values close to the middle would become ties.
TEST(Convert, RoundedOnce) {
  for (uint16_t bits = 0; bits < 0x7bff; ++bits) {
    auto low = convert<double>(Half{bits}), high = convert<double>(Half{static_cast<uint16_t>(bits + 1)});
    double middle = (low + high) / 2;
    EXPECT_EQ(convert<Half>(middle).bits, bits + (bits & 1)) << bits;
    EXPECT_EQ(convert<Half>(std::nextafter(middle, -1.0)).bits, bits);
    EXPECT_EQ(convert<Half>(std::nextafter(middle, 1e9)).bits, bits + 1);
    EXPECT_EQ(convert<Half>(-std::nextafter(middle, 1e9)).bits, 0x8000 | (bits + 1));
  }
  EXPECT_EQ(convert<Half>(1e300).bits, 0x7c00);
  EXPECT_EQ(convert<Bf16>(-1e300).bits, 0xff80);
  EXPECT_EQ(convert<Half>(-1e-300).bits, 0x8000);
  EXPECT_EQ(convert<Bf16>(-1e-300).bits, 0x8000);
  EXPECT_EQ(convert<Bf16>(1e-300).bits, 0);
  EXPECT_EQ(convert<Bf16>(1 + 0x1p-8 + 1e-12).bits, 0x3f81);
}

TEST(Convert, Elements) {
  const uint16_t half[] = {0x3c00, 0xc500}, brain[] = {0x3f80, 0xc0a0};
  const int32_t integers[] = {1, -5};
  const float narrow[] = {1, -5};
  const double wide[] = {1, -5};
  EXPECT_EQ(elementAt(half, MOERT_F16, 1), -5);
  EXPECT_EQ(elementAt(brain, MOERT_BF16, 1), -5);
  EXPECT_EQ(elementAt(integers, MOERT_I32, 1), -5);
  EXPECT_EQ(elementAt(narrow, MOERT_F32, 1), -5);
  EXPECT_EQ(elementAt(wide, MOERT_F64, 1), -5);
}

} // namespace
} // namespace moert
