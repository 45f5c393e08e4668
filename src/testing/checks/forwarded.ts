/** Checks that all settings of a client, and every message, reach the vendor. */
import { isDeepStrictEqual } from 'node:util'
import { json } from '../fake-upstream.ts'
import { NO_UPSTREAM, type Fixture } from '../fixture.ts'
import { skipped, toCheck, type Check } from '../report.ts'
import { toTestRequest, type TestRequest } from '../requests.ts'
import type { Transcript } from '../transcripts.ts'

/** Two values of members that most vendors support. */
const PROBES: Readonly<Record<string, readonly unknown[]>> = {
  max_completion_tokens: [2016, 2017],
  temperature: [0.25, 0.75],
  top_p: [0.25, 0.75],
  stop: [['one'], ['two']],
  seed: [17, 18],
  presence_penalty: [0.25, 0.75],
  frequency_penalty: [0.25, 0.75],
}

/** Two values of members that many vendors do not support: they have to be sent where a case has them. */
const MORE_PROBES: Readonly<Record<string, readonly unknown[]>> = {
  response_format: [
    { type: 'json_object' },
    { type: 'json_schema', json_schema: { name: 'answer', schema: { type: 'object' } } },
  ],
  reasoning: [{ effort: 'low' }, { effort: 'high' }],
  n: [2, 3],
  tools: [toolsCalled('look'), toolsCalled('find')],
}
/** Parts of messages, of which models read the one or the other. */
const PARTS: Readonly<Record<string, (content: string) => object>> = {
  image: (data) => ({ type: 'image_url', image_url: { url: `data:image/png;base64,${data}` } }),
  sound: (data) => ({ type: 'input_audio', input_audio: { data, format: 'wav' } }),
  file: (data) => ({
    type: 'file',
    file: { filename: 'a.pdf', file_data: `data:application/pdf;base64,${data}` },
  }),
}

const TURNS = [
  { role: 'system', content: 'Instruction zq1.' },
  { role: 'user', content: 'Question zq2.' },
  { role: 'assistant', content: 'Answer zq3.' },
  {
    role: 'user',
    content: [
      { type: 'text', text: 'Question zq4,' },
      { type: 'text', text: ' second part zq5.' },
    ],
  },
]
const CALLS = [
  { role: 'user', content: 'Question zq1.' },
  {
    role: 'assistant',
    content: null,
    tool_calls: [
      { id: 'call_zq2', type: 'function', function: { name: 'look', arguments: '{"at":"zq3"}' } },
    ],
  },
  { role: 'tool', tool_call_id: 'call_zq2', content: 'Result zq4.' },
  { role: 'user', content: 'Question zq5.' },
]
const TOOLS = toolsCalled('look')
const WORD = /zq\d/g
const MAX_DEPLOYMENTS = 4

/**
 * Checks each member that the vendor does not declare to ignore, and conversations. A member has to have an
 * influence on one of the deployments at least: models differ in what they take.
 */
export async function checkForwarded(
  fixture: Fixture,
  cases: readonly Transcript[],
): Promise<Check> {
  const { ignores = [] } = fixture.provider.plugin
  const named = (member: string) => cases.some(({ request }) => member in request)
  const probes = { ...PROBES, ...MORE_PROBES, ...(named('logprobs') && { logprobs: [true] }) }
  const forwarded = new Set<string>()
  const problems: string[] = []
  let isSent = false
  for (const like of deploymentsOf(cases)) {
    const sent = (members: object) => bodyOf(fixture, like, members)
    const plain = await sent({})
    if (plain === undefined) continue
    isSent = true
    for (const [member, values] of Object.entries(probes)) {
      if (forwarded.has(member)) continue
      const bodies = [plain]
      for (const value of values) bodies.push((await sent({ [member]: value })) ?? 'refused')
      const differs = new Set(bodies).size === bodies.length || bodies.includes('refused')
      if (differs) forwarded.add(member)
    }
    problems.push(...conversationProblems(await sent({ messages: TURNS })))
    problems.push(...(await roleProblems(sent)))
    problems.push(...(await partProblems(sent)))
    if (like.request.tools) problems.push(...(await toolProblems(sent, like)))
  }
  if (!isSent) return skipped('forwarded', null, NO_UPSTREAM)
  const lost: string[] = []
  for (const member of Object.keys(probes)) {
    if (forwarded.has(member) !== ignores.includes(member)) continue
    if (forwarded.has(member))
      problems.push(`"${member}" is in "ignores", but it changes the request`)
    else if (member in PROBES || named(member))
      problems.push(`"${member}" has no influence on the request`)
    else lost.push(member)
  }
  const note = `not sent, and neither in a case nor in "ignores": ${lost.join(', ')}`
  return toCheck('forwarded', null, [...new Set(problems)], lost.length > 0 ? [note] : [])
}

function deploymentsOf(cases: readonly Transcript[]): Transcript[] {
  const keys = ({ request: { model, tools }, deployment }: Transcript) =>
    JSON.stringify([model, deployment, tools !== undefined])
  return [...new Map(cases.map((one) => [keys(one), one])).values()].slice(0, MAX_DEPLOYMENTS)
}

type Send = (members: object) => Promise<string | undefined>

/** Checks that the request differs with one image or another. A provider may refuse both. */
async function partProblems(sent: Send): Promise<string[]> {
  const problems: string[] = []
  for (const [kind, part] of Object.entries(PARTS)) {
    const withImage = (content: string) => ({
      messages: [{ role: 'user', content: [{ type: 'text', text: 'Say hello.' }, part(content)] }],
    })
    const body = await sent(withImage('aW1hZ2UgMQ=='))
    if (body !== undefined && body === (await sent(withImage('aW1hZ2UgMg=='))))
      problems.push(`the ${kind} in a message does not arrive: send it, or refuse it (bad_request)`)
  }
  return problems
}

/** Roles that a vendor has to be able to tell apart. A vendor may have one word for instructions. */
const ROLES = [
  ['system', 'user'],
  ['developer', 'user'],
  ['assistant', 'user'],
] as const

/** Checks that a message of one role reaches the vendor in another way than the same one of another role. */
async function roleProblems(sent: Send): Promise<string[]> {
  const problems: string[] = []
  for (const [role, other] of ROLES) {
    const one = await withRole(role, role === 'assistant')
    const same = await withRole(other, role === 'assistant')
    if (one !== undefined && one === same)
      problems.push(`a message of the role ${role} is sent as one of the role ${other}`)
  }
  return problems

  async function withRole(role: string, late: boolean): Promise<string | undefined> {
    const text = { role, content: 'Text.' }
    const [question, next] = [TURNS[1]!, { role: 'user', content: 'Go on.' }]
    // Many vendors take instructions at the beginning alone.
    return sent({ messages: late ? [question, text, next] : [text, next] })
  }
}

/** Checks that results of tools are told from other messages, and from each other. */
async function toolRoleProblems(sent: Send): Promise<string[]> {
  const calls = ['call_zq1', 'call_zq2']
  const [question, , , next] = CALLS
  const functions = calls.map((id, i) => {
    return { id, type: 'function', function: { name: 'look', arguments: `{"at":${i}}` } }
  })
  const messagesOf = (role: string, ids: readonly string[]) => {
    const results = ids.map((id, i) => ({
      role,
      ...(role === 'tool' && { tool_call_id: id }),
      content: `Result ${i}.`,
    }))
    const turn = { role: 'assistant', content: null, tool_calls: functions }
    return sent({ messages: [question, turn, ...results, next], tools: TOOLS })
  }
  const body = await messagesOf('tool', calls)
  if (body === undefined) return []
  const problems: string[] = []
  if (body === (await messagesOf('tool', calls.toReversed())))
    problems.push('"tool_call_id" has no influence on the request')
  const result = turnWith('Result 0.', calls, body)
  for (const role of ['system', 'user', 'assistant']) {
    const other = await messagesOf(role, calls)
    const same =
      other !== undefined && isDeepStrictEqual(result, turnWith('Result 0.', calls, other))
    if (result && same)
      problems.push(`a message of the role tool is sent as one of the role ${role}`)
  }
  return problems
}

/** The item of the outermost list of a body that has a text, without members whose value is one of the ids. */
function turnWith(text: string, ids: readonly string[], body: string): unknown {
  const has = (value: unknown) => JSON.stringify(value)?.includes(text)
  let value: any
  try {
    value = JSON.parse(body, (_, member: unknown) =>
      ids.includes(member as string) ? undefined : member,
    )
  } catch {
    return undefined
  }
  while (typeof value === 'object' && value !== null && !Array.isArray(value))
    value = Object.values(value).find(has)
  return Array.isArray(value) ? value.find(has) : undefined
}

async function toolProblems(sent: Send, { request }: Transcript): Promise<string[]> {
  const problems: string[] = []
  const body = await sent({ messages: CALLS, tools: TOOLS })
  const lost = ['Question zq1.', 'zq3', 'Result zq4.', 'Question zq5.'].filter(
    (text) => body !== undefined && !body.includes(text),
  )
  if (lost.length > 0) {
    const which = lost.map((text) => JSON.stringify(text)).join(', ')
    problems.push(`of a conversation with a tool these texts do not arrive: ${which}`)
  }
  problems.push(...(await toolRoleProblems(sent)))
  const withTools = { messages: CALLS.slice(0, 1), tools: TOOLS }
  const free = await sent({ ...withTools, tool_choice: 'auto' })
  if (free !== undefined && free === (await sent({ ...withTools, tool_choice: 'required' })))
    problems.push('"tool_choice" has no influence on the request')
  const parallel = 'parallel_tool_calls'
  if (
    parallel in request &&
    free === (await sent({ ...withTools, tool_choice: 'auto', [parallel]: false }))
  )
    problems.push(`"${parallel}" has no influence on the request`)
  return problems
}

/** Checks that each text arrives once, and in the order of the conversation. Instructions may stand anywhere. */
function conversationProblems(body: string | undefined): string[] {
  if (body === undefined) return []
  const words: string[] = body.match(WORD) ?? []
  const wanted = JSON.stringify(TURNS).match(WORD)!
  const lost = wanted.filter((word) => !words.includes(word))
  if (lost.length > 0) {
    const texts = TURNS.flatMap(({ content }) =>
      typeof content === 'string' ? content : content.map(({ text }) => text),
    )
    const which = texts.filter((text) => lost.some((word) => text.includes(word)))
    return [
      `of a conversation these texts do not arrive: ${which.map((text) => JSON.stringify(text)).join(', ')}`,
    ]
  }
  if (words.length > wanted.length) return ['a text of a conversation arrives more than once']
  const [instruction] = wanted
  const turns = words.filter((word) => word !== instruction)
  const inOrder = turns.every((word, i) => word === wanted[i + 1])
  return inOrder ? [] : ['the messages of a conversation arrive in another order']
}

function toolsCalled(name: string): object[] {
  return [{ type: 'function', function: { name, parameters: { type: 'object', properties: {} } } }]
}

/** The body that the vendor gets for the request of a case with other members; undefined where it gets none. */
async function bodyOf(
  { provider, vendor }: Fixture,
  like: Transcript,
  members: object,
): Promise<string | undefined> {
  const request: TestRequest | undefined = await toTestRequest(provider.plugin, {
    ...like,
    request: { ...minimal(like), ...members },
  }).catch(() => undefined)
  if (!request) return undefined
  const before = vendor.requests.length
  // What the vendor answers does not matter.
  vendor.answer(json({}, 500))
  await provider.outcome(request)
  return vendor.requests[before]?.body.toString()
}

function minimal({ request: { model, stream } }: Transcript): object {
  const messages = [{ role: 'user', content: 'Say hello.' }]
  return {
    ...(model !== undefined && { model }),
    messages,
    ...(stream !== undefined && { stream }),
  }
}
