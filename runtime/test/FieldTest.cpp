//===- FieldTest.cpp - numbers without rounding ---------------------------===//

#include "core/Field.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

using namespace moert;

namespace {

Field drawn(uint64_t i) { return Field::of(hashOf(i)); }

static_assert(sizeof(Field) == 8 && std::is_trivially_copyable_v<Field>);
static_assert(Field(1.0 / 3) * 3 == Field(1));

TEST(FieldTest, SumsAndProductsHaveNoOrder) {
  for (uint64_t i = 0; i < 1000; ++i) {
    const Field a = drawn(3 * i), b = drawn(3 * i + 1), c = drawn(3 * i + 2);
    EXPECT_EQ((a + b) + c, a + (b + c));
    EXPECT_EQ((a * b) * c, a * (b * c));
    EXPECT_EQ(a * (b + c), a * b + a * c);
    EXPECT_EQ(a - b, a + -b);
    EXPECT_EQ(a + -a, Field(0));
    EXPECT_EQ(a / b * b, a);
  }
  EXPECT_EQ(Field(1) / Field(0), Field(0));
  EXPECT_EQ(Field::of(Field::kPrime), Field(0));
  EXPECT_EQ(Field(-1) + 1, Field(0));
}

TEST(FieldTest, DotProducts) {
  std::vector<Field> a, b;
  for (uint64_t i = 0; i < 600; ++i) {
    a.push_back(i % 3 ? drawn(i) : Field(-1));
    b.push_back(i % 3 ? drawn(~i) : Field(-1));
  }
  for (int64_t count : {0, 1, 63, 64, 65, 200}) {
    Field sum = 0;
    for (int64_t i = 0; i < count; ++i)
      sum += a[static_cast<size_t>(3 * i)] * b[static_cast<size_t>(2 * i)];
    EXPECT_EQ(Field::dot(a.data(), 3, b.data(), 2, count), sum) << count;
  }
}

TEST(FieldTest, RealNumbersAreFractions) {
  for (int bottom = 1; bottom < 2000; ++bottom)
    for (int top : {1, -1, 3, 7, 1000003})
      EXPECT_EQ(Field(double(top) / bottom) * bottom, Field(top)) << top << " / " << bottom;
  // The value is no fraction of small numbers, so the number itself is shown.
  const double root = std::sqrt(0.5);
  EXPECT_EQ(Field(root), Field(static_cast<int64_t>(root * 0x1p53)) / Field(int64_t(1) << 53));
  EXPECT_EQ(Field(0x1p-80) * Field(0x1p40) * Field(0x1p40), Field(1));
  EXPECT_EQ(Field(0.0), Field(0));
  EXPECT_EQ(Field(-0.0), Field(0));
}

TEST(FieldTest, OrderIsThatOfIntegers) {
  EXPECT_LT(Field(-3), Field(2));
  EXPECT_LT(-Field::infinity(), Field(static_cast<int64_t>(Field::kPrime / 2 + 1)));
  EXPECT_LT(Field(static_cast<int64_t>(Field::kPrime / 2)), Field::infinity());
  EXPECT_EQ(-(-Field::infinity()), Field::infinity());
  EXPECT_EQ(std::numeric_limits<Field>::infinity(), Field(std::numeric_limits<double>::infinity()));
}

TEST(FieldTest, SizesAreSpread) {
  int below = 0;
  for (uint64_t i = 0; i < 1000; ++i) {
    EXPECT_LT(std::abs(drawn(i).size()), 16);
    below += std::abs(drawn(i).size()) < 8;
  }
  EXPECT_NEAR(below, 500, 60);
}

TEST(FieldTest, LogarithmUndoesTheExponential) {
  std::set<uint64_t> seen;
  for (uint64_t i = 0; i < 1000; ++i) {
    const Field x = i < 10 ? Field(static_cast<int64_t>(i)) : drawn(i);
    EXPECT_EQ(fieldLog(fieldExp(x)), x);
    EXPECT_EQ(fieldExp(fieldLog(x)), x);
    seen.insert(fieldExp(x).index());
  }
  EXPECT_EQ(seen.size(), 1000u);
}

TEST(FieldTest, StandInsDiffer) {
  EXPECT_EQ(standIn(Oracle::Erfc, 3), standIn(Oracle::Erfc, Field(7) - 4));
  EXPECT_NE(standIn(Oracle::Erfc, 3), standIn(Oracle::Erfc, 4));
  EXPECT_NE(standIn(Oracle::Erfc, 3), standIn(Oracle::SquareRoot, 3));
}

} // namespace
