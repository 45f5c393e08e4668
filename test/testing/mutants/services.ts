/** A guard that asks a service, and faults in it. */
import { alone, mutant, type Family } from './play.ts'

const code = `import * as v from 'valibot'
import { defineGuard } from 'sluicegate'

export default defineGuard({
  name: 'acme',
  options: v.strictObject({ baseURL: v.string(), apiKey: v.string() }),
  setup({ baseURL, apiKey }: any, host: any) {
    const headers = { authorization: \`Bearer \${apiKey}\`, 'content-type': 'application/json' }
    const verdictOn = async (text: string, signal: AbortSignal) => {
      const body = host.json({ text })
      const response = await host.request({ url: baseURL + '/judge', headers, body, signal })
      const answer = await host.readJson(response)
      if (typeof answer.flagged !== 'boolean') throw host.fail('upstream_error', 'No verdict.')
      return answer.flagged ? { action: 'block', rule: 'x:acme/harm' } : { action: 'pass' }
    }
    return {
      enforces: ['x:acme/harm'],
      execution: 'remote',
      checkInput: (items: any, { signal }: any) => Promise.all(items.map(({ text }: any) => verdictOn(text, signal))),
      checkOutput: ({ text }: any, { signal }: any) => verdictOn(text, signal),
    }
  },
})
`
const answer = (flagged: boolean) =>
  `HTTP/1.1 200 OK\ncontent-type: application/json\n\n${JSON.stringify({ id: 'j1', flagged })}`

export const SERVICES: Family = {
  original: {
    code,
    cases: {
      'good.json': JSON.stringify({ texts: [{ text: 'Good morning.', expect: 'pass' }] }),
      'good.http': answer(false),
      'bad.json': JSON.stringify({ texts: [{ text: 'Do harm.', expect: 'x:acme/harm' }] }),
      'bad.http': answer(true),
    },
  },
  mutants: [
    mutant(
      'takes what is missing for a pass',
      'verdicts | down',
      "if (typeof answer.flagged !== 'boolean') throw host.fail('upstream_error', 'No verdict.')",
      '',
    ),
    mutant(
      'takes null for a pass',
      'verdicts',
      "typeof answer.flagged !== 'boolean'",
      "answer.flagged === undefined || typeof answer.flagged === 'string' || typeof answer.flagged === 'number'",
    ),
    mutant(
      'takes texts for a pass',
      'verdicts',
      "typeof answer.flagged !== 'boolean'",
      'answer.flagged === undefined || answer.flagged === null',
      'return answer.flagged ?',
      'return answer.flagged === true ?',
    ),
    mutant(
      'passes when the service is down',
      'down',
      'const verdictOn = async',
      "const verdictOn = (text: string, signal: AbortSignal) => judge(text, signal).catch(() => ({ action: 'pass' }))\n    const judge = async",
    ),
    mutant(
      'passes answers when the service is down',
      'down',
      'verdictOn(text, signal),\n',
      "verdictOn(text, signal).catch(() => ({ action: 'pass' })),\n",
    ),
    mutant(
      'takes any status',
      'down',
      'await host.readJson(response)',
      'await response.text().then((all: string) => { try { return JSON.parse(all) } catch { return { flagged: false } } })',
    ),
    mutant(
      'passes refusals',
      'down',
      'const answer = await',
      "if (response.status >= 400) return { action: 'pass' }\n      const answer = await",
    ),
    mutant(
      'gives no signal',
      'cancel',
      'body, signal })',
      'body, signal: new AbortController().signal })',
    ),
    mutant(
      'asks twice',
      'once',
      'const answer = await',
      'await (await host.request({ url: baseURL, headers, body, signal })).text()\n      const answer = await',
    ),
    mutant(
      'asks by itself',
      'once | input',
      "const response = await host.request({ url: baseURL + '/judge', headers, body, signal })\n      const answer = await host.readJson(response)",
      "const response = await fetch(baseURL + '/judge', { method: 'POST', headers, body, signal })\n      if (!response.ok) throw host.fail('upstream_error')\n      const answer: any = await response.json()",
    ),
    mutant('turns the verdict round', 'input', 'answer.flagged ?', '!answer.flagged ?'),
    mutant(
      'blocks for no rule of its own',
      'input | output',
      "rule: 'x:acme/harm' }",
      "rule: 'deny:legal' }",
    ),
    mutant('says that it is local', 'output | input', "execution: 'remote'", "execution: 'local'"),
    mutant(
      'checks requests alone well',
      'output',
      '=> verdictOn(text, signal),\n',
      "=> ({ action: 'pass' }),\n",
    ),
    alone(
      'leaves a socket',
      'own connections | handles',
      'const headers',
      "connect(9, '127.0.0.1').on('error', () => {})\n    const headers",
      'import * as v',
      "import { connect } from 'node:net'\nimport * as v",
    ),
    alone(
      'leaves a timer',
      'handles',
      'const headers',
      'setInterval(() => {}, 500)\n    const headers',
    ),
  ],
}
