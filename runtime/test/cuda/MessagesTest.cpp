//===- MessagesTest.cpp - packed exchanges against copies of pieces -------===//
//
// All members of a group are on one device. Exchanges by messages must give the same results as copies of single
// pieces.
//
//===----------------------------------------------------------------------===//

#include "CudaKernelsTest.h"

#include "core/Attributes.h"
#include "cuda/Copies.h"
#include "cuda/Messages.h"

#include <numeric>
#include <random>

namespace moert::cuda {
namespace {

using Own = Messages::Own;
using Dims = std::vector<int64_t>;

View viewOf(const Dims &dims, int32_t dtype) {
  View view;
  view.dtype = dtype;
  view.rank = static_cast<int64_t>(dims.size());
  std::copy(dims.begin(), dims.end(), view.dims.begin());
  return view;
}

std::vector<char> randomBytes(int64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<char> bytes(static_cast<size_t>(count));
  for (char &byte : bytes)
    byte = static_cast<char>(random());
  return bytes;
}

/// A group on one device, with a call of each member whose operands are filled.
class Members {
public:
  explicit Members(std::vector<Call> given) : calls(std::move(given)) {
    EXPECT_TRUE(DeviceContext::create(testOptions(), device).ok());
    EXPECT_TRUE(createStream(stream).ok());
    context.stream = stream.get();
    for (size_t i = 0; i < calls.size(); ++i) {
      place(const_cast<View &>(sentOperand(calls[i])), i);
      place(const_cast<View &>(receivedOperand(calls[i])), 100 + i);
    }
  }

  /// Output of every member after pieces were copied one by one. `bytes` come from other members.
  std::vector<std::vector<char>> copied(std::vector<int64_t> &bytes) {
    bytes.assign(calls.size(), 0);
    for (int64_t to = 0; to < size(); ++to) {
      std::vector<Pieces> received;
      piecesReceived(of(to), size(), to, received);
      for (int64_t from = 0; from < size(); ++from) {
        Pieces sent;
        piecesSent(of(from), size(), from, to, sent);
        const Pieces &pieces = received[static_cast<size_t>(from)];
        EXPECT_TRUE(checkPieces({of(from), from, sent}, {of(to), to, pieces}).ok());
        for (size_t i = 0; i < pieces.size(); ++i)
          EXPECT_TRUE(copyBytes(stream.get(), receivedOperand(of(to)).as<char>() + pieces[i].offset,
                                sentOperand(of(from)).as<char>() + sent[i].offset, pieces[i].bytes)
                          .ok());
        bytes[static_cast<size_t>(to)] += from == to ? 0 : bytesOf(pieces);
      }
    }
    return takeOutputs();
  }

  std::vector<std::vector<char>> exchanged(Own own, std::vector<int64_t> &bytes) {
    std::vector<Messages> messages(calls.size());
    for (int64_t member = 0; member < size(); ++member) {
      Messages &mine = messages[static_cast<size_t>(member)];
      const Target target{device, context, of(member).kind, 0};
      const auto reserve = [this](int64_t count, char *&data) { return allocate(count, data); };
      EXPECT_TRUE(Messages::create(of(member), size(), member, own, reserve, mine).ok());
      EXPECT_TRUE(mine.pack(target).ok());
      areEven &= mine.areEven();
    }
    for (size_t from = 0; from < messages.size(); ++from)
      for (size_t to = 0; to < messages.size(); ++to)
        deliver(messages[from].sent[to], messages[to].received[from]);
    bytes.clear();
    for (int64_t member = 0; member < size(); ++member) {
      EXPECT_TRUE(messages[static_cast<size_t>(member)].unpack({device, context, of(member).kind, 0}).ok());
      bytes.push_back(messages[static_cast<size_t>(member)].receivedBytes());
    }
    return takeOutputs();
  }

  int buffers = 0; ///< number of reserved buffers
  bool areEven = true;

private:
  int64_t size() const { return static_cast<int64_t>(calls.size()); }
  const Call &of(int64_t member) const { return calls[static_cast<size_t>(member)]; }

  Status allocate(int64_t bytes, char *&data) {
    ++buffers;
    void *block = nullptr;
    MOERT_RETURN_IF_ERROR(allocateDevice(bytes, "a test", memory.emplace_back()));
    block = memory.back().get();
    data = static_cast<char *>(block);
    return {};
  }
  void place(View &view, uint64_t seed) {
    if (view.data)
      return;
    char *data = nullptr;
    EXPECT_TRUE(allocate(std::max<int64_t>(view.bytes(), 1), data).ok());
    --buffers;
    write(data, randomBytes(view.bytes(), seed));
    view.data = data;
  }
  static void write(char *to, const std::vector<char> &bytes) {
    EXPECT_EQ(cudaMemcpy(to, bytes.data(), bytes.size(), cudaMemcpyDefault), cudaSuccess);
  }
  void deliver(const Messages::Message &from, const Messages::Message &to) {
    ASSERT_EQ(from.bytes, to.bytes);
    EXPECT_TRUE(copyBytes(stream.get(), to.data, from.data, from.bytes).ok());
  }
  /// The outputs are filled again.
  std::vector<std::vector<char>> takeOutputs() {
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    std::vector<std::vector<char>> all;
    for (size_t i = 0; i < calls.size(); ++i) {
      const View &out = receivedOperand(calls[i]);
      std::vector<char> &bytes = all.emplace_back(static_cast<size_t>(out.bytes()));
      EXPECT_EQ(cudaMemcpy(bytes.data(), out.data, bytes.size(), cudaMemcpyDefault), cudaSuccess);
      write(out.as<char>(), randomBytes(out.bytes(), 100 + i));
    }
    return all;
  }

  DeviceContext device;
  Stream stream;
  StreamContext context;
  std::vector<Call> calls;
  std::vector<DeviceMemory> memory;
};

void expectSame(Members &members, Own own) {
  std::vector<int64_t> expectedBytes, gotBytes;
  const auto expected = members.copied(expectedBytes), got = members.exchanged(own, gotBytes);
  EXPECT_EQ(gotBytes, expectedBytes);
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_TRUE(got[i] == expected[i]) << "member " << i;
}

std::vector<Call> allToAll(int64_t size, const Dims &in, const attributes::AllToAll &options, int32_t dtype) {
  Dims out = in;
  out[static_cast<size_t>(options.splitDim)] /= size / options.copies;
  out[static_cast<size_t>(options.concatDim)] *= size / options.phases;
  Call call;
  call.kind = Kind::AllToAll;
  call.views[0] = viewOf(in, dtype);
  call.views[1] = viewOf(out, dtype);
  options.set(call);
  return std::vector<Call>(static_cast<size_t>(size), call);
}

/// Members with `blocks` blocks of rows each, for `own` experts of each member, with random counts.
struct Ragged {
  int64_t size, blocks, own, phases = 1, phase = 0;
  std::vector<std::vector<int32_t>> blockCounts, expertCounts; ///< by member

  Ragged(int64_t size, int64_t blocks, int64_t own, int64_t phases, int64_t phase)
      : size(size), blocks(blocks), own(own), phases(phases), phase(phase) {
    std::mt19937 random(7);
    const int64_t experts = size * own, width = size / phases;
    for (int64_t m = 0; m < size; ++m)
      for (auto &counts = blockCounts.emplace_back(); counts.size() < static_cast<size_t>(blocks * experts);)
        counts.push_back(random() % 3 ? static_cast<int32_t>(random() % 5) : 0);
    for (int64_t m = 0; m < size; ++m) {
      const int64_t firstSource = (m / width + phase) % phases * width;
      auto &counts = expertCounts.emplace_back();
      for (int64_t s = 0; s < width * blocks; ++s)
        for (int64_t e = 0; e < own; ++e)
          counts.push_back(blockCounts[static_cast<size_t>(firstSource + s / blocks)]
                                      [static_cast<size_t>(s % blocks * experts + m * own + e)]);
    }
  }

  std::vector<Call> calls(int64_t direction, int64_t columns) {
    std::vector<Call> result;
    const int64_t experts = size * own, room = 4 * experts;
    for (size_t m = 0; m < static_cast<size_t>(size); ++m) {
      Call &call = result.emplace_back();
      call.kind = Kind::AllToAllV;
      const View blockSide = viewOf({blocks * room, columns}, MOERT_BF16);
      const View expertSide =
          viewOf({std::accumulate(expertCounts[m].begin(), expertCounts[m].end(), int64_t(0)), columns}, MOERT_BF16);
      using operands::AllToAllV;
      call.views[AllToAllV::rows] = direction == MOERT_TO_EXPERTS ? blockSide : expertSide;
      call.views[AllToAllV::out] = direction == MOERT_TO_EXPERTS ? expertSide : blockSide;
      call.views[AllToAllV::blockCounts] = viewOf({blocks, experts}, MOERT_I32);
      call.views[AllToAllV::blockCounts].data = blockCounts[m].data();
      call.views[AllToAllV::expertCounts] = viewOf({size / phases * blocks, own}, MOERT_I32);
      call.views[AllToAllV::expertCounts].data = expertCounts[m].data();
      attributes::AllToAllV options{};
      options.direction = direction;
      options.copies = options.stored = 1;
      options.phases = phases;
      options.phase = phase;
      options.set(call);
      EXPECT_TRUE(checkExchangeValues(call, size, static_cast<int64_t>(m)).ok());
    }
    return result;
  }
};

TEST(CudaMessagesTest, AllToAll) {
  for (int32_t dtype : {MOERT_BF16, MOERT_F32, MOERT_F64})
    for (int64_t split = 0; split < 3; ++split)
      for (int64_t concat = 0; concat < 3; ++concat)
        for (auto [copies, phases] : std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {2, 1}, {1, 2}, {4, 1}}) {
          attributes::AllToAll options{};
          options.splitDim = split;
          options.concatDim = concat;
          options.copies = copies;
          options.phases = phases;
          options.phase = phases - 1;
          SCOPED_TRACE(testing::Message()
                       << "split " << split << ", concat " << concat << ", copies " << copies << ", phases " << phases);
          Members members(allToAll(4, {4, 8, 12}, options, dtype));
          expectSame(members, Own::Copied);
          Members even(allToAll(4, {4, 8, 12}, options, dtype));
          expectSame(even, Own::Message);
          if (copies == 1) {
            EXPECT_EQ(even.areEven, phases == 1);
          }
        }
}

TEST(CudaMessagesTest, SingleRunsStayInPlace) {
  Members members(allToAll(4, {8, 3, 5}, {.splitDim = 0, .concatDim = 0, .copies = 1, .phases = 1}, MOERT_F32));
  expectSame(members, Own::Message);
  EXPECT_EQ(members.buffers, 0);
  EXPECT_TRUE(members.areEven);
}

TEST(CudaMessagesTest, AllGather) {
  for (int64_t dim = 0; dim < 3; ++dim) {
    Call call;
    Dims whole{2, 3, 10};
    whole[static_cast<size_t>(dim)] *= 3;
    call.kind = Kind::AllGather;
    call.views[0] = viewOf({2, 3, 10}, MOERT_F16);
    call.views[1] = viewOf(whole, MOERT_F16);
    attributes::AllGather{.dim = dim}.set(call);
    Members members(std::vector<Call>(3, call));
    expectSame(members, Own::Message);
    EXPECT_EQ(members.buffers, dim == 0 ? 0 : 3);
  }
}

TEST(CudaMessagesTest, AllToAllOfRaggedRows) {
  for (int64_t direction : {MOERT_TO_EXPERTS, MOERT_FROM_EXPERTS})
    for (int64_t columns : {1, 3, 8, 2000})
      for (auto [blocks, own] : std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {1, 3}, {2, 3}})
        for (int64_t phase : {0, 1}) {
          Ragged one(4, blocks, own, 1, 0), two(4, blocks, own, 2, phase);
          for (Ragged *ragged : {&one, &two}) {
            Members members(ragged->calls(direction, columns));
            expectSame(members, Own::Copied);
          }
        }
}

/// There are more pieces than one launch takes.
TEST(CudaMessagesTest, ManyPieces) {
  Ragged ragged(8, 3, 60, 1, 0);
  for (int64_t direction : {MOERT_TO_EXPERTS, MOERT_FROM_EXPERTS}) {
    Members members(ragged.calls(direction, 4));
    expectSame(members, Own::Copied);
  }
}

TEST(CudaMessagesTest, Shadows) {
  std::vector<int32_t> shadows = {1, 0, 1, 1, 0, 1};
  Call call;
  call.kind = Kind::BroadcastExperts;
  call.views[0] = viewOf({3, 4, 5}, MOERT_F32);
  call.views[1] = viewOf({6}, MOERT_I32);
  call.views[1].data = shadows.data();
  call.views[2] = viewOf({5, 4, 5}, MOERT_F32);
  Members members(std::vector<Call>(2, call));
  expectSame(members, Own::Copied);
}

TEST(CudaMessagesTest, PiecesBecomeFewCopies) {
  PieceCopies copies;
  char from[64], to[64];
  copies.add(from, {{0, 4}, {4, 4}, {16, 8}, {32, 8}, {48, 0}}, to, {{0, 4}, {4, 4}, {8, 8}, {16, 8}, {24, 0}});
  ASSERT_EQ(copies.all().size(), 1u);
  EXPECT_EQ(copies.all()[0].bytes, 8);
  EXPECT_EQ(copies.all()[0].count, 3);
  EXPECT_EQ(copies.all()[0].fromStep, 16);
  EXPECT_EQ(copies.all()[0].toStep, 8);
}

} // namespace
} // namespace moert::cuda
