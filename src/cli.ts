#!/usr/bin/env node
// Imports follow after this check, because an old Node.js would only print a stack.
const NEEDED = 24
const [major] = process.versions.node.split('.')
if (Number(major) < NEEDED) {
  process.stderr.write(
    `Sluicegate needs Node.js ${NEEDED} or newer, this is ${process.versions.node}. ` +
      'In a checkout, "npm start" brings its own; elsewhere "npm install --no-save node@24" does, ' +
      'and npx then starts it.\n',
  )
  process.exit(1)
}

const { withCommand } = await import('./cli/default-command.ts')
const args = withCommand(process.argv.slice(2))
const { compileCacheOf } = await import('./cli/compile-cache.ts')
const cache = compileCacheOf(args)
if (args[0] === 'serve') {
  restartWithOptions(cache)
  // V8 learns at the start, where much stays, to put parts of calls among old objects, where each keeps its whole call alive
  // until a full collection. A JSON call took 14 % more processor time by that.
  ;(await import('node:v8')).setFlagsFromString('--no-allocation-site-pretenuring')
}
if (cache !== undefined) (await import('node:module')).enableCompileCache(cache)

const { main } = await import('./cli/main.ts')
process.exitCode = await main(args)
// A timer or a connection that a plugin left behind must not keep a gateway that has ended.
if (args[0] === 'serve') process.exit()

/**
 * Restarts this process (same pid, same streams): code in pages of 2 MB takes 7 % less CPU per request, fewer pools of memory
 * take less when idle, and all files come from the cache of compiled code. What a stream needs until its next event fits the
 * space for young objects: with 16 MB, 5,000 streams took 164 KB each and paused for 50 ms, with 64 MB 69 KB and less than
 * 10 ms. No debugger on SIGUSR1. Does nothing where the options were set by hand, or a parent process uses an
 * IPC channel.
 * @param cache folder of compiled code
 */
function restartWithOptions(cache: string | undefined): void {
  const { execPath, execArgv, argv, env, platform, arch } = process
  const given = `${execArgv.join(' ')} ${env.NODE_OPTIONS}`
  const chosen = /--use-largepages|--inspect|--disable-sigusr1/.test(given)
  if (chosen || process.connected || platform !== 'linux' || arch !== 'x64') return
  // `silent`: if the system refuses large pages, the process runs without them.
  const options = ['--use-largepages=silent', '--disable-sigusr1']
  if (!given.includes('semi-space')) options.push('--max-semi-space-size=64')
  process.execve!(execPath, [execPath, ...options, ...execArgv, ...argv.slice(1)], {
    MALLOC_ARENA_MAX: '2',
    ...env,
    ...(cache !== undefined && { NODE_COMPILE_CACHE: cache }),
  })
}
