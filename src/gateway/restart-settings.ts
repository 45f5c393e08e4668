import type { ConsolaInstance } from 'consola'
import type { Config } from '../config/config.ts'

/** Warns of changes that take effect only after a restart. */
export function warnOfRestart(log: ConsolaInstance, old: Config, next: Config): void {
  for (const [path, before, after] of [
    ['server.host', old.server.host, next.server.host],
    ['server.port', old.server.port, next.server.port],
    ['server.workers', old.server.workers, next.server.workers],
    ['server.tls', old.server.tls === undefined, next.server.tls === undefined],
    ['log.format', old.log.format, next.log.format],
    ['log.path', old.log.path, next.log.path],
    ['log.keep', old.log.keep, next.log.keep],
    ['log.size', old.log.size, next.log.size],
    ['log.url', JSON.stringify(old.log.url), JSON.stringify(next.log.url)],
    ['log.content.keep', old.log.content.keep, next.log.content.keep],
    ['state', JSON.stringify(old.state), JSON.stringify(next.state)],
  ] as const) {
    if (before !== after) log.warn(`a change of ${path} takes effect after a restart`)
  }
}
