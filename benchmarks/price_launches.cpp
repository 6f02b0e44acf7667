//===- price_launches.cpp - seconds of launches, by the cost model --------===//
//
// price_launches PROFILE < rows. Prints the seconds of each row, one a line. A row is one of
//   product,DTYPE,rows,columns,depth
//   grouped,DTYPE,columns,depth,rows*groups;rows*groups;..
//   attention,DTYPE,products,columns of a head,sequences,heads,length      (causal)
//   bytes,DTYPE,bytes                                                      (of a kernel that only moves them)
//
//===----------------------------------------------------------------------===//
#include "moe/Cost/CostModel.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

#include <iostream>

using namespace mlir::moe;

namespace {
struct Row {
  std::string dtype;
  OpCost cost;
  std::vector<int64_t> rows; ///< rows of each expert
};
} // namespace

/// Numbers in the cells from `first` on. Empty if there are not `count` of them.
static std::optional<std::vector<int64_t>> parseNumbers(llvm::ArrayRef<llvm::StringRef> cells, size_t first,
                                                        size_t count) {
  std::vector<int64_t> numbers(count);
  if (cells.size() < first + count)
    return std::nullopt;
  for (size_t i = 0; i < count; ++i)
    if (!llvm::to_integer(cells[first + i], numbers[i]))
      return std::nullopt;
  return numbers;
}

static bool parseGrouped(llvm::ArrayRef<llvm::StringRef> cells, Row &row) {
  auto sizes = parseNumbers(cells, 2, 2);
  if (!sizes || cells.size() != 5)
    return false;
  llvm::SmallVector<llvm::StringRef> parts;
  cells[4].split(parts, ';');
  for (llvm::StringRef part : parts) {
    int64_t rows = 0, groups = 0;
    if (!llvm::to_integer(part.split('*').first, rows) || !llvm::to_integer(part.split('*').second, groups))
      return false;
    row.rows.insert(row.rows.end(), groups, rows);
    row.cost.raggedRows += rows * groups;
  }
  row.cost.gemm = {1, row.cost.raggedRows, (*sizes)[0], (*sizes)[1]};
  return true;
}

static bool parseAttention(llvm::ArrayRef<llvm::StringRef> cells, Row &row) {
  auto sizes = parseNumbers(cells, 2, 5);
  if (!sizes || cells.size() != 7)
    return false;
  int64_t products = (*sizes)[0], columns = (*sizes)[1], length = (*sizes)[4];
  row.cost.gemm = {(*sizes)[2] * (*sizes)[3], length, (length + 1) / 2, products * columns};
  row.cost.attention = {columns, products};
  return true;
}

static bool parse(llvm::ArrayRef<llvm::StringRef> cells, Row &row) {
  row.dtype = cells.size() > 1 ? cells[1].str() : "";
  row.cost.resource = cells[0] == "bytes" ? Resource::Memory : Resource::Matrix;
  if (cells[0] == "grouped")
    return parseGrouped(cells, row);
  if (cells[0] == "attention")
    return parseAttention(cells, row);
  size_t count = cells[0] == "product" ? 3 : 1;
  auto numbers = parseNumbers(cells, 2, count);
  if (!numbers || cells.size() != 2 + count || (cells[0] != "product" && cells[0] != "bytes"))
    return false;
  if (cells[0] == "product")
    row.cost.gemm = {1, (*numbers)[0], (*numbers)[1], (*numbers)[2]};
  else
    row.cost.bytesRead = (*numbers)[0];
  return true;
}

int main(int argc, char **argv) {
  llvm::ExitOnError check("price_launches: ");
  if (argc != 2)
    check(llvm::createStringError("expected the path of a cluster profile"));
  ClusterProfile profile = check(ClusterProfile::load(argv[1]));
  // The measured launches did not reach the power limit.
  profile.sustained = 1;
  std::unique_ptr<CostModel> model = check(CostModel::create(profile, 1, CostForm::ClosedForm));
  for (std::string line; std::getline(std::cin, line);) {
    llvm::SmallVector<llvm::StringRef> cells;
    llvm::StringRef(line).split(cells, ',');
    Row row;
    if (!parse(cells, row))
      check(llvm::createStringError("expected a row as price_launches.cpp describes but got '" + line + "'"));
    Work work{"", {}, row.dtype, &row.cost, row.rows};
    llvm::outs() << llvm::formatv("{0:e9}\n", check(model->getSeconds(work)));
  }
}
