// The layouts of matrices in memory.
#pragma once

namespace fusegen {

// Where the neighbours of a matrix's elements are in memory: along the depth that is summed over,
// or across it, in the neighbouring column (or row, of a left operand).
enum class Neighbours { in_depth, in_columns };

}  // namespace fusegen
