//===- CollectivesTest.h - worlds that exchange ----------------*- C++ -*-===//
#ifndef MOERT_TEST_COLLECTIVESTEST_H
#define MOERT_TEST_COLLECTIVESTEST_H

#include "host/HostBackend.h"

#include <gmock/gmock.h>

#include <cmath>
#include <random>

namespace moert::test {

using Dims = std::vector<int64_t>;

inline int64_t product(const Dims &dims) {
  int64_t count = 1;
  for (int64_t dim : dims)
    count *= dim;
  return count;
}

/// One operand of every rank, in double; stored in the dtype under test.
struct Operand {
  Dims dims;
  std::vector<std::vector<double>> ranks;
};

class World {
public:
  World(int64_t ranks, Group group, bool verify = false) : ranks(ranks), groups{group} {
    program.streams = {"comm"};
    program.ops.emplace_back();
    program.ops[0].label = "layer7";
    backend = host::createHostBackend({&program, 1}, groups, ranks, {2, verify});
  }

  /// Values of `operands` are stored in `dtype` ('i32' where named in `integers`), run through one call, and read back.
  Status run(Kind kind, int32_t dtype, std::vector<Operand *> operands, std::vector<int64_t> ints,
             std::vector<size_t> integers = {}, std::vector<size_t> aliasOf = {}) {
    std::vector<std::vector<std::vector<char>>> memory(operands.size());
    auto dtypeOf = [&](size_t k) {
      return std::find(integers.begin(), integers.end(), k) != integers.end() ? MOERT_I32 : dtype;
    };
    for (size_t k = 0; k < operands.size(); ++k)
      for (int64_t rank = 0; rank < ranks && operands[k]; ++rank)
        memory[k].push_back(stored(operands[k]->ranks[static_cast<size_t>(rank)], dtypeOf(k)));
    auto home = [&](size_t k) { return k < aliasOf.size() ? aliasOf[k] : k; };
    Status status = backend.device->runStep(
        [&](int64_t rank) {
          Call call;
          call.kind = kind;
          call.group = 0;
          call.countsView = kind == Kind::AllReduce ? 1 : -1;
          std::copy(ints.begin(), ints.end(), call.ints.begin());
          for (size_t k = 0; k < operands.size(); ++k) {
            View &view = call.views[static_cast<size_t>(call.viewCount++)];
            if (!operands[k])
              continue;
            view.dtype = dtypeOf(k);
            view.rank = static_cast<int64_t>(operands[k]->dims.size());
            std::copy(operands[k]->dims.begin(), operands[k]->dims.end(), view.dims.begin());
            view.data = memory[home(k)][static_cast<size_t>(rank)].data();
          }
          return backend.communicator->issue(rank, 0, call);
        },
        60);
    for (size_t k = 0; k < operands.size(); ++k)
      for (int64_t rank = 0; rank < ranks && operands[k]; ++rank)
        load(memory[home(k)][static_cast<size_t>(rank)], dtypeOf(k), operands[k]->ranks[static_cast<size_t>(rank)]);
    return status;
  }

  /// A call of each rank, which `fill` makes, on its part of `operand`.
  Status runEach(int32_t dtype, Operand &operand, std::function<void(int64_t, Call &)> fill) {
    std::vector<std::vector<char>> memory;
    for (const std::vector<double> &values : operand.ranks)
      memory.push_back(stored(values, dtype));
    Status status = backend.device->runStep(
        [&](int64_t rank) {
          Call call;
          call.group = 0;
          call.viewCount = 1;
          View &view = call.views[0];
          view.dtype = dtype;
          view.rank = static_cast<int64_t>(operand.dims.size());
          std::copy(operand.dims.begin(), operand.dims.end(), view.dims.begin());
          view.data = memory[static_cast<size_t>(rank)].data();
          fill(rank, call);
          return backend.communicator->issue(rank, 0, call);
        },
        60);
    for (size_t rank = 0; rank < memory.size(); ++rank)
      load(memory[rank], dtype, operand.ranks[rank]);
    return status;
  }

  /// Bytes that `rank` received in the last run.
  int64_t received(int64_t rank) const { return backend.device->timeline(rank, 0).at(0).received; }

  /// Small integers, so that sums are exact in every dtype.
  Operand random(const Dims &dims) {
    Operand operand{dims, {}};
    for (int64_t rank = 0; rank < ranks; ++rank) {
      operand.ranks.emplace_back(static_cast<size_t>(product(dims)));
      for (double &value : operand.ranks.back())
        value = static_cast<double>(static_cast<int64_t>(generator() % 15) - 7);
    }
    return operand;
  }

  /// Filled with what must not be left over.
  Operand garbage(const Dims &dims) {
    return {dims, std::vector<std::vector<double>>(static_cast<size_t>(ranks),
                                                   std::vector<double>(static_cast<size_t>(product(dims)), 99))};
  }

  /// The rank of member `member` of the group instance that `rank` belongs to.
  size_t peer(int64_t rank, int64_t member) const {
    const Group &group = groups[0];
    return static_cast<size_t>(rank + (member - group.memberOf(rank)) * group.stride);
  }
  int64_t me(int64_t rank) const { return groups[0].memberOf(rank); }
  int64_t size() const { return groups[0].size; }

  int64_t ranks;
  std::vector<Group> groups;
  std::mt19937 generator{7};

private:
  static std::vector<char> stored(const std::vector<double> &values, int32_t dtype) {
    std::vector<char> bytes(values.size() * dtypeSize(dtype) + 1);
    for (size_t i = 0; i < values.size(); ++i) {
      auto narrow = static_cast<float>(values[i]);
      auto integer = static_cast<int32_t>(dtype == MOERT_I32 ? values[i] : 0);
      const char *from = dtype == MOERT_F64   ? reinterpret_cast<const char *>(&values[i])
                         : dtype == MOERT_I32 ? reinterpret_cast<const char *>(&integer)
                                              : reinterpret_cast<const char *>(&narrow);
      // bf16 is the upper half of f32; the values of these tests need no rounding.
      if (dtype == MOERT_BF16)
        from += 2;
      std::copy(from, from + dtypeSize(dtype), bytes.data() + i * dtypeSize(dtype));
    }
    return bytes;
  }

  static void load(const std::vector<char> &bytes, int32_t dtype, std::vector<double> &values) {
    for (size_t i = 0; i < values.size(); ++i) {
      char buffer[8] = {};
      std::copy(bytes.data() + i * dtypeSize(dtype), bytes.data() + (i + 1) * dtypeSize(dtype),
                buffer + (dtype == MOERT_BF16 ? 2 : 0));
      float narrow;
      int32_t integer;
      double wide;
      memcpy(&narrow, buffer, 4), memcpy(&integer, buffer, 4), memcpy(&wide, buffer, 8);
      values[i] = dtype == MOERT_F64 ? wide : dtype == MOERT_I32 ? integer : narrow;
    }
  }

  Program program;
  Backend backend;
};

inline Dims indexOf(const Dims &dims, int64_t flat) {
  Dims index(dims.size());
  for (size_t d = dims.size(); d-- > 0; flat /= dims[d])
    index[d] = flat % dims[d];
  return index;
}

inline double at(const std::vector<double> &values, const Dims &dims, const Dims &index) {
  int64_t flat = 0;
  for (size_t d = 0; d < dims.size(); ++d)
    flat = flat * dims[d] + index[d];
  return values[static_cast<size_t>(flat)];
}

/// Worlds and groups inside them.
struct Shape {
  int64_t ranks, size, stride;
};

class CollectivesTest : public testing::TestWithParam<std::tuple<Shape, int32_t>> {
protected:
  Shape shape = std::get<0>(GetParam());
  int32_t dtype = std::get<1>(GetParam());
  World world{shape.ranks, {"g", shape.size, shape.stride}};
  int64_t width = static_cast<int64_t>(dtypeSize(dtype));
};

} // namespace moert::test

#endif // MOERT_TEST_COLLECTIVESTEST_H
