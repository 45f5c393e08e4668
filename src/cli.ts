#!/usr/bin/env node
// Imports follow after this check, because an old Node.js would only print a stack.
const NEEDED = 24
const [major] = process.versions.node.split('.')
if (Number(major) < NEEDED) {
  process.stderr.write(
    `Sluicegate needs Node.js ${NEEDED} or newer, this is ${process.versions.node}. ` +
      'In a checkout, "npm start" brings its own; elsewhere "npm install node@24" does, ' +
      'and npx then starts it.\n',
  )
  process.exit(1)
}

const { withCommand } = await import('./cli/default-command.ts')
const args = withCommand(process.argv.slice(2))
const { compileCacheOf } = await import('./cli/compile-cache.ts')
const cache = compileCacheOf(args)
if (args[0] === 'serve') {
  const { setFlagsFromString } = await import('node:v8')
  // V8 learns at the start, where much stays, to put parts of calls among old objects. There, each keeps its whole call
  // alive until a full collection, which cost 14 % of the processor time of a JSON call.
  setFlagsFromString('--no-allocation-site-pretenuring')
  // After a pause of eight seconds V8 would collect everything, and with it the shapes of objects for which it has compiled
  // code: the next ten thousand calls cost 30 to 40 % more until it is compiled again. Now it waits for ten minutes.
  setFlagsFromString('--gc-memory-reducer-start-delay-ms=600000')
}
if (cache !== undefined) (await import('node:module')).enableCompileCache(cache)

const { main } = await import('./cli/main.ts')
process.exitCode = await main(args)
// A timer or a connection that a plugin left behind must not keep a gateway that has ended.
if (args[0] === 'serve') process.exit()
