/** Scripted or generated answers to requests that go on with a text. */
import type { ChatChunk, ChatCompletion, ChatInput, CompletionInput } from '../../src/plugin.ts'
import { answerOf, chatChunks, toCompletion } from './chat.ts'

type Script = Parameters<typeof answerOf>[2]

/** The answer to one prompt. */
type Answer = ReturnType<typeof answerOf>

/** The answers to the prompts, in their order: what a chat with this message would be told. */
export function textAnswers(input: CompletionInput, script: Script): readonly Answer[] {
  const { prompt, max_tokens, n = 1, stop } = input
  return prompt.map((content) => {
    const messages = [{ role: 'user', content }] as const
    const chat = { messages, n, stop, max_completion_tokens: max_tokens } as ChatInput
    return answerOf(chat, 'completion', { ...script, reasoning: undefined, toolCalls: [] })
  })
}

/** All of them as one answer. */
export function toTexts(answers: readonly Answer[]): ChatCompletion {
  const whole = answers.map(toCompletion)
  const choices = whole.flatMap((one) => one.choices)
  const usage = sum(whole.map((one) => one.usage))
  return {
    choices: choices.map((choice, index) => ({ ...choice, index })),
    ...(usage && { usage }),
  }
}

/**
 * All of them as one stream, one after another.
 * @param pace is awaited before each chunk
 * @param fails whether the script asks for a failure, which may come after the last chunk
 */
export async function* completionChunks(
  answers: readonly Answer[],
  pace: (sent: number) => Promise<void>,
  fails: boolean,
): AsyncGenerator<ChatChunk, void, undefined> {
  let first = 0
  let sent = 0
  const next = () => pace(sent++)
  for (const answer of answers) {
    for await (const { choices } of chatChunks(answer, next, false)) {
      if (choices.length === 0) continue
      yield { choices: choices.map((one) => ({ ...one, index: first + one.index! })) }
    }
    first += answer.choices
  }
  const usage = sum(answers.map((answer) => answer.usage))
  if (usage) yield { choices: [], usage }
  if (fails) await pace(Infinity)
  yield { choices: [], endOfStream: true }
}

/** Scripted usage counts once. */
function sum(usages: readonly ChatCompletion['usage'][]): ChatCompletion['usage'] {
  const [first] = usages
  if (!first || usages.every((one) => one === first)) return first
  const total = (name: 'prompt_tokens' | 'completion_tokens') =>
    usages.reduce((tokens, one) => tokens + Number(one?.[name] ?? 0), 0)
  return { prompt_tokens: total('prompt_tokens'), completion_tokens: total('completion_tokens') }
}
