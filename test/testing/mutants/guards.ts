/** A local guard as one function, a local guard with methods, and faults in them. */
import { alone, mutant, type Family } from './play.ts'

const simple = `import * as v from 'valibot'
import { defineGuard } from 'sluicegate'

export default defineGuard({
  name: 'acme',
  options: v.object({}),
  setup(_options: any, host: any) {
    const number = /AB-\\d{6}(?!\\d)/
    return {
      enforces: ['x:acme/ticket'],
      execution: 'local',
      reach: 12,
      check(text: string) {
        const start = text.search(number)
        return start < 0 ? undefined : { start, end: start + 9 }
      },
      close() {},
    }
  },
})
`
const cases = {
  'tickets.json': JSON.stringify({
    texts: [
      { text: 'AB-1234567 and AB-12345 are no tickets.', expect: 'pass' },
      { text: 'See AB-123456.', expect: 'x:acme/ticket', spans: [{ start: 4, end: 13 }] },
    ],
  }),
}

export const CHECKS: Family = {
  original: { code: simple, cases },
  mutants: [
    mutant('finds a part', 'input | cuts | output', '(?!\\d)', ''),
    mutant('has a wrong end', 'input', 'start + 9', 'start + 8'),
    mutant('reaches too short', 'cuts | hold-back | set up', 'reach: 12', 'reach: 4'),
    mutant('has a reach beyond all', 'set up', 'reach: 12', 'reach: 5000'),
    mutant(
      'has a global expression',
      'repeat | input | cuts | output',
      'const start = text.search(number)',
      'const found = all.exec(text); const start = found ? found.index : -1',
      'const number',
      'const all = /AB-\\d{6}(?!\\d)/g; const number',
    ),
    mutant(
      'looks at the beginning only',
      'pads',
      'text.search(number)',
      'text.slice(0, 40).search(number)',
    ),
    mutant(
      'needs a text in front',
      'pads | input | cuts',
      'text.search(number)',
      "(text.startsWith('See') ? text.search(number) : -1)",
    ),
    mutant(
      'counts from the end of pads',
      'pads',
      'return start < 0 ? undefined : {',
      'return start < 0 ? undefined : start > 50 ? { start: start - 1, end: start + 8 } : {',
    ),
    mutant(
      'gives a promise',
      'output | input | cuts',
      'check(text: string)',
      'async check(text: string)',
    ),
    mutant(
      'asks a model',
      'local | input | output | cuts',
      'const start = text',
      "void host.askModel('a/b', { messages: [] }, {}).catch(() => {}); const start = text",
    ),
    mutant(
      'starts a timer',
      'local',
      'const start = text',
      'setTimeout(() => {}, 0); const start = text',
    ),
    mutant(
      'blocks for another rule',
      'input | output',
      '{ start, end: start + 9 }',
      "{ start, end: start + 9, rule: 'deny:code' }",
    ),
    mutant('gives a place behind the text', 'input | output', 'end: start + 9', 'end: start + 900'),
    mutant('passes everything', 'input', 'start < 0 ? undefined', 'true ? undefined'),
    mutant(
      'blocks empty texts',
      'input',
      'const start = text',
      "if (text === '') return {}; const start = text",
    ),
    mutant(
      'throws for emoji',
      'pads',
      'const start = text',
      "if (text.includes('👋')) throw new Error('what?'); const start = text",
    ),
    mutant(
      'throws for long texts',
      'pads',
      'const start = text',
      "if (text.length > 5000) throw new Error('long'); const start = text",
    ),
    mutant(
      'remembers the last text',
      'repeat | input | cuts | interleaved',
      'const start = text',
      'if (text === last) return undefined; last = text; const start = text',
      'const number',
      "let last = ''; const number",
    ),
    mutant('has no rule', 'set up', "['x:acme/ticket']", "['ticket']"),
    mutant('has no method', 'set up', 'check(text', 'checks(text'),
    mutant('never closes', 'close', 'close() {}', 'close() { return new Promise(() => {}) }'),
    alone(
      'is quadratic',
      'time',
      'const start = text',
      'for (let i = 0; i < text.length; i += 8) text.slice(i).split("").length; const start = text',
    ),
    alone(
      'keeps texts',
      'memory',
      'const start = text',
      'kept.push(text + "!", Array.from(text)); const start = text',
      'const number',
      'const kept: any[] = []; const number',
    ),
    alone(
      'leaves an interval',
      'handles',
      'const number',
      'setInterval(() => {}, 100); const number',
    ),
    alone(
      'loops',
      'input',
      'const start = text',
      "if (text.includes('AB-123456.')) for (;;); const start = text",
    ),
    alone(
      'logs to the console',
      'console',
      'const start = text',
      'console.log(text.length); const start = text',
    ),
  ],
}

const methods = `import * as v from 'valibot'
import { defineGuard } from 'sluicegate'

const WORD = 'forbidden'
const RULE = 'deny:code'
const block = (start: number) => ({ action: 'block', rule: RULE, spans: [{ start, end: start + WORD.length }] })

export default defineGuard({
  name: 'acme',
  options: v.object({}),
  setup() {
    return {
      enforces: ['deny:code', 'deny:math'],
      execution: 'local',
      checkInput: (items: any, { rules }: any) =>
        items.map(({ text }: any) => {
          const start = rules.deny.includes('code') ? text.indexOf(WORD) : -1
          return start < 0 ? { action: 'pass' } : block(start)
        }),
      streamOutput() {
        let tail = ''
        let safe = 0
        const look = (kept: number) => {
          const start = tail.indexOf(WORD)
          if (start >= 0) return { safeOffset: safe + start, verdict: block(safe + start) }
          const gone = Math.max(0, tail.length - kept)
          tail = tail.slice(gone)
          safe += gone
          return { safeOffset: safe }
        }
        return {
          push(piece: string) {
            tail += piece
            return look(WORD.length - 1)
          },
          end: () => look(0),
        }
      },
    }
  },
})
`

export const STREAMS: Family = {
  original: {
    code: methods,
    cases: {
      'words.json': JSON.stringify({
        texts: [
          { text: 'Nothing to see here.', expect: 'pass' },
          { text: 'It is forbidden.', expect: 'deny:code', spans: [{ start: 6, end: 15 }] },
        ],
      }),
    },
  },
  mutants: [
    mutant('releases at once', 'hold-back | cuts', 'look(WORD.length - 1)', 'look(0)'),
    mutant('releases one too many', 'hold-back | cuts', 'WORD.length - 1', 'WORD.length - 2'),
    mutant(
      'releases with the block',
      'hold-back',
      '{ safeOffset: safe + start, verdict',
      '{ safeOffset: safe + tail.length, verdict',
    ),
    mutant('releases nothing until the end', 'release', 'look(WORD.length - 1)', 'look(1e9)'),
    mutant(
      'takes back',
      'cuts | release | hold-back | output',
      'return { safeOffset: safe }',
      'return { safeOffset: Math.max(0, safe - (safe % 7)) }',
    ),
    mutant(
      'releases more than there is',
      'cuts | output',
      'return { safeOffset: safe }',
      'return { safeOffset: safe + 50 }',
    ),
    mutant(
      'releases fractions',
      'cuts | output | release',
      'return { safeOffset: safe }',
      'return { safeOffset: safe + 0.5 }',
    ),
    mutant('keeps the end', 'output | cuts', 'end: () => look(0)', 'end: () => look(4)'),
    mutant(
      'shares its state',
      'interleaved | cuts | output',
      "        let tail = ''\n        let safe = 0\n",
      '',
      'setup() {',
      "setup() {\n    let tail = ''\n    let safe = 0",
    ),
    mutant(
      'judges pieces',
      'cuts | hold-back',
      'tail += piece',
      'safe += tail.length; tail = piece',
    ),
    mutant(
      'leaves the last text out',
      'input',
      'items.map(({ text }',
      'items.slice(0, 1).map(({ text }',
    ),
    mutant(
      'judges all together',
      'input | repeat',
      'text.indexOf(WORD) : -1',
      "items.map((one: any) => one.text).join('').indexOf(WORD) : -1",
    ),
    mutant(
      'turns verdicts round',
      'input',
      "return start < 0 ? { action: 'pass' } : block(start)\n        })",
      "return start < 0 ? { action: 'pass' } : block(start)\n        }).map((verdict: any, i: number, all: any) => all[(i + 1) % all.length])",
    ),
    mutant(
      'does not look at the rules',
      'in force',
      "rules.deny.includes('code') ? text.indexOf(WORD) : -1",
      'text.indexOf(WORD)',
    ),
    mutant(
      'gives promises',
      'output | cuts',
      'push(piece: string) {',
      'async push(piece: string) {',
    ),
    mutant(
      'gives what is thenable',
      'output | cuts',
      'return look(WORD.length - 1)',
      'const p: any = look(WORD.length - 1); return { then: (f: any) => f(p), safeOffset: p.safeOffset }',
    ),
    mutant('changes the texts', 'input', 'items.map(({ text }', 'items.sort().map(({ text }'),
    mutant(
      'has another place on streams',
      'hold-back | pads | output | cuts',
      'verdict: block(safe + start) }',
      'verdict: block(Math.max(0, safe + start - 3)) }',
    ),
    mutant('passes answers', 'output', 'if (start >= 0) return', 'if (start >= 1e9) return'),
    mutant(
      'blocks without a rule',
      'input | output',
      "action: 'block', rule: RULE,",
      "action: 'block',",
    ),
    alone(
      'is quadratic on streams',
      'time',
      'tail += piece',
      "all += piece; [...all].join('').indexOf(WORD); tail += piece",
      "let tail = ''",
      "let all = ''\n        let tail = ''",
    ),
  ],
}
