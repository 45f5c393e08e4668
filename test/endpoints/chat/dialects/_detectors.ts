/** How clients tell a full context and a limit from other errors: the texts and codes that their sources look for. */

/** An error as a client has read it. */
interface Told {
  /** None for an error within a stream. */
  readonly status?: number
  readonly code?: string | null
  readonly message: string
  /** The whole body, or the data of the event. */
  readonly body: string
}

interface Client {
  isFull(told: Told): boolean
  /** Clients without one go by the status. */
  isLimited?(told: Told): boolean
}

const hasOne = (text: string, parts: readonly string[]): boolean =>
  parts.some((part) => text.toLowerCase().includes(part))

const LITELLM = [
  'exceed context limit',
  "this model's maximum context length is",
  "model's maximum context limit",
  'exceeds the available context size',
  'exceeds the maximum number of tokens allowed',
  '"code": "context_length_exceeded"',
  'prompt is too long',
]
/** LiteLLM, and aider with it. It looks for a limit first. */
const litellm: Client = {
  isFull: (told) => !litellm.isLimited!(told) && hasOne(told.body, LITELLM),
  isLimited: ({ status, body }) => status === 429 || /rate[\s_-]*limit/i.test(body),
}

const PI =
  /prompt is too long|request_too_large|exceeds the context window|maximum prompt length is \d+|reduce the length of the messages|maximum context length is \d+ tokens|exceeds the limit of \d+|greater than the context length|context[_ ]length[_ ]exceeded|too many tokens|token limit exceeded/i
const pi: Client = {
  isFull: ({ message }) => !/rate limit|too many requests/i.test(message) && PI.test(message),
}

const STRANDS = ['maximum context length', 'context_length_exceeded', 'too many tokens']
const strandsOpenAI: Client = {
  isFull: (told) =>
    !strandsOpenAI.isLimited!(told) &&
    (told.code === 'context_length_exceeded' || hasOne(told.body, [...STRANDS, 'context length'])),
  isLimited: ({ status, code, body }) =>
    status === 429 ||
    code === 'rate_limit_exceeded' ||
    hasOne(body, ['rate_limit_exceeded', 'rate limit', 'too many requests']),
}
const strandsAnthropic: Client = {
  isFull: ({ body }) =>
    hasOne(body, [
      'prompt is too long:',
      'input is too long',
      'input length exceeds context window',
      'input and output tokens exceed your context limit',
    ]),
}

const langchainOpenAI: Client = {
  isFull: ({ status, message, body }) =>
    status === undefined
      ? message.includes('exceeds the context window')
      : status === 400 &&
        (body.includes('context_length_exceeded') || message.includes('prompt is too long')),
}
const langchainAnthropic: Client = {
  isFull: ({ message }) => message.includes('prompt is too long'),
}

const CREWAI = ['maximum context length', 'context length exceeded', 'context_length_exceeded']
const crewai: Client = {
  isFull: ({ body }) =>
    hasOne(body, [...CREWAI, 'context window full', 'too many tokens', 'exceeds token limit']),
}

const AGNO = [
  'context_length_exceeded',
  'context window',
  'maximum context length',
  'token limit',
  'max_tokens',
  'too many tokens',
  'payload too large',
  'request too large',
  'input too long',
  'prompt is too long',
  'prompt too long',
  'exceeds the model',
]
const agno: Client = {
  isFull: ({ status, message }) => status !== 429 && status !== 529 && hasOne(message, AGNO),
}

const OPENAI = { litellm, pi, strands: strandsOpenAI, langchain: langchainOpenAI, crewai, agno }
export const CLIENTS: Readonly<Record<string, Readonly<Record<string, Client>>>> = {
  chat: OPENAI,
  responses: OPENAI,
  messages: { litellm, pi, strands: strandsAnthropic, langchain: langchainAnthropic, agno },
}
