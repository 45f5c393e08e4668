import { describe, expect, it, onTestFinished } from 'vitest'
import type { Guard } from '../../src/plugin.ts'
import { guardPlugin } from './_doubles.ts'
import { guarded, wholeOf } from './_setup.ts'

const DENY = { deny: ['code'] } as const

/** What becomes of a call whose input a local guard has looked at in this way. */
async function outcomeOf(look: () => void) {
  const guard: Guard = {
    enforces: ['deny:code'],
    execution: 'local',
    checkInput(items) {
      look()
      return items.map(() => ({ action: 'pass' }))
    },
  }
  const g = await guarded([guardPlugin('local', guard)])
  onTestFinished(() => g[Symbol.asyncDispose]())
  g.vendor.answer(wholeOf({ content: 'Fine.' }))
  const { json } = await g.ask(DENY)
  return json.guard.outcome
}

describe('a local guard', () => {
  it('counts as failed when it computes for too long', async () => {
    const compute = () => {
      const { user, system } = process.threadCpuUsage()
      let spent
      do spent = process.threadCpuUsage({ user, system })
      while (spent.user + spent.system < 300_000)
    }
    expect(await outcomeOf(compute)).toBe('error')
  })

  it('does not fail because the machine has no time for it', async () => {
    const lock = new Int32Array(new SharedArrayBuffer(4))
    // The thread stands still, as it does where others have the processor.
    expect(await outcomeOf(() => void Atomics.wait(lock, 0, 0, 400))).toBe('passed')
  })
})
