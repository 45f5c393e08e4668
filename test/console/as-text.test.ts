/** What a form would send, as YAML and as a command: read again, it is the same. */
import { execFileSync } from 'node:child_process'
import { parseYAML } from 'confbox/yaml'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { curl, yaml } from '../../src/console/parts/as-text.ts'

it('YAML of a value is read as that value', () => {
  fc.assert(
    fc.property(
      fc.dictionary(fc.string({ minLength: 1 }), fc.jsonValue({ maxDepth: 4 }), { minKeys: 1 }),
      (object) => {
        // What the configuration reads as a variable is escaped.
        const plain = JSON.parse(JSON.stringify(object))
        fc.pre(!/__proto__|\$\{/.test(JSON.stringify(object)))
        expect(parseYAML(yaml(plain))).toEqual(plain)
      },
    ),
    { numRuns: 300 },
  )
})

it('a secret is a variable of the configuration and of the shell', () => {
  const options = { apiKey: '${ACME_API_KEY}', note: "it's ${HOME}" }
  expect(yaml({ options })).toBe('options:\n  apiKey: "${ACME_API_KEY}"\n  note: "it\'s $${HOME}"')
  const command = curl({ method: 'POST', path: '/admin/managed', body: options }, 'http://h')
  const shown = execFileSync('sh', ['-c', command.replace(/^curl/, 'printf "%s\\n"')], {
    encoding: 'utf8',
    env: { ...process.env, ACME_API_KEY: 'of-acme', HOME: '/never' },
  })
  expect(JSON.parse(shown.trim().split('\n').at(-1)!)).toEqual({
    apiKey: 'of-acme',
    note: "it's ${HOME}",
  })
})
