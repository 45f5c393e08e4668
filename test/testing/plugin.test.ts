/** What only a process of its own shows of a plugin. */
import { spawn } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { testPlugin } from '../../src/testing.ts'
import { patience } from '../_patience.ts'
import { folder } from '../_folder.ts'
import { eventually } from '../_wait.ts'

/** A guard whose `check` has one finding, and code of its own in places where plugins go wrong. */
const guardWith = ({ top = '', setup = '', check = '', close = '' }) => `
import * as v from 'valibot'
import { defineGuard } from 'sluicegate'
${top}
export default defineGuard({
  name: 'one',
  options: v.object({ apiKey: v.optional(v.string()) }),
  setup(options, host) {
    ${setup}
    return {
      enforces: ['x:one/word'],
      execution: 'local',
      reach: 20,
      check(text) {
        ${check}
        const start = text.indexOf('forbidden')
        return start < 0 ? undefined : { start, end: start + 9 }
      },
      close() { ${close} },
    }
  },
})
`
/** Keeps its thread for good, as an endless loop does, and leaves the processor to others. */
const STUCK = 'Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)'
const CASES = JSON.stringify({
  texts: [
    { text: 'Nothing to see.', expect: 'pass' },
    { text: 'It is forbidden.', expect: 'x:one/word', spans: [{ start: 6, end: 15 }] },
  ],
})

async function failedBy(parts: Parameters<typeof guardWith>[0], timeoutMs = 20_000) {
  const at = await folder({ 'one.mjs': guardWith(parts), 'one.cases/words.json': CASES })
  const { failed } = await testPlugin(join(at, 'one.mjs'), { timeoutMs })
  return failed.map(({ name, notes }) => `${name}: ${notes.join('; ')}`)
}

describe('a plugin in a process of its own', () => {
  it('is told what it prints, connects to, throws and leaves behind, and where', async () => {
    const failed = await failedBy({
      top: "import { connect } from 'node:net'",
      setup: `
        console.log('Ready.')
        setInterval(() => {}, 1000)
        connect(9, '127.0.0.1').on('error', () => {})
        Promise.reject(new Error('not awaited'))`,
    })
    expect(failed).toEqual([
      expect.stringMatching(/^console: one\.mjs:10:\d+: Ready\.$/),
      expect.stringMatching(/^own connections: .*\(one\.mjs:12:\d+\)/),
      expect.stringMatching(/^uncaught: Error: not awaited \(one\.mjs:13:\d+\)$/),
      expect.stringMatching(/^handles: .*Timeout \(one\.mjs:11:\d+\)/),
    ])
  })

  it('cannot hang the test with a loop, and cannot end it', async () => {
    const loop = await failedBy({ check: STUCK }, 1000)
    expect(loop).toEqual(['input: it kept the process busy for 3 s without a pause'])
    const exit = await failedBy({ check: 'process.exit(0)' })
    expect(exit).toEqual(['input: it ended the process with status 0'])
  })

  it('ends within its limit, and prints each check as it ends', async () => {
    const at = await folder({
      'one.mjs': guardWith({ check: `if (text.includes('forbidden')) ${STUCK}` }),
      'one.cases/words.json': CASES,
    })
    const ended: string[] = []
    // The first checks have to end within it, on a busy machine too.
    const limitMs = 5000 * Math.ceil(patience())
    const { failed } = await testPlugin(join(at, 'one.mjs'), {
      limitMs,
      timeoutMs: 60_000,
      onStart: ({ kind, name }) => void ended.push(`${kind} ${name}`),
      onCheck: ({ name, on }) => void ended.push([name, on].join(' ')),
    })
    expect(failed.map(({ notes }) => notes[0])).toEqual([
      `the run has taken its ${limitMs / 1000} s`,
    ])
    expect(ended.slice(0, 3)).toEqual(['guard one', 'set up ', 'input words 1'])
  })

  it('is not left behind when the caller is killed, even by a loop', async () => {
    const at = await folder({
      'one.mjs': guardWith({
        top: "import { writeFileSync } from 'node:fs'",
        check: "writeFileSync(new URL('pid', import.meta.url), String(process.pid)); for (;;);",
      }),
      'one.cases/words.json': CASES,
    })
    const kit = new URL('../../src/testing.ts', import.meta.url).href
    const code = `import { testPlugin } from '${kit}'; await testPlugin('${at}/one.mjs')`
    const caller = spawn(process.execPath, ['--input-type=module', '--eval', code])
    const pid = await eventually(async () => {
      const text = await readFile(join(at, 'pid'), 'utf8')
      expect(text).not.toBe('')
      return Number(text)
    })
    expect(() => process.kill(pid, 0)).not.toThrow()
    caller.kill('SIGKILL')
    await eventually(() => expect(() => process.kill(pid, 0)).toThrow('ESRCH'))
  })
})
