//===- ChakraGroups.h - communicators of a trace ----------------*- C++ -*-===//
#ifndef MOE_LIB_REPORT_CHAKRAGROUPS_H
#define MOE_LIB_REPORT_CHAKRAGROUPS_H

#include "moe/Simulator/SimWorld.h"

#include <map>

namespace mlir::moe {

/// Form in which a launch takes place between ranks.
enum class ExchangeForm {
  None,       ///< no other rank takes part
  Channel,    ///< one rank sends, and one receives
  Phase,      ///< a part of an all_to_all, in which members send to some of the others
  Collective, ///< all members of a group take part in one operation
};
ExchangeForm getExchangeForm(const SimWorld &world, uint32_t program, uint32_t launch);

/// The members of collectives. There is one communicator for each set of ranks and each name of a stream, so that all
/// members come to its collectives in one order. ASTRA-sim relies on that, since it counts the collectives of a
/// communicator.
class ChakraGroups {
public:
  /// Fails where members of a group meet on streams of different names.
  static llvm::Expected<ChakraGroups> create(const SimWorld &world);

  /// Id of the communicator of `launch`, a collective, from 1 on: ASTRA-sim takes 0 for all ranks.
  int64_t getId(const SimWorld &world, int64_t rank, uint32_t launch) const;
  int64_t getCount() const { return static_cast<int64_t>(members.size()); }
  void write(llvm::raw_ostream &os) const;

private:
  /// The world's group and its instance, and the stream.
  using Key = std::pair<std::pair<uint32_t, uint32_t>, std::string>;
  static Key getKey(const SimWorld &world, int64_t rank, uint32_t launch);
  void add(const SimWorld &world, int64_t rank, uint32_t launch);

  std::map<Key, int64_t> ids;
  std::vector<std::vector<int64_t>> members; ///< ranks in rising order, by id - 1
};

} // namespace mlir::moe

#endif // MOE_LIB_REPORT_CHAKRAGROUPS_H
