/** What the system says of processes. Linux only. */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import type { GatewayProcess } from './_gateway.ts'

/** Processes of the workers, the first one first. */
export function workersOf({ pid }: GatewayProcess): number[] {
  const text = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim()
  return text === '' ? [] : text.split(' ').map(Number)
}

/** User and system time of processes with all their threads, µs. */
export function cpuMicros(pids: readonly number[]): number {
  const nanos = pids.flatMap((pid) =>
    readdirSync(`/proc/${pid}/task`).map((thread) =>
      Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'latin1').split(' ')[0]),
    ),
  )
  return nanos.reduce((sum, one) => sum + one, 0) / 1000
}

/** Established connections of clients, by process. */
export function connectionsOf({ url }: GatewayProcess, pids: readonly number[]): number[] {
  const port = Number(new URL(url).port).toString(16).toUpperCase().padStart(4, '0')
  const lines = readFileSync('/proc/net/tcp', 'latin1').split('\n').slice(1)
  const fields = lines.map((line) => line.trim().split(/\s+/))
  const own = fields.filter(([, local, , state]) => local?.endsWith(`:${port}`) && state === '01')
  const inodes = new Set(own.map((line) => `socket:[${line[9]}]`))
  return pids.map((pid) => {
    const links = readdirSync(`/proc/${pid}/fd`).map((fd) => {
      try {
        return readlinkSync(`/proc/${pid}/fd/${fd}`)
      } catch {
        return ''
      }
    })
    return links.filter((link) => inodes.has(link)).length
  })
}

/** How often threads of these processes have waited for something and were woken. */
export function wakeUps(pids: readonly number[]): number {
  const counts = pids.flatMap((pid) =>
    readdirSync(`/proc/${pid}/task`).map((thread) => {
      const status = readFileSync(`/proc/${pid}/task/${thread}/status`, 'latin1')
      return Number(/^voluntary_ctxt_switches:\s+(\d+)/m.exec(status)?.[1])
    }),
  )
  return counts.reduce((sum, one) => sum + one, 0)
}
