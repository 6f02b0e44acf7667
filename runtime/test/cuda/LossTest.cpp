//===- LossTest.cpp - the cross entropy on CUDA ---------------------------===//

#include "CudaKernelsTest.h"

#include <limits>
#include <random>

namespace moert::cuda {
namespace {

using Views = std::vector<View>;

constexpr double kInf = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();

void expectLogsumexp(const Operand &x) {
  const int64_t rows = x.dims[0];
  const std::vector<Operand> operands{x, filledOperand(x.dtype, {rows, 1}, 9)};
  expectAlike(Kind::RowLogsumexp, operands, [](Kernels &k, const Views &v) { return k.rowLogsumexp(v[0], v[1]); });
}

TEST(CudaLossTest, Logsumexp) {
  for (int32_t dtype : kFloatingTypes)
    for (int64_t rows : {0, 1, 19})
      for (int64_t columns : {1, 7, 64, 1000, 1032, 5000})
        if (rows < 19 || columns < 1000)
          expectLogsumexp(randomOperand(dtype, {rows, columns}, 1, 5));
}

TEST(CudaLossTest, LogsumexpOfExtremes) {
  for (int32_t dtype : {MOERT_F32, MOERT_F64})
    for (int64_t columns : {64, 1100}) {
      Operand x = randomOperand(dtype, {8, columns}, 1, 300);
      const auto width = static_cast<size_t>(columns);
      x.values[3] = kInf;
      x.values[width + 5] = -kInf;
      x.values[2 * width + 9] = kNan;
      std::fill_n(x.values.begin() + 3 * columns, columns, -kInf);
      std::fill_n(x.values.begin() + 4 * columns, columns, kInf);
      std::fill_n(x.values.begin() + 5 * columns, columns, -kInf);
      x.values[5 * width + 40] = 2;
      std::fill_n(x.values.begin() + 6 * columns, columns, 1e30);
      expectLogsumexp(x);
    }
}

TEST(CudaLossTest, LogsumexpGrad) {
  for (int32_t dtype : kFloatingTypes)
    for (int64_t rows : {0, 1, 19})
      for (int64_t columns : {1, 7, 64, 320}) {
        const std::vector<Operand> operands{randomOperand(dtype, {rows, columns}, 1),
                                            randomOperand(dtype, {rows, 1}, 2), randomOperand(dtype, {rows, 1}, 3),
                                            filledOperand(dtype, {rows, columns}, 9)};
        for (size_t out : {0, 3})
          expectAlike(
              Kind::RowLogsumexpGrad, operands,
              [=](Kernels &k, const Views &v) { return k.rowLogsumexpGrad(v[0], v[1], v[2], v[out]); }, 4);
      }
}

/// Labels below `end`. Some rows have none.
Operand someLabels(int64_t rows, int64_t end) {
  Operand labels = filledOperand(MOERT_I32, {rows}, -1);
  std::mt19937_64 engine(5);
  for (double &label : labels.values)
    if (engine() % 4 != 0)
      label = static_cast<double>(engine() % static_cast<uint64_t>(end));
  return labels;
}

TEST(CudaLossTest, Picks) {
  for (int32_t dtype : kFloatingTypes)
    for (int64_t rows : {0, 1, 67, 600})
      for (int64_t parts : {1, 3}) {
        const int64_t columns = 11;
        const Part part{parts, 1, 2};
        const std::vector<Operand> operands{randomOperand(dtype, {rows, columns}, 1), someLabels(rows, parts * columns),
                                            randomOperand(dtype, {rows, 1}, 2),
                                            randomOperand(dtype, {rows, columns}, 3)};
        expectAlike(Kind::Pick, operands, [=](Kernels &k, const Views &v) { return k.pick(v[0], v[1], v[2], part); });
        for (size_t addend : {0, 1, 3})
          expectAlike(Kind::PickGrad, operands, [=](Kernels &k, const Views &v) {
            return k.pickGrad(v[1], v[2], addend == 1 ? View() : v[addend], v[0], part);
          });
      }
}

TEST(CudaLossTest, LabelsOutOfRange) {
  const std::vector<Operand> operands{randomOperand(MOERT_F32, {3, 5}, 1), indices({3}, {9, 10, -7}),
                                      randomOperand(MOERT_F32, {3, 1}, 2)};
  const std::string text = "expected 'labels' below 10 but got 10 at 1";
  const Part part{2, 1, 1};
  expectSameError(
      Kind::Pick, operands, [=](Kernels &k, const Views &v) { return k.pick(v[0], v[1], v[2], part); }, text);
  expectSameError(
      Kind::PickGrad, operands, [=](Kernels &k, const Views &v) { return k.pickGrad(v[1], v[2], {}, v[0], part); },
      text);
}

TEST(CudaLossTest, SumsOverLabels) {
  for (int32_t dtype : kFloatingTypes)
    for (int64_t rows : {0, 1, 67, 1500}) {
      const std::vector<Operand> operands{randomOperand(dtype, {rows, 1}, 1), someLabels(rows, 9),
                                          randomOperand(dtype, {}, 2), filledOperand(dtype, {}, 9)};
      expectAlike(Kind::LabelSum, operands, [](Kernels &k, const Views &v) { return k.labelSum(v[0], v[1], v[3]); }, 4);
      expectAlike(Kind::LabelCount, operands, [](Kernels &k, const Views &v) { return k.labelCount(v[1], v[3]); });
      expectAlike(Kind::LabelSumGrad, operands,
                  [](Kernels &k, const Views &v) { return k.labelSumGrad(v[1], v[2], v[0]); });
    }
}

TEST(CudaLossTest, MeansOfRouters) {
  for (int32_t dtype : {MOERT_F32, MOERT_F64})
    for (int64_t groups : {1, 3})
      for (int64_t experts : {1, 5, 64}) {
        const int64_t tokens = 300 * groups;
        const std::vector<Operand> operands{
            randomOperand(dtype, {tokens, experts}, 1, 3), randomOperand(dtype, {groups, experts}, 2),
            randomOperand(dtype, {groups, 1}, 3),          filledOperand(dtype, {groups, experts}, 9),
            filledOperand(dtype, {groups, experts}, 9),    filledOperand(dtype, {groups, 1}, 9),
            filledOperand(dtype, {tokens, experts}, 9),    filledOperand(MOERT_I32, {tokens, 1}, 0)};
        for (bool isForced : {false, true})
          expectAlike(
              Kind::RouterMeans, operands,
              [=](Kernels &k, const Views &v) {
                const int64_t choices = isForced ? 1 : std::min<int64_t>(experts, 2);
                return k.routerMeans(v[0], v[3], v[4], v[5], choices, isForced ? v[7] : View());
              },
              4);
        for (auto [shares, squares] : {std::pair(true, true), {true, false}, {false, true}})
          expectAlike(
              Kind::RouterMeansGrad, operands,
              [=, shares = shares, squares = squares](Kernels &k, const Views &v) {
                return k.routerMeansGrad(v[0], shares ? v[1] : View(), squares ? v[2] : View(), v[6]);
              },
              4);
      }
}

} // namespace
} // namespace moert::cuda
