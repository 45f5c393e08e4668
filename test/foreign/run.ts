/**
 * `npm run test:foreign [-- name]`: packages that others wrote, as their users call them, against a gateway with scripted
 * vendors. Installs the packages of this folder first; without their registry it says so and ends well. A difference is known
 * if `expected.json` has it, with its reason and whose it is; a known one that is gone fails too.
 */
import { spawnSync } from 'node:child_process'
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'
import { cases, type Kit } from './cases.ts'
import { notInstalled, Ring } from './kit.ts'

const folder = import.meta.dirname
const installed = spawnSync('npm', ['ci', '--prefer-offline'], { cwd: folder, encoding: 'utf8' })
if (installed.status !== 0) notInstalled(installed.stderr)
Object.assign(globalThis, { AI_SDK_LOG_WARNINGS: false })

const { resolve } = createRequire(`${folder}/package.json`)
const load: Kit['load'] = async (name) => {
  try {
    return await import(pathToFileURL(resolve(name)).href)
  } catch {
    // Packages that only modules may load.
    return import(import.meta.resolve(name, pathToFileURL(`${folder}/package.json`).href))
  }
}

const ring = new Ring()
const wanted = process.argv[2] ?? ''
for (const { name, run } of cases) {
  if (name.includes(wanted)) await ring.run(name, (place) => run({ ...place, load }))
}
await ring.end()
