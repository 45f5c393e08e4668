/** The thread of the watchdog: ends its process when the tests' thread has not turned its event loop for too long. */
import { writeSync } from 'node:fs'
import { parentPort } from 'node:worker_threads'
import { patience } from './_patience.ts'
import { runs } from './_runs.ts'

/** Far above what an honest test takes in one turn, on a machine with much else to do, and where it runs many times as often. */
const LIMIT_SECONDS = Number(process.env.WATCHDOG_SECONDS ?? Math.round(60 * patience() * runs(1)))

let name = 'a test'
let timer: NodeJS.Timeout | undefined

parentPort!.on('message', (message: { readonly name?: string }) => {
  name = message.name ?? name
  clearTimeout(timer)
  timer = setTimeout(endProcess, LIMIT_SECONDS * 1000)
})

function endProcess(): void {
  writeSync(2, `\n${name}: does not end: no turn of the event loop for ${LIMIT_SECONDS} seconds\n`)
  process.kill(process.pid, 'SIGKILL')
}
