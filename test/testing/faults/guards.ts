/** Guards with one fault each. */
import { fault } from './bases.ts'

const CHECK = 'const start = text.search(number)'
const INPUT = 'checkInput: (items) => items.map(({ text }) => verdictOn(spanIn(text))),'
const PUSH = 'push: (piece) => look(piece, LONGEST)'
const LOOK = 'const text = tail + piece'
const FOUND = 'return start < 0 ? undefined : { start, end: start + prefix.length + 7 }'
const SCAN =
  'return { push: (text) => toProgress(scan.push(text)), end: () => toProgress(scan.end()) }'
const SCORE = "if (typeof score !== 'number') throw host.fail('upstream_error')"
const REQUEST = 'host.request({ url, headers, body, signal })'
const JUDGE = 'return score < threshold ? undefined : { score }'

/** Guards that stop looking. */
const BLIND = [
  ...[5_000, 15_000, 100_000].flatMap((limit) => [
    fault('check', 'pads', `reads the first ${limit} characters`, [
      [CHECK, `const start = text.slice(0, ${limit}).search(number)`],
    ]),
    fault('cards', 'pads', `reads the first ${limit} characters of an answer`, [
      [LOOK, `const text = seen > ${limit} ? '' : tail + piece`],
    ]),
  ]),
  fault('check', 'pads', 'reads the last 5,000 characters', [
    [
      CHECK,
      'const from = Math.max(0, text.length - 5_000)\n      const at = text.slice(from).search(number)\n      const start = at < 0 ? at : at + from',
    ],
  ]),
  fault('cards', 'pads', 'reads the last 10,000 characters of a request', [
    [
      'verdictOn(spanIn(text))',
      'verdictOn(text.length > 10_000 && spanIn(text.slice(-10_000)) === undefined ? undefined : spanIn(text))',
    ],
  ]),
  fault('check', 'pads', 'long texts pass', [
    [CHECK, 'if (text.length > 8_000) return\n      ' + CHECK],
  ]),
  fault('cards', 'pads', 'long requests pass', [
    ['verdictOn(spanIn(text))', 'verdictOn(text.length > 15_000 ? undefined : spanIn(text))'],
  ]),
  fault('stream', 'pads', 'an answer is read up to 4,000 pieces', [
    ['const scan = matcher.scan()', 'const scan = matcher.scan()\n        let pieces = 0'],
    [
      'push: (text) => toProgress(scan.push(text))',
      "push: (text) => toProgress(scan.push(pieces++ > 4_000 ? '-'.repeat(text.length) : text))",
    ],
  ]),
  fault('cards', 'pads', 'texts outside of the BMP pass', [
    [
      'function spanIn(text: string, from = 0) {',
      'function spanIn(text: string, from = 0) {\n  if (/\\p{Emoji_Presentation}/u.test(text)) return',
    ],
  ]),
  fault('cards', 'pads', 'only at the beginning of a request', [
    ['verdictOn(spanIn(text))', 'verdictOn(spanIn(text.slice(0, 40)))'],
  ]),
  fault('check', ['pads', 'input'], 'the place is that in the trimmed text', [
    [CHECK, 'const start = text.trim().search(number)'],
  ]),
  fault('cards', ['pads', 'output'], 'the place is that in the window', [
    ['start: found.start + offset, end: found.end + offset', 'start: found.start, end: found.end'],
  ]),
  fault('check', 'pads', 'blanks are folded before the place is taken', [
    [CHECK, "const start = text.replaceAll(/\\s+/g, ' ').search(number)"],
  ]),
]

/** Wrong verdicts. */
const VERDICTS = [
  fault('check', 'input', 'the end is one too far', [
    ['prefix.length + 7 }', 'prefix.length + 8 }'],
  ]),
  fault('check', ['input', 'hold-back'], 'the start is one too late', [
    ['{ start, end:', '{ start: start + 1, end:'],
  ]),
  fault('check', 'input', 'numbers with more digits are found', [['(?!\\\\d)', '']]),
  fault('check', 'input', 'nothing is found', [[FOUND, 'return undefined']]),
  fault('check', 'input', 'all is found', [
    [FOUND, 'return { start: 0, end: text.length, reason: String(start) }'],
  ]),
  fault('cards', 'input', 'a card in groups is missed in requests', [
    ['verdictOn(spanIn(text))', 'verdictOn(/\\d \\d/.test(text) ? undefined : spanIn(text))'],
  ]),
  fault('cards', 'input', 'only the first text is read', [
    [
      'items.map(({ text }) => verdictOn(spanIn(text)))',
      'items.map(({ text }, index) => verdictOn(index > 0 ? undefined : spanIn(text)))',
    ],
  ]),
  fault('cards', 'input', 'verdicts of texts that pass are left out', [
    [
      INPUT,
      "checkInput: (items) => items.map(({ text }) => verdictOn(spanIn(text))).filter(({ action }) => action === 'block'),",
    ],
  ]),
  fault('cards', 'input', 'verdicts in reverse', [
    [INPUT, INPUT.replace(')),', ')).toReversed(),')],
  ]),
  fault('cards', 'input', 'one card blocks all texts', [
    [
      INPUT,
      'checkInput: (items) => items.map(() => verdictOn(items.map(({ text }) => spanIn(text)).find(Boolean))),',
    ],
  ]),
  fault('cards', ['input', 'output'], 'another rule than it enforces', [
    ['rule: RULE', "rule: 'x:my-guard/other'"],
  ]),
  fault('cards', 'input', 'an empty text is blocked', [
    ['verdictOn(spanIn(text))', 'verdictOn(text ? spanIn(text) : { start: 0, end: 0 })'],
  ]),
  fault('cards', 'output', 'answers pass', [
    [PUSH, 'push: (piece) => ({ safeOffset: (seen += piece.length) })'],
    ["end: () => look('', 0)", 'end: () => ({ safeOffset: seen })'],
  ]),
  fault(
    'cards',
    'output',
    'a card at the end of an answer passes',
    [["end: () => look('', 0)", 'end: () => ({ safeOffset: seen })']],
    {
      cases: {
        'end.json': JSON.stringify({
          texts: [
            {
              text: 'It is 4111111111111111',
              expect: 'x:my-guard/card',
              spans: [{ start: 6, end: 22 }],
            },
          ],
        }),
      },
    },
  ),
  fault('cards', 'output', 'a local guard returns promises', [
    [PUSH, 'push: async (piece) => look(piece, LONGEST)'],
  ]),
  fault('cards', 'output', 'only its end is a promise', [
    ["end: () => look('', 0)", "end: async () => look('', 0)"],
  ]),
  fault('cards', 'output', 'agrees to less than the whole', [
    [
      "end: () => look('', 0)",
      "end: () => { const last = look('', 0); return last.verdict ? last : { safeOffset: Math.max(0, seen - 5) } }",
    ],
  ]),
  fault('cards', ['output', 'cuts', 'hold-back'], 'agrees to more than there is', [
    ['Math.max(0, seen - held) }', 'seen + 1 }'],
  ]),
  fault('cards', ['output', 'cuts', 'release', 'hold-back'], 'takes back what was safe', [
    [
      'if (!found) return { safeOffset: Math.max(0, seen - held) }',
      'if (!found) return { safeOffset: Math.max(0, seen % 7 === 0 && held > 0 ? 0 : seen - held) }',
    ],
  ]),
  fault('cards', ['output', 'cuts'], 'half characters are safe', [
    ['Math.max(0, seen - held) }', 'Math.max(0, seen - held - 0.5) }'],
  ]),
  fault('stream', 'output', 'blocks names in requests alone', [
    [
      SCAN,
      'let length = 0\n        return { push: (text) => ({ safeOffset: (length += text.length) }), end: () => ({ safeOffset: length }) }',
    ],
  ]),
  fault(
    'cards',
    ['in force', 'set up'],
    'a category that no policy denies',
    [
      ['enforces: [RULE]', "enforces: [RULE, 'deny:code']"],
      ['rule: RULE', "rule: 'deny:code'"],
    ],
    {
      cases: {
        'cards.json': JSON.stringify({
          texts: [
            { text: 'Order 12345678901234567 is no card.', expect: 'pass' },
            {
              text: 'My card 4111111111111111.',
              expect: 'deny:code',
              rules: { deny: ['code'] },
              spans: [{ start: 8, end: 24 }],
            },
          ],
        }),
      },
    },
  ),
]

/** What goes out before the block, and what depends on the cuts. */
const STREAMS = [
  fault('cards', 'hold-back', 'nothing is held back', [
    [
      PUSH,
      'push: (piece) => { const { verdict } = look(piece, LONGEST); return verdict ? { safeOffset: seen, verdict } : { safeOffset: seen } }',
    ],
  ]),
  fault('cards', 'hold-back', 'room for one form alone', [
    ['Math.max(0, seen - held) }', 'Math.max(0, seen - (held && 17)) }'],
  ]),
  fault(
    'cards',
    'hold-back',
    'the first two groups are given away',
    [['Math.max(0, seen - held) }', 'Math.max(0, seen - (held && 10)) }']],
    {
      cases: {
        'cards.json': JSON.stringify({
          texts: [
            { text: 'Order 12345678901234567 is no card.', expect: 'pass' },
            { text: '4111111111111111', expect: 'x:my-guard/card', spans: [{ start: 0, end: 16 }] },
            {
              text: 'Or 4111 1111 1111 1111, please.',
              expect: 'x:my-guard/card',
              spans: [{ start: 3, end: 22 }],
            },
          ],
        }),
      },
    },
  ),
  fault('cards', 'hold-back', 'groups with blanks are held back too late', [
    [
      'if (!found) return { safeOffset: Math.max(0, seen - held) }',
      'if (!found) return { safeOffset: Math.max(0, seen - (/\\d \\d/.test(text.slice(-12)) && held > 0 ? 5 : held)) }',
    ],
  ]),
  fault('stream', 'hold-back', 'one character too few is held back', [
    ['safeOffset, match }: ScanProgress', 'safeOffset: safe, match }: ScanProgress'],
    ['      match\n', '      ((safeOffset) => match\n'],
    [': { safeOffset }\n', ': { safeOffset })(safe === 0 ? safe : safe + 1)\n'],
  ]),
  fault('cards', 'release', 'all is held back until the end', [
    ['Math.max(0, seen - held) }', 'held > 0 ? 0 : seen }'],
  ]),
  fault('cards', 'release', '5,000 characters are held back', [
    ['Math.max(0, seen - held) }', 'Math.max(0, seen - (held && 5_000)) }'],
  ]),
  fault('cards', 'interleaved', 'one tail for all answers', [
    ["        let tail = ''\n", ''],
    ['function spanIn', "let tail = ''\n\nfunction spanIn"],
  ]),
  fault('cards', 'interleaved', 'one count for all answers', [
    ['        let seen = 0\n', ''],
    ['    return {\n      enforces', '    let seen = 0\n    return {\n      enforces'],
  ]),
  fault('cards', 'cuts', 'each piece is read alone', [
    [LOOK, 'tail = ""\n          const text = piece'],
  ]),
  fault(
    'cards',
    'cuts',
    'a number at the end of a piece is complete',
    [['if (held > 0 && span.end === seen) return { safeOffset }', '']],
    {
      cases: {
        'long.json': JSON.stringify({
          texts: [{ text: 'No. 41111111111111112 is long.', expect: 'pass' }],
        }),
      },
    },
  ),
  fault('cards', ['cuts', 'pads'], 'fails on half a character', [
    [LOOK, "if (!piece.isWellFormed()) throw new Error('half a character')\n          " + LOOK],
  ]),
  fault('check', ['cuts', 'pads', 'output'], 'the reach is too short', [
    ['reach: prefix.length + 8', 'reach: 4'],
  ]),
]

/** Guards that ask a service. */
const SERVICES = [
  fault('remote', 'down', 'a service that is down is a pass', [
    [
      'const response = await ' + REQUEST,
      'const response = await ' +
        REQUEST +
        '.catch(() => undefined)\n        if (!response) return',
    ],
  ]),
  fault('remote', 'down', 'a refusal is a pass', [
    ['const { score } =', 'if (response.status >= 400) return\n        const { score } ='],
  ]),
  fault('remote', 'down', 'a server error is a pass', [
    ['const { score } =', 'if (response.status >= 500) return\n        const { score } ='],
  ]),
  fault('remote', 'down', 'garbage is a pass', [
    ['await host.readJson(response)', 'await host.readJson(response).catch(() => ({ score: 0 }))'],
  ]),
  fault('remote', 'verdicts', 'a score that is missing is a pass', [[SCORE, '']]),
  fault('remote', 'verdicts', 'a score that is null is 0', [
    [SCORE, "if (score !== null && typeof score !== 'number') throw host.fail('upstream_error')"],
  ]),
  fault('remote', 'verdicts', 'a score that is a text is a pass', [
    [SCORE, "if (typeof score === 'string') return\n        " + SCORE],
  ]),
  fault('remote', ['cancel', 'signal'], 'asks without the signal', [
    [REQUEST, REQUEST.replace('signal', 'signal: new AbortController().signal')],
  ]),
  fault('remote', 'once', 'asks twice', [
    ['const response =', `await (await ${REQUEST}).text()\n        const response =`],
  ]),
  fault('remote', ['own connections', 'once'], 'fetch in place of the host', [
    [
      'const { score } = await host.readJson(response)',
      "await response.text()\n        const { score } = await (await fetch(url, { method: 'POST', headers, body, signal })).json()",
    ],
  ]),
  fault('remote', ['input', 'output'], 'the threshold is the other way round', [
    [JUDGE, JUDGE.replace('<', '>')],
  ]),
  fault('remote', 'output', 'answers are not asked about', [
    [
      'const body = host.json',
      "if (item.side === 'output') return\n        const body = host.json",
    ],
    ['check(text, { signal })', 'check(text, { signal, item })'],
  ]),
  fault('remote', 'local', 'says it is local', [
    ["'remote'", "'local'"],
    [
      'async check(text, { signal }) {',
      'check(text: string, { signal }: any) {\n        void host.request({ url, headers, body: text, signal }).then((response) => response.text()).catch(() => {})\n        if (text.length < 1) void threshold\n        return /fool/.test(text) ? {} : undefined\n      },\n      async checks(text: string, { signal }: any) {',
    ],
  ]),
  fault('remote', ['input', 'output'], 'a promise that never settles', [
    [JUDGE, 'return new Promise<any>(() => {})'],
  ]),
  fault('remote', ['own connections', 'once', 'console'], 'asks in a timer as well', [
    [
      'const body = host.json({ text })',
      "const body = host.json({ text })\n        setTimeout(() => void fetch(url, { method: 'POST', body }).catch(() => {}), 5)",
    ],
  ]),
]

/** What a guard leaves behind, and how long it takes. */
const CONDUCT = [
  fault('cards', 'local', 'starts a timer', [
    [
      INPUT,
      INPUT.replace('=> items', '=> (setTimeout(() => {}, 1), items)')
        .replace('verdictOn(spanIn(text)))', 'verdictOn(spanIn(text))))')
        .replace('))))', ')))'),
    ],
  ]),
  fault('check', 'local', 'asks a service', [
    ['options: v.strictObject({', 'options: v.strictObject({ url: v.pipe(v.string(), v.url()),'],
    ['setup({ prefix }) {', 'setup({ prefix, url }, host) {'],
    [
      CHECK,
      "host.request({ url, method: 'GET', signal: AbortSignal.timeout(1000) }).then((response) => response.text(), () => {})\n      " +
        CHECK,
    ],
  ]),
  fault('cards', 'uncaught', 'a timer that throws after the request', [
    [
      INPUT,
      "checkInput(items) { setTimeout(() => { throw new Error('late') }, 50); return items.map(({ text }) => verdictOn(spanIn(text))) },",
    ],
  ]),
  fault('cards', 'uncaught', 'a promise without a handler', [
    [
      INPUT,
      "checkInput(items) { void Promise.reject(new Error('no handler')); return items.map(({ text }) => verdictOn(spanIn(text))) },",
    ],
  ]),
  fault('check', 'repeat', 'an expression with memory', [
    ['\\\\d)`)', "\\\\d)`, 'y')"],
    [
      CHECK,
      'number.lastIndex = lastIndex\n      const start = number.test(text) ? 0 : text.search(new RegExp(number.source))\n      lastIndex = number.lastIndex',
    ],
    ['const check =', 'let lastIndex = 0\n    let times = 0\n    const check ='],
    [FOUND, 'if (start >= 0 && ++times % 5 === 0) return undefined\n      ' + FOUND],
  ]),
  fault('cards', ['repeat', 'input', 'pads'], 'a card is found once', [
    [
      'function spanIn(text: string, from = 0) {',
      'const known = new Set<string>()\n\nfunction spanIn(text: string, from = 0) {\n  if (from === 0 && known.size < 50 && known.size === known.add(text).size) return',
    ],
  ]),
  fault('check', 'time', 'looks from each place to the end', [
    [
      CHECK,
      "for (let at = 0; at < text.length; at++) if (text.indexOf('\\u0000', at) >= 0) return\n      " +
        CHECK,
    ],
  ]),
  fault('cards', 'time', 'reads the whole answer with each piece', [
    ["        let tail = ''", "        let tail = ''\n        let all = ''"],
    [
      LOOK,
      "all += piece\n          if (all.split('').includes('\\u0000')) tail = ''\n          " + LOOK,
    ],
  ]),
  fault('cards', 'memory', 'one hundred bytes of each request are kept', [
    ['function spanIn', 'const kept: string[] = []\n\nfunction spanIn'],
    [
      INPUT,
      "checkInput(items) { kept.push(`${kept.length}`.padEnd(100, 'k').split('').join('')); return items.map(({ text }) => verdictOn(spanIn(text))) },",
    ],
  ]),
  fault('check', 'memory', 'the id of each call is kept', [
    [
      'const check = (text: string) => {',
      'const seen = new Map<string, number>()\n    const check = (text: string) => {\n      seen.set(`${seen.size}`, Date.now())',
    ],
  ]),
  fault('check', 'console', 'writes to the console', [
    [CHECK, "console.error('looked')\n      " + CHECK],
  ]),
  fault('check', 'handles', 'a timer that goes on', [
    ['    const check =', '    setInterval(() => {}, 1000)\n    const check ='],
  ]),
  fault('check', 'close', 'close throws', [
    ['reach: prefix.length + 8', "reach: prefix.length + 8, close() { throw new Error('busy') }"],
  ]),
  fault('remote', 'close', 'close does not end', [
    [
      "execution: 'remote',",
      "execution: 'remote',\n      close: () => new Promise<void>(() => {}),",
    ],
  ]),
  fault('check', ['cases', 'input'], 'no cases', [], { noCases: true }),
  fault(
    'cards',
    ['input', 'output', 'pads', 'cuts'],
    'a loop on long digits',
    [
      [
        'function spanIn(text: string, from = 0) {',
        "function spanIn(text: string, from = 0) {\n  if (text.includes('12345678901234567')) for (;;);",
      ],
    ],
    { endless: true },
  ),
  fault('check', 'set up', 'a rule that there is not', [
    ["'x:my-guard/ticket'", "'tickets' as any"],
  ]),
  fault('check', 'set up', 'no method', [['8, check }', '8 }']]),
  fault('cards', ['input', 'output'], 'an error in place of a verdict', [
    [
      "if (!span) return { action: 'pass' } as const",
      "if (!span) throw new Error('nothing to see')",
    ],
  ]),
  fault('cards', ['output', 'cuts'], 'answers of many pieces fail', [
    [
      LOOK,
      "if (seen > 10 && piece.length === 1) throw new Error('too many pieces')\n          " + LOOK,
    ],
  ]),
]

export const GUARDS = [...BLIND, ...VERDICTS, ...STREAMS, ...SERVICES, ...CONDUCT]
