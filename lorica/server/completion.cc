#include "lorica/server/completion.h"

#include <utility>

#include "lorica/server/api_error.h"

namespace lorica::server {
namespace {

// Choices of one seeded request draw from streams of their own; the first keeps the seed itself.
uint64_t ChoiceSeed(uint64_t seed, int32_t choice) {
  if (choice == 0) return seed;
  uint64_t z = seed + static_cast<uint64_t>(choice) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

void WriteIds(const std::vector<int32_t>& ids, JsonWriter* json) {
  json->BeginArray();
  for (int32_t id : ids) json->Int(id);
  json->EndArray();
}

}  // namespace

Completion::Completion(Context context, CompletionRequest request, CompletionCallbacks callbacks)
    : context_(std::move(context)),
      request_(std::move(request)),
      callbacks_(std::move(callbacks)) {}

Status Completion::Prepare() {
  for (const Prompt& prompt : request_.prompts) {
    Choice choice;
    if (const auto* text = std::get_if<std::string>(&prompt)) {
      formats::EncodeOptions options;
      options.add_special_tokens = request_.add_special_tokens;
      LORICA_ASSIGN_OR_RETURN(choice.prompt, context_.tokenizer->Encode(*text, options));
      choice.echo_text = *text;
    } else {
      choice.prompt = std::get<std::vector<int32_t>>(prompt);
      choice.echo_text = context_.tokenizer->Decode(choice.prompt);
    }
    for (int32_t i = 0; i < request_.n; ++i) {
      Choice copy;
      copy.prompt = choice.prompt;
      if (request_.sampling.echo) copy.echo_text = choice.echo_text;
      copy.logprobs = std::make_unique<LogprobsWriter>(context_.tokenizer);
      if (request_.sampling.echo && request_.sampling.logprobs &&
          std::holds_alternative<std::string>(prompt)) {
        copy.logprobs->BeginWith(choice.echo_text,
                                 request_.add_special_tokens && context_.tokenizer->adds_bos());
      }
      choices_.push_back(std::move(copy));
    }
  }
  open_ = choices_.size();
  return OkStatus();
}

Status Completion::Start(const lora::AdapterRef& adapter) {
  LORICA_RETURN_IF_ERROR(Prepare());
  for (size_t i = 0; i < choices_.size(); ++i) {
    engine::Request request;
    request.prompt = choices_[i].prompt;
    if (!adapter.is_base()) {
      request.adapter = adapter.version().name();
      request.version = adapter.shared();
      request.adapter_weight = request_.lora_scale;
    }
    request.sampling = request_.sampling;
    if (request.sampling.seed) {
      request.sampling.seed =
          ChoiceSeed(*request.sampling.seed, static_cast<int32_t>(i) % request_.n);
    }
    Result<engine::RequestId> id = context_.engine->Submit(
        std::move(request), [self = shared_from_this(), i](engine::Event event) {
          self->OnEvent(i, std::move(event));
        });
    if (!id.ok()) {
      Cancel();
      return id.status();
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    ids_.push_back(*id);
  }
  // A client that left, or a choice that failed, while the others were being submitted.
  if (cancelled_.load() || failed_.load()) Cancel();
  return OkStatus();
}

void Completion::Cancel() {
  cancelled_.store(true);
  const std::lock_guard<std::mutex> lock(mutex_);
  for (engine::RequestId id : ids_) context_.engine->Cancel(id);
}

void Completion::OnEvent(size_t index, engine::Event event) {
  if (cancelled_.load() || failed_.load()) return;
  Choice& choice = choices_[index];
  if (event.finish == engine::FinishReason::kError) {
    failed_.store(true);
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      for (engine::RequestId id : ids_) context_.engine->Cancel(id);
    }
    const ApiError error = ToApiError(event.status);
    return Finish(error.http_status, ErrorBody(error));
  }
  choice.generated += static_cast<int64_t>(event.tokens.size());
  const bool ended = event.finish != engine::FinishReason::kNone;
  choice.finish = event.finish;
  choice.stop_reason = event.stop_reason;
  if (request_.stream) {
    if (ended || !event.text.empty() || !event.tokens.empty() || !event.prompt_tokens.empty()) {
      callbacks_.on_chunk(Chunk(index, &choice, std::move(event)));
    }
  } else {
    choice.text += event.text;
    for (const engine::TokenInfo& token : event.tokens) choice.token_ids.push_back(token.token);
    std::move(event.prompt_tokens.begin(), event.prompt_tokens.end(),
              std::back_inserter(choice.tokens));
    std::move(event.tokens.begin(), event.tokens.end(), std::back_inserter(choice.tokens));
  }
  if (!ended) return;
  --open_;
  if (open_ > 0) return;
  if (!request_.stream) return Finish(200, Body());
  if (request_.include_usage) {
    JsonWriter json;
    json.BeginObject();
    WriteHead(&json);
    json.Key("choices").BeginArray().EndArray();
    WriteUsage(&json);
    json.EndObject();
    callbacks_.on_chunk(json.Take());
  }
  Finish(200, "");
}

void Completion::WriteHead(JsonWriter* json) const {
  json->Key("id").String(context_.id);
  json->Key("object").String("text_completion");
  json->Key("created").Int(context_.created);
  json->Key("model").String(request_.model);
  json->Key("system_fingerprint").String(context_.fingerprint);
}

void Completion::WriteUsage(JsonWriter* json) const {
  int64_t prompt_tokens = 0;
  int64_t completion_tokens = 0;
  for (size_t i = 0; i < choices_.size(); ++i) {
    // A prompt counts once however many choices continue it.
    if (i % static_cast<size_t>(request_.n) == 0) {
      prompt_tokens += static_cast<int64_t>(choices_[i].prompt.size());
    }
    completion_tokens += choices_[i].generated;
  }
  json->Key("usage").BeginObject();
  json->Key("prompt_tokens").Int(prompt_tokens);
  json->Key("completion_tokens").Int(completion_tokens);
  json->Key("total_tokens").Int(prompt_tokens + completion_tokens);
  json->EndObject();
}

void Completion::WriteChoice(size_t index, Choice* choice, JsonWriter* json) const {
  json->BeginObject();
  json->Key("index").Int(static_cast<int64_t>(index));
  json->Key("text").String(choice->text);
  json->Key("logprobs");
  if (request_.sampling.logprobs) {
    choice->logprobs->Write(choice->tokens, json);
  } else {
    json->Null();
  }
  const bool ended = choice->finish != engine::FinishReason::kNone;
  json->Key("finish_reason")
      .StringOrNull(ended ? engine::FinishReasonName(choice->finish) : std::string_view());
  json->Key("stop_reason").StringOrNull(choice->stop_reason);
  if (request_.return_token_ids) {
    json->Key("token_ids");
    WriteIds(choice->token_ids, json);
    json->Key("prompt_token_ids");
    WriteIds(choice->prompt, json);
  }
  json->EndObject();
}

std::string Completion::Chunk(size_t index, Choice* choice, engine::Event event) const {
  choice->tokens = std::move(event.prompt_tokens);
  choice->token_ids.clear();
  for (const engine::TokenInfo& token : event.tokens) choice->token_ids.push_back(token.token);
  std::move(event.tokens.begin(), event.tokens.end(), std::back_inserter(choice->tokens));
  choice->text = choice->echoed ? std::move(event.text) : choice->echo_text + event.text;
  choice->echoed = true;
  JsonWriter json;
  json.BeginObject();
  WriteHead(&json);
  json.Key("choices").BeginArray();
  WriteChoice(index, choice, &json);
  json.EndArray();
  json.EndObject();
  return json.Take();
}

std::string Completion::Body() {
  JsonWriter json;
  json.BeginObject();
  WriteHead(&json);
  json.Key("choices").BeginArray();
  for (size_t i = 0; i < choices_.size(); ++i) {
    choices_[i].text = choices_[i].echo_text + choices_[i].text;
    WriteChoice(i, &choices_[i], &json);
  }
  json.EndArray();
  WriteUsage(&json);
  json.EndObject();
  return json.Take();
}

void Completion::Finish(int http_status, std::string body) {
  callbacks_.on_done(http_status, std::move(body));
}

}  // namespace lorica::server
