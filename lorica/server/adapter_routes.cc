#include "lorica/server/adapter_routes.h"

#include <utility>

namespace lorica::server {
namespace {

constexpr std::string_view kList = "/v1/adapters";
constexpr std::string_view kOne = "/v1/adapters/";
constexpr std::string_view kPin = "/pin";
constexpr std::string_view kLoad = "/v1/load_lora_adapter";
constexpr std::string_view kUnload = "/v1/unload_lora_adapter";

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return 16;
}

std::optional<std::string> Decode(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    const int high = HexDigit(text[i + 1]);
    const int low = HexDigit(text[i + 2]);
    if (high > 15 || low > 15) return std::nullopt;
    decoded += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return decoded;
}

AdapterAnswer Fail(int status, std::string message) {
  ApiError error;
  error.http_status = status;
  error.message = std::move(message);
  return {status, ErrorBody(error)};
}

}  // namespace

AdapterAnswer ToAnswer(ApiResult<std::string> result) {
  if (const auto* error = std::get_if<ApiError>(&result)) {
    return {error->http_status, ErrorBody(*error)};
  }
  std::string& body = std::get<std::string>(result);
  const char* type = body.starts_with('{') ? "application/json" : "text/plain";
  return {200, std::move(body), type};
}

bool IsAdapterTarget(std::string_view target) {
  return target == kList || target.starts_with(kOne) || target == kLoad || target == kUnload;
}

std::optional<std::string> UploadName(std::string_view target) {
  if (!target.starts_with(kOne)) return std::nullopt;
  return Decode(target.substr(kOne.size()));
}

AdapterAnswer AnswerAdapterCall(AdapterAdmin* admin, const AdapterCall& call) {
  const std::string_view target = call.target;
  if (target == kLoad || target == kUnload) {
    if (call.method != "POST") return Fail(405, call.target + ": expected POST");
    return ToAnswer(target == kLoad ? admin->LoadByPath(call.body)
                                    : admin->UnloadByName(call.body));
  }
  if (target == kList) {
    if (call.method != "GET") return Fail(405, call.target + ": expected GET");
    return ToAnswer(admin->List());
  }
  std::string_view rest = target.substr(kOne.size());
  const bool pins = rest.ends_with(kPin) && rest.size() > kPin.size();
  if (pins) rest.remove_suffix(kPin.size());
  const std::optional<std::string> name = Decode(rest);
  if (!name.has_value()) return Fail(400, "adapter name: expected percent-encoded UTF-8");
  if (pins) {
    if (call.method == "POST") return ToAnswer(admin->Pin(*name));
    if (call.method == "DELETE") return ToAnswer(admin->Unpin(*name));
    return Fail(405, call.target + ": expected POST or DELETE");
  }
  if (call.method == "GET") return ToAnswer(admin->Get(*name));
  if (call.method == "DELETE") return ToAnswer(admin->Delete(*name, call.if_match));
  return Fail(405, call.target + ": expected GET, PUT or DELETE");
}

}  // namespace lorica::server
