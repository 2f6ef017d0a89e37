// What the program's exit status says.
#pragma once

namespace lorica::cli {

inline constexpr int kServed = 0;         // every input got an answer, errors included
inline constexpr int kNothingServed = 1;  // the model does not load, a file cannot be read
inline constexpr int kUsage = 2;          // the command line is wrong

}  // namespace lorica::cli
