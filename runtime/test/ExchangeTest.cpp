//===- ExchangeTest.cpp - messages of more than 2 GiB ---------------------===//
//
// Operands have many GiB, but only their shapes and counts exist. The tests move no data.
//
//===----------------------------------------------------------------------===//

#include "core/Exchange.h"
#include "core/Attributes.h"

#include <gtest/gtest.h>

#include <numeric>

namespace moert {
namespace {

constexpr int64_t kGiB = int64_t(1) << 30;

View valueOf(std::initializer_list<int64_t> dims, int32_t dtype) {
  View view;
  static char nowhere;
  view.data = &nowhere;
  view.dtype = dtype;
  view.rank = static_cast<int64_t>(dims.size());
  std::copy(dims.begin(), dims.end(), view.dims.begin());
  return view;
}

View countsOf(std::vector<int32_t> &counts, int64_t rows, int64_t columns) {
  View view = valueOf({rows, columns}, MOERT_I32);
  view.data = counts.data();
  return view;
}

/// Expects that every member's pieces lie inside its operands, that sent and received ones match, and that received and
/// filled pieces cover the output once. `calls` are by member.
void expectCovers(const std::vector<Call> &calls) {
  auto size = static_cast<int64_t>(calls.size());
  for (int64_t to = 0; to < size; ++to) {
    const Call &mine = calls[static_cast<size_t>(to)];
    std::vector<Pieces> received;
    piecesReceived(mine, size, to, received);
    Pieces all;
    for (int64_t from = 0; from < size; ++from) {
      const Call &other = calls[static_cast<size_t>(from)];
      const Pieces &pieces = received[static_cast<size_t>(from)];
      Pieces sent;
      piecesSent(other, size, from, to, sent);
      EXPECT_TRUE(checkPieces({other, from, sent}, {mine, to, pieces}).ok());
      for (const Piece &piece : sent)
        EXPECT_LE(piece.offset + piece.bytes, sentOperand(other).bytes());
      all.insert(all.end(), pieces.begin(), pieces.end());
    }
    Pieces filled;
    View addend;
    piecesFilled(mine, size, to, filled, addend);
    all.insert(all.end(), filled.begin(), filled.end());
    std::erase_if(all, [](const Piece &piece) { return piece.bytes == 0; });
    std::sort(all.begin(), all.end(), [](const Piece &a, const Piece &b) { return a.offset < b.offset; });
    int64_t end = 0;
    for (const Piece &piece : all) {
      EXPECT_EQ(piece.offset, end);
      end += piece.bytes;
    }
    EXPECT_EQ(end, receivedOperand(mine).bytes());
  }
}

std::vector<Call> sameCalls(int64_t size, Call call) { return std::vector<Call>(static_cast<size_t>(size), call); }

} // namespace

TEST(Exchange, AllGatherOfManyGiB) {
  Call call;
  call.kind = Kind::AllGather;
  call.views[0] = valueOf({4, 1 << 20, 1024}, MOERT_F32);
  call.views[1] = valueOf({4, 1 << 22, 1024}, MOERT_F32);
  attributes::AllGather{.dim = 1}.set(call);
  ASSERT_EQ(call.views[1].bytes(), 64 * kGiB);
  expectCovers(sameCalls(4, call));
}

TEST(Exchange, AllToAllOfManyGiB) {
  Call call;
  call.kind = Kind::AllToAll;
  call.views[0] = valueOf({8, 1 << 21, 1024}, MOERT_BF16);
  call.views[1] = valueOf({1, 1 << 24, 1024}, MOERT_BF16);
  attributes::AllToAll{.splitDim = 0, .concatDim = 1, .copies = 1, .phases = 1}.set(call);
  ASSERT_EQ(call.views[0].bytes(), 32 * kGiB);
  expectCovers(sameCalls(8, call));
}

// Rows of 4096 in bf16, both directions: 2^18 rows are 2 GiB.
TEST(Exchange, RaggedOfManyGiB) {
  std::vector<int32_t> blocks[2] = {{1000000, 2, 3, 900000}, {5, 700000, 800000, 7}}, experts[2];
  for (size_t member : {0, 1})
    experts[member] = {blocks[0][2 * member], blocks[0][2 * member + 1], blocks[1][2 * member],
                       blocks[1][2 * member + 1]};
  std::vector<Call> calls(2);
  for (size_t member : {0, 1}) {
    Call &call = calls[member];
    int64_t rows = std::accumulate(experts[member].begin(), experts[member].end(), int64_t(0));
    call.kind = Kind::AllToAllV;
    call.views[0] = valueOf({2000000, 4096}, MOERT_BF16);
    call.views[1] = countsOf(blocks[member], 1, 4);
    call.views[2] = countsOf(experts[member], 2, 2);
    call.views[4] = valueOf({rows, 4096}, MOERT_BF16);
    attributes::AllToAllV{.direction = MOERT_TO_EXPERTS, .copies = 1, .stored = 1, .phases = 1}.set(call);
    EXPECT_TRUE(checkExchangeValues(call, 2, static_cast<int64_t>(member)).ok());
    EXPECT_GT(call.views[4].bytes(), 12 * kGiB);
  }
  expectCovers(calls);
  for (Call &call : calls) {
    std::swap(call.views[0], call.views[4]);
    attributes::AllToAllV{.direction = MOERT_FROM_EXPERTS, .copies = 1, .stored = 1, .phases = 1}.set(call);
  }
  expectCovers(calls);
}

// Counts are 32 bits wide, their sums are not.
TEST(Exchange, CountsAddUpPast31Bits) {
  std::vector<int32_t> counts = {2000000000, 2000000000};
  Call call;
  call.kind = Kind::AllReduce;
  call.countsView = 1;
  call.views[0] = call.views[2] = valueOf({int64_t(1) << 33, 2}, MOERT_F32);
  call.views[1] = countsOf(counts, 1, 2);
  int64_t elements = 0;
  ASSERT_TRUE(reducedElements(call, elements).ok());
  EXPECT_EQ(elements, 8000000000);
  EXPECT_EQ(summedBytes(call, 4, 0, elements), int64_t(4) * (3 * int64_t(2000000000) + 6000000000));
  call.views[0].dims[0] = 3999999999;
  EXPECT_EQ(reducedElements(call, elements).code, MOERT_ERROR_OVERFLOW);
}

TEST(Exchange, ShadowsOfManyGiB) {
  std::vector<int32_t> shadows = {1, 0, 1, 1};
  std::vector<Call> calls(2);
  for (Call &call : calls) {
    call.kind = Kind::BroadcastExperts;
    call.views[0] = valueOf({2, 1 << 16, 1 << 15}, MOERT_BF16);
    call.views[1] = valueOf({4}, MOERT_I32);
    call.views[1].data = shadows.data();
    call.views[2] = valueOf({3, 1 << 16, 1 << 15}, MOERT_BF16);
  }
  expectCovers(calls);
  std::swap(calls[1].views[0], calls[1].views[2]);
  calls[1].kind = Kind::ReduceExperts;
  calls[1].views[3] = calls[1].views[2];
  OwnedExperts own(calls[1], 1);
  EXPECT_EQ(own.first, 2);
  EXPECT_EQ(own.place, 1);
  EXPECT_EQ(own.bytes, 4 * kGiB);
}

} // namespace moert
