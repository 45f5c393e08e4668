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

// Most of a start is reading sources: what was compiled once is kept, and there at the next start.
const { enableCompileCache } = await import('node:module')
enableCompileCache()

const { main } = await import('./cli/main.ts')
process.exitCode = await main(process.argv.slice(2))
