//===- CollectivesTest.h - worlds that exchange ----------------*- C++ -*-===//
#ifndef MOERT_TEST_COLLECTIVESTEST_H
#define MOERT_TEST_COLLECTIVESTEST_H

#include "core/Convert.h"
#include "core/Device.h"
#include "host/Collectives.h"
#include "moert/world.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <random>

namespace moert::test {

using Dims = std::vector<int64_t>;

inline int64_t product(const Dims &dims) {
  int64_t count = 1;
  for (int64_t dim : dims)
    count *= dim;
  return count;
}

/// One operand of every rank in double. It is stored in the dtype under test.
struct Operand {
  Dims dims;
  std::vector<std::vector<double>> ranks;
};

/// Backend of the suite: MOERT_TEST_BACKEND, or the host's.
inline std::string testBackend() {
  const char *name = std::getenv("MOERT_TEST_BACKEND");
  return name ? name : "host";
}

/// Whether the backend can have a world of `ranks` ranks. With one process for each rank, they must be as many as were
/// started.
inline bool canRun(int64_t ranks) {
  int64_t process = 0, processes = 1;
  if (testBackend() != "mpi" && testBackend() != "cuda")
    return true;
  return moert_place(&process, &processes) == MOERT_OK && processes == ranks;
}

/// Every process of a backend that has several runs all tests. Each makes all ranks' operands, runs its own rank, and
/// gets the results of all.
class TestWorld {
public:
  TestWorld(int64_t ranks, Group group, bool verify = false) : ranks(ranks), groups{group} {
    program.streams = {"comm"};
    program.numRanks = ranks;
    program.ops.emplace_back();
    program.ops[0].label = "layer7";
    BackendOptions options;
    options.workers = 2;
    options.verify = verify;
    if (std::getenv("MOERT_TEST_DIVIDE"))
      options.wholeBytes = 0;
    options.listChannels = [this](auto &channels) { return listChannels(channels); };
    if (canRun(ranks))
      created = createBackend(testBackend(), {&program, 1}, groups, ranks, options, backend);
  }

  /// Stores `operands` in `dtype` (or 'i32' if named in `integers`), runs one call, and reads the values back.
  Status run(Kind kind, int32_t dtype, std::vector<Operand *> operands, std::vector<int64_t> ints,
             std::vector<size_t> integers = {}, std::vector<size_t> aliasOf = {}) {
    auto dtypeOf = [&](size_t k) {
      return std::find(integers.begin(), integers.end(), k) != integers.end() ? MOERT_I32 : dtype;
    };
    std::vector<Stored> memory(operands.size());
    for (size_t k = 0; k < operands.size(); ++k)
      if (operands[k])
        memory[k] = store(*operands[k], dtypeOf(k));
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
            if (operands[k])
              view = viewOf(*operands[k], dtypeOf(k), memory[home(k)][static_cast<size_t>(rank)]);
          }
          return backend.communicator->issue(rank, 0, call);
        },
        60);
    for (size_t k = 0; k < operands.size(); ++k)
      if (operands[k])
        load(memory[home(k)], dtypeOf(k), *operands[k]);
    return status;
  }

  /// Runs the call that `fill` makes for each rank, on its part of `operand`.
  Status runEach(int32_t dtype, Operand &operand, std::function<void(int64_t, Call &)> fill) {
    Stored memory = store(operand, dtype);
    Status status = backend.device->runStep(
        [&](int64_t rank) {
          Call call;
          call.group = 0;
          call.viewCount = 1;
          call.views[0] = viewOf(operand, dtype, memory[static_cast<size_t>(rank)]);
          fill(rank, call);
          return backend.communicator->issue(rank, 0, call);
        },
        60);
    load(memory, dtype, operand);
    return status;
  }

  /// Bytes that `rank` received in the last run.
  int64_t received(int64_t rank) {
    std::vector<char> bytes(sizeof(int64_t));
    if (isLocal(rank))
      memcpy(bytes.data(), &backend.device->timeline(rank, 0).at(0).received, bytes.size());
    tell(rank, bytes);
    int64_t count;
    memcpy(&count, bytes.data(), bytes.size());
    return count;
  }

  /// Small random integers, so that sums are exact in every dtype.
  Operand random(const Dims &dims) {
    Operand operand{dims, {}};
    for (int64_t rank = 0; rank < ranks; ++rank) {
      operand.ranks.emplace_back(static_cast<size_t>(product(dims)));
      for (double &value : operand.ranks.back())
        value = static_cast<double>(static_cast<int64_t>(generator() % 15) - 7);
    }
    return operand;
  }

  /// An operand of garbage that must be overwritten.
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
  Status created;

private:
  /// Device memory by rank. Null if a rank runs elsewhere.
  using Stored = std::vector<void *>;

  /// Lists a channel between any two members of the group.
  Status listChannels(std::vector<std::array<int64_t, 2>> &channels) const {
    for (int64_t from = 0; from < ranks; ++from)
      for (int64_t member = 0; member < size(); ++member)
        if (member != me(from))
          channels.push_back({from, static_cast<int64_t>(peer(from, member))});
    return {};
  }

  bool isLocal(int64_t rank) const {
    const std::vector<int64_t> &local = backend.device->ranks();
    return std::find(local.begin(), local.end(), rank) != local.end();
  }

  /// Sends the bytes that the process of `rank` has to all.
  void tell(int64_t rank, std::vector<char> &bytes) {
    if (!backend.processes)
      return;
    Processes &processes = *backend.processes;
    if (rank != 0 && rank == processes.index()) {
      ASSERT_TRUE(processes.send(bytes).ok());
    }
    if (rank != 0 && processes.index() == 0) {
      ASSERT_TRUE(processes.receive(rank, bytes).ok());
    }
    ASSERT_TRUE(processes.broadcast(bytes).ok());
  }

  static View viewOf(const Operand &operand, int32_t dtype, void *data) {
    View view{data, dtype, static_cast<int64_t>(operand.dims.size()), {}};
    std::copy(operand.dims.begin(), operand.dims.end(), view.dims.begin());
    return view;
  }

  Stored store(const Operand &operand, int32_t dtype) {
    Stored memory(static_cast<size_t>(ranks));
    for (int64_t rank : backend.device->ranks()) {
      std::vector<char> bytes = stored(operand.ranks[static_cast<size_t>(rank)], dtype);
      void *&data = memory[static_cast<size_t>(rank)];
      auto count = static_cast<int64_t>(bytes.size());
      EXPECT_TRUE(backend.device->allocate(rank, MOERT_SPACE_DEVICE, count, "operand", data).ok());
      EXPECT_TRUE(backend.device->write(data, bytes.data(), count).ok());
    }
    return memory;
  }

  void load(const Stored &memory, int32_t dtype, Operand &operand) {
    for (int64_t rank = 0; rank < ranks; ++rank) {
      std::vector<double> &values = operand.ranks[static_cast<size_t>(rank)];
      std::vector<char> bytes(values.size() * dtypeSize(dtype));
      if (isLocal(rank)) {
        EXPECT_TRUE(
            backend.device->read(bytes.data(), memory[static_cast<size_t>(rank)], static_cast<int64_t>(bytes.size()))
                .ok());
      }
      tell(rank, bytes);
      load(bytes, dtype, values);
    }
  }

  /// Calls function(T{}) with the type of `dtype`'s elements.
  template <class Function> static void withType(int32_t dtype, Function function) {
    if (dtype == MOERT_I32)
      function(int32_t{});
    else
      withAnyFloating(dtype, function);
  }

  static std::vector<char> stored(const std::vector<double> &values, int32_t dtype) {
    std::vector<char> bytes(values.size() * dtypeSize(dtype) + 1);
    withType(dtype, [&](auto zero) {
      using T = decltype(zero);
      for (size_t i = 0; i < values.size(); ++i)
        if constexpr (std::is_same_v<T, int32_t>)
          reinterpret_cast<T *>(bytes.data())[i] = static_cast<T>(values[i]);
        else
          reinterpret_cast<T *>(bytes.data())[i] = convert<T>(values[i]);
    });
    return bytes;
  }

  static void load(const std::vector<char> &bytes, int32_t dtype, std::vector<double> &values) {
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = elementAt(bytes.data(), dtype, static_cast<int64_t>(i));
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
  void SetUp() override {
    if (!canRun(shape.ranks))
      GTEST_SKIP() << "needs " << shape.ranks << " processes";
    ASSERT_TRUE(world.created.ok()) << world.created.message;
  }

  Shape shape = std::get<0>(GetParam());
  int32_t dtype = std::get<1>(GetParam());
  TestWorld world{shape.ranks, {"g", shape.size, shape.stride}};
  int64_t width = static_cast<int64_t>(dtypeSize(dtype));
};

} // namespace moert::test

#endif // MOERT_TEST_COLLECTIVESTEST_H
