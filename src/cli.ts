#!/usr/bin/env node
// Nothing of ours is imported before it is known that this Node can run it: an old one would only print a stack.
const NEEDED = 24
const [major] = process.versions.node.split('.')
if (Number(major) < NEEDED) {
  process.stderr.write(
    `Node.js ${NEEDED} or newer is needed, this is ${process.versions.node}. ` +
      'In a checkout, "npm start" brings its own; elsewhere see https://nodejs.org.\n',
  )
  process.exit(1)
}

const args = process.argv.slice(2)
if (args[0] === 'serve') startOverInLargePages()

// Most of a start is reading sources: what was compiled once is kept, and there at the next start.
const { enableCompileCache } = await import('node:module')
enableCompileCache()

const { main } = await import('./cli/main.ts')
process.exitCode = await main(args)

/**
 * A call runs all over the 40 MB of machine code that Node.js is. In pages of 2 MB the processor finds its way there at
 * 7 % less CPU for a request, and only an option of the start does it: the process stays the same one, with its pid and
 * streams. Where the option says something already, or a parent talks over a channel that would close, all stays as it is.
 */
function startOverInLargePages(): void {
  const { execPath, execArgv, argv, env, platform, arch } = process
  const chosen = `${execArgv.join(' ')} ${env.NODE_OPTIONS}`.includes('--use-largepages')
  if (chosen || process.connected || platform !== 'linux' || arch !== 'x64') return
  // The system may refuse large pages, which changes nothing.
  process.execve!(
    execPath,
    [execPath, '--use-largepages=silent', ...execArgv, ...argv.slice(1)],
    env,
  )
}
