/** `serve`: starts a gateway, in this process or in several. */
import { availableParallelism } from 'node:os'
import type { Arguments } from './command.ts'
import { configurationOf } from './configuration.ts'
import { lastLine } from './fatal.ts'
import { withBoundOutput } from './bounded-output.ts'

/** Serves until there is a reason to stop. @throws ConfigError, or CommandError if the gateway cannot start or end well */
export async function serve(args: Arguments): Promise<void> {
  lastLine.isJson = process.env.SLUICEGATE__LOG__FORMAT === 'json'
  await withBoundOutput(() => serveWith(args))
}

async function serveWith(args: Arguments): Promise<void> {
  const demo = args.on.has('demo')
    ? await (await import('./demo/demo.ts')).openDemo(args)
    : undefined
  try {
    const configuration = demo ?? (await configurationOf(args))
    const { server, state } = configuration.loaded.config
    // The quota of a container counts.
    const count = server.workers === 'auto' ? availableParallelism() : server.workers
    // Neither needs what the other one loads.
    if (count === 1) {
      if (state.driver === 'file')
        (await import('../state/sqlite/worker-client.ts')).prepareThread()
      await (await import('./alone.ts')).serveAlone(configuration, args, demo)
    } else await (await import('./primary.ts')).serveWithWorkers(configuration, count, args)
  } finally {
    demo?.release()
  }
}
