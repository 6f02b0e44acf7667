//===- JumpsTest.cpp - arguments near a jump of a derivative --------------===//

#include "verify/Jumps.h"
#include "core/Attributes.h"

#include <gmock/gmock.h>

#include <vector>

using namespace moert;
using testing::ElementsAre;
using testing::FieldsAre;
using testing::IsEmpty;

namespace {

/// An argument for which the caller decided: its element, and whether it is above the jump.
using Decided = std::pair<int64_t, int32_t>;

/// The call activation_grad with `rows` as its input, and the decisions about it.
template <class T> struct Backward {
  std::vector<T> rows;
  int64_t columns;
  attributes::ActivationGrad form;
  bool crosses = false; ///< whether the caller wants each argument on the other side
  std::vector<Decided> decided = {};

  void decide() {
    Call call;
    call.kind = Kind::ActivationGrad;
    call.viewCount = 1;
    call.rank = 3;
    call.op = 7;
    form.set(call);
    call.views[0] = {
        rows.data(), sizeof(T) == 4 ? MOERT_F32 : MOERT_F64, 2, {static_cast<int64_t>(rows.size()) / columns, columns}};
    VerifyModes modes;
    modes.decideContext = this;
    modes.decide = [](void *context, const moert_near *near) -> int32_t {
      auto *self = static_cast<Backward *>(context);
      EXPECT_EQ(near->rank, 3);
      EXPECT_EQ(near->op, 7);
      EXPECT_EQ(near->earlier, 2);
      self->decided.emplace_back(near->element, near->is_above);
      return self->crosses ? !near->is_above : near->is_above;
    };
    verify::decideJumps(call, 2, modes);
  }
};

TEST(Jumps, OfRelu) {
  // The arguments of the second row are small without being near 0. The zeros of the third are no products.
  Backward<float> call{{1, 1e-6f, -1e-6f, 1e-4f, 1e-6f, -2e-6f, 1e-6f, 1e-6f, 0, 0, 0, 0}, 4, {.kind = MOERT_RELU}};
  call.decide();
  EXPECT_THAT(call.decided, ElementsAre(FieldsAre(1, 1), FieldsAre(2, 0)));
  EXPECT_EQ(call.rows[1], 1e-6f);
  call.crosses = true;
  call.decide();
  EXPECT_EQ(call.rows[0], 1);
  EXPECT_EQ(call.rows[1], -1e-6f);
  EXPECT_EQ(call.rows[2], 1e-6f);
  EXPECT_EQ(call.rows[3], 1e-4f);
}

TEST(Jumps, ZeroGoesAbove) {
  Backward<double> call{{1, 0}, 2, {.kind = MOERT_RELU}, true};
  call.decide();
  EXPECT_GT(call.rows[1], 0);
  EXPECT_LT(call.rows[1], 1e-300);
}

TEST(Jumps, OfClampedUnits) {
  // Gates are bounded from above, linear halves on both sides.
  const double near = 1e-15;
  Backward<double> call{
      {7 + near, 7 - near, -7 - near, -7 + near, 6.9, 0}, 6, {.kind = MOERT_SWIGLU_CLAMPED, .limit = 7}};
  call.decide();
  EXPECT_THAT(call.decided, ElementsAre(FieldsAre(0, 1), FieldsAre(1, 0), FieldsAre(3, 1)));
}

TEST(Jumps, SmoothFunctionsHaveNone) {
  Backward<float> call{{1, 0, 1e-9f, -1e-9f}, 2, {.kind = MOERT_SWIGLU}};
  call.decide();
  EXPECT_THAT(call.decided, IsEmpty());
}

} // namespace
