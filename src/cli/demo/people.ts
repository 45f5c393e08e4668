/** The users of the gateway in the demo: accounts, their keys, and the models of each key. */
/** The part of a policy that the demo's calls can violate, and more. */
export interface DemoPolicy {
  readonly deny?: readonly string[]
  readonly bannedPatterns?: readonly string[]
}

export interface DemoKey {
  readonly id: string
  readonly name: string
  /** Its share of all calls, relative to the others. */
  readonly weight: number
  readonly models: Readonly<Record<string, number>>
  readonly agent: string
  /** Whether people use it, by day and on weekdays, or a program. */
  readonly rhythm: 'office' | 'even'
  readonly policy?: DemoPolicy
  /** The distance of its cap from its spend. */
  readonly cap?: number
  readonly disabled?: true
  /** Days before now of its last call. */
  readonly endedDaysAgo?: number
}

export interface DemoAccount {
  readonly id: string
  readonly name: string
  /** The balance in USD; undefined on the free tier. */
  readonly left?: string
  readonly keys: readonly DemoKey[]
}

const CHATTING = { 'demo/atlas-small': 6, 'demo/atlas-large': 3, 'demo/polaris': 1 }
const CODING = { 'demo/meridian': 7, 'demo/polaris': 2, 'demo/atlas-small': 1 }
const SUPPORT_POLICY = {
  version: 1,
  maxOutputTokens: 800,
  deny: ['medical', 'legal'],
}
const TUTOR_POLICY = { version: 1, maxOutputTokens: 1200, bannedPatterns: ['answer key'] }

export const ACCOUNTS: readonly DemoAccount[] = [
  {
    id: 'northwind',
    name: 'Northwind Traders',
    left: '412.5',
    keys: [
      key('nw-support', 'Support desk', 22, CHATTING, 'openai/js 7.0', {
        policy: SUPPORT_POLICY,
      }),
      key('nw-search', 'Search index', 18, { 'demo/compass': 1 }, 'openai/python 2.1', {
        rhythm: 'even',
      }),
      key('nw-images', 'Catalogue pictures', 3, { 'demo/easel': 1 }, 'openai/python 2.1', {
        cap: 1.03,
      }),
    ],
  },
  {
    id: 'harbor',
    name: 'Harbor Software',
    left: '1280',
    keys: [
      key('hb-code', 'Coding assistants', 20, CODING, 'claude-cli/2.0', {}),
      key('hb-review', 'Review bot', 8, CODING, 'ai-sdk/6.0', { rhythm: 'even' }),
      key('hb-old', 'Prototype', 2, CHATTING, 'curl/8.5', { disabled: true, endedDaysAgo: 12 }),
    ],
  },
  {
    id: 'lumen',
    name: 'Lumen School',
    left: '58.2',
    keys: [
      key('lm-tutor', 'Tutor', 9, CHATTING, 'langchain/1.0', { policy: TUTOR_POLICY }),
      key('lm-audio', 'Read aloud', 5, { 'demo/echo-voice': 1 }, 'node', {}),
      key('lm-summer', 'Summer course', 2, CHATTING, 'langchain/1.0', { endedDaysAgo: 18 }),
    ],
  },
  {
    id: 'ferry',
    name: 'Ferry Podcasts',
    left: '0.37',
    keys: [
      key('fp-minutes', 'Transcripts', 4, { 'demo/logbook': 1 }, 'python-httpx/0.28', {
        rhythm: 'even',
      }),
      key('fp-notes', 'Show notes', 3, { 'demo/atlas-small': 1 }, 'openai/python 2.1', {}),
    ],
  },
  {
    id: 'meadow',
    name: 'Meadow Lab',
    keys: [key('md-try', 'First steps', 4, { 'demo/sextant-free': 1 }, 'openai/js 7.0', {})],
  },
]

function key(
  id: string,
  name: string,
  weight: number,
  models: DemoKey['models'],
  agent: string,
  rest: Partial<DemoKey>,
): DemoKey {
  return { id, name, weight, models, agent, rhythm: 'office', ...rest }
}
