/**
 * A gateway in a process of its own, so that what it takes of memory and processor time can be seen. Started with a
 * configuration as JSON; tells its address and a key, and then what it has used, or what it keeps, whenever it is asked.
 */
import { createHook } from 'node:async_hooks'
import { readFileSync } from 'node:fs'
import { setImmediate as turn } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { createTestGateway } from './_setup.ts'

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

const t = await createTestGateway(JSON.parse(process.argv[2]!))
process.send!({ url: t.url, baseURL: t.baseURL, key: t.key.secret })

const TICK_MS = 5
let longestTurnMs = 0
let thread = threadMs()
setInterval(() => {
  const now = threadMs()
  longestTurnMs = Math.max(longestTurnMs, now - thread - TICK_MS)
  thread = now
}, TICK_MS).unref()

function threadMs(): number {
  const { user, system } = process.threadCpuUsage()
  return (user + system) / 1000
}

/** The most memory of this process. Its `maxRSS` would begin with what the process had that started it. */
function mostBytes(): number {
  const [, kib] = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync('/proc/self/status', 'utf8'))!
  return Number(kib) * 1024
}

/** What is in use. What a first collection finds unused may only be freed by callbacks, and what these held by a second one. */
async function liveBytes(): Promise<number> {
  for (let i = 0; i < 3; i++) {
    collect()
    await turn()
  }
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}

/** Promises that were made on this thread since they were counted last; counting begins with the first question. */
let promises = 0
const counter = createHook({
  init(_id, type) {
    if (type === 'PROMISE') promises++
  },
})

process.on('message', (asked) => {
  if (asked === 'promises') {
    counter.enable()
    process.send!(promises)
    promises = 0
    return
  }
  if (asked === 'die when booked') {
    const { ledger } = t.gateway.runtime
    const settle = ledger.settle.bind(ledger)
    ledger.settle = async (settlement) => {
      await settle(settlement)
      process.kill(process.pid, 'SIGKILL')
      return new Promise(() => {})
    }
    return void process.send!('ready')
  }
  if (asked === 'live') {
    void liveBytes().then((bytes) => process.send!(bytes))
    return
  }
  const { userCPUTime, systemCPUTime } = process.resourceUsage()
  const cpuMs = (userCPUTime + systemCPUTime) / 1000
  process.send!({ rss: process.memoryUsage.rss(), most: mostBytes(), cpuMs, longestTurnMs })
  longestTurnMs = 0
})
process.on('disconnect', () => process.exit())
