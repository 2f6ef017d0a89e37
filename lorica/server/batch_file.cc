#include "lorica/server/batch_file.h"

#include <boost/json/serialize.hpp>
#include <deque>
#include <memory>
#include <optional>
#include <unordered_set>
#include <utility>

#include "lorica/formats/json.h"
#include "lorica/server/json_writer.h"

namespace lorica::server {
namespace {

// Lines that are read ahead of the oldest unanswered one: far more than any batch holds, so that
// memory does not grow with the file.
constexpr size_t kLinesAhead = 4096;

struct Line {
  std::string custom_id;
  std::optional<std::string> output;  // set when answered
};

struct ParsedLine {
  std::string custom_id;
  std::string body;
};

std::string ResponseLine(const std::string& custom_id, int64_t number, int http_status,
                         const std::string& body) {
  JsonWriter json;
  json.BeginObject();
  json.Key("id").String("batch_req_" + std::to_string(number));
  json.Key("custom_id").StringOrNull(custom_id);
  json.Key("response").BeginObject();
  json.Key("status_code").Int(http_status);
  json.Key("request_id").String("req_" + std::to_string(number));
  json.Key("body").Raw(body);
  json.EndObject();
  json.Key("error").Null();
  json.EndObject();
  return json.Take();
}

ApiResult<ParsedLine> ParseLine(const std::string& text, int64_t number, ParsedLine* partial) {
  const std::string where = "line " + std::to_string(number);
  Result<boost::json::value> value = formats::ParseJson(text);
  if (!value.ok()) return ToApiError(value.status().WithContext(where));
  Result<formats::JsonObjectReader> reader = formats::JsonObjectReader::Of(*value, where);
  if (!reader.ok()) return ToApiError(reader.status());
  Result<std::string> custom_id = reader->String("custom_id");
  if (!custom_id.ok()) return ToApiError(custom_id.status(), "custom_id");
  partial->custom_id = *custom_id;
  Result<std::optional<std::string>> method = reader->OptionalString("method");
  if (!method.ok()) return ToApiError(method.status(), "method");
  if (*method && **method != "POST")
    return ToApiError(reader->Wrong("method", "\"POST\""), "method");
  Result<std::string> url = reader->String("url");
  if (!url.ok()) return ToApiError(url.status(), "url");
  if (*url != "/v1/completions") {
    return ToApiError(reader->Wrong("url", "\"/v1/completions\""), "url");
  }
  Result<formats::JsonObjectReader> body = reader->Object("body");
  if (!body.ok()) return ToApiError(body.status(), "body");
  partial->body = boost::json::serialize(body->object());
  return *partial;
}

class Runner {
 public:
  Runner(std::ostream* out, Service* service,
         const std::function<void(const BatchCounts&)>& progress)
      : out_(out), service_(service), progress_(progress) {}

  Result<BatchCounts> Run(std::istream* in) {
    std::string text;
    int64_t number = 0;
    while (std::getline(*in, text)) {
      ++number;
      if (!text.empty() && text.back() == '\r') text.pop_back();
      if (text.find_first_not_of(" \t") == std::string::npos) continue;
      Add(text, number);
      while (lines_.size() >= kLinesAhead) LORICA_RETURN_IF_ERROR(StepOnce());
    }
    while (!lines_.empty()) LORICA_RETURN_IF_ERROR(StepOnce());
    if (in->bad()) return Unavailable("the input file cannot be read to its end");
    return counts_;
  }

 private:
  // Waits, instead of spinning, while every request waits for its adapter. Answered lines need no
  // step.
  Status StepOnce() {
    if (!lines_.front()->output) {
      service_->engine().WaitForWork();
      service_->engine().Step();
    }
    return Flush();
  }

  void Add(const std::string& text, int64_t number) {
    ++counts_.lines;
    auto line = std::make_shared<Line>();
    lines_.push_back(line);
    ParsedLine partial;
    ApiResult<ParsedLine> parsed = ParseLine(text, number, &partial);
    line->custom_id = partial.custom_id;
    const auto fail = [&](const ApiError& error) {
      ++counts_.failed;
      line->output = ResponseLine(line->custom_id, number, error.http_status, ErrorBody(error));
    };
    if (const auto* error = std::get_if<ApiError>(&parsed)) return fail(*error);
    if (!custom_ids_.insert(line->custom_id).second) {
      return fail(ToApiError(AlreadyExists("line " + std::to_string(number) + ": \"custom_id\" \"" +
                                           line->custom_id + "\" is used by an earlier line"),
                             "custom_id"));
    }
    CompletionCallbacks callbacks;
    callbacks.on_chunk = [](std::string) {};
    callbacks.on_done = [this, line, number](int http_status, const std::string& body) {
      if (http_status != 200) ++counts_.failed;
      line->output = ResponseLine(line->custom_id, number, http_status, body);
    };
    ApiResult<std::shared_ptr<Completion>> started =
        service_->api().StartCompletion(partial.body, std::move(callbacks), TransportKind::kBatch);
    if (const auto* error = std::get_if<ApiError>(&started)) fail(*error);
  }

  // Writes the answered lines at the front.
  Status Flush() {
    while (!lines_.empty() && lines_.front()->output) {
      *out_ << *lines_.front()->output << '\n';
      lines_.pop_front();
      ++written_;
      if (progress_) progress_({written_, counts_.failed});
    }
    if (!*out_) return Unavailable("the output file cannot be written");
    return OkStatus();
  }

  std::ostream* out_;
  Service* service_;
  const std::function<void(const BatchCounts&)>& progress_;
  std::deque<std::shared_ptr<Line>> lines_;
  std::unordered_set<std::string> custom_ids_;
  BatchCounts counts_;
  int64_t written_ = 0;
};

}  // namespace

Result<BatchCounts> RunBatchFile(std::istream* in, std::ostream* out, Service* service,
                                 const std::function<void(const BatchCounts&)>& progress) {
  return Runner(out, service, progress).Run(in);
}

}  // namespace lorica::server
