/** Checks that what a client sets, and every message, reaches the vendor. */
import { json } from '../fake-upstream.ts'
import { NO_UPSTREAM, type Fixture } from '../fixture.ts'
import { skipped, toCheck, type Check } from '../report.ts'
import { toTestRequest, type TestRequest } from '../requests.ts'
import type { Transcript } from '../transcripts.ts'

/** Two values of members that most vendors have a word for. */
const PROBES: Readonly<Record<string, readonly [unknown, unknown]>> = {
  max_completion_tokens: [2016, 2017],
  temperature: [0.25, 0.75],
  top_p: [0.25, 0.75],
  stop: [['one'], ['two']],
  seed: [17, 18],
  presence_penalty: [0.25, 0.75],
  frequency_penalty: [0.25, 0.75],
}

/** Texts of a conversation, each of which occurs nowhere else. */
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
const WORD = /zq\d/g
const MAX_DEPLOYMENTS = 4

/**
 * Checks each member of {@link PROBES} that the vendor is not said to ignore, and a conversation. A member has to have an
 * influence on one of the deployments at least: models differ in what they take.
 */
export async function checkForwarded(
  fixture: Fixture,
  cases: readonly Transcript[],
): Promise<Check> {
  const { ignores = [] } = fixture.provider.plugin
  const forwarded = new Set<string>()
  const problems: string[] = []
  let asked = false
  for (const like of deploymentsOf(cases)) {
    const sent = (members: object) => bodyOf(fixture, like, members)
    const plain = await sent({})
    if (plain === undefined) continue
    asked = true
    for (const [member, values] of Object.entries(PROBES)) {
      if (forwarded.has(member)) continue
      const bodies = [plain]
      for (const value of values) bodies.push((await sent({ [member]: value })) ?? 'refused')
      const differs = new Set(bodies).size === bodies.length || bodies.includes('refused')
      if (differs) forwarded.add(member)
    }
    problems.push(...conversationProblems(await sent({ messages: TURNS })))
  }
  if (!asked) return skipped('forwarded', null, NO_UPSTREAM)
  for (const member of Object.keys(PROBES)) {
    if (forwarded.has(member) !== ignores.includes(member)) continue
    problems.push(
      forwarded.has(member)
        ? `"${member}" is in "ignores", but it changes the request`
        : `"${member}" has no influence on the request`,
    )
  }
  return toCheck('forwarded', null, [...new Set(problems)])
}

/** A case for each deployment. */
function deploymentsOf(cases: readonly Transcript[]): Transcript[] {
  const keys = (one: Transcript) => JSON.stringify([one.request.model, one.deployment])
  return [...new Map(cases.map((one) => [keys(one), one])).values()].slice(0, MAX_DEPLOYMENTS)
}

/** Whether each text arrives once, and in the order of the conversation. Instructions may stand anywhere. */
function conversationProblems(body: string | undefined): string[] {
  if (body === undefined) return []
  const found: string[] = body.match(WORD) ?? []
  const wanted = JSON.stringify(TURNS).match(WORD)!
  const lost = wanted.filter((word) => !found.includes(word))
  if (lost.length > 0) {
    const texts = TURNS.flatMap(({ content }) =>
      typeof content === 'string' ? content : content.map(({ text }) => text),
    )
    const which = texts.filter((text) => lost.some((word) => text.includes(word)))
    return [
      `of a conversation these texts do not arrive: ${which.map((text) => JSON.stringify(text)).join(', ')}`,
    ]
  }
  if (found.length > wanted.length) return ['a text of a conversation arrives more than once']
  const [instruction] = wanted
  const turns = found.filter((word) => word !== instruction)
  const inOrder = turns.every((word, i) => word === wanted[i + 1])
  return inOrder ? [] : ['the messages of a conversation arrive in another order']
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
