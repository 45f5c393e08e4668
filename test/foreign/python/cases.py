"""What users of Python's packages do: a question, a stream, a loop with a tool, and what an error says.

`cases.py <environment>` prints the names of its cases, one a line, and an empty line. Then it reads
`<number> <key> <url>` lines and answers each with one line: `null`, or the fault as JSON.
"""

import asyncio
import importlib.metadata
import json
import os
import subprocess
import sys
import tempfile

MODELS = ["m/chat", "m/claude", "m/responses"]
QUESTION = "Weather in Paris?"
RESULT = "nice and warm"
WARM = "It is warm."
TURN_USD = 0.0003486
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
CHAT_TOOLS = [{"type": "function", "function": {"name": "look", "parameters": SCHEMA}}]
CASES = []


def case(name, models=MODELS):
    """Adds a case for each model; without models, one."""

    def add(run):
        for model in models or [None]:
            CASES.append((f"{name} {model}" if model else name, run, model))
        return run

    return add


def has(text, part):
    assert part in str(text), f"{part!r} is not in {str(text)[:200]!r}"


def same(found, expected):
    assert found == expected, f"{found!r}, not {expected!r}"


def raises(error, ask, words):
    try:
        ask()
    except error as found:
        has(found, words)
        return found
    raise AssertionError(f"no {error}")


def version(package):
    return importlib.metadata.version(package)


def look(city: str) -> str:
    """Looks at the weather of a city."""
    same(city, "Paris")
    return RESULT


def openai_cases():
    from openai import BadRequestError, OpenAI

    name = f"openai-{version('openai')}"

    def client(place):
        return OpenAI(base_url=place.base_url, api_key=place.key, max_retries=0)

    @case(f"{name} chat")
    def chat(place, model):
        messages = [{"role": "user", "content": QUESTION}]
        answer = client(place).chat.completions.create(model=model, messages=messages)
        same(answer.choices[0].message.content, WARM)
        same(answer.usage.model_extra["cost"], TURN_USD)

    @case(f"{name} chat stream")
    def stream(place, model):
        messages = [{"role": "user", "content": QUESTION}]
        chunks = client(place).chat.completions.create(
            model=model,
            messages=messages,
            stream=True,
            extra_body={"stream_options": {"include_usage": True}},
        )
        text, cost = "", None
        for chunk in chunks:
            for choice in chunk.choices:
                text += choice.delta.content or ""
            usage = (chunk.model_extra or {}).get("usage") or getattr(chunk, "usage", None)
            if usage:
                cost = usage["cost"] if isinstance(usage, dict) else usage.model_extra["cost"]
        same(text, WARM)
        same(cost, TURN_USD)

    @case(f"{name} chat loop")
    def loop(place, model):
        ask = client(place).chat.completions.create
        messages = [{"role": "user", "content": QUESTION}]
        first = ask(model=model, messages=messages, tools=CHAT_TOOLS).choices[0]
        same(first.finish_reason, "tool_calls")
        call = first.message.tool_calls[0]
        same(json.loads(call.function.arguments), {"city": "Paris"})
        messages += [first.message, {"role": "tool", "tool_call_id": call.id, "content": RESULT}]
        last = ask(model=model, messages=messages, tools=CHAT_TOOLS)
        same(last.choices[0].message.content, WARM)

    @case(f"{name} full context")
    def full(place, model):
        messages = [{"role": "user", "content": "too-long"}]
        ask = lambda: client(place).chat.completions.create(model=model, messages=messages)
        error = raises(BadRequestError, ask, "maximum context length is 9000 tokens")
        same(error.code, "context_length_exceeded")

    @case(f"{name} embeddings", None)
    def embeddings(place, _model):
        answer = client(place).embeddings.create(model="m/embeds", input=["Paris", "Rome"])
        same(list(answer.data[1].embedding), [0.25, -0.5])

    if version("openai").startswith("1.12."):
        return

    @case(f"{name} responses loop")
    def responses(place, model):
        ask = client(place).responses.create
        tools = [{"type": "function", "name": "look", "parameters": SCHEMA, "strict": True}]
        items = [{"role": "user", "content": QUESTION}]
        events = ask(model=model, input=items, tools=tools, stream=True)
        first = [event.response for event in events if event.type == "response.completed"][0]
        call = [item for item in first.output if item.type == "function_call"][0]
        same(json.loads(call.arguments), {"city": "Paris"})
        items += [item.model_dump(exclude_none=True) for item in first.output]
        items.append({"type": "function_call_output", "call_id": call.call_id, "output": RESULT})
        last = ask(model=model, input=items, tools=tools)
        same(last.output_text, WARM)
        same(last.usage.model_extra["cost"], TURN_USD)


def anthropic_cases():
    import anthropic

    name = f"anthropic-{version('anthropic')}"
    tools = [{"name": "look", "description": "Looks.", "input_schema": SCHEMA}]

    def client(place):
        return anthropic.Anthropic(base_url=place.url, api_key=place.key, max_retries=0)

    @case(f"{name} messages loop")
    def loop(place, model):
        ask = client(place).messages
        messages = [{"role": "user", "content": QUESTION}]
        asked = {"model": model, "max_tokens": 100, "tools": tools, "messages": messages}
        with ask.stream(**asked) as stream:
            first = stream.get_final_message()
        same(first.stop_reason, "tool_use")
        call = [block for block in first.content if block.type == "tool_use"][0]
        same(call.input, {"city": "Paris"})
        result = {"type": "tool_result", "tool_use_id": call.id, "content": RESULT}
        messages += [
            {"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in first.content]},
            {"role": "user", "content": [result]},
        ]
        last = ask.create(**asked)
        same(last.content[-1].text, WARM)
        same(last.usage.model_extra["cost"], TURN_USD)

    @case(f"{name} full context")
    def full(place, model):
        messages = [{"role": "user", "content": "too-long"}]
        ask = lambda: client(place).messages.create(model=model, max_tokens=9, messages=messages)
        raises(anthropic.BadRequestError, ask, "prompt is too long: 12345 tokens > 9000 maximum")


def langchain_cases():
    from langchain_anthropic import ChatAnthropic
    from langchain_core.messages import HumanMessage, ToolMessage
    from langchain_openai import ChatOpenAI

    name = f"langchain-{version('langchain')}"
    kinds = {
        "chat": lambda place, model: ChatOpenAI(
            model=model, base_url=place.base_url, api_key=place.key, max_retries=0
        ),
        "responses": lambda place, model: ChatOpenAI(
            model=model,
            base_url=place.base_url,
            api_key=place.key,
            max_retries=0,
            use_responses_api=True,
        ),
        "messages": lambda place, model: ChatAnthropic(
            model=model, base_url=place.url, api_key=place.key, max_retries=0, max_tokens=100
        ),
    }
    for kind, make in kinds.items():
        add_langchain(f"{name} {kind}", make, HumanMessage, ToolMessage)


def add_langchain(name, make, HumanMessage, ToolMessage):
    @case(f"{name} loop")
    def loop(place, model):
        client = make(place, model).bind_tools([look])
        messages = [HumanMessage(QUESTION)]
        first = client.invoke(messages)
        call = first.tool_calls[0]
        same((call["name"], call["args"]), ("look", {"city": "Paris"}))
        messages += [first, ToolMessage(RESULT, tool_call_id=call["id"])]
        has(client.invoke(messages).content, WARM)

    @case(f"{name} stream")
    def stream(place, model):
        client = make(place, model).bind_tools([look])
        whole = None
        for chunk in client.stream(QUESTION):
            whole = chunk if whole is None else whole + chunk
        same([call["args"] for call in whole.tool_calls], [{"city": "Paris"}])

    @case(f"{name} full context")
    def full(place, model):
        try:
            from langchain_core.exceptions import ContextOverflowError
        except ImportError:
            ContextOverflowError = Exception
        client = make(place, model)
        raises(ContextOverflowError, lambda: client.invoke("too-long"), "9000")
        raises(ContextOverflowError, lambda: list(client.stream("too-long")), "9000")


def pydantic_cases():
    from anthropic import AsyncAnthropic
    from openai import AsyncOpenAI
    from pydantic_ai import Agent
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.models.openrouter import OpenRouterModel
    from pydantic_ai.providers.anthropic import AnthropicProvider
    from pydantic_ai.providers.openai import OpenAIProvider
    from pydantic_ai.providers.openrouter import OpenRouterProvider

    def openai(place):
        return AsyncOpenAI(base_url=place.base_url, api_key=place.key, max_retries=0)

    def claude(place):
        return AsyncAnthropic(base_url=place.url, api_key=place.key, max_retries=0)

    kinds = {
        "chat": lambda place, model: OpenAIChatModel(
            model, provider=OpenAIProvider(openai_client=openai(place))
        ),
        "responses": lambda place, model: OpenAIResponsesModel(
            model, provider=OpenAIProvider(openai_client=openai(place))
        ),
        "anthropic": lambda place, model: AnthropicModel(
            model, provider=AnthropicProvider(anthropic_client=claude(place))
        ),
        "openrouter": lambda place, model: OpenRouterModel(
            model, provider=OpenRouterProvider(openai_client=openai(place))
        ),
    }
    for kind, make in kinds.items():
        add_pydantic(f"pydantic-ai {kind}", make, Agent)


def add_pydantic(name, make, Agent):
    @case(f"{name} loop")
    def loop(place, model):
        agent = Agent(make(place, model), tools=[look])
        same(asyncio.run(agent.run(QUESTION)).output, WARM)

    @case(f"{name} stream")
    def stream(place, model):
        agent = Agent(make(place, model), tools=[look])

        async def ask():
            async with agent.run_stream(QUESTION) as result:
                return await result.get_output()

        # The first text ends such a run.
        assert asyncio.run(ask()) in ("Let me look.", WARM)


def agents_cases():
    from agents import (
        Agent,
        OpenAIChatCompletionsModel,
        OpenAIResponsesModel,
        Runner,
        function_tool,
        set_tracing_disabled,
    )
    from openai import AsyncOpenAI

    set_tracing_disabled(True)
    kinds = {"chat": OpenAIChatCompletionsModel, "responses": OpenAIResponsesModel}
    for kind, make in kinds.items():
        add_agents(f"openai-agents {kind}", make, Agent, Runner, function_tool, AsyncOpenAI)


def add_agents(name, make, Agent, Runner, function_tool, AsyncOpenAI):
    def agent_of(place, model):
        client = AsyncOpenAI(base_url=place.base_url, api_key=place.key, max_retries=0)
        return Agent(
            name="A",
            instructions="Be brief.",
            model=make(model=model, openai_client=client),
            tools=[function_tool(look)],
        )

    @case(f"{name} loop")
    def loop(place, model):
        result = asyncio.run(Runner.run(agent_of(place, model), QUESTION))
        same(result.final_output, WARM)

    @case(f"{name} stream")
    def stream(place, model):
        async def ask():
            result = Runner.run_streamed(agent_of(place, model), QUESTION)
            async for _event in result.stream_events():
                pass
            return result.final_output

        same(asyncio.run(ask()), WARM)


def openrouter_cases():
    from openrouter import OpenRouter

    def client(place):
        return OpenRouter(api_key=place.key, server_url=place.base_url)

    messages = [{"role": "user", "content": QUESTION}]

    @case("openrouter chat")
    def chat(place, model):
        answer = client(place).chat.send(model=model, messages=messages)
        same(answer.choices[0].message.content, WARM)
        same(answer.usage.cost, TURN_USD)

    @case("openrouter chat stream")
    def stream(place, model):
        names, cost = "", None
        chunks = client(place).chat.send(
            model=model, messages=messages, tools=CHAT_TOOLS, stream=True
        )
        for chunk in chunks:
            for choice in chunk.choices:
                for call in choice.delta.tool_calls or []:
                    names += (call.function and call.function.name) or ""
            cost = chunk.usage.cost if chunk.usage else cost
        same((names, cost), ("look", TURN_USD))

    @case("openrouter responses")
    def responses(place, model):
        answer = client(place).beta.responses.send(model=model, input=QUESTION)
        has(answer.output, WARM)
        same(answer.usage.cost, TURN_USD)

    @case("openrouter embeddings", None)
    def embeddings(place, _model):
        answer = client(place).embeddings.generate(model="m/embeds", input=["Paris", "Rome"])
        same(answer.data[1].embedding, [0.25, -0.5])
        same(answer.usage.cost, 0.000042)

    @case("openrouter rerank", None)
    def rerank(place, _model):
        answer = client(place).rerank.rerank(
            model="m/ranks", query="warm", documents=["Paris", "Rome"]
        )
        same((len(answer.results), answer.usage.cost), (2, 0.000042))

    @case("openrouter credits", None)
    def credits(place, _model):
        same(client(place).credits.get_credits().data.total_credits, 10)


def litellm_cases():
    import litellm

    litellm.telemetry = False
    litellm.suppress_debug_info = True
    messages = [{"role": "user", "content": QUESTION}]
    kinds = {
        "chat": lambda place, model: {"model": f"openai/{model}", "api_base": place.base_url},
        "messages": lambda place, model: {"model": f"anthropic/{model}", "api_base": place.url},
        "openrouter": lambda place, model: {
            "model": f"openrouter/{model}",
            "api_base": place.base_url,
        },
    }
    for kind, make in kinds.items():
        add_litellm(f"litellm {kind}", make, litellm, messages)

    @case("litellm responses")
    def responses(place, model):
        answer = litellm.responses(
            model=f"openai/{model}", input=QUESTION, api_base=place.base_url, api_key=place.key
        )
        has(answer.output, WARM)


def add_litellm(name, make, litellm, messages):
    def ask(place, model, messages, **more):
        settings = {"api_key": place.key, "num_retries": 0, "max_tokens": 100}
        return litellm.completion(
            messages=messages, **make(place, model), **settings, **more
        )

    @case(f"{name} loop")
    def loop(place, model):
        first = ask(place, model, messages, tools=CHAT_TOOLS).choices[0].message
        call = first.tool_calls[0]
        same(json.loads(call.function.arguments), {"city": "Paris"})
        result = {"role": "tool", "tool_call_id": call.id, "content": RESULT}
        turn = [*messages, first.model_dump(exclude_none=True), result]
        last = ask(place, model, turn, tools=CHAT_TOOLS)
        same(last.choices[0].message.content, WARM)

    @case(f"{name} stream")
    def stream(place, model):
        chunks = ask(place, model, messages, stream=True)
        same("".join(chunk.choices[0].delta.content or "" for chunk in chunks), WARM)

    @case(f"{name} full context")
    def full(place, model):
        too_long = [{"role": "user", "content": "too-long"}]
        raises(
            litellm.ContextWindowExceededError, lambda: ask(place, model, too_long), "9000"
        )

        def streamed():
            for _chunk in ask(place, model, too_long, stream=True):
                pass

        raises(litellm.ContextWindowExceededError, streamed, "9000")

    @case(f"{name} refused key")
    def refused(place, model):
        wrong = Place(place.key[:-1] + ("y" if place.key.endswith("x") else "x"), place.url)
        raises(litellm.AuthenticationError, lambda: ask(wrong, model, messages), "")


def strands_cases():
    from strands import Agent, tool
    from strands.models.anthropic import AnthropicModel
    from strands.models.openai import OpenAIModel
    from strands.types.exceptions import ContextWindowOverflowException

    kinds = {
        "chat": lambda place, model: OpenAIModel(
            client_args={"base_url": place.base_url, "api_key": place.key, "max_retries": 0},
            model_id=model,
        ),
        "messages": lambda place, model: AnthropicModel(
            client_args={"base_url": place.url, "api_key": place.key, "max_retries": 0},
            model_id=model,
            max_tokens=100,
        ),
    }
    try:
        from strands.models.openai_responses import OpenAIResponsesModel

        kinds["responses"] = lambda place, model: OpenAIResponsesModel(
            client_args={"base_url": place.base_url, "api_key": place.key, "max_retries": 0},
            model_id=model,
        )
    except ImportError:
        pass
    for kind, make in kinds.items():
        add_strands(f"strands {kind}", make, Agent, tool, ContextWindowOverflowException)


def add_strands(name, make, Agent, tool, ContextWindowOverflowException):
    @case(f"{name} loop")
    def loop(place, model):
        agent = Agent(model=make(place, model), tools=[tool(look)], callback_handler=None)
        has(agent(QUESTION), WARM)

    @case(f"{name} full context")
    def full(place, model):
        client = make(place, model)

        async def ask():
            messages = [{"role": "user", "content": [{"text": "too-long"}]}]
            async for _event in client.stream(messages):
                pass

        raises(ContextWindowOverflowException, lambda: asyncio.run(ask()), "9000")


def crewai_cases():
    os.environ.update(CREWAI_DISABLE_TELEMETRY="true", OTEL_SDK_DISABLED="true")
    from crewai import LLM
    from crewai.utilities.exceptions.context_window_exceeding_exception import (
        LLMContextLengthExceededError,
    )

    def client(place, model):
        return LLM(model=f"openai/{model}", base_url=place.base_url, api_key=place.key)

    @case("crewai loop")
    def loop(place, model):
        found = client(place, model).call(
            QUESTION, tools=CHAT_TOOLS, available_functions={"look": look}
        )
        same(found, RESULT)

    @case("crewai chat")
    def chat(place, model):
        same(client(place, model).call(QUESTION), WARM)

    @case("crewai full context")
    def full(place, model):
        ask = lambda: client(place, model).call("too-long")
        raises(LLMContextLengthExceededError, ask, "9000")


def aider_cases():
    def ask(place, model, message):
        command = [os.path.join(os.path.dirname(sys.executable), "aider"), "--model"]
        command += [f"openai/{model}", "--message", message, "--no-git", "--yes-always"]
        command += "--no-check-update --no-show-model-warnings --analytics-disable".split()
        command += "--no-gitignore --edit-format ask --map-tokens 0".split()
        keys = {"OPENAI_API_KEY": place.key, "OPENAI_API_BASE": place.base_url}
        with tempfile.TemporaryDirectory() as home:
            done = subprocess.run(
                command,
                env={**os.environ, **keys, "HOME": home, "LITELLM_LOCAL_MODEL_COST_MAP": "True"},
                cwd=home,
                capture_output=True,
                text=True,
                timeout=50,
            )
        return done.stdout + done.stderr

    @case("aider question")
    def question(place, model):
        has(ask(place, model, QUESTION), WARM)

    @case("aider full context")
    def full(place, model):
        has(ask(place, model, "too-long"), "has hit a token limit")


ENVIRONMENTS = {
    "aider": [aider_cases],
    "crewai": [crewai_cases],
    "current": [
        openai_cases,
        anthropic_cases,
        langchain_cases,
        pydantic_cases,
        agents_cases,
        openrouter_cases,
    ],
    "litellm": [litellm_cases],
    "older": [openai_cases, anthropic_cases, langchain_cases],
    "oldest": [openai_cases, anthropic_cases],
    "strands": [strands_cases],
}


class Place:
    def __init__(self, key, url):
        self.key = key
        self.url = url
        self.base_url = f"{url}/v1"


def main():
    os.environ["NO_PROXY"] = "127.0.0.1"
    # Packages print; the answers go where nothing else does.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for add in ENVIRONMENTS[sys.argv[1]]:
        add()
    for name, _run, _model in CASES:
        print(name, file=answers)
    print("", file=answers, flush=True)
    for line in sys.stdin:
        number, key, url = line.split()
        _name, run, model = CASES[int(number)]
        fault = None
        try:
            run(Place(key, url), model)
        except Exception as error:
            fault = f"{type(error).__name__}: {error}" or "failed"
        print(json.dumps(fault), file=answers, flush=True)


main()
