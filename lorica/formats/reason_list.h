// ReasonList: every reason against a file, where hundreds of tensors with one fault are one
// reason that names the first and counts the rest. A plain value.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lorica/base/status.h"

namespace lorica::formats {

class ReasonList {
 public:
  // Reasons of one group are one line, that of the first.
  void Add(std::string group, Status first) {
    const auto [it, is_new] = groups_.try_emplace(std::move(group), reasons_.size());
    if (is_new) reasons_.push_back({std::move(first), 0});
    if (!is_new) ++reasons_[it->second].more;
  }
  // A reason on its own.
  void Add(Status reason) { reasons_.push_back({std::move(reason), 0}); }

  bool empty() const { return reasons_.empty(); }

  // In the order of their first Add.
  std::vector<Status> Take() && {
    std::vector<Status> all;
    for (Reason& reason : reasons_) {
      if (reason.more == 0) {
        all.push_back(std::move(reason.first));
      } else {
        all.emplace_back(reason.first.code(), reason.first.message() + " (and " +
                                                  std::to_string(reason.more) + " more like it)");
      }
    }
    return all;
  }

 private:
  struct Reason {
    Status first;
    int64_t more;
  };
  std::map<std::string, size_t> groups_;
  std::vector<Reason> reasons_;
};

// The first of several reasons, which says how many others there are.
inline Status FirstReason(const std::vector<Status>& reasons) {
  if (reasons.empty()) return OkStatus();
  if (reasons.size() == 1) return reasons[0];
  return Status(reasons[0].code(), reasons[0].message() + " [and " +
                                       std::to_string(reasons.size() - 1) + " other reasons]");
}

}  // namespace lorica::formats
