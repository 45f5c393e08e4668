/** Files of operators that stand for more than they look like. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { loadConfig } from '../../src/config/config.ts'
import { watchConfig } from '../../src/config/watch.ts'
import { folder } from '../_folder.ts'
import { eventually } from '../_wait.ts'

/** Nine lists of nine times the one before: 9⁹ values in a few hundred bytes. */
const BOMB = Array.from(
  { length: 9 },
  (_, i) =>
    `a${i}: &a${i} [${Array(9)
      .fill(i === 0 ? 'x' : `*a${i - 1}`)
      .join(', ')}]`,
).join('\n')
const TOO_MANY = 'has more than 1000000 values, aliases included'
const TOO_DEEP = 'is nested deeper than 64 levels'

/** Each key would be the whole list as a text. */
const ALIAS_KEYS = ['- ? *a\n    : 1', '- *a : 1', '- { *a : 1 }', '- {b: 1, ? *a : 1}'].map(
  (entry): [string, string, string] => [
    'gateway.config.yaml',
    `a: &a [${'1, '.repeat(10_000)}1]\nl:\n${`  ${entry}\n`.repeat(50_000)}`,
    'has an alias as the key of a member',
  ],
)

describe('a file of an operator', () => {
  it.each([
    ['gateway.config.yaml', BOMB, TOO_MANY],
    ['gateway.config.yaml', `a: &a { b: *a }`, TOO_DEEP],
    ['gateway.config.yaml', `a: ${'['.repeat(65)}${']'.repeat(65)}`, TOO_DEEP],
    ['gateway.config.yaml', `a: ${'['.repeat(1_000_000)}`, TOO_DEEP],
    ...ALIAS_KEYS,
    ['gateway.config.json', `{"a":${'['.repeat(65)}${']'.repeat(65)}}`, TOO_DEEP],
    ['gateway.config.json', `{"a":[${'1,'.repeat(1_000_001)}1]}`, TOO_MANY],
    ['gateway.config.json', `{"a":"${'x'.repeat(16 * 1024 * 1024)}"}`, 'is larger than 16 MiB'],
  ])('that is too much is refused: %s %#', async (name, text, message) => {
    const cwd = await folder({ [name]: text })
    await expect(loadConfig({ cwd, env: {} })).rejects.toThrow(message)
  })

  it('is refused as the models file too, and a reload changes nothing', async () => {
    const cwd = await folder({
      'gateway.config.yaml': 'state: { driver: memory }',
      'models.yaml': '{}',
    })
    const loaded = await loadConfig({ cwd, env: {} })
    const [changes, errors]: unknown[][] = [[], []]
    const watcher = await watchConfig(
      loaded,
      (next) => changes.push(next),
      (error) => errors.push(String(error)),
      { cwd, env: {} },
    )
    await writeFile(join(cwd, 'models.yaml'), BOMB)
    await eventually(() => expect(errors.join()).toContain(`models.yaml is not valid`))
    expect(errors.join()).toContain(TOO_MANY)
    expect(changes).toEqual([])
    await watcher.close()
  })

  it('may have anchors, aliases and merges within the bounds', async () => {
    const cwd = await folder({
      'gateway.config.yaml': `
state: { driver: memory }
providers:
  one: &one { use: mock }
  two: { <<: *one, timeout: 5 }
  three: *one
  # A note on *one : no key.
`,
    })
    const { config } = await loadConfig({ cwd, env: {} })
    expect(config.providers.two).toMatchObject({ use: 'mock', timeout: 5 })
  })
})
