/** Completion in a real bash and a real zsh: each word, each option and each fixed value of the table. */
import { execFileSync, spawnSync } from 'node:child_process'
import { describe, expect, it } from 'vitest'
import { COMMANDS } from '../../src/cli/commands.ts'
import { completion } from '../../src/cli/help.ts'

const SHELLS = [
  { shell: 'bash', flags: ['--norc', '-s'], before: '' },
  // Completion calls functions of bash in this mode.
  { shell: 'zsh', flags: ['-f', '-s'], before: 'emulate sh -o kshglob -o noshglob -o braceexpand' },
]
const isInstalled = (shell: string) => spawnSync(shell, ['--version']).status === 0

/** What a shell offers for lines whose last word is the one that is typed. */
function offered(
  { shell, flags, before }: (typeof SHELLS)[number],
  lines: readonly (readonly string[])[],
): (readonly string[])[] {
  const asked = lines.map(
    (words) =>
      `COMP_WORDS=(${words.map((word) => `'${word}'`).join(' ')}); COMP_CWORD=${words.length - 1}; _sluicegate; echo "\${COMPREPLY[*]}"`,
  )
  const input = `${completion(shell, COMMANDS)}\n${before}\n${asked.join('\n')}\n`
  const out = execFileSync(shell, flags, { input, encoding: 'utf8' })
  return out
    .trimEnd()
    .split('\n')
    .map((line, index) =>
      [...new Set(line.split(' '))].filter((word) => word.startsWith(lines[index]!.at(-1)!)),
    )
}

describe.each(SHELLS)('in $shell', (shell) => {
  it.skipIf(!isInstalled(shell.shell))(
    'has the options of every command, its verb, and fixed values',
    () => {
      const options = offered(
        shell,
        COMMANDS.map(({ name }) => ['sluicegate', ...name.split(' '), '', '--']),
      )
      const words = offered(
        shell,
        COMMANDS.map(({ name }) => ['sluicegate', ...name.split(' ').slice(0, -1), '']),
      )
      for (const [index, { name, options: own = {} }] of COMMANDS.entries()) {
        const missing = Object.keys({ ...own, help: {} }).filter(
          (option) => !options[index]!.includes(`--${option}`),
        )
        expect([name, missing]).toEqual([name, []])
        expect(words[index]).toContain(name.split(' ').at(-1))
      }
      const lines = [
        ['sluicegate', 'keys', 'update', 'laptop', '--log-content', ''],
        ['sluicegate', 'completion', 'b'],
      ]
      expect(offered(shell, lines)).toEqual([['on', 'off'], ['bash']])
    },
  )

  it('is a short script', () => {
    expect(completion(shell.shell, COMMANDS).split('\n').length).toBeLessThanOrEqual(61)
  })
})
